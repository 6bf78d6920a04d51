"""Iterates over paged collections, by offset or by marker.

The iterators are objects and not generators, so that a caller that stops early need not close them.

Rule: advance by what the response says, never by its number of entries: a page may be short, since items that
the caller may not see are filtered out after paging.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from cmsfs import errors
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Wire
from cmsfs.models import paging

T = TypeVar("T")


# A page may be empty since everything on it was filtered out; more than this many in a row are an error.
EMPTY_PAGES = 100


class OffsetPageLike(Protocol[T]):
    """A page of an offset-based response, such as `search.SearchResults`."""

    total_count: int
    limit: int
    offset: int
    entries: list[T]


class _Entries(Generic[T]):
    """Iterates over entries; fetches the next page when the previous one is used up."""

    def __init__(self) -> None:
        self._waiting: deque[T] = deque()
        self._more = True

    def __aiter__(self) -> AsyncIterator[T]:
        return self

    async def __anext__(self) -> T:
        while not self._waiting:
            if not self._more:
                raise StopAsyncIteration
            self._waiting.extend(await self._next_page())
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """Do nothing: no resource is open between pages; callers may close any iterator of entries."""

    @abstractmethod
    async def _next_page(self) -> Sequence[T]:
        """Return the next entries; clears `_more` after the last page."""


class ByOffset(_Entries[T]):
    """Pages from `offset` on, until the total is reached or a page is empty.

    Duplicates are skipped: while the collection changes, entries may move between pages.
    """

    def __init__(
        self,
        fetch: Callable[[int], Awaitable[OffsetPageLike[T]]],
        *,
        key: Callable[[T], object],
        offset: int = 0,
    ) -> None:
        super().__init__()
        self._fetch = fetch
        self._key = key
        self._offset = offset
        self._seen: set[object] = set()

    async def _next_page(self) -> Sequence[T]:
        page = await self._fetch(self._offset)
        self._offset += page.limit if page.limit > 0 else len(page.entries)
        self._more = bool(page.entries) and self._offset < page.total_count
        fresh = []
        for entry in page.entries:
            if (key := self._key(entry)) not in self._seen:
                self._seen.add(key)
                fresh.append(entry)
        return fresh


class ByMarker(_Entries[T]):
    """Pages until there is no next marker."""

    def __init__(self, fetch: Callable[[str | None], Awaitable[paging.MarkerPage[T]]]) -> None:
        super().__init__()
        self._fetch = fetch
        self._marker: str | None = None
        self._markers: set[str] = set()
        self._empty = 0

    async def _next_page(self) -> Sequence[T]:
        page = await self._fetch(self._marker)
        following = page.next_marker or None
        if following is not None:
            if following in self._markers:
                raise errors.ProtocolError("a page names one that came before as the next one")
            self._markers.add(following)
            self._empty = 0 if page.entries else self._empty + 1
            if self._empty > EMPTY_PAGES:
                raise errors.ProtocolError(f"{EMPTY_PAGES} pages in a row have no entries")
        self._marker = following
        self._more = following is not None
        return page.entries


def fields_param(fields: Sequence[str]) -> dict[str, str]:
    """Return the parameter `fields`: the mini form plus these fields; no fields leave the choice to the
    service."""
    return {"fields": ",".join(fields)} if fields else {}


def pages(
    wire: Wire, shape: type[paging.MarkerPage[T]], url: str, params: Mapping[str, str] | None = None
) -> ByMarker[T]:
    """Iterate over the marker-based collection at `url`."""

    async def fetch(marker: str | None) -> paging.MarkerPage[T]:
        given = dict(params or {}) | ({} if marker is None else {"marker": marker})
        return await wire.ask(shape, "GET", url, repeat=Repeat.READ, params=given)

    return ByMarker(fetch)
