"""Writes downloaded blocks into the cache file and verifies the SHA-1 when the last one has arrived.

Called by the fetcher, through `BlockCache.write_blocks`, for each piece of a download.

Rule: a block is written by one task at a time and never again once it is here, so that no late writer
can change bytes that were checked.  The bits of the last blocks to land are set only after the whole file
matched; what comes in one piece is therefore never read unchecked.
"""

import functools
import logging
from collections import Counter, OrderedDict

import trio

from cmsfs import errors
from cmsfs.cache import bitmap, content_files, content_index, streaming_hash
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# Below this a write or a hash on the loop (30 µs) is quicker than the way to a thread and back (85 µs).
THREAD_BYTES = 64 * 1024

# Bytes written, and contents completed, before their rows are saved without being asked; a crash makes us
# fetch so many again.  A transaction for each of many small files would be what takes longest.
FLUSH_BYTES = 64 * 1024 * 1024
FLUSH_CONTENTS = 256

# The kernel has written data out by itself after so long (30 s, and 5 s for the journal).
SYNC_SECONDS = 60


class BlockWriter:
    """Writes blocks into the files of incomplete contents."""

    def __init__(self, known: content_index.ContentIndex, store: content_files.ContentFiles) -> None:
        self._contents = known
        self._files = store
        self._unsaved_bytes = 0
        self._unsaved_contents = 0
        # Of which bytes may not be on the disk yet, by SHA-1, and when the last came.
        self.written: OrderedDict[str, float] = OrderedDict()
        # By SHA-1: how often a content was found wrong of which parts had been readable.
        self.doubts: Counter[str] = Counter()

    async def write_blocks(self, sha1: str, size: int, first: int, data: content_files.Bytes) -> None:
        """Take in fetched blocks from `first` on, whole ones; those that are here already stay as they are.

        Raises `IntegrityError`, and forgets the content, if nothing is missing any more and the whole does
        not have the SHA-1 it should; OSError if the disk refuses.  Cancelled: some are not here.
        """
        view = memoryview(data)
        last = first + bitmap.blocks(len(view)) - 1
        if last < first or last >= bitmap.blocks(size) or len(view) != bitmap.run_bytes(size, first, last):
            raise ValueError(f"blocks {first} to {last} of {size} bytes cannot have {len(view)}")
        index = first
        while index <= last:
            content = self._contents.get(sha1, size)
            # atomic: no await from the look at the bitmap until the blocks are marked as being written.
            absent = bitmap.missing(content.bits, index, last)
            if not absent:
                break
            index, end = absent[0]
            if (other := content.writing.get(index)) is not None:
                await other.wait()
                continue
            # Up to where somebody else is writing.
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
                continue  # the file was found damaged, or a local one took its place
            await self._save_now_and_then(len(piece), completed=content.complete)
            index = end + 1
        self._note_written(sha1)

    async def wrote(self, content: content_index.CachedContent, nbytes: int) -> None:
        """So many bytes are in its file, and in its bitmap."""
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
        nothing_here = content.bits is not None and not any(content.bits)
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
        """These blocks, the last that were missing, are in the file: they can be read if the whole is right.

        Raises as `write_blocks`.
        """
        actual = await threads.run_sync(hash_of(content).finish, fd, content.size)
        self._judge(content, first, last, actual)

    def damaged(self, content: content_index.CachedContent, error: OSError) -> None:
        """What has been written is not there to be had: it is forgotten.  Raises what is something else."""
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
        """Write in a thread; and some of what is here without a gap is hashed.  The SHA-1 if the data are all
        of the content."""
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
    """The hash of a content that comes in parts, so far."""
    content.growing = content.growing or streaming_hash.StreamingHash()
    return content.growing
