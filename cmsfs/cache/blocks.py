"""The block cache: file contents in blocks, keyed by SHA-1.

The vfs reads from it, hydrate writes downloaded blocks, and the journal adds locally written contents
(local_contents.py).  Because keys are content hashes, versions never mix and a rename costs nothing.

Rule: a complete content is only read once its bytes have matched its SHA-1.  The last blocks to land
count as missing until then, so a content that arrives in one piece is never read unverified.
"""

import errno
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import trio

from cmsfs import durability, errors, sqlite
from cmsfs.cache import (
    bitmap,
    block_writer,
    content_files,
    content_index,
    content_table,
    eviction,
    landing,
    local_contents,
    recovery,
)
from cmsfs.cache.pass_through import PassThrough
from cmsfs.replica.nodes import Content
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

BLOCK = bitmap.BLOCK

# Larger reads would block the loop for longer than a round trip to a thread takes.
LOOP_READ_BYTES = 1024 * 1024

EMPTY_SHA1 = content_files.sha1_of(b"")

# Blocks can be evicted between download and read; more than this many times in a row is a bug.
ATTEMPTS = 5


class Fetcher(Protocol):
    """Downloads blocks of a content; implemented by a layer above."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached; OSError or RemoteError if not."""


class BlockCache:
    """The cache of all contents on this disk.  Call `recover` first and `aclose` last."""

    def __init__(
        self,
        db: sqlite.Database,
        root: Path,
        dirty_root: Path,
        *,
        limit_bytes: int,
        keep_free_bytes: int,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self._db = db
        self._files = content_files.ContentFiles(root, dirty_root)
        self._contents = content_index.ContentIndex(db, self._files, now=clock)
        self._dirty = local_contents.LocalContents(db, self._contents, self._files)
        self._writer = block_writer.BlockWriter(self._contents, self._files)
        self._evictor = eviction.Evictor(
            db, self._contents, self._files, limit_bytes=limit_bytes, keep_free_bytes=keep_free_bytes
        )
        # Blocks in memory only, created when the disk first runs out of space.
        self._pass_through: PassThrough | None = None
        # `open` protects a content from eviction until `close`; opens are counted.
        self.open, self.close = self._contents.opened, self._contents.closed
        # The file of a verified content; None also if `complete_path` has to verify it first.
        self.checked_file = self._contents.checked_file
        # `flush` saves the rows; a crash loses track of blocks written since.
        self.flush = self._contents.flush
        self.reserved, self.trim = self._evictor.reserved, self._evictor.trim
        self.evict, self.pins_changed = self._evictor.evict, self._evictor.pins_changed
        # Local contents are added as dirty, and become evictable or are removed once marked clean.
        self.adopt_dirty, self.disown_dirty = self._dirty.adopt, self._dirty.disown
        self.settle_clean, self.drop_clean = self._dirty.settle, self._dirty.drop
        self.write_blocks, self.prepare = self._writer.write_blocks, self._writer.prepare
        self.landing = landing.Landings(self._writer, self._contents, self._files).begun
        # By SHA-1: how often, since the start, a content failed verification when it became complete.
        # Whoever read parts of it before the number grew may have read wrong bytes.
        self.doubts = self._writer.doubts

    # Queries

    def missing(
        self, sha1: str, size: int, first: int, last: int, *, readable: bool = False
    ) -> list[bitmap.Run]:
        """Return the runs of missing blocks in `first`..`last`, inclusive and clamped to the size.

        With `readable`, blocks that are in memory only do not count as missing.
        """
        content = self._contents.get(sha1, size)
        runs = bitmap.missing(content.bits, first, min(last, bitmap.blocks(content.size) - 1))
        return self._pass_through.without(sha1, runs) if readable and self._pass_through is not None else runs

    def pass_through(self, sha1: str, size: int, first: int, data: content_files.Bytes) -> None:
        """Like `write_blocks`, for blocks to read but not to cache: kept in memory for a while."""
        self._pass_through = self._pass_through or PassThrough()
        try:
            self._pass_through.put(sha1, size, first, data)
        except errors.IntegrityError:
            self._writer.doubts[sha1] += 1
            raise

    def can_pass_through(self, nbytes: int) -> bool:
        """Whether `nbytes` may be prefetched into memory only."""
        self._pass_through = self._pass_through or PassThrough()
        return self.is_short and self._pass_through.has_place(nbytes)

    @property
    def is_short(self) -> bool:
        """Whether the disk has less free space than must be kept free."""
        return self._evictor.is_short

    def place(self, sha1: str, *, dirty: bool) -> Path:
        """Return the path of a content's file, if it exists; `dirty`: it is not uploaded yet.

        For threads, which know everything else from its row.
        """
        return self._files.dirty(sha1) if dirty else self._files.cached(sha1)

    def is_complete(self, sha1: str) -> bool:
        """Whether every block is present; after a power cut they may still have to be verified."""
        if sha1 == EMPTY_SHA1:
            return True
        content = self._contents.find(sha1)
        return content is not None and content.complete

    def path(self, sha1: str) -> Path | None:
        """Return the file of a complete content that is dirty or verified.

        The caller must `open` the content, or open the file at once.
        """
        content = self._contents.find(sha1)
        usable = content is not None and content.complete and (content.verified or content.dirty)
        if content is not None and usable and content.file.path.exists():
            return content.file.path
        if sha1 != EMPTY_SHA1:
            return None
        place = self._files.cached(sha1)
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        place.touch(mode=0o600)
        return place

    async def complete_path(self, sha1: str) -> Path | None:
        """Like `path`, but verify the content first if necessary.

        Raises `DamagedContent` for a dirty content whose bytes are not what was written.
        """
        content = self._contents.find(sha1)
        if content is not None and not content.verified:
            try:
                await self.verify(sha1)
            except errors.IntegrityError as error:
                raise errors.DamagedContent(str(error)) from error
            except OSError as error:
                if content_files.is_damage(error):
                    raise errors.DamagedContent(str(error)) from error
                raise
        return self.path(sha1)

    def usage(self) -> int:
        """Return the size of all cached blocks, without those of dirty contents."""
        return self._contents.used

    # Reading

    async def read(
        self, content: Content, offset: int, length: int, fetcher: Fetcher | None = None
    ) -> bytes | bytearray:
        """Return up to `length` bytes at `offset`, fewer only at the end; `fetcher` downloads missing blocks.

        Raises `MissingBlocks` if blocks are missing and not fetched, whatever the fetcher raises, and OSError
        or `IntegrityError` if damaged bytes cannot be downloaded again because the content is dirty.  Data in
        the page cache is returned without a checkpoint.
        """
        fetched = 0
        while True:
            cached = self._contents.get(content.sha1, content.size)
            count = min(length, content.size - offset, cached.size - offset)
            if count <= 0:
                return b""
            if cached.complete and not cached.verified:
                await self._check(cached)
                continue
            first, last = offset // BLOCK, (offset + count - 1) // BLOCK
            if runs := bitmap.missing(cached.bits, first, last):
                if self._pass_through is not None and not self._pass_through.without(content.sha1, runs):
                    passing = await self._read_passing(cached, self._pass_through, offset, count)
                    if passing is not None:
                        return passing
                if fetcher is None or fetched == ATTEMPTS:
                    raise errors.MissingBlocks(content.sha1, runs[0][0], runs[-1][1])
                fetched += 1
                await fetcher.blocks(content, first, last)
                continue
            self._contents.touch(cached)
            try:
                data = await self._read(cached, offset, count)
            except OSError as error:
                self._damaged(cached, error)
            else:
                if not cached.dropped or cached.verified:
                    return data

    async def _read(self, content: content_index.CachedContent, offset: int, count: int) -> bytearray:
        # atomic: no await from the caller's check of the bitmap until the descriptor is borrowed.
        file = content.file
        fd = self._files.borrow(file, size=content.size, writable=not content.complete)
        try:
            if count <= LOOP_READ_BYTES and (data := content_files.read_now(fd, offset, count)) is not None:
                return data
            return await threads.run_sync(content_files.read, fd, offset, count)
        finally:
            self._files.give_back(file)

    async def _read_passing(
        self, content: content_index.CachedContent, passing: PassThrough, offset: int, count: int
    ) -> bytes | None:
        """Read blocks of which some are in memory only; None if one is evicted meanwhile."""
        parts: list[content_files.Bytes] = []
        end = offset + count
        for index in range(offset // BLOCK, (end - 1) // BLOCK + 1):
            start, stop = max(offset, index * BLOCK), min(end, (index + 1) * BLOCK)
            if bitmap.has(content.bits, index):
                parts.append(await self._read(content, start, stop - start))
                continue
            part = passing.get(content.sha1, index, start - index * BLOCK, stop - index * BLOCK)
            if part is None:
                return None
            parts.append(part)
        return b"".join(parts)

    def _damaged(self, content: content_index.CachedContent, error: OSError) -> None:
        """Drop a damaged content that can be downloaded again; raise any other error."""
        if not content_files.is_damage(error):
            raise error
        if content.dirty:
            raise OSError(errno.EIO, f"the local content {content.sha1} is damaged") from error
        if not content.dropped:
            log.info("the cached file of %s is corrupt (%s); downloading it again", content.sha1, error)
            self._contents.drop(content)

    # Checking

    async def verify(self, sha1: str) -> bool:
        """Verify a complete content if necessary; return whether it is complete and correct."""
        content = self._contents.find(sha1)
        while content is not None and content.complete and not content.verified:
            await self._check(content)
            content = self._contents.find(sha1)
        return content is not None and content.complete

    async def verify_all(self) -> None:
        """Verify all contents that are unverified since a power cut; background work."""
        last = ""
        while names := content_table.unverified(self._db, 100, after=last):
            for last in names:
                try:
                    await self.verify(last)
                except (errors.IntegrityError, OSError) as error:
                    log.error("content %s is corrupt and was never uploaded: %s", last, error)
        await self.flush()

    async def _check(self, content: content_index.CachedContent) -> None:
        """Hash the whole file once for all waiting tasks; the caller then re-examines the content."""
        if content.checking is not None:
            await content.checking.wait()
            return
        content.checking = trio.Event()
        try:
            actual = await self._hash(content)
        except OSError as error:
            self._damaged(content, error)
            return
        finally:
            content.checking.set()
            content.checking = None
        if content.dropped:
            return
        if actual == content.sha1:
            self._contents.found_right(content)
        elif content.dirty:
            raise errors.IntegrityError("a local content is damaged", expected=content.sha1, actual=actual)
        else:
            log.info("the cached file of %s is corrupt; downloading it again", content.sha1)
            self._contents.drop(content)

    async def _hash(self, content: content_index.CachedContent) -> str:
        file = content.file
        fd = self._files.borrow(file, size=content.size, writable=not content.complete)
        try:
            return await threads.run_sync(content_files.hash_open, fd)
        finally:
            self._files.give_back(file)

    @staticmethod
    async def hash_of(path: Path) -> str:
        """Return the SHA-1 of any file."""
        return await threads.run_sync(content_files.hash_file, path)

    async def room_for_pinned(self) -> int:
        """Return how many more bytes pinned contents may take up."""
        await self.flush()
        return await self._evictor.for_pinned()

    # Local contents (local_contents.py)

    async def hold(self, sha1: str, *, is_wanted: Callable[[sqlite.Connection, str], bool]) -> bool:
        """Make a complete content dirty, as one that the service does not have; return whether it is dirty.

        `is_wanted` is called inside the transaction that records this.  No effect on a dirty content.
        """
        if await self.complete_path(sha1) is None:
            return False
        return await self._dirty.hold(sha1, is_wanted)

    # Start and shutdown

    async def recover(
        self, bases: Mapping[str, int] = MappingProxyType({}), *, clean_shutdown: bool, same_boot: bool
    ) -> recovery.RecoveryReport:
        """Reconcile files and rows, before any other use of the cache; `bases`: SHA-1 and size of the base
        contents of drafts."""
        found, used = await recovery.recover(
            self._db, self._files, bases, distrust=not clean_shutdown and not same_boot
        )
        self._contents.used = used
        return found

    async def aclose(self) -> None:
        """Save all rows, fsync recently written blocks and close every file.

        Only after this may the shutdown be marked as clean: after a power cut, a bitmap must not contain
        blocks that were never written to disk.
        """
        try:
            await self.flush()
            paths = [
                path for sha1 in self._writer.written if (path := self._contents.file_of(sha1)) is not None
            ]
            await threads.run_sync(durability.sync_if_there, *paths)
        finally:
            self._files.close()
