"""Frees disk space on request: evicts contents that can be downloaded again.

Evicted contents are downloaded again when they are read.  Contents that the service does not have stay, and
so do pinned ones, unless the same call unpins them, and open ones.

Rule: contents are evicted by `Evictor.evict` alone, which checks each content immediately before.
"""

import logging
from collections.abc import Iterator, Sequence
from sqlite3 import Connection

from cmsfs import errors
from cmsfs.cache import content_table
from cmsfs.cache.blocks import BlockCache
from cmsfs.ipc import control
from cmsfs.replica import evictable, pins, tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins

log = logging.getLogger(__name__)

# Contents evicted, or unmarked in one transaction, before other tasks run: about 50 µs each.
AT_ONCE = 100


class Eviction:
    """Frees disk space on request."""

    def __init__(self, db: Database, blocks: BlockCache, hydrator: Hydrator, keeper: Pins, hub: Hub) -> None:
        self._db = db
        self._blocks = blocks
        self._hydrator = hydrator
        self._keeper = keeper
        self._hub = hub

    async def free(self, ino: Ino, *, unpin: bool) -> control.Freed:
        """Evict the contents of an item and of everything below it; return what was freed and what stays.

        `unpin`: unpin these items first.  Raises `UserError` if the item itself is pinned otherwise.
        Cancelled: some contents are evicted, and items may be unpinned.
        """
        path, above = tree.path(self._db, ino), pins.holder(self._db, ino)
        if above is not None and above != ino:
            raise errors.UserError(f"{path} is pinned by {tree.path(self._db, above)}.")
        if above == ino and not unpin:
            raise errors.UserError(f"{path} is pinned; `cmsfs free --unpin` unpins it, too.")
        if unpin:
            await self._keeper.unpin_below(ino)
        # A pin round that started before must not mark contents afterwards.
        async with self._keeper.marking:
            await self._blocks.flush()
            found = await self._db.query(lambda conn: evictable.measure(conn, ino))
            for batch in _batches(found.marked):
                await self._db.write(lambda conn, batch=batch: _unmark(conn, batch))  # type: ignore[misc]
            self._blocks.pins_changed()
            freed = await self._drop(found)
        log.info("freed %d bytes of %d files", freed.bytes, freed.files)
        return freed

    async def _drop(self, found: evictable.Evictable) -> control.Freed:
        files = count = in_use = 0
        for batch in _batches(list(found.contents)):
            # What has just been uploaded may still be among the drafts.
            await self._settle(batch)
            gone = []
            coming = self._hydrator.coming()
            for sha1 in batch:
                dropped = None if sha1 in coming else self._blocks.evict(sha1)
                if dropped is None:
                    in_use += found.contents[sha1]
                elif dropped:
                    files += found.contents[sha1]
                    count += dropped
                    gone.append(sha1)
            # The kernel caches pages of them, of whichever file.
            self._hub.publish(
                Change(ChangeKind.CONTENT, ino, is_same=True)
                for sha1 in gone
                for ino in tree.nodes_with_content(self._db, sha1)
            )
            await self._blocks.flush()  # removes the files
        return control.Freed(
            files=files, bytes=count, unsent=found.unsent, pinned=found.pinned, in_use=in_use
        )

    async def _settle(self, batch: Sequence[str]) -> None:
        try:
            await self._blocks.settle_clean(*batch)
        except OSError as error:
            log.warning("uploaded files could not be moved to the cache, and are not freed: %s", error)


def _batches(sha1s: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(sha1s), AT_ONCE):
        yield sha1s[start : start + AT_ONCE]


def _unmark(conn: Connection, batch: Sequence[str]) -> None:
    for sha1 in batch:
        content_table.unpin(conn, sha1)
