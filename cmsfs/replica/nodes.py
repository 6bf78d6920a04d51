"""The `Node` row, and the mapping from a remote item to it.

`Node` represents a file, folder or web link for every upper layer; `Remote` is the service's state of one.
Conversion from the wire happens only in `remote_from_item`.
"""

import enum
import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

import pydantic

from cmsfs.models import url_files
from cmsfs.models.content import entries, items

Ino = int

ROOT: Ino = 1
TRASH: Ino = 2

FOLDER_MODE = 0o755
FILE_MODE = 0o644


class NodeKind(enum.StrEnum):
    """The kinds of nodes; the values are the service's type names, except for symbolic links, which it
    lacks."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "web_link"
    SYMLINK = "symlink"


KINDS = {kind.value: kind for kind in NodeKind}

# Identifies an item at the service: ids are unique only within a kind.
ItemKey = tuple[NodeKind, str]


@dataclass(frozen=True, slots=True)
class Base:
    """The version of an item that a local change starts from: the last one seen here, or created by an upload
    of this machine.

    No field is optional, so that no code can overwrite an item without stating the version it has seen.
    """

    item: str
    etag: str
    sha1: str


# Node and Remote are tuples, not dataclasses: tens of thousands are created, and creating a frozen dataclass
# of seventeen fields takes eight times as long.


class Node(NamedTuple):
    """One row of the tree (schema.sql explains each column)."""

    ino: Ino
    parent: Ino | None
    name: str
    kind: NodeKind
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int
    sha1: str | None
    draft: int | None
    remote_id: str | None
    etag: str | None
    version: str | None
    base_sha1: str | None
    base_parent: str | None
    base_name: str | None
    sequence: int
    local: int  # as the row has it
    atime_ns: int | None = None
    number: int | None = None

    @property
    def is_folder(self) -> bool:
        return self.kind is NodeKind.FOLDER

    @property
    def base(self) -> Base | None:
        """The base for a new version of its item; None if it has no item, or its version is unknown."""
        if self.remote_id is None or self.etag is None or self.base_sha1 is None:
            return None
        return Base(self.remote_id, self.etag, self.base_sha1)

    @property
    def is_shelf(self) -> bool:
        """Whether it is the drive's own folder for shared items (`replica.sharing.shares`)."""
        return self.local == 2

    @property
    def is_lost(self) -> bool:
        """Whether we lost access to the item, and it is kept for unsent changes
        (`replica.sharing.lost_access`)."""
        return (
            self.parent is not None
            and self.remote_id is not None
            and self.etag is not None
            and self.base_parent is None
            and self.ino > TRASH
        )


# In the order of Node's fields; `item` is large and read only where it is shown.
COLUMNS = (
    "ino, parent, name, kind, size, mtime_ns, ctime_ns, mode, sha1, draft, "
    "remote_id, etag, version, base_sha1, base_parent, base_name, sequence, local, atime_ns, number"
)


def node_from_row(row: sqlite3.Row) -> Node:
    """Convert a row selected with `COLUMNS` to a node."""
    values = list(row)
    values[_KIND] = KINDS[values[_KIND]]
    # `Node(...)` is a function in Python: it takes twice as long.
    return _new(Node, values)


_KIND = Node._fields.index("kind")
_new = tuple.__new__


@dataclass(frozen=True, slots=True)
class Content:
    """The contents of a file by hash and size, and where the service has them (None: not uploaded)."""

    sha1: str
    size: int
    remote_id: str | None
    version: str | None


