"""Folders: get, list, create, change, delete; and listing the trash.

A listing returns mini representations unless `fields` requests more, in full pages: folders, then files, then
web links.

Rule: a folder's etag changes with the folder itself, not with its contents.
"""

import json
from sqlite3 import Connection, Row
from typing import Any

import trio
from starlette import responses

from cmsfs.models import paging as models_paging
from cmsfs.models.content import items as models_items
from cmsfs.models.content import known_tree
from cmsfs.service import problems
from cmsfs.service.access import access_rights, calls, folder_locks
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations, paging
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import folder_copies, items, trash
from cmsfs.service.renditions import representations
from cmsfs.service.serialize import item_extras, item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind

_CHILDREN = "parent = ? AND status = 0"
_BELOW = "SELECT id, kind, etag, lock FROM item WHERE path >= ? AND path < ? AND status = 0"
_TRASH = "owner = ? AND status = 1"


async def get(call: calls.Call) -> responses.Response:
    row = calls.get_item(call.store.read, call.caller, ItemKind.FOLDER, call.id)
    if call.is_unchanged(row) and row["parent"] is not None:
        return responses.Response(status_code=304)
    folder = item_serializer.ItemSerializer(call.store.read, call.fields, caller=call.caller).item(row)
    if call.fields is None or "item_collection" in call.fields:
        folder["item_collection"] = await _list(call, *_children(call, row), mini=True)
    return calls.answer(folder)


async def list_items(call: calls.Call) -> responses.Response:
    row = calls.get_item(call.store.read, call.caller, ItemKind.FOLDER, call.id)
    return calls.answer(await _list(call, *_children(call, row)))


def _children(call: calls.Call, row: Row) -> tuple[str, tuple[Any, ...]]:
    """Return the query for a folder's items; the caller's root also lists what others share with them."""
    tops = []
    if row["id"] == call.caller.root and call.caller.bound is None:
        tops = [
            one["id"] for one in access_rights.top_shared_items(call.store.read, call.caller.id, listed=True)
        ]
    if not tops:
        return _CHILDREN, (row["id"],)
    return f"({_CHILDREN} OR id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)))", (
        row["id"],
        json.dumps(tops),
    )


async def list_trash(call: calls.Call) -> responses.Response:
    params = call.request.query_params
    if call.flag("usemarker") and any(params.get(name) for name in ("sort", "direction", "offset")):
        raise problems.invalid(
            "usemarker", "goes with no sort, direction or offset", code="invalid_parameter"
        )
    elsewhere = access_rights.trashed_from_others(call.store.read, call.caller)
    if not elsewhere:
        return calls.answer(await _list(call, _TRASH, (call.caller.id,)))
    where = f"({_TRASH} OR id IN (SELECT CAST(value AS BIGINT) FROM json_each(?)))"
    return calls.answer(await _list(call, where, (call.caller.id, json.dumps(elsewhere))))


async def _list(call: calls.Call, where: str, args: tuple[Any, ...], *, mini: bool = False) -> dict[str, Any]:
    page = paging.read_page(call.request.query_params)

    def run(read: store.Read) -> dict[str, Any]:
        rows, marker = paging.select_page(read, page, where, args)
        total = 0
        if not page.use_marker:
            total = read(f"SELECT count(*) AS n FROM item WHERE {where}", *args)[0]["n"]
        asked = None if mini else call.fields
        entries = item_serializer.ItemSerializer(read, asked, mini=asked is None, caller=call.caller).items(
            rows
        )
        return paging.envelope(page, entries, total=total, marker=marker)

    listing = await call.store.query(run)
    await representations.add(call, listing["entries"])
    return listing


async def create(call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.NewFolder)
    items.check_name(wish.name)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        parent = calls.get_target(read, call.caller, wish.parent.id)
        items.check_free(read, parent["id"], wish.name, as_list=True)
        new = items.New(ItemKind.FOLDER, wish.name)
        row = items.insert(conn, parent, new, by=call.caller.id, now=call.store.now())
        item_extras.set_sync_state(conn, row, wish.sync_state)
        folder = item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(row)
        if call.fields is None:
            page = paging.read_page(call.request.query_params)
            folder["item_collection"] = paging.envelope(page, [], total=0, marker=None)
        return folder

    return calls.answer(await call.store.write(txn), 201)


async def update(call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.UpdateItem)
    return calls.answer(await call.store.write(lambda conn: items.apply(conn, call, ItemKind.FOLDER, wish)))


