"""The block cache: file contents in blocks, keyed by SHA-1.

The vfs reads here, hydrate writes what it fetched, the journal brings in what was written locally
(local_contents.py).  Keyed by content, versions never mix and a rename costs nothing.

Rule: a complete content is only read once its bytes have matched its SHA-1.  The last blocks to land
count as missing until then, so a content that comes in one piece is never read unchecked.
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

# Larger reads would hold up the loop for longer than a hop to a thread takes.
LOOP_READ_BYTES = 1024 * 1024

EMPTY_SHA1 = content_files.sha1_of(b"")

# Blocks can be evicted between their arrival and the read; more than this many times in a row is a bug.
ATTEMPTS = 5


class Fetcher(Protocol):
    """Downloads blocks of a content; implemented by a layer above."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached; OSError or RemoteError if not."""


class BlockCache:
    """Every content on this disk.  `recover` comes before all else, `aclose` last."""

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
        self._landing = block_writer.BlockWriter(self._contents, self._files)
        self._room = eviction.Evictor(
            db, self._contents, self._files, limit_bytes=limit_bytes, keep_free_bytes=keep_free_bytes
        )
        # What the disk has no room for; none until that comes to pass.
        self._passing: PassThrough | None = None
        # `open` keeps a content from eviction until `close`; opens count.
        self.open, self.close = self._contents.opened, self._contents.closed
        # The file of a content that was checked; None also where `complete_path` has to check it first.
        self.checked_file = self._contents.checked_file
        # `flush` brings the rows up to date: a crash loses the knowledge of blocks written since.
        self.flush = self._contents.flush
        self.reserved, self.trim = self._room.reserved, self._room.trim
        self.evict, self.pins_changed = self._room.evict, self._room.pins_changed
        # What was written here enters as dirty, becomes evictable when its row is marked clean, or goes.
        self.adopt_dirty, self.disown_dirty = self._dirty.adopt, self._dirty.disown
        self.settle_clean, self.drop_clean = self._dirty.settle, self._dirty.drop
        self.write_blocks = self._landing.write_blocks
        self.landing = landing.Landings(self._landing, self._contents, self._files).begun
        # How often, since the start, a content was found wrong when the last of it had come, by SHA-1:
        # whoever has read parts of it before that number grew may have read wrong bytes.
        self.doubts = self._landing.doubts

    # What is here

    def missing(
        self, sha1: str, size: int, first: int, last: int, *, readable: bool = False
    ) -> list[bitmap.Run]:
        """The runs of blocks in `first`..`last` that are not here, all inclusive; clamped to the size.

        With `readable`, what can be read at this moment without being here is none of them.
        """
        content = self._contents.get(sha1, size)
        runs = bitmap.missing(content.bits, first, min(last, bitmap.blocks(content.size) - 1))
        return self._passing.without(sha1, runs) if readable and self._passing is not None else runs

    def pass_through(self, sha1: str, size: int, first: int, data: content_files.Bytes) -> None:
        """As `write_blocks`, of what is to be read and not kept: in memory, until others need the place."""
        self._passing = self._passing or PassThrough()
        try:
            self._passing.put(sha1, size, first, data)
        except errors.IntegrityError:
            self._landing.doubts[sha1] += 1
            raise

    def may_pass(self, nbytes: int) -> bool:
        """Whether so much may be fetched ahead to pass through."""
        self._passing = self._passing or PassThrough()
        return self.is_short and self._passing.has_place(nbytes)

    @property
    def is_short(self) -> bool:
        """Whether the disk has less room than must be kept free."""
        return self._room.is_short

    def place(self, sha1: str, *, dirty: bool) -> Path:
        """Where the bytes of a content are if they are here; `dirty`: they are not at the service yet.

        For threads, which know the rest from its row.
        """
        return self._files.dirty(sha1) if dirty else self._files.cached(sha1)

    def is_complete(self, sha1: str) -> bool:
        """Whether every block is here; after a power cut they may still have to be checked."""
        if sha1 == EMPTY_SHA1:
            return True
        content = self._contents.find(sha1)
        return content is not None and content.complete

    def path(self, sha1: str) -> Path | None:
        """The file of a complete content: one that is dirty, or was checked against its SHA-1.

        Whoever reads the file opens the content, or opens the file at once.
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
        """As `path`, after checking a content that is here and was not checked yet.

        Raises `DamagedContent` for a dirty one that is not what was written.
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
        """The bytes of all cached blocks, without those of dirty contents."""
        return self._contents.used

    # Reading

    async def read(
        self, content: Content, offset: int, length: int, fetcher: Fetcher | None = None
    ) -> bytes | bytearray:
        """Up to `length` bytes at `offset`, fewer only at the end; `fetcher` brings what is not here.

        Raises `MissingBlocks` if nobody brings it, what the fetcher raises, and OSError or `IntegrityError`
        if bytes cannot be had again because the content is dirty.  What is in the page cache is answered
        without giving up the loop.
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
                if self._passing is not None and not self._passing.without(content.sha1, runs):
                    passing = await self._read_passing(cached, self._passing, offset, count)
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
        # atomic: no await from the caller's look at the bitmap to here; then the descriptor is ours.
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
        """Of blocks some of which are in memory only; None if one goes meanwhile."""
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
        """Drop what can be fetched again; anything else is the caller's to hear."""
        if not content_files.is_damage(error):
            raise error
        if content.dirty:
            raise OSError(errno.EIO, f"the local content {content.sha1} is damaged") from error
        if not content.dropped:
            log.info("the cached file of %s is corrupt (%s); downloading it again", content.sha1, error)
            self._contents.drop(content)

    # Checking

    async def verify(self, sha1: str) -> bool:
        """Check a complete content if that was not done; whether it is whole and right."""
        content = self._contents.find(sha1)
        while content is not None and content.complete and not content.verified:
            await self._check(content)
            content = self._contents.find(sha1)
        return content is not None and content.complete

    async def verify_all(self) -> None:
        """Check everything that was not checked since a power cut; background work."""
        last = ""
        while names := content_table.unverified(self._db, 100, after=last):
            for last in names:
                try:
                    await self.verify(last)
                except (errors.IntegrityError, OSError) as error:
                    log.error("content %s is corrupt and was never uploaded: %s", last, error)
        await self.flush()

    async def _check(self, content: content_index.CachedContent) -> None:
        """Hash the whole file once for all who wait; the caller looks again at what that gave."""
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
        """The SHA-1 of any file."""
        return await threads.run_sync(content_files.hash_file, path)

    async def room_for_pinned(self) -> int:
        """The bytes that pinned contents may still take up."""
        await self.flush()
        return await self._room.for_pinned()

    # Local contents (local_contents.py)

    async def hold(self, sha1: str, *, is_wanted: Callable[[sqlite.Connection, str], bool]) -> bool:
        """Keep a complete content as one that the service does not have; whether it is kept.

        `is_wanted` is asked inside the transaction that says so.  Does nothing to one that is dirty already.
        """
        if await self.complete_path(sha1) is None:
            return False
        return await self._dirty.hold(sha1, is_wanted)

    # Beginning and end

    async def recover(
        self, bases: Mapping[str, int] = MappingProxyType({}), *, clean_shutdown: bool, same_boot: bool
    ) -> recovery.RecoveryReport:
        """Make files and rows agree, before anything else is asked of the cache; `bases`: the SHA-1 and size
        of contents that lie under drafts."""
        found, used = await recovery.recover(
            self._db, self._files, bases, distrust=not clean_shutdown and not same_boot
        )
        self._contents.used = used
        return found

    async def aclose(self) -> None:
        """Save what is known, bring fresh blocks to the disk and close every file.

        Only after this may the shutdown be marked as clean: a power cut right behind it must not find
        bitmaps of blocks that were never written out.
        """
        try:
            await self.flush()
            paths = [
                path for sha1 in self._landing.written if (path := self._contents.file_of(sha1)) is not None
            ]
            await threads.run_sync(durability.sync_if_there, *paths)
        finally:
            self._files.close()
