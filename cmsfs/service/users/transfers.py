"""Gives everything that a user owns to another user of the enterprise: one folder in that user's root.

Shared links, collaborations, metadata and versions go with the items.  What is in the trash stays there.

The streams of both users and of the administrators tell of each item that has moved.

Rule: all of it or nothing: what does not fit into the other's space, or may not change hands (ownership.py),
leaves everything where it is.
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
        giver = calls.get_user(read, call.caller, call.id)
        taker = calls.get_user(read, call.caller, wish.owned_by.id, name="owned_by")
        for user in (giver, taker):
            callers.check_rank(call.caller.role, user)
        if giver["id"] == taker["id"]:
            raise problems.invalid("owned_by", "is the user who has it already")
        made = _give(conn, giver, taker, by=call.caller.id, now=call.store.now())
        return item_serializer.ItemSerializer(read, call.fields).item(made)

    return calls.answer(await call.store.write(txn))


def _give(conn: Connection, giver: Row, taker: Row, *, by: int, now: int) -> Row:
    """Move what is in a user's root into a new folder of another's; that folder."""
    read = store.reader(conn)
    root = items.find(conn, taker["root"])
    new = items.New(ItemKind.FOLDER, _free_name(read, root, giver["name"]))
    folder = items.insert(conn, root, new, by=by, now=now)
    for row in read(_CHILDREN, giver["root"]):
        items.grow(conn, row["path"], -row["size"])
        items.grow(conn, tree_paths.below(folder)[0], row["size"])
        columns = items.place(conn, row, folder, row["name"])
        ownership.hand_over(conn, row, taker["id"], path=columns["path"], now=now)
        items.touch(conn, row, by=by, now=now, event=models_events.MOVE, **columns)
    return items.find(conn, folder["id"])


def _free_name(read: store.Read, root: Row, user: str) -> str:
    """`USER's Files and Folders`, with a number if there is such a folder already."""
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
