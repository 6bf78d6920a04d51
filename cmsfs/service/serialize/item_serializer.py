"""Serializes item rows: mini, standard, and with requested fields.

Create an `ItemSerializer` for each response; it loads parents, owners and paths for all its rows together.
Values that depend on the caller (permissions, visible parent folders) come from access_rights.py.
With `fields` a response has the mini representation and the requested fields; unknown names are ignored.

Rule: times that every item has are never null; some clients drop a whole listing over one.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from sqlite3 import Row
from typing import Any

from cmsfs.models import wire_names
from cmsfs.runtime import clock
from cmsfs.service.access import access_rights, locks, protection, roles
from cmsfs.service.metadata import metadata_query
from cmsfs.service.serialize import item_extras
from cmsfs.service.storage import tree_paths
from cmsfs.service.storage.kinds import KIND_NAMES, ItemKind, ItemStatus
from cmsfs.service.storage.store import Read

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

ROOT_NAME = "All Files"

ROOT = {"type": "folder", "id": wire_names.ROOT_ID, "sequence_id": None, "etag": None, "name": ROOT_NAME}
TRASH = {"type": "folder", "id": wire_names.TRASH_ID, "sequence_id": None, "etag": None, "name": "Trash"}


@lru_cache(maxsize=4096)
def to_timestamp(micros: int) -> str:
    """Convert a stored time to its exact form on the wire."""
    # Most items never changed and have the same time thrice; those of a page share most of their seconds.
    seconds, rest = divmod(micros, 1_000_000)
    return f"{_second(seconds)}.{rest:06}+00:00" if rest else f"{_second(seconds)}+00:00"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return (EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


def micros(when: datetime) -> int:
    """Convert a time to its stored form."""
    return (when - EPOCH) // timedelta(microseconds=1)


def user_mini(row: Row) -> dict[str, Any]:
    return {"type": "user", "id": str(row["id"]), "name": row["name"], "login": row["login"] or ""}


def folder_mini(row: Row) -> dict[str, Any]:
    """Return a folder's mini representation; every root has the id 0."""
    if row["parent"] is None:
        return ROOT
    etag = str(row["etag"])
    return {"type": "folder", "id": str(row["id"]), "sequence_id": etag, "etag": etag, "name": row["name"]}


