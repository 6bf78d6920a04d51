"""What files, folders and web links have in common: names, parents, changes, folder sizes.

Called by the capability modules inside their transactions.  A row's `path` holds the ids of its parent
folders, so a subtree is a range of the index; moving a folder rewrites that prefix for everything below it.

Rule: every change of an item increments its etag and sets `modified_at`; `created_at` never changes.
"""

import json
from dataclasses import dataclass
from sqlite3 import Connection, Row
from typing import Any

from cmsfs.models import wire_names
from cmsfs.models.content import events as models_events
from cmsfs.models.content import items
from cmsfs.service import problems
from cmsfs.service.access import calls, folder_locks, locks, protection, shared_links
from cmsfs.service.access.roles import ItemRight
from cmsfs.service.content import ownership
from cmsfs.service.events import events
from cmsfs.service.serialize import item_extras, item_serializer
from cmsfs.service.storage import engine, store, tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus

# Deeper than any tree that people make; keeps a path of ids within a few kilobytes.
MAX_DEPTH = 500

_INSERT = """
  INSERT INTO item (kind, owner, parent, path, name, name_key, extension, created_at, modified_at,
    content_created_at, content_modified_at, created_by, modified_by, size, sha1, url, description, tags)
  VALUES (:kind, :owner, :parent, :path, :name, :name_key, :extension, :now, :now,
    :content_created_at, :content_modified_at, :by, :by, :size, :sha1, :url, :description, :tags)
"""


@dataclass(frozen=True, slots=True)
class New:
    """An item to create.  Times that are None default to the time of creation."""

    kind: ItemKind
    name: str
    size: int = 0
    sha1: str | None = None
    url: str | None = None
    description: str = ""
    tags: str = "[]"  # JSON, as in the row
    content_created_at: int | None = None
    content_modified_at: int | None = None


# Fields that items of other kinds do not have.
_FOLDERS = frozenset({"sync_state", *item_serializer.TERMS})
_UNSUPPORTED_FIELDS = {
    ItemKind.FOLDER: frozenset({"lock", "disposition_at"}),
    ItemKind.FILE: _FOLDERS,
    ItemKind.WEB_LINK: _FOLDERS | {"lock", "disposition_at"},
}


def find(conn: Connection, number: int) -> Row:
    """Return the row of an item that is known to exist."""
    row: Row = conn.execute("SELECT * FROM item WHERE id = ?", (number,)).fetchone()
    return row


def extension(name: str) -> str:
    stem, dot, last = name.rpartition(".")
    return last.lower() if stem and dot else ""


def check_name(name: str) -> None:
    """Raise 400 unless the name is valid."""
    code = wire_names.name_problem(name)
    if code is not None:
        message = (
            "is too long" if code == wire_names.NAME_TOO_LONG else "holds characters that names cannot have"
        )
        raise problems.Refused(400, code, f"The name {message}.")


def check_free(
    read: store.Read, parent: int, name: str, *, besides: int | None = None, as_list: bool = False
) -> None:
    """Raise 409 if an item in the folder has this name already, whatever its kind and letter case.

    `context_info` holds the conflicting item or, where folders are created, a list of it: clients of the
    public API expect one or the other depending on the operation.
    """
    found = read(
        "SELECT * FROM item WHERE parent = ? AND name_key = ? AND status = 0",
        parent,
        wire_names.name_key(name),
    )
    if found and found[0]["id"] != besides:
        holder = item_serializer.ItemSerializer(read, mini=True).item(found[0])
        raise problems.Refused(
            409,
            "item_name_in_use",
            "Item with the same name already exists.",
            context_info={"conflicts": [holder] if as_list else holder},
        )


def insert(
    conn: Connection, parent: Row, new: New, *, by: int, now: int, event: str | None = models_events.CREATE
) -> Row:
    """Create an item in a folder.  The name must be checked and free.

    A file is complete only with its first version, and its event is recorded then: see `files.add_version`.
    """
    path = tree_paths.below(parent)[0]
    if path.count("/") > MAX_DEPTH:
        raise problems.Refused(403, "operation_limit_exceeded", "The folder is too deep.")
    number = engine.new_id(
        conn,
        _INSERT,
        {
            "kind": new.kind,
            "owner": parent["owner"],
            "parent": parent["id"],
            "path": path,
            "name": new.name,
            "name_key": wire_names.name_key(new.name),
            "extension": extension(new.name) if new.kind is ItemKind.FILE else "",
            "now": now,
            "content_created_at": now if new.content_created_at is None else new.content_created_at,
            "content_modified_at": now if new.content_modified_at is None else new.content_modified_at,
            "by": by,
            "size": new.size,
            "sha1": new.sha1,
            "url": new.url,
            "description": new.description,
            "tags": new.tags,
        },
    )
    row = find(conn, number)
    add_to_folder_sizes(conn, path, new.size)
    if new.kind is not ItemKind.FILE and event is not None:
        events.record(conn, row, event, by=by, now=now)
    return row


