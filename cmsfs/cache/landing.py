"""Fetched blocks on their way into a file, and the check when the last one lands.

Called by hydrate, through `Blocks.write_block`, for each block of a download.

Rule: a block is written by one task at a time and never again once it is here, so that no late writer
can change bytes that were checked.  The last block's bit is set only after the whole file matched.
"""

import logging

import trio

from cmsfs import errors
from cmsfs.cache import bitmap, contents, files

log = logging.getLogger(__name__)

# Below this a write or a hash on the loop (30 µs) is quicker than the way to a thread and back (85 µs).
THREAD_BYTES = 64 * 1024

# Blocks written before their bits are saved without being asked; a crash makes us fetch so many again.
FLUSH_BLOCKS = 64


class Landing:
    """Writes blocks into the files of incomplete contents."""

    def __init__(self, known: contents.Contents, store: files.Files) -> None:
        self._contents = known
        self._files = store
        self._unsaved = 0

    async def write_block(self, sha1: str, size: int, index: int, data: files.Bytes) -> None:
        """Take in one block; nothing happens if it is here already.

        Raises `IntegrityError`, and forgets the content, if this was the last block and the whole does
        not have the SHA-1 it should.  Cancelled: the block is not here.
        """
        while not bitmap.has((content := self._contents.get(sha1, size)).bits, index):
            if len(data) != bitmap.block_length(size, index):
                raise ValueError(f"block {index} of {size} bytes cannot have {len(data)}")
            # atomic: no await from the look at the bitmap until the block is marked as being written.
            if (other := content.writing.get(index)) is not None:
                await other.wait()
                continue
            content.writing[index] = trio.Event()
            try:
                await self._land(content, index, data)
            finally:
                content.writing.pop(index).set()
            if content.dropped:
                continue  # the file was found damaged, or a local one took its place
            self._unsaved += 1
            if content.complete or self._unsaved >= FLUSH_BLOCKS:
                self._unsaved = 0
                await self._contents.flush()

    async def _land(self, content: contents.Content, index: int, data: files.Bytes) -> None:
        file, single = content.file, content.size <= bitmap.BLOCK
        nothing_here = bitmap.absent(content.bits, content.size) == bitmap.blocks(content.size)
        try:
            fd = self._files.borrow(file, size=content.size, writable=True, create=nothing_here)
            try:
                if len(data) < THREAD_BYTES:
                    actual = _put(fd, content.size, index, data)
                else:
                    actual = await trio.to_thread.run_sync(_put, fd, content.size, index, data)
                # atomic: no await from counting the absent blocks until this one is marked.
                if content.dropped:
                    return
                if not single:
                    if bitmap.absent(content.bits, content.size) > 1:
                        self._contents.add_block(content, index)
                        return
                    actual = await trio.to_thread.run_sync(files.hash_open, fd)
            finally:
                self._files.give_back(file)
        except OSError as error:
            if nothing_here or not files.is_damage(error):
                raise
            log.info("the cached file of %s is damaged (%s); it is fetched again", content.sha1, error)
            self._contents.drop(content)
            return
        if content.dropped:
            return
        if actual != content.sha1:
            self._contents.drop(content)
            raise errors.IntegrityError("a download is damaged", expected=content.sha1, actual=actual)
        self._contents.completed(content, index)


def _put(fd: int, size: int, index: int, data: files.Bytes) -> str:
    """Write a block; the SHA-1 of the content if this block is all of it."""
    # A file cut by somebody would become whole again through this write, with zeros for blocks.
    files.check_size(fd, size)
    files.write(fd, index * bitmap.BLOCK, data)
    return files.sha1_of(data) if size <= bitmap.BLOCK else ""