class ItemSerializer:
    """Converts rows to JSON items, for one response."""

    def __init__(
        self,
        read: Read,
        fields: Sequence[str] | None = None,
        *,
        mini: bool = False,
        caller: access_rights.Viewer | None = None,
        view: access_rights.View | None = None,
    ) -> None:
        """Serialize as `caller` sees the items, through `view` if given; without a caller, as the owner."""
        self._read = read
        self._fields = fields
        self._mini = mini
        self._caller = caller
        self._view = access_rights.View(read, caller) if view is None else view
        # Many items of a response have the same owner and the same parent.
        self._user_minis: dict[int, dict[str, Any]] = {}
        self._folder_minis: dict[int, dict[str, Any]] = {}
        self._users: dict[int, Row] = {}
        self._folders: dict[int, Row] = {}
        self._instances: dict[int, list[Row]] = {}
        self._ends: dict[int, int] = {}
        self.traits = item_extras.ItemExtras()
        self._collaborated: set[int] = set()
        self._terms: dict[int, Row] = {}

    def item(self, row: Row) -> dict[str, Any]:
        return self.items([row])[0]

    def items(self, rows: Sequence[Row]) -> list[dict[str, Any]]:
        wanted = {kind: self._wanted(kind) for kind in ItemKind}
        self._look_up(rows, set().union(*wanted.values()))
        makers = {kind: [(name, _FIELDS[kind][name]) for name in those] for kind, those in wanted.items()}
        return [self._one(row, makers[row["kind"]]) for row in rows]

    def _wanted(self, kind: ItemKind) -> list[str]:
        known = _FIELDS[kind]
        if self._fields is not None:
            # The first part of `metadata.scope.template` is the field.
            asked = dict.fromkeys(name.partition(".")[0] for name in self._fields)
            mini = _MINI[kind]
            return [*mini, *(name for name in asked if name in known and name not in mini)]
        return _MINI[kind] if self._mini else [*_MINI[kind], *_STANDARD[kind]]

    def _one(self, row: Row, wanted: "list[tuple[str, Maker]]") -> dict[str, Any]:
        found: dict[str, Any] = {"type": KIND_NAMES[row["kind"]]}
        for name, make in wanted:
            found[name] = make(row, self)
        return found

    def _look_up(self, rows: Sequence[Row], wanted: set[str]) -> None:
        users: set[int] = set()
        folders: set[int] = set()
        of_users = bool(wanted & _OF_USERS)
        if wanted & {"path_collection", "parent", "permissions", "allowed_invitee_roles"}:
            self._view.look_up(rows)
        for row in rows:
            if of_users:
                users.update((row["created_by"], row["modified_by"], row["owner"]))
            if "lock" in wanted and row["lock"] is not None:
                users.add(json.loads(row["lock"])["by"])
        if wanted & {"path_collection", "parent"}:
            for path in {row["path"] for row in rows}:
                folders.update(tree_paths.above(path))
            folders |= {row["parent"] for row in rows if row["parent"] is not None}
        if wanted & {"metadata", "classification"}:
            self._instances = metadata_query.attached(self._read, rows)
        self.traits.look_up(self._read, rows, wanted, None if self._caller is None else self._caller.id)
        if "has_collaborations" in wanted:
            self._collaborated = access_rights.with_collaborations(self._read, rows)
        if wanted & TERMS.keys():
            self._terms = access_rights.folder_terms(self._read, rows)
        if wanted & {"is_externally_owned"} and self._caller is not None:
            users.add(self._caller.id)
        if "disposition_at" in wanted:
            self._ends = protection.ends(self._read, [row for row in rows if row["kind"] == ItemKind.FILE])
        self._users = self._by_id(
            "SELECT * FROM account WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))", users
        )
        self._folders = self._by_id(
            "SELECT id, parent, etag, name FROM item"
            " WHERE id IN (SELECT CAST(value AS BIGINT) FROM json_each(?))",
            folders,
        )

    def _by_id(self, sql: str, ids: Iterable[int]) -> dict[int, Row]:
        numbers = list(ids)
        return {row["id"]: row for row in self._read(sql, json.dumps(numbers))} if numbers else {}

    def user(self, number: int) -> dict[str, Any] | None:
        row = self._users.get(number)
        if row is not None and number not in self._user_minis:
            self._user_minis[number] = user_mini(row)
        return self._user_minis.get(number)

    def lock(self, row: Row) -> dict[str, Any] | None:
        found = None if row["lock"] is None else locks.find(row, _now())
        if found is None:
            return None
        ends = found["expires_at"]
        return {
            "type": "lock",
            "id": found["id"],
            "created_by": self.user(found["by"]),
            "created_at": to_timestamp(found["created_at"]),
            "expired_at": None if ends is None else to_timestamp(ends),
            "is_download_prevented": found["prevents_download"],
            "app_type": None,
        }

    def parent(self, row: Row) -> dict[str, Any] | None:
        if row["status"] == ItemStatus.TRASHED or row["parent"] is None:
            # The original folder, for users who may restore the item.
            folder = self._folders.get(row["parent"])
            return None if folder is None else folder_mini(folder)
        if self._view.sees_all_above(row):
            return self._mini_of(row["parent"])
        above = self._view.folders_above(row)
        return self._mini_of(above[-1]) if above else None

    def _mini_of(self, number: int | None) -> dict[str, Any] | None:
        if number is None:
            return ROOT
        folder = self._folders.get(number)
        if folder is not None and number not in self._folder_minis:
            self._folder_minis[number] = folder_mini(folder)
        return self._folder_minis.get(number)

    def permissions(self, row: Row) -> dict[str, bool]:
        return roles.permissions(ItemKind(row["kind"]), self._view.rights(row))

    def invitee_roles(self, row: Row) -> list[str]:
        return roles.offered(ItemKind(row["kind"]), self._view.rights(row))

    def has_collaborations(self, row: Row) -> bool:
        return row["id"] in self._collaborated

    def is_externally_owned(self, row: Row) -> bool:
        if self._caller is None or row["owner"] == self._caller.id:
            return False
        users = self._users
        return bool(users[row["owner"]]["enterprise"] != users[self._caller.id]["enterprise"])

    def term(self, row: Row, column: str) -> bool:
        """Return a folder's setting on collaboration."""
        terms = self._terms.get(row["id"])
        return column != "restricted" if terms is None else bool(terms[column])

    def metadata(self, row: Row) -> dict[str, Any]:
        asked = [name for name in self._fields or () if name.partition(".")[0] == "metadata"]
        return metadata_query.select_instances(self._instances.get(row["id"], []), asked)

    def classification(self, row: Row) -> dict[str, Any] | None:
        return metadata_query.classification(self._instances.get(row["id"], []))

    def disposition(self, row: Row) -> str | None:
        end = self._ends.get(row["id"])
        return None if end is None else to_timestamp(end)

    def path(self, row: Row) -> dict[str, Any]:
        if row["status"] == ItemStatus.TRASHED:
            return {"total_count": 1, "entries": [TRASH]}
        shown = [self._mini_of(number) for number in self._view.folders_above(row)]
        found = [one for one in shown if one is not None]
        return {"total_count": len(found), "entries": found}


