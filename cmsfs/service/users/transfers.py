"""Transfers everything that a user owns to another user of the enterprise: into a folder in that user's root.

Shared links, collaborations, metadata and versions stay with the items.  Items in the trash stay where they
are.

Each moved item is an event in the streams of both users and of the administrators.

Rule: all or nothing: if the content exceeds the new owner's quota, or any of it may not change its owner
(ownership.py), nothing moves.
"""

import re
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import wire_names
from cmsfs.models.content import events as models_events
from cmsfs.models.content import items as models_items
from cmsfs.models.enterprise import transfers
from cmsfs.service import problems
from cmsfs.service.access import callers, calls
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import items, ownership
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import ItemKind

_CHILDREN = "SELECT * FROM item WHERE parent = ? AND status = 0 ORDER BY id"
_SAME_NAME = "SELECT 1 FROM item WHERE parent = ? AND name_key = ? AND status = 0"


async def transfer(call: calls.Call) -> responses.Response:
    calls.require_admin(call.caller)
    wish = await call.body(transfers.TransferContent)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        from_user = calls.get_user(read, call.caller, call.id)
        to_user = calls.get_user(read, call.caller, wish.owned_by.id, name="owned_by")
        for user in (from_user, to_user):
            callers.check_rank(call.caller.role, user)
        if from_user["id"] == to_user["id"]:
            raise problems.invalid("owned_by", "is the user who has it already")
        made = _move_contents(conn, from_user, to_user, by=call.caller.id, now=call.store.now())
        return item_serializer.ItemSerializer(read, call.fields).item(made)

    return calls.answer(await call.store.write(txn))


def _move_contents(conn: Connection, from_user: Row, to_user: Row, *, by: int, now: int) -> Row:
    """Move the items of a user's root into a new folder of another user; return the folder."""
    read = store.reader(conn)
    root = items.find(conn, to_user["root"])
    new = items.New(ItemKind.FOLDER, _free_name(read, root, from_user["name"]))
    folder = items.insert(conn, root, new, by=by, now=now)
    for row in read(_CHILDREN, from_user["root"]):
        items.add_to_folder_sizes(conn, row["path"], -row["size"])
        items.add_to_folder_sizes(conn, tree_paths.below(folder)[0], row["size"])
        columns = items.move_subtree(conn, row, folder, row["name"])
        ownership.change_owner(conn, row, to_user["id"], path=columns["path"], now=now)
        items.touch(conn, row, by=by, now=now, event=models_events.MOVE, **columns)
    return items.find(conn, folder["id"])


def _free_name(read: store.Read, root: Row, user: str) -> str:
    """Return `USER's Files and Folders`, with a number if that name is in use."""
    name = re.sub(r"[/\\]", "_", f"{user}'s Files and Folders")
    found, number = name, 1
    while read(_SAME_NAME, root["id"], wire_names.name_key(found)):
        number += 1
        found = f"{name} ({number})"
    return found


routes = [
    Operation(
        "PUT /users/{id}/folders/0",
        transfer,
        "Give all content of a user to another",
        models_items.Folder,
        query=[operations.FIELDS, operations.flag("notify", "By mail, of which none is sent.")],
        body=transfers.TransferContent,
        more="Answers the folder in the new owner's root that holds all of it.",
    ),
]