class Remote(NamedTuple):
    """An item as the service describes it."""

    kind: NodeKind
    id: str
    name: str
    parent_id: str | None
    parent_name: str
    etag: str | None
    sequence: int
    version: str | None
    sha1: str | None
    size: int
    mtime_ns: int
    trashed: bool
    item: items.Item | entries.Entry

    @property
    def key(self) -> ItemKey:
        return self.kind, self.id

    @property
    def json(self) -> str:
        """Return the item as stored in the tree: the fields without a column of their own, without empty
        ones.

        Computed on demand: most items that arrive are unchanged.
        """
        if isinstance(self.item, entries.Entry):
            return self.item.kept_json()
        return self.item.model_dump_json(exclude_none=True, exclude=_NOT_KEPT)

    def user_id(self, field: str) -> str | None:
        """Return the id of the user in this field (`owned_by`, `modified_by`), if present."""
        user = getattr(self.item, field, None)
        found = user.get("id") if isinstance(user, dict) else getattr(user, "id", None)
        return str(found) if found is not None else None

    @property
    def problem(self) -> str | None:
        """Return why the tree cannot represent the item; None if it can."""
        if not 0 <= self.size <= MOST:
            return f"its size is {_short(self.size)}"
        if not 0 <= self.sequence <= MOST:
            return f"its sequence number is {_short(self.sequence)}"
        if len(self.name) > LONGEST_NAME:
            return f"its name has {len(self.name)} characters"
        texts = (self.id, self.name, self.parent_id, self.etag, self.version, self.sha1)
        together = "".join([text for text in texts if text is not None])
        if not together.isascii():
            try:
                together.encode()
            except UnicodeEncodeError:
                return "its name or one of its IDs is not valid text"
        return "its name or one of its IDs is not valid text" if "\0" in together else None


# The largest integer of SQLite and of the kernel.
MOST = 2**63 - 1

# Far beyond what services allow (255 characters): a longer name is treated as an attack.
LONGEST_NAME = 4096


def _short(number: int) -> str:
    return str(number) if abs(number) < 10**30 else f"about 2 to the power of {number.bit_length()}"


# Item fields that have a column of their own.
IN_COLUMNS = frozenset(
    {
        "type",
        "id",
        "name",
        "parent",
        "etag",
        "sequence_id",
        "item_status",
        "sha1",
        "file_version",
        "size",
        "trashed_at",
    }
)

# `modified_by` comes only with single items, not with listings: it is used when it arrives.
_NOT_KEPT = {*IN_COLUMNS, "modified_by"}


class _Moments(pydantic.BaseModel):
    created_at: pydantic.AwareDatetime | None = None
    modified_at: pydantic.AwareDatetime | None = None
    content_modified_at: pydantic.AwareDatetime | None = None


def remote_mtime_ns(item_json: str) -> int:
    """Return an item's modification time at the service, from `Remote.json`; a node's `mtime_ns` is the local
    one."""
    found = _Moments.model_validate_json(item_json)
    return nanoseconds(found.content_modified_at or found.modified_at or found.created_at)


def remote_from_item(item: items.Item | entries.Entry) -> Remote:
    """Convert an item of the service; fields that it lacks get a neutral value."""
    kind = KINDS[item.type]
    parent, version = item.parent, getattr(item, "file_version", None)
    size = 0
    if kind is NodeKind.FILE:
        size = getattr(item, "size", 0) or 0
    elif kind is NodeKind.LINK:
        size = len(url_files.text(*shortcut_of(item)))
    # In the order of Remote's fields: by their names it takes twice as long.
    return Remote(
        kind,
        item.id,
        item.name or item.id,
        parent.id if parent else None,
        (parent.name or "") if parent else "",
        item.etag,
        _number(item.sequence_id) or _number(item.etag),
        version.id if version else None,
        getattr(item, "sha1", None),
        size,
        nanoseconds(getattr(item, "content_modified_at", None) or item.modified_at or item.created_at),
        item.item_status not in (None, "active"),
        item,
    )


def shortcut_of(link: items.Item | entries.Entry) -> url_files.Shortcut:
    """Return a web link's target and description."""
    return url_files.Shortcut(getattr(link, "url", None) or "", getattr(link, "description", None) or "")


def _number(text: str | None) -> int:
    if not text or not (text.isascii() and text.isdigit()):
        return 0
    # Python refuses to parse thousands of digits; such numbers are too large anyway.
    return int(text) if len(text) <= _DIGITS else 10**_DIGITS


_DIGITS = 40


def nanoseconds(moment: datetime | None) -> int:
    """Return a time in nanoseconds since the epoch; 0 for None."""
    if moment is None:
        return 0
    # In integers: a float of seconds loses the microseconds of today's dates.
    since = moment - _EPOCH
    # 64 bits of them end in the year 2262.
    return min(((since.days * 86400 + since.seconds) * 10**6 + since.microseconds) * 1000, MOST)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
