"""Queues webhook deliveries in the transaction of the change itself.

`events.record` calls this for every item event; triggers without an event call `enqueue` directly.
webhooks/deliveries.py sends the deliveries.

Rule: a webhook reports only what its creator may see.
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

# Triggers of files and folders, by event type.
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
_ANY_KIND: Final = {
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
# The payload's `source` by trigger group: its type, and the key of its id in the event's details.
_SOURCES: Final = {
    "COMMENT": ("comment", "comment_id"),
    "TASK_ASSIGNMENT": ("task_assignment", "task_assignment_id"),
    "COLLABORATION": ("collaboration", "collab_id"),
    "METADATA_INSTANCE": ("metadata_instance", "instance_id"),
}
_SUBSCRIBED = """
  SELECT webhook.* FROM webhook, json_each(webhook.triggers) AS one
    WHERE webhook.target IN (SELECT CAST(value AS BIGINT) FROM json_each(?)) AND one.value = ?
"""


def trigger_of_event(event_type: str, row: Row, details: Mapping[str, Any]) -> str | None:
    """Return the webhook trigger of an item event, or None."""
    if event_type == events.COLLAB_REMOVE and details.get("status") == "rejected":
        return "COLLABORATION.REJECTED"
    if event_type in _ANY_KIND:
        return _ANY_KIND[event_type]
    prefix = _PREFIX.get(row["kind"])
    return f"{prefix}.{_OF_ITEMS[event_type]}" if prefix is not None and event_type in _OF_ITEMS else None


def has_subscriber(read: store.Read, trigger: str, row: Row) -> bool:
    """Return whether any webhook subscribes to a trigger on an item."""
    return bool(read(f"{_SUBSCRIBED} LIMIT 1", json.dumps(tree_paths.line(row)), trigger))


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
    """Queue deliveries for the webhooks on an item and on its parent folders.

    `before` is the row before a move: webhooks on the old parent folders are notified as well.
    """
    folders = [*tree_paths.line(row), *(tree_paths.line(before) if before is not None else ())]
    read = store.reader(conn)
    for webhook in read(_SUBSCRIBED, json.dumps(folders), trigger):
        source = _source(read, trigger, row, webhook["created_by"], details or {})
        if source is not None:
            enqueue_for_webhook(conn, webhook, trigger, source, by=by, now=now)


def enqueue_for_webhook(
    conn: Connection, webhook: Row, trigger: str, source: dict[str, Any], *, by: int, now: int
) -> None:
    """Queue one delivery of a webhook."""
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
    # ASCII only: receivers compute the signature over the body as sent, however they decode it.
    conn.execute(
        "INSERT INTO webhook_delivery (app, address, body, due_at, created_at) VALUES (?, ?, ?, ?, ?)",
        (webhook["app"], webhook["address"], json.dumps(body), now, now),
    )


def _source(
    read: store.Read, trigger: str, row: Row, creator: int, details: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return the payload's source as the webhook's creator sees it; None if they may not see it."""
    viewer = access_rights.NotifiedUser(creator)
    view = access_rights.View(read, viewer)
    if not view.rights(row):
        return None
    kind = _SOURCES.get(trigger.partition(".")[0])
    item = item_serializer.ItemSerializer(read, mini=kind is not None, caller=viewer, view=view).item(row)
    if kind is None or kind[1] not in details:
        return item
    rest = {name: value for name, value in details.items() if name != kind[1]}
    return {"type": kind[0], "id": str(details[kind[1]]), "item": item, **rest}
