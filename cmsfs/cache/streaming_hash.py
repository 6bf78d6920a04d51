"""Computes the SHA-1 of a file while it is being downloaded.

Hashing a gibibyte takes most of a second.  If it were done after the last block, the reader of the end of the
file would wait for it; done during the download, nobody waits.

Rule: the bytes are read back from the file, so what is verified is what will be read.
"""

import errno
import hashlib
import os
import threading

from cmsfs.cache import bitmap

CHUNK = 256 * 1024

# The most one call hashes before the thread continues its own work: when blocks arrive out of order, the
# thread that fills a gap also hashes what came after it.
MAX_BYTES_PER_CALL = 4 * 1024 * 1024


class StreamingHash:
    """The SHA-1 of a file's first `offset` bytes.  Used from threads, one at a time."""

    __slots__ = ("_sha1", "_turn", "offset")

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self.offset = 0
        self._turn = threading.Lock()

    def follow(self, fd: int, size: int, bits: bytearray | None, first: int, last: int) -> None:
        """Hash some of what is present without a gap, unless another thread is doing so: the blocks of
        `bits`, which are never unset, and those from `first` to `last`.  Raises OSError."""
        if bits is None or not self._turn.acquire(blocking=False):
            return
        try:
            end = min(self.offset + MAX_BYTES_PER_CALL, size)
            gaps = bitmap.missing(bits, self.offset // bitmap.BLOCK, bitmap.blocks(end) - 1)
            if gaps:
                gap = gaps[0][0]
                end = min(end, bitmap.BLOCK * (last + 1 if first <= gap <= last else gap))
            self._take(fd, end)
        finally:
            self._turn.release()

    def finish(self, fd: int, size: int) -> str:
        """Return the SHA-1 of the whole file, which must be complete.  Raises OSError."""
        with self._turn:
            self._take(fd, size)
            return self._sha1.hexdigest()

    def _take(self, fd: int, end: int) -> None:
        """Hash up to `end`; the file has all these bytes and they do not change."""
        buffer = bytearray(min(CHUNK, max(0, end - self.offset)))
        view = memoryview(buffer)
        while self.offset < end:
            count = os.preadv(fd, [view[: end - self.offset]], self.offset)
            if count == 0:
                raise OSError(errno.EIO, "a content's file ends too early")
            self._sha1.update(view[:count])
            self.offset += count
