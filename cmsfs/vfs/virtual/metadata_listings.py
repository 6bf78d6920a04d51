"""Lists the items that have metadata of a template, with their values; filters locally and caches listings.

The folders of `.by` (`metadata_folders`) use this; `MetadataPort` is the port to the service.

Rule: a complete listing of a template also serves requests for one of its values.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import trio

from cmsfs.models.content import metadata
from cmsfs.replica.nodes import Ino
from cmsfs.vfs.virtual.search_results import FRESH_SECONDS, LINK_SECONDS, MAX_MATCHES, Match, MatchNames
from cmsfs.vfs.virtual.value_names import ValueFilter, of_name

# Number of cached listings; one of 2,000 items takes a few megabytes.
REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class TemplateView:
    """A template as shown; `name` is the name of its folder, `is_free`: it accepts any field."""

    name: str
    scope: str
    key: str
    title: str
    fields: dict[str, metadata.Field]
    is_free: bool = False
    is_hidden: bool = False


@dataclass(frozen=True, slots=True)
class MetadataRow:
    """An item with its metadata values."""

    match: Match
    values: Mapping[str, Any]


class MetadataPort(Protocol):
    """Metadata at the service, and the items of the drive that have it."""

    async def templates(self) -> Sequence[TemplateView]:
        """Return all templates.  Raises `OSError`, `CmsfsError`."""

    async def items(
        self, template: TemplateView, filters: Sequence[ValueFilter], most: int
    ) -> tuple[Sequence[MetadataRow], bool]:
        """Return items of the drive that have a template's metadata, and whether these are all.

        Raises `OSError`, `CmsfsError`.
        """

    @property
    def is_offline(self) -> bool:
        """Whether requests cannot succeed now."""

    def find(self, parent: Ino, name: str) -> Ino:
        """Return an item of the drive.  Raises `OSError` (ENOENT)."""

    async def find_path(self, path: str) -> Ino:
        """Return the item at a path from the drive's root.  Raises `OSError`."""

    async def options(self, ino: Ino, template: TemplateView, field: str) -> list[str]:
        """Return the options that an item has in a field.  Raises `OSError`."""

    async def assign(self, ino: Ino, template: TemplateView, field: str, text: str) -> None:
        """Set a value as `setxattr` does.  Raises `OSError`."""


@dataclass(slots=True)
class Found:
    """Items at one time; `note`: why they may be outdated."""

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
    """A cache of the last listings."""

    def __init__(self, port: MetadataPort) -> None:
        self._port = port
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()

    def known(self, template: TemplateView, filters: Sequence[ValueFilter]) -> Found | None:
        """Return a cached listing of the last minutes, without a request."""
        return self._known(template, filters, LINK_SECONDS)

    async def read(self, template: TemplateView, filters: Sequence[ValueFilter]) -> Found:
        """Return the items, from the cache if fresh; the last listing while offline.  Raises as
        `MetadataPort.items`."""
        kept = self._keep(template, filters)
        async with kept.lock:
            if (found := self._known(template, filters, FRESH_SECONDS)) is not None:
                return found
            if self._port.is_offline and (found := self._known(template, filters, float("inf"))) is not None:
                return Found(found.rows, found.is_whole, found.at, found.by_name, _AS_READ)
            rows, is_whole = await self._port.items(template, filters, MAX_MATCHES)
            kept.found = self._named(kept, template, rows, is_whole, trio.current_time())
            return kept.found

    def forget(self, template: TemplateView) -> None:
        """Discard the listings of a template after values were set."""
        for (name, _), kept in self._kept.items():
            if name == template.name and kept.found is not None:
                kept.found.at = float("-inf")

    def _keep(self, template: TemplateView, filters: Sequence[ValueFilter]) -> _Kept:
        def is_taken(name: str) -> bool:
            # Folders of values have precedence.
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
        # The complete listing, from which others are filtered, stays longest.
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
