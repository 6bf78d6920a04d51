"""Caches search results for subsequent pages.

Counting and sorting the matches costs the same for every page of a search, and far more than the page itself.
So the first page caches the count, the second one the ids of all matches that can be paged to, and later
pages are slices of these.

Rule: an entry is valid until any process writes, and for MAX_AGE at most, because shared links and
collaborations expire without a write.
"""

from array import array
from collections import OrderedDict
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from cmsfs.models.content import search
from cmsfs.service.storage import store

MAX_AGE = 5.0  # seconds

# The number of matches that pages can reach.
REACH = search.MAX_OFFSET + search.MAX_LIMIT

# Cached searches; 80 KiB each at most.
MAX_SEARCHES = 64


@dataclass(slots=True)
class CachedSearch:
    """A cached search: its total, and the ids of its first matches in order."""

    at: float
    total: int | None = None
    ids: "array[int]" = field(default_factory=lambda: array("q"))

    def reaches(self, end: int) -> bool:
        """Whether all matches before `end` are known."""
        return self.total is not None and len(self.ids) >= min(end, self.total)


class ResultCache:
    """The cached searches of one process."""

    def __init__(self, opened: store.Store) -> None:
        self._store = opened
        self._found: OrderedDict[Hashable, CachedSearch] = OrderedDict()
        self._busy: dict[Hashable, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, search: Hashable, end: int) -> AsyncIterator[CachedSearch]:
        """The cached search, for a page that ends at `end`.

        If it does not reach that far, the caller completes it, and others with the same search wait
        meanwhile. Cancelled or failed: the next waiter does it.
        """
        key = (self._store.db.version(), search)
        while True:
            now = trio.current_time()
            found = self._found.get(key)
            if found is None or now - found.at > MAX_AGE:
                found = CachedSearch(now)
            if found.reaches(end):
                yield found
                return
            if key not in self._busy:
                break
            await self._busy[key].wait()
        # atomic: no await between the check and marking it busy
        done = self._busy[key] = trio.Event()
        try:
            yield found
        finally:
            del self._busy[key]
            done.set()
        self._found[key] = found
        self._found.move_to_end(key)
        if len(self._found) > MAX_SEARCHES:
            self._found.popitem(last=False)