def touch(conn: Connection, row: Row, *, by: int, now: int, event: str | None, **columns: Any) -> Row:
    """Change columns of an item, increment its etag, record the event; return the new row.

    `event` is None where the caller records a more specific event.
    """
    parts = "".join(f", {name} = ?" for name in columns)
    conn.execute(
        f"UPDATE item SET etag = etag + 1, modified_at = ?, modified_by = ?{parts} WHERE id = ?",
        (now, by, *columns.values(), row["id"]),
    )
    before, row = row, find(conn, row["id"])
    if event is not None:
        events.record(conn, row, event, by=by, now=now, before=before)
    return row


def move_subtree(conn: Connection, row: Row, parent: Row, name: str) -> dict[str, Any]:
    """Move the subtree to its new path; return the columns that place the item itself there, for `touch`."""
    path = tree_paths.below(parent)[0]
    if path != row["path"]:
        protection.record_coverage_before_move(conn, row, path)
    if path != row["path"] and row["kind"] == ItemKind.FOLDER:
        if path.count("/") > MAX_DEPTH:
            raise problems.Refused(403, "operation_limit_exceeded", "The folder is too deep.")
        first, end = tree_paths.below(row)
        conn.execute(
            "UPDATE item SET path = ? || substr(path, ?) WHERE path >= ? AND path < ?",
            (f"{path}{row['id']}/", len(first) + 1, first, end),
        )
    return {
        "parent": parent["id"],
        "path": path,
        "name": name,
        "name_key": wire_names.name_key(name),
        "extension": extension(name) if row["kind"] == ItemKind.FILE else "",
    }


def add_to_folder_sizes(conn: Connection, path: str, size: int) -> None:
    """Add to the size of every folder on a path."""
    if size:
        marks = tree_paths.above(path)
        conn.executemany("UPDATE item SET size = size + ? WHERE id = ?", [(size, mark) for mark in marks])


def plan_move(
    conn: Connection, call: calls.Call, row: Row, *, parent_id: str | None, name: str | None
) -> dict[str, Any]:
    """Apply a request's move and rename; return the columns to set, empty if nothing would change.

    400 for an invalid name and for moving a folder into itself, 404 for a missing folder, 409 for a name in
    use.
    """
    read = store.reader(conn)
    target = row["name"] if name is None else name
    if name is not None:
        check_name(name)
    parent = find(conn, row["parent"])
    if parent_id is not None and not _is_already_in(read, call, row, parent_id):
        calls.require(read, call.caller, row, ItemRight.MOVE)
        parent = calls.get_target(read, call.caller, parent_id)
    if parent["id"] == row["parent"] and target == row["name"]:
        return {}
    if parent["id"] == row["id"] or parent["path"].startswith(tree_paths.below(row)[0]):
        raise problems.Refused(400, "cyclical_folder_structure", "A folder cannot be moved into itself.")
    folder_locks.check_move(read, row)
    check_free(read, parent["id"], target, besides=row["id"])
    if parent["id"] != row["parent"]:
        add_to_folder_sizes(conn, row["path"], -row["size"])
        add_to_folder_sizes(conn, tree_paths.below(parent)[0], row["size"])
    columns = move_subtree(conn, row, parent, target)
    if parent["owner"] != row["owner"]:
        ownership.change_owner(conn, row, parent["owner"], path=columns["path"], now=call.store.now())
    return columns


def _is_already_in(read: store.Read, call: calls.Call, row: Row, parent_id: str) -> bool:
    """Return whether the folder is already the item's parent as the caller sees it."""
    shown = item_serializer.ItemSerializer(read, ["parent"], caller=call.caller).item(row)["parent"]
    return shown is not None and shown["id"] == parent_id