def _now() -> int:
    return clock.time_ns() // 1000


Maker = Callable[[Row, ItemSerializer], Any]


def _id(row: Row, _: ItemSerializer) -> str:
    return wire_names.ROOT_ID if row["status"] == ItemStatus.ROOT else str(row["id"])


def _etag(row: Row, _: ItemSerializer) -> str | None:
    return None if row["status"] == ItemStatus.ROOT else str(row["etag"])


def _name(row: Row, _: ItemSerializer) -> str:
    return ROOT_NAME if row["status"] == ItemStatus.ROOT else row["name"]


def _column(name: str) -> Maker:
    return lambda row, _: row[name]


def _moment(name: str) -> Maker:
    return lambda row, _: to_timestamp(row[name])


def _user(name: str) -> Maker:
    return lambda row, shaper: shaper.user(row[name])


def _constant(make: Callable[[], Any]) -> Maker:
    return lambda _, __: make()


def _trashed_at(row: Row, _: ItemSerializer) -> str | None:
    return to_timestamp(row["trashed_at"]) if row["trashed_at"] is not None else None


def _purged_at(row: Row, _: ItemSerializer) -> str | None:
    return to_timestamp(row["purge_at"]) if row["purge_at"] is not None else None


def _term(column: str) -> Maker:
    return lambda row, shaper: shaper.term(row, column)


# The folders' collaboration settings (folder_terms), by field.
TERMS = {
    "is_collaboration_restricted_to_enterprise": "restricted",
    "can_non_owners_invite": "non_owners_invite",
    "can_non_owners_view_collaborators": "non_owners_view",
}

