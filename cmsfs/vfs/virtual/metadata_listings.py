"""Which items have metadata of a template, with their values: read once, narrowed here, kept for a while.

The folders of `.by` (`metadata_folders`) read from here; `MetadataPort` is the port to the service.

Rule: what a complete reading of a template says is not asked for again for one of its values.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from cmsfs.models.content import metadata
from cmsfs.replica.nodes import Ino
from cmsfs.vfs.virtual.search_results import FRESH_SECONDS, LINK_SECONDS, MOST, Match, MatchNames
from cmsfs.vfs.virtual.value_names import ValueFilter, of_name

# Readings that are kept; one of 2,000 items takes a few megabytes.
REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template as it is shown; `name` is that of its folder, `is_free`: it takes any field."""

    name: str
    scope: str
    key: str
    title: str
    fields: dict[str, metadata.Field]
    is_free: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class MetadataRow:
    """An item with its values."""

    match: Match
    values: Mapping[str, Any]


class MetadataPort(Protocol):
    """Metadata at the service, and the items of the drive that have it."""

    async def templates(self) -> Sequence[TemplateView]:
        """All templates.  Raises `OSError`, `CmsfsError`."""

    async def items(
        self, template: TemplateView, filters: Sequence[ValueFilter], most: int
    ) -> tuple[Sequence[MetadataRow], bool]:
        """Items of the drive that have a template's metadata, and whether these are all.

        Raises `OSError`, `CmsfsError`.
        """

    @property
    def is_offline(self) -> bool:
        """Whether there is no use in asking."""

    def find(self, parent: Ino, name: str) -> Ino:
        """An item of the drive; `OSError` (ENOENT)."""

    async def find_path(self, path: str) -> Ino:
        """The item at a path from the drive's top; `OSError`."""

    async def options(self, ino: Ino, template: TemplateView, field: str) -> list[str]:
        """The options that an item has in a field.  Raises `OSError`."""

    async def assign(self, ino: Ino, template: TemplateView, field: str, text: str) -> None:
        """Set a value as `setxattr` does.  Raises `OSError`."""


@dataclass(slots=True)
class Found:
    """Items at one time; `note`: why they may be others by now."""

    rows: Sequence[MetadataRow]
    is_whole: bool
    at: float
    by_name: Mapping[str, Match]
    note: str = ""


@dataclass(slots=True)
class _Kept:
    names: MatchNames
    lock: trio.Lock = field(default_factory=trio.Lock)
    found: Found | None = None


_Key = tuple[str, frozenset[ValueFilter]]


class Listings:
    """The last readings."""

    def __init__(self, port: MetadataPort) -> None:
        self._port = port
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def known(self, template: TemplateView, filters: Sequence[ValueFilter]) -> Found | None:
        """What is known without a request, of the last minutes."""
        return self._known(template, filters, LINK_SECONDS)

    async def read(self, template: TemplateView, filters: Sequence[ValueFilter]) -> Found:
        """The items, asked for unless they are known; as `MetadataPort.items`, and while there is no network
        what was last read."""
        kept = self._keep(template, filters)
        async with kept.lock:
            if (found := self._known(template, filters, FRESH_SECONDS)) is not None:
                return found
            if self._port.is_offline and (found := self._known(template, filters, float("inf"))) is not None:
                return Found(found.rows, found.is_whole, found.at, found.by_name, _AS_READ)
            rows, is_whole = await self._port.items(template, filters, MOST)
            kept.found = self._named(kept, template, rows, is_whole, trio.current_time())
            return kept.found

    def forget(self, template: TemplateView) -> None:
        """Values were set: what is read next is asked for."""
        for (name, _), kept in self._kept.items():
            if name == template.name and kept.found is not None:
                kept.found.at = float("-inf")

    def _keep(self, template: TemplateView, filters: Sequence[ValueFilter]) -> _Kept:
        def is_taken(name: str) -> bool:
            # Folders of values come first.
            return of_name(name, template.fields, is_free=template.is_free) is not None

        key = (template.name, frozenset(filters))
        kept = self._kept.setdefault(key, _Kept(MatchNames(is_taken)))
        self._kept.move_to_end(key)
        while len(self._kept) > REMEMBERED:
            self._kept.popitem(last=False)
        return kept

    def _known(self, template: TemplateView, filters: Sequence[ValueFilter], age: float) -> Found | None:
        since = trio.current_time() - age
        own = self._kept.get((template.name, frozenset(filters)))
        if own is not None and own.found is not None and own.found.at >= since:
            return own.found
        whole = self._kept.get((template.name, frozenset()))
        if not filters or whole is None or whole.found is None or not whole.found.is_whole:
            return None
        if whole.found.at < since:
            return None
        rows = [one for one in whole.found.rows if _fits(one, filters)]
        kept = self._keep(template, filters)
        kept.found = self._named(kept, template, rows, True, whole.found.at)
        # What others are made of stays longest.
        self._kept[template.name, frozenset()] = whole
        self._kept.move_to_end((template.name, frozenset()))
        return kept.found

    def _named(
        self, kept: _Kept, template: TemplateView, rows: Sequence[MetadataRow], is_whole: bool, at: float
    ) -> Found:
        return Found(rows, is_whole, at, {kept.names.of(one.match): one.match for one in rows})


_AS_READ = "as it was read last: the service cannot be reached"


def _fits(row: MetadataRow, filters: Sequence[ValueFilter]) -> bool:
    return all(one.fits(row.values.get(one.field)) for one in filters)
