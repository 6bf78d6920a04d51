"""Everything that a search matches, however much that is.

A search reaches its first 10,200 matches only.  A larger result is cut into windows over one of its times,
and a window that is still too large is cut again; the pages of a window are fetched in parallel.

What is relied on at the service: results are sorted by `modified_at` descending with a fixed order among
equals, and ranges include both ends.  An item changed meanwhile moves to the front, which gives duplicates
but hides nothing; an item that leaves the result can hide another one, and shows in the totals.

Rule: `stable` and `whole` together are the only licence to conclude that something is not there.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from cmsfs.client.search import FIELDS, Search
from cmsfs.models import items
from cmsfs.models.search import MAX_LIMIT, MAX_OFFSET, Query, Results, TimeRange
from daemon import parallel
from daemon.health import Health

# Pages at a time: the service's own limit of searches is met by few accounts with four.
PAGES_AT_ONCE = 4

# A window of this many matches is reached whole; the next multiple of a page would not be.
MOST = MAX_OFFSET - 1

# Where a large result is looked at to find the time at which it is cut: with items made and changed in the
# same order, the cut gives a window that just fits.
_SAMPLE_AT = 9_000 // MAX_LIMIT * MAX_LIMIT

_TICK = timedelta(microseconds=1)

Take = Callable[[Sequence[items.Item]], Awaitable[None]]
Range = tuple[datetime | None, datetime | None]


@dataclass(frozen=True, slots=True)
class Axis:
    """A time of items that a search can be cut by."""

    parameter: Literal["created_at_range", "updated_at_range", "deleted_at_range"]
    attribute: Literal["created_at", "modified_at", "trashed_at"]

    def of(self, item: items.Item) -> datetime | None:
        moment: datetime | None = getattr(item, self.attribute)
        return moment


CREATED = Axis("created_at_range", "created_at")  # never changes: windows over it are stable
UPDATED = Axis("updated_at_range", "modified_at")
DELETED = Axis("deleted_at_range", "trashed_at")


@dataclass(slots=True)
class Found:
    """What an enumeration met: how many items, the sum of the totals told, whether no total changed, whether
    every match could be reached, and the latest of its times."""

    items: int = 0
    total: int = 0
    stable: bool = True
    whole: bool = True
    latest: datetime | None = None


class Windows:
    """Enumerates a query along an axis, handing every page to `take`."""

    def __init__(self, search: Search, health: Health, *, purpose: str) -> None:
        self._search = search
        self._health = health
        self._purpose = purpose

    async def enumerate(self, query: Query, axis: Axis, take: Take, *, span: Range = (None, None)) -> Found:
        """Hand all matches to `take`, page by page, up to four pages at once; each item at least once.

        Raises `RemoteError`.  Cancelled, or failed: some pages have been taken.
        """
        found = Found()
        waiting = [span]
        seen: set[tuple[str, str]] = set()

        async def taken(page: Results, total: int) -> None:
            keys = {(item.type, item.id) for item in page.entries}
            if page.total_count != total or seen & keys:
                found.stable = False
            seen.update(keys)
            for item in page.entries:
                moment = axis.of(item)
                if moment is not None and (found.latest is None or moment > found.latest):
                    found.latest = moment
            await take(page.entries)

        while waiting:
            window = waiting.pop()
            first = await self.page(query, axis, window)
            if first.total_count > MOST and (parts := await self._cut(query, axis, window, first)):
                waiting += parts
                continue
            if first.total_count > MOST:
                # All of one moment: what lies behind the last page that can be had may exist all the same.
                found.whole = False
            found.total += first.total_count
            await taken(first, first.total_count)
            await self._rest(query, axis, window, first, taken)
        found.items = len(seen)
        return found

    async def page(self, query: Query, axis: Axis, window: Range, *, offset: int = 0) -> Results:
        """One page of a window."""
        changes: dict[str, object] = {"limit": MAX_LIMIT, "offset": offset, "fields": list(FIELDS)}
        changes |= {"sort": "modified_at", "direction": "DESC"}
        if window != (None, None):
            changes[axis.parameter] = TimeRange(start=window[0], end=window[1])
        with self._health.request(self._purpose):
            return await self._search.page(query.model_copy(update=changes))

    async def _rest(
        self,
        query: Query,
        axis: Axis,
        window: Range,
        first: Results,
        taken: Callable[[Results, int], Awaitable[None]],
    ) -> None:
        """The pages behind the first one; the service may give fewer a page than it was asked for."""
        step = first.limit or MAX_LIMIT
        end = min(first.total_count, MAX_OFFSET + 1)

        async def one(offset: int) -> None:
            await taken(await self.page(query, axis, window, offset=offset), first.total_count)

        await parallel.each(range(step, end, step), one, tasks=PAGES_AT_ONCE)

    async def _cut(self, query: Query, axis: Axis, window: Range, first: Results) -> list[Range]:
        """Smaller windows that together are this one; none if everything looked at has one time."""
        sample = await self.page(query, axis, window, offset=_SAMPLE_AT)
        entries = [*sample.entries, *first.entries]
        times = sorted({moment for item in entries if (moment := axis.of(item)) is not None})
        start, end = window
        if len(times) > 1:
            middle = times[(len(times) - 1) // 2]
            return [(start, middle), (middle + _TICK, end)]
        if not times or (start, end) == (times[0], times[0]):
            return []
        only = times[0]
        parts: list[Range] = [(only, only)]
        if start is None or start < only:
            parts.append((start, only - _TICK))
        if end is None or end > only:
            parts.append((only + _TICK, end))
        return parts
