"""A lean item model for listings: the fields that the drive's tree needs, the rest unparsed.

A listing of a million items is five thousand pages, decoded on the event loop.  This shape decodes in half
the time of `items.Item`: fields without a column in the tree stay the plain values that came (`facts`).

Rule: what `items` says of a field holds here too; a field that the drive begins to use gets its type here.
"""

from typing import Any, Literal

import pydantic
import pydantic_core

from cmsfs.models.base import Model, Size

_NOTHING: tuple[object, ...] = (None, "", [], {})


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
    size: Size | None = None
    url: str | None = None
    description: str | None = None
    created_at: pydantic.AwareDatetime | None = None
    modified_at: pydantic.AwareDatetime | None = None
    content_modified_at: pydantic.AwareDatetime | None = None
    trashed_at: pydantic.AwareDatetime | None = None

    def facts(self) -> str:
        """What has no column in the tree, as JSON; fields that say nothing are left out."""
        moments = ("created_at", "modified_at", "content_modified_at")
        found: dict[str, Any] = {name: at for name in moments if (at := getattr(self, name)) is not None}
        if self.url is not None:
            found["url"] = self.url
        if self.description:
            found["description"] = self.description
        for name, value in (self.__pydantic_extra__ or {}).items():
            if value not in _NOTHING:
                found[name] = value
        return pydantic_core.to_json(found).decode()


class EntryPage(Model):
    """One page of entries: of a search, or of a folder by offset."""

    total_count: int = 0
    limit: int = 0
    offset: int = 0
    entries: list[Entry] = pydantic.Field(default_factory=list)


class EntryMarkerPage(Model):
    """One page of entries of a folder by marker."""

    entries: list[Entry] = pydantic.Field(default_factory=list)
    next_marker: str | None = None