_ITEM: dict[str, Maker] = {
    "id": _id,
    "sequence_id": _etag,  # both names return the number of changes of the item
    "etag": _etag,
    "name": _name,
    "description": _column("description"),
    "path_collection": lambda row, shaper: shaper.path(row),
    "created_at": _moment("created_at"),
    "modified_at": _moment("modified_at"),
    "trashed_at": _trashed_at,
    "purged_at": _purged_at,
    "created_by": _user("created_by"),
    "modified_by": _user("modified_by"),
    "owned_by": _user("owner"),
    "shared_link": lambda row, shaper: shaper.traits.shared_link(row),
    "parent": lambda row, shaper: shaper.parent(row),
    "collections": lambda row, shaper: shaper.traits.collections(row),
    "item_status": lambda row, _: "trashed" if row["status"] == ItemStatus.TRASHED else "active",
}
_STORED: dict[str, Maker] = _ITEM | {
    "size": _column("size"),
    "content_created_at": _moment("content_created_at"),
    "content_modified_at": _moment("content_modified_at"),
    "tags": lambda row, _: [] if row["tags"] == "[]" else json.loads(row["tags"]),
    "metadata": lambda row, shaper: shaper.metadata(row),
    "classification": lambda row, shaper: shaper.classification(row),
    "watermark_info": lambda row, shaper: shaper.traits.watermark(row),
    "permissions": lambda row, shaper: shaper.permissions(row),
    "allowed_invitee_roles": lambda row, shaper: shaper.invitee_roles(row),
    "is_accessible_via_shared_link": lambda row, shaper: shaper.traits.is_linked(row),
    "is_externally_owned": lambda row, shaper: shaper.is_externally_owned(row),
    "has_collaborations": lambda row, shaper: shaper.has_collaborations(row),
    "is_associated_with_app_item": _constant(lambda: False),
}
_FIELDS: dict[ItemKind, dict[str, Maker]] = {
    ItemKind.FILE: _STORED
    | {
        "sha1": _column("sha1"),
        "file_version": lambda row, _: {
            "type": "file_version",
            "id": str(row["version"]),
            "sha1": row["sha1"],
        },
        "version_number": lambda row, _: str(row["version_number"]),
        "comment_count": lambda row, shaper: shaper.traits.comments(row),
        "lock": lambda row, shaper: shaper.lock(row),
        "extension": _column("extension"),
        "is_package": lambda row, _: item_extras.is_package(row),
        "expires_at": _constant(lambda: None),
        "disposition_at": lambda row, shaper: shaper.disposition(row),
        # Filled in by representations.py and embed_links.py, which need the request.
        "representations": _constant(lambda: {"entries": []}),
        "expiring_embed_link": _constant(lambda: None),
        "uploader_display_name": lambda row, shaper: (shaper.user(row["created_by"]) or {}).get("name"),
        "shared_link_permission_options": _constant(lambda: ["can_preview", "can_download", "can_edit"]),
    },
    ItemKind.FOLDER: _STORED
    | {
        "folder_upload_email": _constant(lambda: None),
        "sync_state": lambda row, shaper: shaper.traits.sync_state(row),
        "allowed_shared_link_access_levels": _constant(lambda: ["open", "company", "collaborators"]),
    }
    | {name: _term(column) for name, column in TERMS.items()},
    ItemKind.WEB_LINK: _ITEM
    | {"url": _column("url"), "permissions": lambda row, shaper: shaper.permissions(row)},
}

# Fields with the users of an item.
_OF_USERS = frozenset(
    ("created_by", "modified_by", "owned_by", "uploader_display_name", "is_externally_owned")
)

_MINI: dict[ItemKind, list[str]] = {
    ItemKind.FILE: ["id", "sequence_id", "etag", "sha1", "name", "file_version"],
    ItemKind.FOLDER: ["id", "sequence_id", "etag", "name"],
    ItemKind.WEB_LINK: ["id", "sequence_id", "etag", "name", "url"],
}
_ITEM_STANDARD = [
    *("description", "path_collection", "created_at", "modified_at", "trashed_at", "purged_at"),
    *("created_by", "modified_by", "owned_by", "shared_link", "parent", "item_status"),
]
_STORED_STANDARD = [*_ITEM_STANDARD, "size", "content_created_at", "content_modified_at"]
_STANDARD: dict[ItemKind, list[str]] = {
    ItemKind.FILE: _STORED_STANDARD,
    ItemKind.FOLDER: [*_STORED_STANDARD, "folder_upload_email"],
    ItemKind.WEB_LINK: _ITEM_STANDARD,
}
