"""A lean item model for listings: only the fields that the drive's tree needs are validated.

A listing of a million items has five thousand pages, decoded on the event loop.  This model decodes in half
the time of `items.Item`: fields without a column in the tree keep their JSON values.

Rule: fields have the same types as in `items`; a field that the drive begins to use gets its type here.
"""

from typing import Annotated, Literal

import pydantic

from cmsfs.models.base import Model, Size

# Nearly always an integer, which pydantic's core accepts without a call into Python.
_Size = Annotated[Annotated[int, pydantic.Strict()] | Size, pydantic.Field(union_mode="left_to_right")]


class Parent(Model):
    id: str
    name: str | None = None


class EntryVersion(Model):
    id: str


class Entry(Model):
    """A file, folder or web link."""

    model_config = pydantic.ConfigDict(extra="allow")

    type: Literal["file", "folder", "web_link"]
    id: str
    name: str | None = None
    parent: Parent | None = None
    etag: str | None = None
    sequence_id: str | None = None
    item_status: str | None = None
    sha1: str | None = None
    file_version: EntryVersion | None = None
    size: _Size | None = None
    url: str | None = None
    description: str | None = None
    created_at: pydantic.AwareDatetime | None = None
    modified_at: pydantic.AwareDatetime | None = None
    content_modified_at: pydantic.AwareDatetime | None = None
    trashed_at: pydantic.AwareDatetime | None = None


class EntryPage(Model):
    """One page of entries: of a search, or of a folder by offset.

    A response without `entries` is invalid: as an empty page it would mean that all items are deleted.
    """

    total_count: int = 0
    limit: int = 0
    offset: int = 0
    entries: list[Entry]


class EntryMarkerPage(Model):
    """One page of entries of a folder by marker."""

    entries: list[Entry]
    next_marker: str | None = None