def apply(
    conn: Connection, call: calls.Call, kind: ItemKind, wish: items.UpdateItem, **more: Any
) -> dict[str, Any]:
    """Apply a request's changes and the `more` columns to an item; return the new item.

    Nothing changes, and the etag stays, if the item has all the requested values already.
    """
    read = store.reader(conn)
    for name in wish.model_fields_set & _UNSUPPORTED_FIELDS[kind]:
        raise problems.invalid(name, f"is nothing that a {KIND_NAMES[kind].replace('_', ' ')} has")
    needed = _required_rights(wish, more)
    unlocks = wish.model_fields_set == {"lock"} and wish.lock is None
    if wish.model_fields_set == {"collections"} and not more:
        # Collections are private to the user and do not change the item.
        row = calls.get_item(read, call.caller, kind, call.id)
        call.check_if_match(row)
    else:
        row = calls.get_for_change(read, call, kind, call.id, needed=needed, unlocks=unlocks)
    if "collections" in wish.model_fields_set:
        _set_collections(conn, call, row, [one.id for one in wish.collections or ()])
    parent_id = wish.parent.id if wish.parent else None
    columns = plan_move(conn, call, row, parent_id=parent_id, name=wish.name)
    if wish.description is not None:
        columns["description"] = wish.description
    if wish.tags is not None:
        columns["tags"] = json.dumps(wish.tags, ensure_ascii=False)
    for name in ("content_created_at", "content_modified_at"):
        when = getattr(wish, name)
        if when is not None:
            columns[name] = item_serializer.micros(when)
    if wish.disposition_at is not None:
        calls.require_admin(call.caller)
        protection.extend(conn, row, item_serializer.micros(wish.disposition_at))
    event = None
    if "lock" in wish.model_fields_set and kind is ItemKind.FILE:
        columns["lock"] = locks.column(wish.lock, by=call.caller.id, now=call.store.now())
        event = models_events.UNLOCK if wish.lock is None else models_events.LOCK
    if "shared_link" in wish.model_fields_set:
        rights = calls.rights(read, call.caller, row)
        url = call.request.url
        made, event = shared_links.columns(
            row, wish.shared_link, rights, origin=f"{url.scheme}://{url.netloc}", now=call.store.now()
        )
        columns |= made
        if event == models_events.SHARE_UPDATE:
            # Who used the link before needs to use it again under the new terms.
            conn.execute("DELETE FROM recent_link WHERE item = ?", (row["id"],))
    columns = _changed(row, columns | more)
    if kind is ItemKind.FOLDER:
        _set_terms(conn, row, wish)
    if item_extras.set_sync_state(conn, row, wish.sync_state) or columns:
        row = touch(
            conn, row, by=call.caller.id, now=call.store.now(), event=_event_type(columns, event), **columns
        )
    return item_serializer.ItemSerializer(read, call.fields, caller=call.caller).item(row)


def _set_collections(conn: Connection, call: calls.Call, row: Row, collections: list[str]) -> None:
    """Set in which of the caller's own collections an item is."""
    for wire_id in collections:
        if wire_id != str(call.caller.id):
            raise problems.invalid("collections", f"there is no collection {wire_id}")
    if row["status"] == ItemStatus.ROOT and collections:
        raise problems.invalid("collections", "the root folder is in none")
    item_extras.set_favorite(conn, row, call.caller.id, bool(collections), now=call.store.now())


def _required_rights(wish: items.UpdateItem, more: dict[str, Any]) -> ItemRight:
    """Return the rights that a change needs; those for a move are checked once it is known to be one."""
    given = wish.model_fields_set
    needed = ItemRight.SEE
    if more or given & {"name", "description", "tags"}:
        needed |= ItemRight.CHANGE
    if given & {"content_created_at", "content_modified_at", "lock"}:
        needed |= ItemRight.EDIT
    if "shared_link" in given:
        needed |= ItemRight.LINK
    if given & item_serializer.TERMS.keys():
        needed |= ItemRight.MANAGE
    return needed


def _set_terms(conn: Connection, row: Row, wish: items.UpdateItem) -> None:
    given = {column: getattr(wish, name) for name, column in item_serializer.TERMS.items()}
    given = {column: value for column, value in given.items() if value is not None}
    if given:
        conn.execute("INSERT INTO folder_terms (folder) VALUES (?) ON CONFLICT DO NOTHING", (row["id"],))
        parts = ", ".join(f"{column} = ?" for column in given)
        conn.execute(f"UPDATE folder_terms SET {parts} WHERE folder = ?", (*given.values(), row["id"]))


def _event_type(columns: dict[str, Any], other: str | None = None) -> str:
    """Return the event type for changed columns; `other` if nothing but the lock or the link changed."""
    if other is not None and columns.keys() <= {"lock", "link", "link_terms"}:
        return other
    if "parent" in columns:
        return models_events.MOVE
    return models_events.RENAME if "name" in columns else models_events.MODIFY


def _changed(row: Row, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns whose value differs from the row."""
    return {name: value for name, value in columns.items() if row[name] != value}


def is_active(row: Row) -> bool:
    return row["status"] in (ItemStatus.ACTIVE, ItemStatus.ROOT)
