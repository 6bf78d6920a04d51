"""Lean entries for listings: only what the drive's tree needs of an item.

A listing of a million items has five thousand pages, decoded on the event loop.  msgspec decodes one in a
quarter of the time that pydantic takes.  Fields without a column in the tree keep their JSON values.

Rules: fields have the same types as in `items`; a field that the drive begins to use is added here.  A page
that msgspec refuses, for an ID that is a number or a time in another format, is read as liberally as any
other response; the entries are the same.
"""

import contextlib
import re
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import pydantic

from cmsfs.models.base import Model, Size

_Kind = Literal["file", "folder", "web_link"]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]


class Parent(msgspec.Struct, gc=False):
    """The folder of an entry."""

    id: str
    name: str | None = None


class EntryVersion(msgspec.Struct, gc=False):
    """The version of a file."""

    id: str


class _Kept(msgspec.Struct, gc=False, omit_defaults=True):
    """The fields without a column in the tree, which are stored as JSON."""

    created_at: _Time | None = None
    modified_at: _Time | None = None
    content_modified_at: _Time | None = None
    url: str | None = None
    description: str | None = None
    owned_by: Any = None
    tags: Any = None
    classification: Any = None
    lock: Any = None
    expires_at: Any = None
    disposition_at: Any = None


class Entry(_Kept, gc=False, kw_only=True):
    """A file, folder or web link."""

    type: _Kind
    id: str
    name: str | None = None
    parent: Parent | None = None
    etag: str | None = None
    sequence_id: str | None = None
    item_status: str | None = None
    sha1: str | None = None
    file_version: EntryVersion | None = None
    size: int | None = None
    trashed_at: _Time | None = None

    @classmethod
    def of(cls, values: dict[str, Any]) -> "Entry":
        """Return the entry with these JSON values.  Raises `pydantic.ValidationError`."""
        return msgspec.convert(_LiberalEntry.model_validate(values).model_dump(), cls)

    def kept_json(self) -> str:
        """Return the fields without a column in the tree as JSON, without empty ones."""
        return _encode(
            _Kept(
                self.created_at,
                self.modified_at,
                self.content_modified_at,
                self.url,
                self.description or None,
                self.owned_by or None,
                self.tags or None,
                self.classification or None,
                self.lock or None,
                self.expires_at or None,
                self.disposition_at or None,
            )
        ).decode()


class _Page(msgspec.Struct, gc=False):
    @classmethod
    def model_validate_json(cls: type["_P"], content: bytes) -> "_P":
        """Decode a response.  Raises `pydantic.ValidationError`."""
        if not _MANY_DIGITS.search(content):
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                # As text: msgspec does not look for invalid UTF-8 in what it skips.
                found: _P = _DECODERS[cls].decode(content.decode())
                return found
        return cls.liberal(content)

    @classmethod
    def liberal(cls: type["_P"], content: bytes) -> "_P":
        """Decode a response with numbers for text and text for numbers, and times as pydantic takes them."""
        return msgspec.convert(_LIBERAL[cls].model_validate_json(content).model_dump(), cls)


class EntryPage(_Page, gc=False):
    """One page of entries: of a search, or of a folder by offset.

    A response without `entries` is invalid: as an empty page it would mean that all items are deleted.
    """

    entries: list[Entry]
    total_count: int = 0
    limit: int = 0
    offset: int = 0


class EntryMarkerPage(_Page, gc=False):
    """One page of entries of a folder by marker."""

    entries: list[Entry]
    next_marker: str | None = None


# ---- as liberally as other responses are read ----


class _LiberalParent(Model):
    id: str
    name: str | None = None


class _LiberalVersion(Model):
    id: str


class _LiberalEntry(Model):
    type: _Kind
    id: str
    name: str | None = None
    parent: _LiberalParent | None = None
    etag: str | None = None
    sequence_id: str | None = None
    item_status: str | None = None
    sha1: str | None = None
    file_version: _LiberalVersion | None = None
    size: Size | None = None
    url: str | None = None
    description: str | None = None
    created_at: pydantic.AwareDatetime | None = None
    modified_at: pydantic.AwareDatetime | None = None
    content_modified_at: pydantic.AwareDatetime | None = None
    trashed_at: pydantic.AwareDatetime | None = None
    owned_by: Any = None
    tags: Any = None
    classification: Any = None
    lock: Any = None
    expires_at: Any = None
    disposition_at: Any = None


class _LiberalPage(Model):
    entries: list[_LiberalEntry]
    total_count: int = 0
    limit: int = 0
    offset: int = 0


class _LiberalMarkerPage(Model):
    entries: list[_LiberalEntry]
    next_marker: str | None = None


_P = TypeVar("_P", bound=_Page)
# Perhaps a time with nanoseconds, which msgspec rounds to microseconds, and pydantic truncates.
_MANY_DIGITS = re.compile(rb"\.\d{7}")
_encode = msgspec.json.Encoder().encode
_DECODERS: dict[type[_Page], msgspec.json.Decoder[Any]] = {
    page: msgspec.json.Decoder(page) for page in (EntryPage, EntryMarkerPage)
}
_LIBERAL: dict[type[_Page], type[Model]] = {EntryPage: _LiberalPage, EntryMarkerPage: _LiberalMarkerPage}
