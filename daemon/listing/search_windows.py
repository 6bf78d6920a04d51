"""Splits a search into time windows, so that results beyond the service's limit can be read.

A search returns its first ten thousand matches only.  A larger result is split into windows over one of its
times; items with the same time are split further by kind and size.  The pages of a window are fetched in
parallel.

Assumptions about the service: results are sorted by `modified_at` descending with a fixed order among equals,
and ranges include both ends.  A service that rounds the ends of a range returns items with that time in two
windows, which is harmless.  An item changed meanwhile moves to the front, which gives duplicates in a window;
an item that disappears can hide another one, which the totals reveal.

Rule: only `stable` and `whole` together allow the conclusion that an item does not exist.
"""

from collections.abc import Awaitable, Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, NamedTuple

import trio

from cmsfs.client.content.search import FIELDS, SearchApi
from cmsfs.models.content.entries import Entry, EntryPage
from cmsfs.models.content.search import MAX_LIMIT, MAX_OFFSET, Query, SizeRange, TimeRange
from daemon.core import concurrency
from daemon.core.health import Health

# Pages in flight: with a round-trip time of 40 ms, a few more than a service answers in that time.
PAGES_AT_ONCE = 12

# A window with this many matches can be read completely; with one more it might not: some services refuse the
# offset of 10,000.
MOST = MAX_OFFSET - 1

# Offset of the sample that determines where a large result is split: if items are created and changed in the
# same order, this gives a window that just fits.
_SAMPLE_AT = 9_000 // MAX_LIMIT * MAX_LIMIT

# Number of attempts for a window that changes.
ATTEMPTS = 3

_TICK = timedelta(microseconds=1)

Kind = Literal["folder", "file", "web_link"]
KINDS: tuple[Kind, ...] = ("folder", "file", "web_link")

