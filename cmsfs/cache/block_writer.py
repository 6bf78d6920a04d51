"""Writes downloaded blocks into the cache file and verifies the SHA-1 when the last one has arrived.

Called by the fetcher, through `BlockCache.write_blocks`, for each piece of a download.

Rule: a block is written by one task at a time and never again once it is present, so that no late writer can
change verified bytes.  The bits of the last missing blocks are set only after the whole file has matched its
SHA-1; a content that arrives in one piece is therefore never read unverified.
"""

import contextlib
import functools
import logging
from collections import Counter, OrderedDict

import trio

from cmsfs import errors
from cmsfs.cache import bitmap, content_files, content_index, streaming_hash
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# Below this size a write or hash on the loop (30 µs) is faster than a round trip to a thread (85 µs).
THREAD_BYTES = 64 * 1024

# Rows are saved after this many bytes written or contents completed; after a crash that much is downloaded
# again.  With a transaction per small file, the transactions would dominate the time.
FLUSH_BYTES = 64 * 1024 * 1024
FLUSH_CONTENTS = 256

# After this time the kernel has written data back by itself (30 s, and 5 s for the journal).
SYNC_SECONDS = 60


class BlockWriter:
    """Writes blocks into the files of incomplete contents."""

    def __init__(self, known: content_index.ContentIndex, store: content_files.ContentFiles) -> None:
        self._contents = known
        self._files = store
        self._unsaved_bytes = 0
        self._unsaved_contents = 0
        # Contents with bytes that may not be on disk yet: SHA-1 to the time of the last write.
        self.written: OrderedDict[str, float] = OrderedDict()
        # By SHA-1: how often a content failed verification after parts of it had been readable.
        self.doubts: Counter[str] = Counter()

    async def write_blocks(self, sha1: str, size: int, first: int, data: content_files.Bytes) -> None:
        """Store downloaded whole blocks from `first` on; blocks that are already present are not changed.

        Raises `IntegrityError`, and drops the content, if it is complete now but does not match its SHA-1;
        OSError if the disk fails.  Cancelled: some of the blocks are not stored.
        """
        view = memoryview(data)
        last = first + bitmap.blocks(len(view)) - 1
        if last < first or last >= bitmap.blocks(size) or len(view) != bitmap.run_bytes(size, first, last):
            raise ValueError(f"blocks {first} to {last} of {size} bytes cannot have {len(view)}")
        index = first
        while index <= last:
            content = self._contents.get(sha1, size)
            # atomic: no await from reading the bitmap until the blocks are marked as being written.
            absent = bitmap.missing(content.bits, index, last)
            if not absent:
                break
            index, end = absent[0]
            if (other := content.writing.get(index)) is not None:
                await other.wait()
                continue
            # Stop before a block that another task is writing.
            end = min((other - 1 for other in content.writing if index < other <= end), default=end)
            start = (index - first) * bitmap.BLOCK
            piece = view[start : start + bitmap.run_bytes(size, index, end)]
            landed = trio.Event()
            marks = dict.fromkeys(range(index, end + 1), landed)
            content.writing |= marks
            try:
                await self._land(content, index, end, piece)
            finally:
                for marked in marks:
                    del content.writing[marked]
                landed.set()
            if content.dropped:
                continue  # the file was damaged, or a local content replaced it
            await self._save_now_and_then(len(piece), completed=content.complete)
            index = end + 1
        self._note_written(sha1)

    def prepare(self, sha1: str, size: int) -> None:
        """Create the file of a content of which nothing is present, while its first bytes are on the way:
        that takes longer than writing a small file.  Never fails."""
        content = self._contents.get(sha1, size)
        if content.bits is None or any(content.bits) or content.writing or content.file.fd >= 0:
            return
        if self._contents.is_disowned(sha1):
            return
        with contextlib.suppress(OSError):  # `write_blocks` meets it again
            self._files.borrow(content.file, size=size, writable=True, create=True)
            self._files.give_back(content.file)

    async def wrote(self, content: content_index.CachedContent, nbytes: int) -> None:
        """Account for `nbytes` that were written to the file and marked in the bitmap."""
        self._note_written(content.sha1)
        await self._save_now_and_then(nbytes, completed=content.complete)

    def _note_written(self, sha1: str) -> None:
        now = trio.current_time()
        self.written[sha1] = now
        self.written.move_to_end(sha1)
        while self.written[oldest := next(iter(self.written))] < now - SYNC_SECONDS:
            del self.written[oldest]

    async def _save_now_and_then(self, nbytes: int, *, completed: bool) -> None:
        self._unsaved_bytes += nbytes
        self._unsaved_contents += completed
        if self._unsaved_bytes >= FLUSH_BYTES or self._unsaved_contents >= FLUSH_CONTENTS:
            self._unsaved_bytes = self._unsaved_contents = 0
            await self._contents.flush()

    async def _land(
        self, content: content_index.CachedContent, first: int, last: int, data: memoryview
    ) -> None:
        file, single = content.file, len(data) == content.size
        if self._contents.is_disowned(content.sha1):
            # A process that is killed would leave the old row with the new file.
            await self._contents.flush()
            if content.dropped:
                return
        # A prepared file is as one with blocks: if it is damaged, another one is begun.
        nothing_here = content.bits is not None and not any(content.bits) and file.fd < 0
        try:
            fd = self._files.borrow(file, size=content.size, writable=True, create=nothing_here)
            try:
                if len(data) < THREAD_BYTES:
                    actual = content_files.write(fd, content.size, first * bitmap.BLOCK, data)
                else:
                    actual = await self._put_and_hash(content, fd, first, last, data)
                # atomic: no await from counting the absent blocks until these are marked.
                if content.dropped:
                    return
                if not single:
                    if not bitmap.lacks_only(content.bits, content.size, first, last):
                        self._contents.add_blocks(content, first, last)
                        return
                    actual = await threads.run_sync(hash_of(content).finish, fd, content.size)
            finally:
                self._files.give_back(file)
        except OSError as error:
            if nothing_here:
                raise
            self.damaged(content, error)
            return
        self._judge(content, first, last, actual)

    async def conclude(self, content: content_index.CachedContent, fd: int, first: int, last: int) -> None:
        """Verify the content after its last missing blocks were written, and then make them readable.

        Raises as `write_blocks`.
        """
        actual = await threads.run_sync(hash_of(content).finish, fd, content.size)
        self._judge(content, first, last, actual)

    def damaged(self, content: content_index.CachedContent, error: OSError) -> None:
        """Drop a content whose file is damaged.  Re-raises any other error."""
        if not content_files.is_damage(error):
            raise error
        if not content.dropped:
            log.info("the cached file of %s is corrupt (%s); downloading it again", content.sha1, error)
            self._contents.drop(content)

    def _judge(self, content: content_index.CachedContent, first: int, last: int, actual: str) -> None:
        if content.dropped:
            return
        if actual != content.sha1:
            self._contents.drop(content)
            if bitmap.run_bytes(content.size, first, last) != content.size:
                self.doubts[content.sha1] += 1
            raise errors.IntegrityError("a download is damaged", expected=content.sha1, actual=actual)
        self._contents.completed(content, first, last)

    @staticmethod
    async def _put_and_hash(
        content: content_index.CachedContent, fd: int, first: int, last: int, data: memoryview
    ) -> str:
        """Write in a thread, and hash some of what is present without a gap.  Returns the SHA-1 if `data` is
        the whole content."""
        write = functools.partial(content_files.write, fd, content.size, first * bitmap.BLOCK, data)
        if len(data) == content.size:
            return await threads.run_sync(write)
        hashed, bits = hash_of(content), content.bits

        def work() -> str:
            put = write()
            hashed.follow(fd, content.size, bits, first, last)
            return put

        return await threads.run_sync(work)


def hash_of(content: content_index.CachedContent) -> streaming_hash.StreamingHash:
    """Return the streaming hash of a content that arrives in parts."""
    content.growing = content.growing or streaming_hash.StreamingHash()
    return content.growing
