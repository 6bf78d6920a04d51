"""Cache eviction: how much to evict, and which contents are eligible.

The cache fills up to its limit and is then emptied to a lower mark in one go, so that a long download
does not evict one content for each block.  What the rest of the machine needs (`keep_free`) comes
first: the limit gives way to contents that may not be evicted, the free space does not.

Room is reserved before a download begins and given back as its blocks land, so that downloads side by side
do not each find the same room free.  What was written here and uploaded is there already: for that, room is
made now and then.

Rule: evicted are clean, unpinned contents over which no draft lies, the longest unused first: closed ones;
and if these are not enough, open ones that are not complete (their reader must be able to fetch blocks
anyway).
Single ones, which a person wants gone, are evicted by the first half of that.
"""

import errno
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from cmsfs import sqlite
from cmsfs.cache import content_files, content_index, content_table

# 2 GiB of the default 20: room for the next quarter of an hour of browsing.
LOW_MARK = 0.9

# Beyond the floor itself, so that the next block does not hit it again.
FLOOR_SPARE = 0.1

# What lies under a draft is fetched when that begins, and kept from then on, up to this size; of more, when
# it is sent, through the cache if that has no room for all of it.
BASE_BYTES = 64 * 1024 * 1024

# Rows looked at in one go: evicting one takes some 40 µs of the loop.
PAGE = 32

# The figure of pinned bytes needs a walk of the table (15 ms at 100,000 rows, in a thread).
PINNED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Goal:
    """Bytes to free: `needed` at least, `wanted` if that costs only closed contents."""

    needed: int
    wanted: int


def goal(*, used: int, limit: int, free: int, keep_free: int, nbytes: int) -> Goal | None:
    """What to free before `nbytes` more come; None: nothing."""
    over_limit = used + nbytes - limit
    over_floor = keep_free + nbytes - free
    needed = max(over_limit, over_floor)
    if needed <= 0:
        return None
    to_low_mark = used + nbytes - int(limit * LOW_MARK)
    to_spare = over_floor + int(keep_free * FLOOR_SPARE)
    return Goal(needed, max(needed, to_low_mark if over_limit > 0 else 0, to_spare if over_floor > 0 else 0))


@dataclass(eq=False, slots=True)
class Reservation:
    """Room for bytes that are on their way; whoever has put some into the cache, where they count from then
    on, takes them off `left`."""

    left: int


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
        self._making = trio.Lock()
        self._reservations: set[Reservation] = set()
        self._pinned = 0
        self._pinned_at = float("-inf")

    @asynccontextmanager
    async def reserved(
        self, nbytes: int, *, spare: bool = False, pinned: bool = False
    ) -> AsyncIterator[Reservation]:
        """Room for `nbytes` while the block lasts, less what has landed; evicts for it.

        Raises OSError with ENOSPC if the floor cannot be kept; with `spare`, which is for what nobody
        waits for, also if the limit cannot.  What is for a `pinned` content is outside the limit.
        Cancelled: some contents may have been evicted.
        """
        # Held over an eviction: whoever comes meanwhile would evict the same amount once more.
        async with self._making:
            if (target := await self._goal(nbytes, pinned=pinned)) is not None:
                await self._make(target, nbytes, spare=spare and not pinned)
            # atomic: no await from the last look at what is free until the room is taken.
            reservation = Reservation(nbytes)
            self._reservations.add(reservation)
        try:
            yield reservation
        finally:
            self._reservations.discard(reservation)
            if pinned:
                self._pinned += nbytes - reservation.left

    @property
    def is_short(self) -> bool:
        """Whether less is free than is to be kept free."""
        return self._free() < self._keep_free

    async def trim(self) -> None:
        """Bring the cache back below its limit, and the disk above its floor, as far as closed contents can:
        what was made here and is at the service by now came without a reservation."""
        async with self._making:
            if (target := await self._goal(0, pinned=False)) is not None:
                await self._contents.flush()
                await self._evict_closed(target.wanted)
                await self._contents.flush()

    def evict(self, sha1: str) -> int | None:
        """Evict one content now; the bytes of it that were here, or None if it is to stay.

        Its file is removed by the next flush.
        """
        # atomic: no await from the look at the row until the content is dropped.
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
        """Other contents are pinned now."""
        self._pinned_at = float("-inf")

    async def for_pinned(self) -> int:
        """The bytes that pinned contents may still take up: what is free above the floor, and what of the
        cache could be evicted."""
        self._pinned = await self._db.query(content_table.pinned_bytes)
        free = self._free() - self._keep_free
        return max(free + max(self._contents.used - self._pinned, 0), 0)

    @property
    def _reserved(self) -> int:
        return sum(one.left for one in self._reservations)

    async def _make(self, target: Goal, nbytes: int, *, spare: bool) -> None:
        await self._contents.flush()  # the table's order is that of the last uses
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
            # Pinned contents were asked for one by one; they do not use up the room of the others.
            if trio.current_time() - self._pinned_at > PINNED_SECONDS:
                await self._contents.flush()
                self._pinned = await self._db.query(content_table.pinned_bytes)
                self._pinned_at = trio.current_time()
            used -= min(self._pinned, self._contents.used)
        return goal(used=used, limit=self._limit, free=self._free(), keep_free=self._keep_free, nbytes=nbytes)

    def _free(self) -> int:
        found = os.statvfs(self._files.root)
        # What is on its way will take its room; the files are sparse, so it has not yet.
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
        """Begin open contents anew: a file larger than the cache is still read to its end."""
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
