"""Puts down what webhooks are to be told, in the transaction of the change itself.

`events.record` comes by here with every event of an item; what is no event of a stream calls `enqueue` with
the trigger's name.  The deliveries are made by webhooks/deliveries.py.

Rule: a webhook tells what its maker sees, and is silent about everything else.
"""

import json
from collections.abc import Mapping
from sqlite3 import Connection, Row
from typing import Any, Final

from cmsfs.models.content import events
from cmsfs.runtime import chance
from cmsfs.service.access import access_rights
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import ItemKind

# What a file, or a folder, has had done to it.
_OF_ITEMS: Final = {
    events.UPLOAD: "UPLOADED",
    events.CREATE: "CREATED",
    events.COPY: "COPIED",
    events.MOVE: "MOVED",
    events.RENAME: "RENAMED",
    events.TRASH: "TRASHED",
    events.RESTORE: "RESTORED",
    events.LOCK: "LOCKED",
    events.UNLOCK: "UNLOCKED",
}
_PREFIX: Final = {ItemKind.FILE: "FILE", ItemKind.FOLDER: "FOLDER"}
_OTHERS: Final = {
    events.COMMENT: "COMMENT.CREATED",
    events.UNCOMMENT: "COMMENT.DELETED",
    events.TASK_ASSIGNED: "TASK_ASSIGNMENT.CREATED",
    events.TASK_ASSIGNMENT_UPDATE: "TASK_ASSIGNMENT.UPDATED",
    events.COLLAB_INVITE: "COLLABORATION.CREATED",
    events.COLLAB_ADD: "COLLABORATION.ACCEPTED",
    events.COLLAB_REMOVE: "COLLABORATION.REMOVED",
    events.COLLAB_ROLE: "COLLABORATION.UPDATED",
    events.SHARE: "SHARED_LINK.CREATED",
    events.SHARE_UPDATE: "SHARED_LINK.UPDATED",
    events.UNSHARE: "SHARED_LINK.DELETED",
}
# What the event is about in the end, and where its id is among the details.
_SOURCES: Final = {
    "COMMENT": ("comment", "comment_id"),
    "TASK_ASSIGNMENT": ("task_assignment", "task_assignment_id"),
    "COLLABORATION": ("collaboration", "collab_id"),
    "METADATA_INSTANCE": ("metadata_instance", "instance_id"),
}
_WATCHING = """
  SELECT webhook.* FROM webhook, json_each(webhook.triggers) AS one
    WHERE webhook.target IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) AND one.value = ?
"""


def of_event(word: str, row: Row, details: Mapping[str, Any]) -> str | None:
    """The trigger that an event of an item is; None if it is none."""
    if word == events.COLLAB_REMOVE and details.get("status") == "rejected":
        return "COLLABORATION.REJECTED"
    if word in _OTHERS:
        return _OTHERS[word]
    prefix = _PREFIX.get(row["kind"])
    return f"{prefix}.{_OF_ITEMS[word]}" if prefix is not None and word in _OF_ITEMS else None


def is_watched(read: store.Read, trigger: str, row: Row) -> bool:
    """Whether any webhook is to be told of a trigger on an item."""
    return bool(read(f"{_WATCHING} LIMIT 1", json.dumps(tree_paths.line(row)), trigger))


def enqueue(
    conn: Connection,
    trigger: str,
    row: Row,
    *,
    by: int,
    now: int,
    before: Row | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Have the webhooks on an item, and on the folders above it, told of a trigger.

    `before` is the row before a move: the folders that it was below are told as well.
    """
    line = [*tree_paths.line(row), *(tree_paths.line(before) if before is not None else ())]
    read = store.reader(conn)
    for webhook in read(_WATCHING, json.dumps(line), trigger):
        source = _source(read, trigger, row, webhook["created_by"], details or {})
        if source is not None:
            put(conn, webhook, trigger, source, by=by, now=now)


def put(conn: Connection, webhook: Row, trigger: str, source: dict[str, Any], *, by: int, now: int) -> None:
    """Have one webhook told something."""
    user = conn.execute("SELECT * FROM account WHERE id = ?", (by,)).fetchone()
    body: dict[str, Any] = {
        "type": "webhook_event",
        "id": str(chance.uuid4()),
        "created_at": item_serializer.to_timestamp(now),
        "trigger": trigger,
        "webhook": {"id": str(webhook["id"]), "type": "webhook"},
        "created_by": None if user is None else item_serializer.user_mini(user),
        "source": source,
        "additional_info": [],
    }
    # Nothing but ASCII: what receivers sign to compare is the text as it was sent, however they decode it.
    conn.execute(
        "INSERT INTO webhook_delivery (app, address, body, due_at, created_at) VALUES (?, ?, ?, ?, ?)",
        (webhook["app"], webhook["address"], json.dumps(body), now, now),
    )


def _source(
    read: store.Read, trigger: str, row: Row, maker: int, details: Mapping[str, Any]
) -> dict[str, Any] | None:
    """What it is about, as the webhook's maker sees it; None if they see nothing of it."""
    viewer = access_rights.NotifiedUser(maker)
    view = access_rights.View(read, viewer)
    if not view.rights(row):
        return None
    kind = _SOURCES.get(trigger.partition(".")[0])
    item = item_serializer.ItemSerializer(read, mini=kind is not None, caller=viewer, view=view).item(row)
    if kind is None or kind[1] not in details:
        return item
    rest = {name: value for name, value in details.items() if name != kind[1]}
    return {"type": kind[0], "id": str(details[kind[1]]), "item": item, **rest}
