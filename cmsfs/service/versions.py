"""Versions of a file: the ones before the current, one of them, into the trash, out of it, and promoted.

A promotion makes a new version of an old one's bytes; no version is ever changed or moved.  A version in
the trash still counts as space that is used.

Rule: the current version cannot be put into the trash.
"""

from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models import events
from cmsfs.models import paging as models_paging
from cmsfs.models import versions as shapes
from cmsfs.service import (
    access,
    fields,
    files,
    indexing,
    items,
    operations,
    paging,
    problems,
    protection,
    store,
    uploads,
)
from cmsfs.service.kinds import Kind
from cmsfs.service.operations import Operation
from cmsfs.service.roles import Right


async def get_all(call: access.Call) -> responses.Response:
    """The versions before the current one, the newest first."""
    row = access.get_item(call.store.read, call.caller, Kind.FILE, call.id)
    page = paging.read_page(call.request.query_params)

    def run(read: store.Read) -> dict[str, Any]:
        past = "FROM version WHERE file = ? AND id != ?"
        args = (row["id"], row["version"])
        total = read(f"SELECT count(*) AS n {past}", *args)[0]["n"]
        rows = read(f"SELECT * {past} ORDER BY id DESC LIMIT ? OFFSET ?", *args, page.limit, page.offset)
        users = {one["id"]: one for one in read("SELECT * FROM user")}
        entries = [_shape(one, users[one["created_by"]]) for one in rows]
        return {
            "total_count": total,
            "entries": entries,
            "offset": page.offset,
            "limit": page.limit,
            "order": [],
        }

    return access.answer(await call.store.query(run))


def _shape(row: Row, user: Row) -> dict[str, Any]:
    made = fields.moment(row["created_at"])
    gone = row["trashed_at"]
    return {
        "type": "file_version",
        "id": str(row["id"]),
        "sha1": row["sha1"],
        "name": row["name"],
        "size": row["size"],
        "created_at": made,
        "modified_at": made,
        "modified_by": fields.user_mini(user),
        "uploader_display_name": user["name"],
        "trashed_at": None if gone is None else fields.moment(gone),
        "purged_at": None,
    }


def _one(read: store.Read, row: Row) -> dict[str, Any]:
    return _shape(row, read("SELECT * FROM user WHERE id = ?", row["created_by"])[0])


def _version_id(call: access.Call) -> str:
    wire_id: str = call.request.path_params["version"]
    return wire_id


async def get(call: access.Call) -> responses.Response:
    row = access.get_item(call.store.read, call.caller, Kind.FILE, call.id)
    version = files.find_version(call.store.read, row, _version_id(call), trashed=True)
    return access.answer(_one(call.store.read, version))


async def delete(call: access.Call) -> responses.Response:
    """Into the trash; done twice it is done once."""

    def txn(conn: Connection) -> None:
        read = store.reader(conn)
        row = access.get_for_change(read, call, Kind.FILE, call.id, needed=Right.CHANGE)
        version = files.find_version(read, row, _version_id(call), trashed=True)
        if version["id"] == row["version"]:
            said = "The current version stays: delete the file, or promote another version first."
            raise problems.Refused(403, "forbidden", said)
        now = call.store.now()
        protection.check_version(conn, version["id"], now=now)
        _set_trashed(conn, version, now)

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def restore(call: access.Call) -> responses.Response:
    wish = await call.body(shapes.RestoreVersion)
    if wish.trashed_at is not None:
        raise problems.invalid("trashed_at", "must be null")

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = access.get_for_change(read, call, Kind.FILE, call.id, needed=Right.CHANGE)
        version = files.find_version(read, row, _version_id(call), trashed=True)
        _set_trashed(conn, version, None)
        return _one(read, files.find_version(read, row, _version_id(call)))

    return access.answer(await call.store.write(txn))


def _set_trashed(conn: Connection, version: Row, when: int | None) -> None:
    if (version["trashed_at"] is None) != (when is None):
        conn.execute("UPDATE version SET trashed_at = ? WHERE id = ?", (when, version["id"]))


async def promote(call: access.Call) -> responses.Response:
    wish = await call.body(shapes.Promote)
    row = access.get_for_change(call.store.read, call, Kind.FILE, call.id, needed=Right.EDIT)
    old = files.find_version(call.store.read, row, wish.id)
    seen = await indexing.look(await call.store.blobs.head(old["sha1"]), old["size"])

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = access.get_for_change(read, call, Kind.FILE, call.id, needed=Right.EDIT)
        old = files.find_version(read, row, wish.id)
        uploads.judge_size(read, row["owner"], old["size"])
        now = call.store.now()
        items.grow(conn, row["path"], old["size"] - row["size"])
        columns = {"sha1": old["sha1"], "size": old["size"], "version_number": row["version_number"] + 1}
        columns["content_modified_at"] = now
        row = items.touch(conn, row, by=call.caller.id, now=now, event=None, **columns)
        row = files.add_version(conn, row, by=call.caller.id, now=now, event=events.PROMOTE)
        indexing.note(conn, row, seen)
        return _one(read, files.find_version(read, row, None))

    return access.answer(await call.store.write(txn), 201)


_PATH = "/files/{id}/versions"

routes = [
    Operation(
        f"GET {_PATH}",
        get_all,
        "List the earlier versions of a file",
        models_paging.OffsetPage[shapes.FileVersion],
        query=(*operations.PAGED, operations.FIELDS),
        headers=[operations.SHARED_LINK],
    ),
    Operation(
        f"POST {_PATH}/current",
        promote,
        "Make an earlier version the current one again",
        shapes.FileVersion,
        status=201,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=shapes.Promote,
        errors=(409,),
    ),
    Operation(
        f"GET {_PATH}/{{version}}",
        get,
        "Get a version of a file",
        shapes.FileVersion,
        query=[operations.FIELDS],
        headers=[operations.SHARED_LINK],
    ),
    Operation(
        f"DELETE {_PATH}/{{version}}",
        delete,
        "Put a version in the trash",
        status=204,
        headers=[operations.IF_MATCH],
    ),
    Operation(
        f"PUT {_PATH}/{{version}}",
        restore,
        "Take a version out of the trash",
        shapes.FileVersion,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=shapes.RestoreVersion,
    ),
]
