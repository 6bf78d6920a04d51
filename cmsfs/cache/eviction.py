"""Cache eviction: how much to evict, and which contents are eligible.

The cache fills up to its limit and is then emptied to a low mark in one go, so that a long download does not
evict one content per block.  The disk's floor of free space (`keep_free`) has priority: contents that must
not be evicted may exceed the limit, but never the floor.

Space is reserved before a download starts and released as its blocks land, so that parallel downloads do not
count the same free space.  Contents written here and uploaded since are in the cache already: `trim` makes
room for them from time to time.

Rule: only clean, unpinned contents that are not the base of a draft are evicted, least recently used first.
Closed ones go first; if they are not enough, then open incomplete ones (their readers must be able to
download blocks anyway).  A single content evicted on request must be closed.
"""

import errno
import os
from dataclasses import dataclass
from typing import Self

import trio

from cmsfs import sqlite
from cmsfs.cache import content_files, content_index, content_table
from cmsfs.wakeup import LockGuard

# Frees 2 GiB of the default 20: enough for the next quarter of an hour of browsing.
LOW_MARK = 0.9

# Freed beyond the floor itself, so that the next block does not hit it again.
FLOOR_SPARE = 0.1

# The base content of a draft is downloaded when the draft starts, and kept, up to this size; a larger one is
# downloaded before the upload, through the cache if it has no room for all of it.
BASE_BYTES = 64 * 1024 * 1024

# Rows examined between checkpoints: evicting one takes about 40 µs of the loop.
PAGE = 32

# How long the sum of pinned bytes is cached: it needs a table scan (15 ms at 100,000 rows, in a thread).
PINNED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Goal:
    """Bytes to free: at least `needed`, and `wanted` if that evicts only closed contents."""

    needed: int
    wanted: int


def goal(*, used: int, limit: int, free: int, keep_free: int, nbytes: int) -> Goal | None:
    """Return what to free before `nbytes` are added, or None."""
    over_limit = used + nbytes - limit
    over_floor = keep_free + nbytes - free
    needed = max(over_limit, over_floor)
    if needed <= 0:
        return None
    to_low_mark = used + nbytes - int(limit * LOW_MARK)
    to_spare = over_floor + int(keep_free * FLOOR_SPARE)
    return Goal(needed, max(needed, to_low_mark if over_limit > 0 else 0, to_spare if over_floor > 0 else 0))


class Reservation:
    """Space for bytes being downloaded, reserved while the context is open.  Bytes written to the cache are
    counted there, so the writer subtracts them from `left`."""

    # Not a generator: there is one for each download, however small.
    __slots__ = ("_evictor", "_nbytes", "_pinned", "_spare", "left")

    def __init__(self, evictor: "Evictor", nbytes: int, *, spare: bool, pinned: bool) -> None:
        self._evictor = evictor
        self._nbytes = self.left = nbytes
        self._spare, self._pinned = spare, pinned

    async def __aenter__(self) -> Self:
        await self._evictor.reserve(self, self._nbytes, spare=self._spare, pinned=self._pinned)
        return self

    async def __aexit__(self, *raised: object) -> None:
        self._evictor.release(self, landed=self._nbytes - self.left, pinned=self._pinned)


