"""Computes the SHA-1 of a file while it is being filled.

A gibibyte takes most of a second to hash.  Done when the last block has landed, that second is waited for by
whoever reads the end of the file; done on the way, it is nobody's.

Rule: what is hashed is read back from the file, so the verdict is on the bytes that will be read.
"""

import errno
import hashlib
import os

import trio

CHUNK = 1024 * 1024


class StreamingHash:
    """How far a file has been hashed.  `turn` is held by whoever calls `take`, from a thread."""

    __slots__ = ("_sha1", "offset", "turn")

    def __init__(self) -> None:
        self._sha1 = hashlib.sha1(usedforsecurity=False)
        self.offset = 0
        self.turn = trio.Lock()

    def take(self, fd: int, end: int) -> None:
        """Hash up to `end`, all of which is in the file and stays as it is.  Raises OSError."""
        buffer = bytearray(min(CHUNK, max(0, end - self.offset)))
        view = memoryview(buffer)
        while self.offset < end:
            count = os.preadv(fd, [view[: end - self.offset]], self.offset)
            if count == 0:
                raise OSError(errno.EIO, "a content's file ends too early")
            self._sha1.update(view[:count])
            self.offset += count

    def finish(self, fd: int, size: int) -> str:
        """The SHA-1 of the whole file.  Raises OSError."""
        self.take(fd, size)
        return self._sha1.hexdigest()