async def delete(call: calls.Call) -> responses.Response:
    recursive = call.flag("recursive")
    params, headers = call.request.query_params, call.request.headers
    known = headers.get(known_tree.HEADER) if params.get("recursive") == known_tree.RECURSIVE else None

    def txn(conn: Connection) -> None:
        row = calls.get_for_change(store.reader(conn), call, ItemKind.FOLDER, call.id, needed=ItemRight.MOVE)
        if known is not None:
            _check_expected_contents(conn, row, known)
        elif not recursive and _has_children(conn, row):
            raise problems.Refused(400, "folder_not_empty", "The folder is not empty.")
        folder_locks.check_delete(store.reader(conn), row)
        trash.move_to_trash(conn, row, by=call.caller.id, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def copy(call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.CopyItem)
    if wish.name is not None:
        items.check_name(wish.name)
    made = folder_copies.FolderCopy(call)

    def begin(conn: Connection) -> None:
        read = store.reader(conn)
        row = calls.get_item(read, call.caller, ItemKind.FOLDER, call.id, needed=ItemRight.DOWNLOAD)
        if row["parent"] is None:
            raise problems.Refused(403, "forbidden", "The root folder cannot be copied.")
        parent = calls.get_target(read, call.caller, wish.parent.id)
        if parent["id"] == row["id"] or parent["path"].startswith(tree_paths.below(row)[0]):
            raise problems.Refused(400, "cyclical_folder_structure", "A folder cannot be copied into itself.")
        name = wish.name or row["name"]
        items.check_free(read, parent["id"], name, as_list=True)
        made.begin(conn, row, parent, name)

    def end(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        top = made.finish(conn)
        folder = item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(top)
        if call.fields is None:
            page = paging.read_page(call.request.query_params)
            rows, marker = paging.select_page(read, page, _CHILDREN, (top["id"],))
            total = read(f"SELECT count(*) AS n FROM item WHERE {_CHILDREN}", top["id"])[0]["n"]
            entries = item_serializer.ItemSerializer(read, mini=True).items(rows)
            folder["item_collection"] = paging.envelope(page, entries, total=total, marker=marker)
        return folder

    await call.store.write(begin)
    try:
        while await call.store.write(made.copy_next_batch):
            pass
        answer = await call.store.write(end)
    except BaseException:
        # The client may have disconnected, too: an unfinished copy that it never learns of is not kept.
        with trio.CancelScope(shield=True):
            await call.store.write(made.abort)
        raise
    return calls.answer(answer, 201)


def _check_expected_contents(conn: Connection, row: Row, known: str) -> None:
    """Raise 412 if anything below the folder is locked or differs from what the client knows."""
    found = conn.execute(_BELOW, tree_paths.below(row)).fetchall()
    items = ((KIND_NAMES[ItemKind(one["kind"])], str(one["id"]), str(one["etag"])) for one in found)
    if known_tree.digest(items) != known or any(one["lock"] is not None for one in found):
        raise problems.Refused(412, "precondition_failed", "There is something else in the folder.")


def _has_children(conn: Connection, row: Row) -> bool:
    found = conn.execute("SELECT 1 FROM item WHERE parent = ? AND status = 0 LIMIT 1", (row["id"],))
    return found.fetchone() is not None


_LISTING = models_paging.OffsetPage[models_items.Item] | models_paging.MarkerPage[models_items.Item]
_PAGE = (*operations.PAGED, operations.FIELDS)

routes = [
    Operation("GET /folders/trash/items", list_trash, "List what is in the trash", _LISTING, query=_PAGE),
    Operation(
        "POST /folders",
        create,
        "Create a folder",
        models_items.Folder,
        status=201,
        query=_PAGE,
        body=models_items.NewFolder,
        errors=(404, 409),
    ),
    Operation(
        "GET /folders/{id}",
        get,
        "Get a folder",
        models_items.Folder,
        query=_PAGE,
        headers=[operations.SHARED_LINK, operations.IF_NONE_MATCH],
    ),
    Operation(
        "PUT /folders/{id}",
        update,
        "Change a folder",
        models_items.Folder,
        query=[operations.FIELDS],
        headers=[operations.IF_MATCH],
        body=models_items.UpdateItem,
        errors=(409,),
    ),
    Operation(
        "DELETE /folders/{id}",
        delete,
        "Put a folder in the trash",
        status=204,
        query=[
            operations.flag_or(
                "recursive",
                "Even if it is not empty; `known`: if it holds what the header says.",
                known_tree.RECURSIVE,
            )
        ],
        headers=[
            operations.IF_MATCH,
            operations.header(known_tree.HEADER, "SHA-1 of the lines `type id etag` of all below, sorted."),
        ],
    ),
    Operation(
        "POST /folders/{id}/copy",
        copy,
        "Copy a folder",
        models_items.Folder,
        status=201,
        query=_PAGE,
        headers=[operations.SHARED_LINK],
        body=models_items.CopyItem,
        errors=(409,),
        more="The folder with everything below it; of each file, the current version alone.",
    ),
    Operation(
        "GET /folders/{id}/items",
        list_items,
        "List what is in a folder",
        _LISTING,
        query=_PAGE,
        headers=[operations.SHARED_LINK],
    ),
]
