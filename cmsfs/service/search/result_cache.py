"""Caches search results for their next pages.

Counting the matches and putting them in order costs the same for every page of a search, and far more than
the page itself.  So the first page keeps the count, the second the order of all that can be paged to, and
those behind it are cut out of that.

Rule: what was found counts until anything is written, by whatever process, and for MAX_AGE at most, since
shared links and collaborations end by themselves.
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

# The last match that any page may hold.
REACH = search.MAX_OFFSET + search.MAX_LIMIT

# Searches at a time; 80 KiB each at most.
MAX_SEARCHES = 64


@dataclass(slots=True)
class CachedSearch:
    """What is known of a search: its total, and the ids of its first matches in order."""

    at: float
    total: int | None = None
    ids: "array[int]" = field(default_factory=lambda: array("q"))

    def reaches(self, end: int) -> bool:
        """Whether every match up to here is known, as far as there are so many."""
        return self.total is not None and len(self.ids) >= min(end, self.total)


class ResultCache:
    """The searches of one process."""

    def __init__(self, opened: store.Store) -> None:
        self._store = opened
        self._found: OrderedDict[Hashable, CachedSearch] = OrderedDict()
        self._busy: dict[Hashable, trio.Event] = {}

    @asynccontextmanager
    async def turn(self, search: Hashable, end: int) -> AsyncIterator[CachedSearch]:
        """What is known of a search, for a page that ends there.

        If that is not enough it is the caller's turn to find out: others who want the same wait meanwhile.
        Cancelled or failed: the next of them has the turn.
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
        # atomic: no await between the look and the taking of the turn
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
