"""File versions: list, get, delete, restore, promote.

A promotion creates a new version with an old one's bytes; versions are never changed or moved.  The file also
gets the old version's name back if a later version renamed it.  A version in the trash still counts against
the quota.

Rule: the current version cannot be moved to the trash.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models.content import events, versions
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import files, items, quota
from cmsfs.service.renditions import indexing
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind

_TRASH = """
  UPDATE version SET trashed_at = ?, trashed_by = ?, restored_at = NULL, restored_by = NULL WHERE id = ?
"""
_RESTORE = """
  UPDATE version SET trashed_at = NULL, trashed_by = NULL, restored_at = ?, restored_by = ? WHERE id = ?
"""
_RENAMED = "SELECT 1 FROM version WHERE file = ? AND id > ? AND renamed = 1 AND name = ?"


async def get_all(call: calls.Call) -> responses.Response:
    row = calls.get_item(call.store.read, call.caller, ItemKind.FILE, call.id)
    page = paging.read_page(call.request.query_params)

    def run(read: store.Read) -> dict[str, Any]:
        past = "FROM version WHERE file = ? AND id != ?"
        args = (row["id"], row["version"])
        total = read(f"SELECT count(*) AS n {past}", *args)[0]["n"]
        rows = read(f"SELECT * {past} ORDER BY id DESC LIMIT ? OFFSET ?", *args, page.limit, page.offset)
        users = {one["id"]: one for one in read("SELECT * FROM account")}
        entries = [_shape(one, users) for one in rows]
        return {
            "total_count": total,
            "entries": entries,
            "offset": page.offset,
            "limit": page.limit,
            "order": [],
        }

    return calls.answer(await call.store.query(run))


def _shape(row: Row, users: dict[int, Row]) -> dict[str, Any]:
    made, user = item_serializer.to_timestamp(row["created_at"]), users[row["created_by"]]

    def when(column: str) -> str | None:
        return None if row[column] is None else item_serializer.to_timestamp(row[column])

    def who(column: str) -> dict[str, Any] | None:
        return None if row[column] is None else item_serializer.user_mini(users[row[column]])

    return {
        "type": "file_version",
        "id": str(row["id"]),
        "sha1": row["sha1"],
        "name": row["name"],
        "size": row["size"],
        "created_at": made,
        "modified_at": made,
        "modified_by": item_serializer.user_mini(user),
        "uploader_display_name": user["name"],
        "trashed_at": when("trashed_at"),
        "trashed_by": who("trashed_by"),
        "restored_at": when("restored_at"),
        "restored_by": who("restored_by"),
        "purged_at": None,
    }


def _one(read: store.Read, row: Row) -> dict[str, Any]:
    named = (row["created_by"], row["trashed_by"], row["restored_by"])
    return _shape(
        row, {one["id"]: one for one in read("SELECT * FROM account WHERE id IN (?, ?, ?)", *named)}
    )


def _version_id(call: calls.Call) -> str:
    wire_id: str = call.request.path_params["version"]
    return wire_id


async def get(call: calls.Call) -> responses.Response:
    row = calls.get_item(call.store.read, call.caller, ItemKind.FILE, call.id)
    version = files.find_version(call.store.read, row, _version_id(call), trashed=True)
    return calls.answer(_one(call.store.read, version))


async def delete(call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row = calls.get_for_change(read, call, ItemKind.FILE, call.id, needed=ItemRight.CHANGE)
        version = files.find_version(read, row, _version_id(call), trashed=True)
        if version["id"] == row["version"]:
            message = "The current version stays: delete the file, or promote another version first."
            raise problems.Refused(403, "forbidden", message)
        now = call.store.now()
        protection.check_version(conn, version["id"], now=now)
        if version["trashed_at"] is None:
            conn.execute(_TRASH, (now, call.caller.id, version["id"]))

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def restore(call: calls.Call) -> responses.Response:
    wish = await call.body(versions.RestoreVersion)
    if wish.trashed_at is not None:
        raise problems.invalid("trashed_at", "must be null")

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = calls.get_for_change(read, call, ItemKind.FILE, call.id, needed=ItemRight.CHANGE)
        version = files.find_version(read, row, _version_id(call), trashed=True)
        if version["trashed_at"] is not None:
            conn.execute(_RESTORE, (call.store.now(), call.caller.id, version["id"]))
        return _one(read, files.find_version(read, row, _version_id(call)))

    return calls.answer(await call.store.write(txn))


async def promote(call: calls.Call) -> responses.Response:
    wish = await call.body(versions.Promote)
    row = calls.get_for_change(call.store.read, call, ItemKind.FILE, call.id, needed=ItemRight.EDIT)
    old = files.find_version(call.store.read, row, wish.id)
    seen = await indexing.first_look(await call.store.blobs.read_head(old["sha1"], old["size"]), old["size"])

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = calls.get_for_change(read, call, ItemKind.FILE, call.id, needed=ItemRight.EDIT)
        old = files.find_version(read, row, wish.id)
        quota.check_upload(read, row["owner"], old["size"])
        now = call.store.now()
        items.add_to_folder_sizes(conn, row["path"], old["size"] - row["size"])
        columns = {"sha1": old["sha1"], "size": old["size"], "version_number": row["version_number"] + 1}
        columns["content_modified_at"] = now
        back = _restored_name(conn, call, row, old)
        columns |= back
        row = items.touch(conn, row, by=call.caller.id, now=now, event=None, **columns)
        row = files.add_version(
            conn, row, by=call.caller.id, now=now, event=events.PROMOTE, renamed=bool(back)
        )
        indexing.record_content(conn, row, seen)
        return _one(read, files.find_version(read, row, None))

    return calls.answer(await call.store.write(txn), 201)


def _restored_name(conn: Connection, call: calls.Call, row: Row, old: Row) -> dict[str, Any]:
    """Return the columns that restore a file's name of an old version.

    Empty unless the upload of a newer version set the current name: a rename of the file itself concerns the
    file, not its content.  Also empty if the caller may not rename the file or the old name is in use: the
    content is restored in any case.
    """
    read = store.reader(conn)
    if not read(_RENAMED, row["id"], old["id"], row["name"]):
        return {}
    try:
        calls.require(read, call.caller, row, ItemRight.CHANGE)
        return items.plan_move(conn, call, row, parent_id=None, name=old["name"])
    except problems.Refused:
        return {}


_PATH = "/files/{id}/versions"

routes = [
    Operation(
        f"GET {_PATH}",
        get_all,
        "List the earlier versions of a file",
        models_paging.OffsetPage[versions.FileVersion],
        query=(*operations.PAGED, operations.FIELDS),
        headers=[operations.SHARED_LINK],
        more="The versions before the current one, newest first.",
    ),
    Operation(
        f"POST {_PATH}/current",
        promote,
        "Make an earlier version the current one again",
        versions.FileVersion,
        status=201,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=versions.Promote,
        errors=(409,),
    ),
    Operation(
        f"GET {_PATH}/{{version}}",
        get,
        "Get a version of a file",
        versions.FileVersion,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK],
    ),
    Operation(
        f"DELETE {_PATH}/{{version}}",
        delete,
        "Put a version in the trash",
        status=204,
        headers=[operations.IF_MATCH],
        more="Moves the version to the trash; repeating it changes nothing.",
    ),
    Operation(
        f"PUT {_PATH}/{{version}}",
        restore,
        "Take a version out of the trash",
        versions.FileVersion,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=versions.RestoreVersion,
    ),
]
