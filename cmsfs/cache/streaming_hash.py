"""Computes the SHA-1 of a file while it is being filled.

A gibibyte takes most of a second to hash.  Done when the last block has landed, that second is waited for by
whoever reads the end of the file; done on the way, it is nobody's.

Rule: what is hashed is read back from the file, so the verdict is on the bytes that will be read.
"""

import errno
import hashlib
import os
import threading

from cmsfs.cache import bitmap

CHUNK = 256 * 1024

# What one thread hashes before it goes on with its own work: where blocks come out of order, whoever brings
# what was missing catches up with what came before.
MOST_BYTES = 4 * 1024 * 1024


class StreamingHash:
    """How far a file has been hashed.  Used from threads, by one at a time."""

    __slots__ = ("_sha1", "_turn", "offset")

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self.offset = 0
        self._turn = threading.Lock()

    def follow(self, fd: int, size: int, bits: bytearray | None, first: int, last: int) -> None:
        """Hash some of what is here without a gap, unless somebody is at that already: blocks by `bits`,
        which are never taken back, and those from `first` to `last`.  Raises OSError."""
        if bits is None or not self._turn.acquire(blocking=False):
            return
        try:
            end = min(self.offset + MOST_BYTES, size)
            gaps = bitmap.missing(bits, self.offset // bitmap.BLOCK, bitmap.blocks(end) - 1)
            if gaps:
                gap = gaps[0][0]
                end = min(end, bitmap.BLOCK * (last + 1 if first <= gap <= last else gap))
            self._take(fd, end)
        finally:
            self._turn.release()

    def finish(self, fd: int, size: int) -> str:
        """The SHA-1 of the whole file, all of which is there.  Raises OSError."""
        with self._turn:
            self._take(fd, size)
            return self._sha1.hexdigest()

    def _take(self, fd: int, end: int) -> None:
        """Hash up to `end`, all of which is in the file and stays as it is."""
        buffer = bytearray(min(CHUNK, max(0, end - self.offset)))
        view = memoryview(buffer)
        while self.offset < end:
            count = os.preadv(fd, [view[: end - self.offset]], self.offset)
            if count == 0:
                raise OSError(errno.EIO, "a content's file ends too early")
            self._sha1.update(view[:count])
            self.offset += count