class Evictor:
    """Keeps the cache below its limit and the disk above its floor."""

    def __init__(
        self,
        db: sqlite.Database,
        known: content_index.ContentIndex,
        store: content_files.ContentFiles,
        *,
        limit_bytes: int,
        keep_free_bytes: int,
    ) -> None:
        self._db = db
        self._contents = known
        self._files = store
        self._limit = limit_bytes
        self._keep_free = keep_free_bytes
        self._eviction_lock = trio.Lock()
        self._reservations: set[Reservation] = set()
        self._pinned = 0
        self._pinned_at = float("-inf")

    def reserved(self, nbytes: int, *, spare: bool = False, pinned: bool = False) -> Reservation:
        """Reserve `nbytes`, less what has landed, while the context is open; evict contents if necessary.

        Raises OSError with ENOSPC if the floor cannot be kept; with `spare`, for downloads that nobody waits
        for, also if the limit cannot.  Bytes of a `pinned` content do not count towards the limit.
        Cancelled: some contents may have been evicted.
        """
        return Reservation(self, nbytes, spare=spare, pinned=pinned)

    async def reserve(self, reservation: Reservation, nbytes: int, *, spare: bool, pinned: bool) -> None:
        # Held during an eviction: a concurrent task would evict the same amount again.
        async with LockGuard(self._eviction_lock):
            if (target := await self._goal(nbytes, pinned=pinned)) is not None:
                await self._make_room(target, nbytes, spare=spare and not pinned)
            # atomic: no await from the last check of the free space until the reservation is recorded.
            self._reservations.add(reservation)

    def release(self, reservation: Reservation, *, landed: int, pinned: bool) -> None:
        self._reservations.discard(reservation)
        if pinned:
            self._pinned += landed

    @property
    def is_short(self) -> bool:
        """Whether less space is free than must be kept free."""
        return self._free() < self._keep_free

    async def trim(self) -> None:
        """Bring the cache below its limit and the disk above its floor, as far as evicting closed contents
        allows: contents written here and uploaded since were added without a reservation."""
        async with self._eviction_lock:
            if (target := await self._goal(0, pinned=False)) is not None:
                await self._contents.flush()
                await self._evict_closed(target.wanted)
                await self._contents.flush()

    def evict(self, sha1: str) -> int | None:
        """Evict one content now; return the bytes freed, or None if it must stay.

        Its file is removed by the next flush.
        """
        # atomic: no await from reading the row until the content is dropped.
        row, content = content_table.find(self._db, sha1), self._contents.find(sha1)
        if content is None:
            return 0
        if self._contents.in_use(content) or (row is not None and (row.dirty or row.pinned)):
            return None
        if content_table.is_base(self._db, sha1):
            return None
        freed = content.cached_bytes
        self._contents.drop(content)
        return freed

    def pins_changed(self) -> None:
        """Discard the cached sum of pinned bytes."""
        self._pinned_at = float("-inf")

    async def for_pinned(self) -> int:
        """Return how many more bytes pinned contents may take up: the space free above the floor, and what
        could be evicted from the cache."""
        self._pinned = await self._db.query(content_table.pinned_bytes)
        free = self._free() - self._keep_free
        return max(free + max(self._contents.used - self._pinned, 0), 0)

    @property
    def _reserved(self) -> int:
        return sum(one.left for one in self._reservations)

    async def _make_room(self, target: Goal, nbytes: int, *, spare: bool) -> None:
        await self._contents.flush()  # brings the table's order of last use up to date
        left = target.wanted - await self._evict_closed(target.wanted)
        left -= target.wanted - target.needed
        if left > 0 and not spare:
            self._evict_partial(left)
        await self._contents.flush()  # removes the files
        if self._free() - nbytes < self._keep_free or (spare and left > 0):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._files.root))

    async def _goal(self, nbytes: int, *, pinned: bool) -> Goal | None:
        used = self._contents.used + self._reserved
        if pinned:
            used = -nbytes  # never over the limit; the floor is for all
        elif used + nbytes > self._limit:
            # Pinned contents were chosen one by one; they do not use up the space of the others.
            if trio.current_time() - self._pinned_at > PINNED_SECONDS:
                await self._contents.flush()
                self._pinned = await self._db.query(content_table.pinned_bytes)
                self._pinned_at = trio.current_time()
            used -= min(self._pinned, self._contents.used)
        return goal(used=used, limit=self._limit, free=self._free(), keep_free=self._keep_free, nbytes=nbytes)

    def _free(self) -> int:
        found = os.statvfs(self._files.root)
        # Reserved bytes will take up space but have not yet, because the files are sparse.
        return found.f_bavail * found.f_frsize - self._reserved

    async def _evict_closed(self, wanted: int) -> int:
        freed, after = 0, (0, "")
        while freed < wanted:
            # atomic: no await from reading a page of rows until its contents are dropped.
            page = content_table.evictable(self._db, PAGE, after=after)
            for row in page:
                content = self._contents.find(row.sha1)
                if content is not None and not self._contents.in_use(content):
                    freed += content.cached_bytes
                    self._contents.drop(content)
                if freed >= wanted:
                    break
            if len(page) < PAGE:
                break
            after = (page[-1].used_at, page[-1].sha1)
            await trio.lowlevel.checkpoint()
        return freed

    def _evict_partial(self, needed: int) -> None:
        """Drop open incomplete contents, so that a file larger than the cache can be read to its end."""
        freed = 0
        for content in self._contents.live():
            if freed >= needed:
                return
            if content.complete or content.dirty or content.busy or not content.cached_bytes:
                continue
            row = content_table.find(self._db, content.sha1)
            if content.size <= BASE_BYTES and content_table.is_base(self._db, content.sha1):
                continue
            if row is None or not (row.pinned or row.dirty):
                freed += content.cached_bytes
                self._contents.drop(content)
