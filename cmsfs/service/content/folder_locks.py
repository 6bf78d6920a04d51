"""Folder locks: created, listed and removed by the folder's owner and co-owners.

`access.folder_locks` checks them on moves and deletions.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import wire_names
from cmsfs.models.content import folder_locks
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

_LIMIT = "1000"


def _folder(read: store.Read, call: calls.Call, wire_id: str) -> Row:
    if wire_id == wire_names.ROOT_ID:
        raise problems.invalid("folder", "the root folder has no locks")
    return calls.get_item(read, call.caller, ItemKind.FOLDER, wire_id, needed=ItemRight.MANAGE)


def _shape(read: store.Read, lock: Row, folder: Row) -> dict[str, Any]:
    users = read("SELECT * FROM account WHERE id = ?", lock["created_by"])
    return {
        "type": "folder_lock",
        "id": str(lock["id"]),
        "folder": item_serializer.folder_mini(folder),
        "created_by": item_serializer.user_mini(users[0]) if users else None,
        "created_at": item_serializer.to_timestamp(lock["created_at"]),
        "locked_operations": {"move": bool(lock["moves"]), "delete": bool(lock["deletes"])},
        "lock_type": "freeze",
    }


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(folder_locks.NewFolderLock)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        folder = _folder(read, call, wish.folder.id)
        done = conn.execute(
            "INSERT INTO folder_lock (folder, created_by, created_at, moves, deletes)"
            " VALUES (?, ?, ?, 1, 1) ON CONFLICT DO NOTHING",
            (folder["id"], call.caller.id, call.store.now()),
        )
        if not done.rowcount:
            raise problems.Refused(409, "conflict", "The folder is locked already.")
        return _shape(read, read("SELECT * FROM folder_lock WHERE folder = ?", folder["id"])[0], folder)

    return calls.answer(await call.store.write(txn))


async def list_of_folder(call: calls.Call) -> responses.Response:
    wire_id = call.request.query_params.get("folder_id")
    if not wire_id:
        raise problems.invalid("folder_id", "is missing", reason="missing_parameter")
    read = call.store.read
    folder = _folder(read, call, wire_id)
    found = read("SELECT * FROM folder_lock WHERE folder = ?", folder["id"])
    entries = [_shape(read, lock, folder) for lock in found]
    return calls.answer({"entries": entries, "limit": _LIMIT, "next_marker": None})


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        found = read("SELECT * FROM folder_lock WHERE id = ?", calls.parse_id(call.id))
        folder = str(found[0]["folder"]) if found else ""
        if not found or calls.find_item(read, call.caller, ItemKind.FOLDER, folder) is None:
            raise problems.not_found("folder_lock", call.id)
        _folder(read, call, folder)
        conn.execute("DELETE FROM folder_lock WHERE id = ?", (found[0]["id"],))

    await call.store.write(txn)
    return responses.Response(status_code=204)


routes = [
    Operation(
        "POST /folder_locks",
        create,
        "Lock a folder against being moved and deleted",
        folder_locks.FolderLock,
        body=folder_locks.NewFolderLock,
        errors=(404, 409),
        more="For its owner and co-owners; nobody moves, renames or deletes it until the lock is taken away.",
    ),
    Operation(
        "GET /folder_locks",
        list_of_folder,
        "List the locks on a folder",
        folder_locks.FolderLocks,
        query=[operations.Parameter("folder_id", "The id of the folder.", required=True)],
        errors=(404,),
    ),
    Operation("DELETE /folder_locks/{id}", delete, "Take a lock off a folder", status=204),
]