Take = Callable[[Sequence[Entry]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Axis:
    """A time of items by which a search can be split."""

    parameter: Literal["created_at_range", "updated_at_range", "deleted_at_range"]
    attribute: Literal["created_at", "modified_at", "trashed_at"]

    def of(self, item: Entry) -> datetime | None:
        moment: datetime | None = getattr(item, self.attribute)
        return moment


CREATED = Axis("created_at_range", "created_at")  # never changes: windows over it are stable
UPDATED = Axis("updated_at_range", "modified_at")
DELETED = Axis("deleted_at_range", "trashed_at")


class SearchWindow(NamedTuple):
    """A part of a result: a time span, and for items with the same time a kind and sizes in bytes.

    Both ends are included; None means no limit, or any kind.
    """

    start: datetime | None = None
    end: datetime | None = None
    kind: Kind | None = None
    smallest: int | None = None
    largest: int | None = None


# Of everything, what is taken first.
FOLDERS = SearchWindow(kind="folder")


@dataclass(slots=True)
class EnumerationResult:
    """Summary of an enumeration: number of items, sum of reported totals, whether nothing changed, whether
    every match was reachable, and the latest of its times."""

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


class PreparedWindow(NamedTuple):
    """A window that was looked at: its first page, or the smaller windows to split it into, the last of them
    to be taken first, and those among them that are probably `large`, too."""

    first: EntryPage | None
    parts: Sequence[SearchWindow] = ()
    large: Sequence[SearchWindow] = ()


class Windows:
    """Enumerates a query along an axis, passing every page to `take`."""

    def __init__(
        self,
        search: SearchApi,
        health: Health,
        *,
        purpose: str,
        turn: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`turn` is awaited before each page is requested."""
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
        known: Callable[[SearchWindow, EntryPage], Awaitable[EnumerationResult | None]] | None = None,
    ) -> EnumerationResult:
        """Pass all matches to `take`, page by page, several pages concurrently; each item at least once.

        Windows in `within` are taken roughly in this order: while one is read, the next is prepared.  A
        window that changes is repeated, up to `attempts` times in all.  Of those that are probably `large`
        only the sample for the split is requested.  `known` gets each window with its first page, and may
        return a result for it, which ends it.  Raises `RemoteError`.  Cancelled or failed: some pages
        have been taken.
        """
        if len(within) == 1 and within[0] not in large:
            # A poll: nearly always one page, which needs no tasks.
            taken = await self.window(query, axis, within[0], take, attempts=attempts)
            if not isinstance(taken, PreparedWindow):
                return taken
            within, large = list(reversed(taken.parts)), taken.large
        found = EnumerationResult()
        turns = trio.CapacityLimiter(PAGES_AT_ONCE)
        next_window, windows = trio.open_memory_channel[tuple[SearchWindow, EntryPage]](0)

        async def plan() -> None:
            async with next_window:
                waiting = await self._prepared(query, axis, list(reversed(within)), large)
                while waiting:
                    window, ready = waiting.pop()
                    if ready.first is None:
                        waiting += await self._prepared(query, axis, ready.parts, ready.large)
                    else:
                        await next_window.send((window, ready.first))

        async def work() -> None:
            async for window, first in windows:
                if known is not None and (result := await known(window, first)) is not None:
                    found.add(result)
                    continue
                found.add(await self.taken(query, axis, window, first, take, attempts=attempts, turns=turns))

        # Two at a time: the last pages of one window do not use all request slots.
        jobs = (plan, work, work)
        await concurrency.for_each(jobs, lambda job: job(), tasks=len(jobs))
        return found

    async def _prepared(
        self, query: Query, axis: Axis, parts: Sequence[SearchWindow], large: Container[SearchWindow]
    ) -> list[tuple[SearchWindow, PreparedWindow]]:
        """Return these windows, looked at concurrently."""
        found: dict[SearchWindow, PreparedWindow] = {}

        async def one(window: SearchWindow) -> None:
            found[window] = await self.prepare(query, axis, window, is_large=window in large)

        await concurrency.for_each(parts, one, tasks=PAGES_AT_ONCE)
        return [(window, found[window]) for window in parts]

    async def prepare(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        *,
        first: EntryPage | None = None,
        is_large: bool = False,
    ) -> PreparedWindow:
        """Look at a window.  `first` is its first page, if known, which one that `is_large` need not have."""
        sample = None
        if first is None and is_large:
            sample = await self.page(query, axis, window, offset=_SAMPLE_AT)
            if sample.total_count > MOST and (parts := self._cut(axis, window, sample)):
                return parts
        if first is None:
            first = await self.page(query, axis, window)
        if first.total_count > MOST:
            sample = sample or await self.page(query, axis, window, offset=_SAMPLE_AT)
            if parts := self._cut(axis, window, sample, first.entries):
                return parts
        return PreparedWindow(first)

    async def window(
        self,
        query: Query,
        axis: Axis,
        window: SearchWindow,
        take: Take,
        *,
        attempts: int = 1,
        first: EntryPage | None = None,
    ) -> EnumerationResult | PreparedWindow:
        """Take one window, or return the smaller windows to split it into.  `first` is its first page, if
        known."""
        ready = await self.prepare(query, axis, window, first=first)
        if ready.first is None:
            return ready
        return await self.taken(query, axis, window, ready.first, take, attempts=attempts)

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
        nearly_done: Callable[[], None] = lambda: None,
    ) -> EnumerationResult:
        """Take one window whose first page is known, as far as it can be read.

        `turns` limits the requests of several windows together.  `nearly_done` is called each time when only
        the pages in flight are left.
        """
        turns = turns or trio.CapacityLimiter(PAGES_AT_ONCE)
        for left in range(attempts - 1, -1, -1):
            found = await self._taken(query, axis, window, first, take, turns, nearly_done)
            if found.stable or not left:
                break
            first = await self.page(query, axis, window)
        return found

    async def page(
        self, query: Query, axis: Axis, window: SearchWindow, *, offset: int = 0, limit: int = MAX_LIMIT
    ) -> EntryPage:
        """Return one page of a window."""
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
        nearly_done: Callable[[], None],
    ) -> EnumerationResult:
        """Read all pages of a window once; the service may return smaller pages than requested."""
        total = first.total_count
        # There may be matches after the last page that can be requested.
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
            # Processing here and at the service run in parallel.
            await taken(page)

        def offsets() -> Iterator[int]:
            step = first.limit or MAX_LIMIT
            yield from range(step, min(total, MAX_OFFSET), step)
            nearly_done()

        await taken(first)
        await concurrency.for_each(offsets(), one, tasks=PAGES_AT_ONCE)
        found.items = len(seen)
        return found

    def _cut(
        self, axis: Axis, window: SearchWindow, sample: EntryPage, others: Sequence[Entry] = ()
    ) -> PreparedWindow | None:
        """Split the window at its sample; None if all items of the sample, and the `others`, are alike."""
        entries = [*sample.entries, *others]
        start, end = window.start, window.end
        # A service that rounds may return items outside.
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
            older, newer = window._replace(end=middle), window._replace(start=middle + _TICK)
            # Most of what is before the sample is in the newer part.
            is_large = sample.total_count - _SAMPLE_AT - MAX_LIMIT > MOST
            return PreparedWindow(None, (older, newer), (older,) if is_large else ())
        if times and (start, end) != (times[0], times[0]):
            return PreparedWindow(None, _around(window, times[0]))
        if window.kind is None:
            return PreparedWindow(None, [window._replace(kind=kind) for kind in reversed(KINDS)])
        if window.kind != "file":
            return None
        sizes = sorted({item.size for item in entries if item.size is not None})
        if len(sizes) > 1:
            cut = sizes[(len(sizes) - 1) // 2]
            return PreparedWindow(None, (window._replace(largest=cut), window._replace(smallest=cut + 1)))
        if sizes and (window.smallest, window.largest) != (sizes[0], sizes[0]):
            return PreparedWindow(None, _around_size(window, sizes[0]))
        return None


def _around(window: SearchWindow, moment: datetime) -> list[SearchWindow]:
    """Split the window into a moment, the time before and the time after it."""
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
