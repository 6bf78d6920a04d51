"""Splits a search into time windows, so that results beyond the service's limit can be read.

A search reaches its first ten thousand matches only.  A larger result is cut into windows over one of its
times; items of one moment are cut further by what they are and by their size.  The pages of a window are
fetched in parallel.

What is relied on at the service: results are sorted by `modified_at` descending with a fixed order among
equals, and ranges include both ends.  A service that rounds the ends of a range shows the items of one moment
in two windows, which does no harm.  An item changed meanwhile moves to the front, which gives duplicates in a
window; an item that leaves can hide another one, and shows in the totals.

Rule: `stable` and `whole` together are the only licence to conclude that something is not there.
"""

from collections.abc import Awaitable, Callable, Container, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import trio

from cmsfs.client.content.search import FIELDS, SearchApi
from cmsfs.models.content.entries import Entry, EntryPage
from cmsfs.models.content.search import MAX_LIMIT, MAX_OFFSET, Query, SizeRange, TimeRange
from daemon.core import concurrency
from daemon.core.health import Health

# Pages at a time: with a round trip of 40 ms, a few more than a service answers in that time.
PAGES_AT_ONCE = 12

# A window of this many matches is reached whole; the next one might not be: some services refuse the offset
# of 10,000.
MOST = MAX_OFFSET - 1

# Where a large result is looked at to find the time at which it is cut: with items made and changed in the
# same order, the cut gives a window that just fits.
_SAMPLE_AT = 9_000 // MAX_LIMIT * MAX_LIMIT

# A window in which things move is looked at again so often.
ATTEMPTS = 3

_TICK = timedelta(microseconds=1)

Kind = Literal["folder", "file", "web_link"]
KINDS: tuple[Kind, ...] = ("folder", "file", "web_link")

