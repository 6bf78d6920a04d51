"""The trash: move items into it, list, restore, permanently delete.

Only the item that was deleted is listed in the trash; items below a trashed folder are hidden until the
folder is restored.  An item is restored to its original folder; another one is used only if the original is
gone (permanently deleted, or in the trash itself).

Rule: permanent deletion deletes rows; contents without any version are deleted an hour later, by the sweeper.
"""

from functools import partial
from sqlite3 import Connection, Row
from typing import Any

from starlette import responses

from cmsfs.models.content import events
from cmsfs.models.content import items as models_items
from cmsfs.service import problems
from cmsfs.service.access import calls, protection
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.api import operations
from cmsfs.service.api.operations import Operation
from cmsfs.service.content import items, ownership
from cmsfs.service.events import webhook_triggers
from cmsfs.service.serialize import item_serializer
from cmsfs.service.storage import store, tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus

_PURGE_AT = """
  SELECT ? + trash_days * 86400000000 AS moment
    FROM account JOIN enterprise ON enterprise.id = account.enterprise
    WHERE account.id = ?
"""
_HIDE = "UPDATE item SET status = 2, trash = ? WHERE path >= ? AND path < ? AND trash = 0"
_SHOW = "UPDATE item SET status = 0, trash = 0 WHERE path >= ? AND path < ? AND trash = ?"


def get_active_or_trashed(call: calls.Call, kind: ItemKind) -> Row:
    """Like `calls.get_item`, but also returns items in the caller's trash, with their status."""
    read, caller = call.store.read, call.caller
    row = calls.find_item(read, caller, kind, call.id)
    if row is not None and row["status"] == ItemStatus.TRASHED and calls.is_in_trash_of(read, caller, row):
        return row
    return calls.get_item(read, caller, kind, call.id)


def move_to_trash(conn: Connection, row: Row, *, by: int, now: int) -> None:
    """Move an active item and everything below it to the trash."""
    items.add_to_folder_sizes(conn, row["path"], -row["size"])
    hidden = {"status": ItemStatus.TRASHED, "trash": row["id"], "trashed_at": now, "trashed_by": by}
    hidden["purge_at"] = conn.execute(_PURGE_AT, (now, row["owner"])).fetchone()["moment"]
    items.touch(conn, row, by=by, now=now, event=events.TRASH, **hidden)
    if row["kind"] == ItemKind.FOLDER:
        conn.execute(_HIDE, (row["id"], *tree_paths.below(row)))


def restore_item(
    conn: Connection, call: calls.Call, row: Row, wish: models_items.Restore, *, now: int
) -> Row:
    """Restore an item from the trash.

    403 if there is no folder to restore it to, 409 if its name is in use there.
    """
    read = store.reader(conn)
    name = row["name"] if wish.name is None else wish.name
    items.check_name(name)
    parent = _restore_target(conn, call, row, wish)
    items.check_free(read, parent["id"], name)
    columns = items.move_subtree(conn, row, parent, name)
    if parent["owner"] != row["owner"]:
        ownership.change_owner(conn, row, parent["owner"], path=columns["path"], now=now)
    items.add_to_folder_sizes(conn, columns["path"], row["size"])
    columns |= {"status": ItemStatus.ACTIVE, "trash": 0, "trashed_at": None, "trashed_by": None}
    columns["purge_at"] = None
    back = items.touch(conn, row, by=call.caller.id, now=now, event=events.RESTORE, **columns)
    if row["kind"] == ItemKind.FOLDER:
        conn.execute(_SHOW, (*tree_paths.below(back), row["id"]))
    return back


def _restore_target(conn: Connection, call: calls.Call, row: Row, wish: models_items.Restore) -> Row:
    original: Row | None = conn.execute("SELECT * FROM item WHERE id = ?", (row["parent"],)).fetchone()
    read = store.reader(conn)
    if original is not None and items.is_active(original):
        calls.require(read, call.caller, original, ItemRight.UPLOAD)
        return original
    if wish.parent is not None:
        found = calls.find_item(read, call.caller, ItemKind.FOLDER, wish.parent.id)
        if found is not None and items.is_active(found):
            calls.require(read, call.caller, found, ItemRight.UPLOAD)
            return found
    raise problems.Refused(
        403,
        "access_denied_insufficient_permissions",
        "The original folder is gone, and no other folder was named that you may restore to.",
    )


def purge(conn: Connection, row: Row, *, now: int) -> None:
    """Permanently delete a trashed item, and everything that was trashed with it.

    403 if a legal hold or retention policy protects any of it.
    """
    protection.check_purge(conn, row, now=now)
    if row["kind"] != ItemKind.WEB_LINK:
        trigger = f"{KIND_NAMES[ItemKind(row['kind'])].upper()}.DELETED"
        by = row["trashed_by"] or row["owner"]
        webhook_triggers.enqueue(conn, trigger, row, by=by, now=now)
    if row["kind"] == ItemKind.FOLDER:
        conn.execute(
            "DELETE FROM item WHERE path >= ? AND path < ? AND trash = ?", (*tree_paths.below(row), row["id"])
        )
    conn.execute("DELETE FROM item WHERE id = ?", (row["id"],))


async def get(kind: ItemKind, call: calls.Call) -> responses.Response:
    row = calls.get_trashed(call.store.read, call.caller, kind, call.id, needed=ItemRight.SEE)
    return calls.answer(
        item_serializer.ItemSerializer(call.store.read, call.fields, caller=call.caller).item(row)
    )


async def remove(kind: ItemKind, call: calls.Call) -> responses.Response:
    def txn(conn: Connection) -> None:
        row = calls.get_trashed(store.reader(conn), call.caller, kind, call.id, needed=ItemRight.MANAGE)
        purge(conn, row, now=call.store.now())

    await call.store.write(txn)
    return responses.Response(status_code=204)


async def restore(kind: ItemKind, call: calls.Call) -> responses.Response:
    wish = await call.body(models_items.Restore)

    def txn(conn: Connection) -> dict[str, Any]:
        read = store.reader(conn)
        row = calls.get_trashed(read, call.caller, kind, call.id)
        back = restore_item(conn, call, row, wish, now=call.store.now())
        return item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(back)

    return calls.answer(await call.store.write(txn), 201)


_SHAPES: dict[ItemKind, Any] = {
    ItemKind.FOLDER: models_items.Folder,
    ItemKind.FILE: models_items.File,
    ItemKind.WEB_LINK: models_items.WebLink,
}


def _operations(kind: ItemKind) -> list[Operation]:
    word = KIND_NAMES[kind]
    path, noun, query = f"/{word}s/{{id}}", word.replace("_", " "), [operations.FIELDS]
    found = [
        Operation(
            f"GET {path}/trash", partial(get, kind), f"Get a {noun} in the trash", _SHAPES[kind], query=query
        ),
        Operation(f"DELETE {path}/trash", partial(remove, kind), f"Remove a {noun} for good", status=204),
    ]
    if kind is ItemKind.WEB_LINK:
        # Restoring a web link is an operation of the specification: it is in web_links.py.
        return found
    back = Operation(
        f"POST {path}",
        partial(restore, kind),
        f"Restore a {noun}",
        _SHAPES[kind],
        status=201,
        query=query,
        body=models_items.Restore,
        errors=(409,),
    )
    return [*found, back]


routes = [one for kind in ItemKind for one in _operations(kind)]
