"""Windows of a search: whether what was seen is all there is, when things move meanwhile."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.models.content.entries import Entry, EntryPage
from cmsfs.models.content.search import MAX_LIMIT, MAX_OFFSET, Query
from daemon.core.health import Health
from daemon.listing import search_windows


class Moving:
    """A search over numbered items; `moved` is called before every page that it answers."""

    def __init__(self, count: int, moved: Any = None) -> None:
        self.ids = [str(number) for number in range(count)]
        self.pages = 0
        self._moved = moved or (lambda search: None)

    async def listing(self, query: Query) -> EntryPage:
        self._moved(self)
        self.pages += 1
        shown = self.ids[query.offset : query.offset + query.limit]
        entries = [Entry(type="file", id=number) for number in shown]
        return EntryPage(total_count=len(self.ids), limit=query.limit, offset=query.offset, entries=entries)


async def taken(
    search: Moving, *, attempts: int = search_windows.ATTEMPTS
) -> tuple[search_windows.EnumerationResult, set[str]]:
    met: set[str] = set()

    async def take(entries: Sequence[Entry]) -> None:
        met.update(entry.id for entry in entries)

    built = search_windows.Windows(search, Health(), purpose="listing")  # type: ignore[arg-type]
    return await built.enumerate(Query(query="x"), search_windows.CREATED, take, attempts=attempts), met


async def test_what_is_still_is_all_there_is() -> None:
    found, met = await taken(Moving(1000))
    assert (found.items, found.stable, found.whole) == (1000, True, True)
    assert len(met) == 1000


@pytest.mark.parametrize("at", [1, 3])
async def test_changed_item_marks_window_unstable(at: int) -> None:
    """It pushes the others back: one is met twice, and the total is the same throughout."""

    def moved(search: Moving) -> None:
        if search.pages == at:
            search.ids.insert(0, search.ids.pop())

    search = Moving(1000, moved)
    found, met = await taken(search, attempts=1)
    assert not found.stable
    # It is taken again, and is still then.
    search = Moving(1000, moved)
    found, met = await taken(search)
    assert (found.stable, len(met)) == (True, 1000)
    assert search.pages > 5


async def test_an_item_that_left_meanwhile_makes_it_restless() -> None:
    def moved(search: Moving) -> None:
        if search.pages == 2:
            del search.ids[0]

    found, _ = await taken(Moving(1000, moved), attempts=1)
    assert not found.stable


async def test_unstable_window_is_reported() -> None:
    found, _ = await taken(Moving(1000, lambda search: search.ids.insert(0, search.ids.pop())))
    assert not found.stable


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Far(Moving):
    """Items made a second apart, each page a second away; how many pages are under way at most."""

    at_once = most_at_once = 0

    async def listing(self, query: Query) -> EntryPage:
        self.pages += 1
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        await trio.sleep(1)
        self.at_once -= 1
        span = query.created_at_range
        first = math.ceil((span.start - EPOCH).total_seconds()) if span and span.start else 0
        last = math.floor((span.end - EPOCH).total_seconds()) if span and span.end else len(self.ids) - 1
        shown = range(last, first - 1, -1)
        assert query.offset < MAX_OFFSET
        entries = [
            Entry(type="file", id=str(number), created_at=at, modified_at=at)
            for number in shown[query.offset : query.offset + query.limit]
            for at in (EPOCH + timedelta(seconds=number),)
        ]
        return EntryPage(total_count=len(shown), limit=query.limit, offset=query.offset, entries=entries)


@pytest.mark.parametrize("large", [[], [search_windows.SearchWindow()]])
async def test_the_next_window_is_made_ready_meanwhile(
    large: list[search_windows.SearchWindow], autojump_clock: trio.testing.MockClock
) -> None:
    search, met = Far(25_000), set[str]()

    async def take(entries: Sequence[Entry]) -> None:
        met.update(entry.id for entry in entries)

    built = search_windows.Windows(search, Health(), purpose="listing")  # type: ignore[arg-type]
    began = trio.current_time()
    found = await built.enumerate(Query(query="x"), search_windows.CREATED, take, large=large)
    assert (found.items, found.stable, found.whole, len(met)) == (25_000, True, True, 25_000)
    # Pages that are only looked at to find out where to cut are few, and nobody waits for them but once.
    pages = 25_000 // MAX_LIMIT
    assert search.pages <= pages + 8
    assert trio.current_time() - began <= pages / search_windows.PAGES_AT_ONCE + (5 if large else 6)
    # The first pages of windows are beside the others.
    assert search.most_at_once <= search_windows.PAGES_AT_ONCE + 2


async def test_a_failure_comes_out_as_itself() -> None:
    def moved(search: Moving) -> None:
        if search.pages == 3:
            raise errors.Offline("no connection")

    with pytest.raises(errors.Offline):
        await taken(Moving(1000, moved))