Take = Callable[[Sequence[Entry]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A time of items that a search can be cut by."""

    parameter: Literal["created_at_range", "updated_at_range", "deleted_at_range"]
    attribute: Literal["created_at", "modified_at", "trashed_at"]

    def of(self, item: Entry) -> datetime | None:
        moment: datetime | None = getattr(item, self.attribute)
        return moment


CREATED = Axis("created_at_range", "created_at")  # never changes: windows over it are stable
UPDATED = Axis("updated_at_range", "modified_at")
DELETED = Axis("deleted_at_range", "trashed_at")


class SearchWindow(NamedTuple):
    """A part of a result: a span of time, and for what is of one moment a kind and sizes in bytes.

    Both ends are included; None is no end, or any kind.
    """

    start: datetime | None = None
    end: datetime | None = None
    kind: Kind | None = None
    smallest: int | None = None
    largest: int | None = None


@dataclass(slots=True)
class EnumerationResult:
    """What an enumeration met: how many items, the sum of the totals told, whether nothing moved, whether
    every match could be reached, and the latest of its times."""

    items: int = 0
    total: int = 0
    stable: bool = True
    whole: bool = True
    latest: datetime | None = None

    def add(self, other: "EnumerationResult") -> None:
        self.items += other.items
        self.total += other.total
        self.stable = self.stable and other.stable
        self.whole = self.whole and other.whole
        if other.latest is not None and (self.latest is None or other.latest > self.latest):
            self.latest = other.latest


class Windows:
    """Enumerates a query along an axis, handing every page to `take`."""

    def __init__(
        self,
        search: SearchApi,
        health: Health,
        *,
        purpose: str,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`turn` is awaited before each page is asked for."""
        self._search = search
        self._health = health
        self._purpose = purpose
        self._turn = turn

    async def enumerate(
        self,
        query: Query,
        axis: Axis,
        take: Take,
        *,
        within: Sequence[SearchWindow] = (SearchWindow(),),
        attempts: int = 1,
        large: Container[SearchWindow] = (),
    ) -> EnumerationResult:
        """Hand all matches to `take`, page by page, several pages at once; each item at least once.

        `within` is taken in this order, by and large: while one window is taken, the next is made ready.  A
        window in which things moved is taken again, up to `attempts` times in all.  Of those that are most
        probably `large` it is asked at once where to cut them.  Raises `RemoteError`.  Cancelled, or failed:
        some pages have been taken.
        """
        if len(within) == 1 and within[0] not in large:
            # A poll: nearly always one page, for which no tasks are needed.
            taken = await self.window(query, axis, within[0], take, attempts=attempts)
            if isinstance(taken, EnumerationResult):
                return taken
            within = list(reversed(taken))
        found = EnumerationResult()
        turns = trio.CapacityLimiter(PAGES_AT_ONCE)
        ready, next_ready = trio.open_memory_channel[tuple[SearchWindow, EntryPage]](0)

        async def plan() -> None:
            async with ready:
                waiting = await self._begun(query, axis, list(reversed(within)), large)
                while waiting:
                    window, first, sample = waiting.pop()
                    parts: list[SearchWindow] = []
                    if first.total_count > MOST:
                        parts = await self._cut(query, axis, window, first, sample)
                    if parts:
                        waiting += await self._begun(query, axis, parts)
                    else:
                        await ready.send((window, first))

        async def work() -> None:
            async for window, first in next_ready:
                found.add(await self.taken(query, axis, window, first, take, attempts=attempts, turns=turns))

        # Two at a time: what is left of one window does not keep all turns busy.
        jobs = (plan, work, work)
        await concurrency.for_each(jobs, lambda job: job(), tasks=len(jobs))
        return found

    async def _begun(
        self, query: Query, axis: Axis, parts: Sequence[SearchWindow], large: Container[SearchWindow] = ()
    ) -> list[tuple[SearchWindow, EntryPage, EntryPage | None]]:
        """These windows with their first pages, and of large ones where to cut, all asked for at once."""
        found: dict[tuple[SearchWindow, int], EntryPage] = {}

        async def one(wanted: tuple[SearchWindow, int]) -> None:
            window, offset = wanted
            found[wanted] = await self.page(query, axis, window, offset=offset)

        wanted = [(window, 0) for window in parts]
        wanted += [(window, _SAMPLE_AT) for window in parts if window in large]
        await concurrency.for_each(wanted, one, tasks=PAGES_AT_ONCE)
        return [(window, found[window, 0], found.get((window, _SAMPLE_AT))) for window in parts]

    async def window(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        take: Take,
        *,
        attempts: int = 1,
        first: EntryPage | None = None,
    ) -> EnumerationResult | list[SearchWindow]:
        """Take one window; or the smaller ones that it has to be cut into, the last of them to be taken
        first.  `first` is its first page, if that is known already."""
        if first is None:
            first = await self.page(query, axis, window)
        if first.total_count > MOST and (parts := await self._cut(query, axis, window, first)):
            return parts
        return await self.taken(query, axis, window, first, take, attempts=attempts)

    async def taken(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        first: EntryPage,
        take: Take,
        *,
        attempts: int = 1,
        turns: trio.CapacityLimiter | None = None,
    ) -> EnumerationResult:
        """Take one window whose first page is known, as far as it can be reached."""
        turns = turns or trio.CapacityLimiter(PAGES_AT_ONCE)
        for left in range(attempts - 1, -1, -1):
            found = await self._taken(query, axis, window, first, take, turns)
            if found.stable or not left:
                break
            first = await self.page(query, axis, window)
        return found

    async def page(
        self, query: Query, axis: Axis, window: SearchWindow, *, offset: int = 0, limit: int = MAX_LIMIT
    ) -> EntryPage:
        """One page of a window."""
        changes: dict[str, object] = {"limit": limit, "offset": offset, "fields": list(FIELDS)}
        changes |= {"sort": "modified_at", "direction": "DESC"}
        if window.start is not None or window.end is not None:
            changes[axis.parameter] = TimeRange(start=window.start, end=window.end)
        if window.kind is not None:
            changes["type"] = window.kind
        if window.smallest is not None or window.largest is not None:
            changes["size_range"] = SizeRange(lower=window.smallest, upper=window.largest)
        if self._turn is not None:
            await self._turn()
        with self._health.request(self._purpose):
            return await self._search.listing(query.model_copy(update=changes))

    async def _taken(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        first: EntryPage,
        take: Take,
        turns: trio.CapacityLimiter,
    ) -> EnumerationResult:
        """One look at all pages of a window; the service may give fewer a page than it was asked for."""
        total = first.total_count
        # What lies behind the last page that can be had may exist all the same.
        found = EnumerationResult(total=total, whole=total <= MOST)
        seen: set[tuple[str, str]] = set()

        async def taken(page: EntryPage) -> None:
            keys = {(item.type, item.id) for item in page.entries}
            if page.total_count != total or len(keys) < len(page.entries) or seen & keys:
                found.stable = False
            seen.update(keys)
            for item in page.entries:
                moment = axis.of(item)
                if moment is not None and (found.latest is None or moment > found.latest):
                    found.latest = moment
            await take(page.entries)

        async def one(offset: int) -> None:
            async with turns:
                page = await self.page(query, axis, window, offset=offset)
            # What is taken here and what the service makes ready are not the same processor's work.
            await taken(page)

        await taken(first)
        step = first.limit or MAX_LIMIT
        end = min(total, MAX_OFFSET)
        await concurrency.for_each(range(step, end, step), one, tasks=PAGES_AT_ONCE)
        found.items = len(seen)
        return found

    async def _cut(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        first: EntryPage,
        sample: EntryPage | None = None,
    ) -> list[SearchWindow]:
        """Smaller windows that together are this one; none if everything looked at is alike."""
        sample = sample or await self.page(query, axis, window, offset=_SAMPLE_AT)
        entries = [*sample.entries, *first.entries]
        start, end = window.start, window.end
        # A service that rounds may show what is outside.
        times = sorted(
            {
                moment
                for item in entries
                if (moment := axis.of(item)) is not None
                and (start is None or start <= moment)
                and (end is None or moment <= end)
            }
        )
        if len(times) > 1:
            middle = times[(len(times) - 1) // 2]
            return [window._replace(end=middle), window._replace(start=middle + _TICK)]
        if times and (start, end) != (times[0], times[0]):
            return _around(window, times[0])
        if window.kind is None:
            return [window._replace(kind=kind) for kind in reversed(KINDS)]
        if window.kind != "file":
            return []
        sizes = sorted({item.size for item in entries if item.size is not None})
        if len(sizes) > 1:
            cut = sizes[(len(sizes) - 1) // 2]
            return [window._replace(largest=cut), window._replace(smallest=cut + 1)]
        if sizes and (window.smallest, window.largest) != (sizes[0], sizes[0]):
            return _around_size(window, sizes[0])
        return []


def _around(window: SearchWindow, moment: datetime) -> list[SearchWindow]:
    """The window cut into a moment, what is before it and what is after it."""
    parts = [window._replace(start=moment, end=moment)]
    if window.start is None or window.start < moment:
        parts.append(window._replace(end=moment - _TICK))
    if window.end is None or window.end > moment:
        parts.append(window._replace(start=moment + _TICK))
    return parts


def _around_size(window: SearchWindow, size: int) -> list[SearchWindow]:
    parts = [window._replace(smallest=size, largest=size)]
    if size and (window.smallest is None or window.smallest < size):
        parts.append(window._replace(largest=size - 1))
    if window.largest is None or window.largest > size:
        parts.append(window._replace(smallest=size + 1))
    return parts
