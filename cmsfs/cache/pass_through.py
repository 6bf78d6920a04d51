"""Reads without caching: keeps blocks in memory only, while the disk has no room for the cache.

A drive must be readable on a full disk.  Blocks downloaded then stay here until they are read or evicted by
others; they are never written to disk nor counted as cached.

Rule: never more than `MAX_BYTES`.  Blocks that arrive in order are hashed as they come, and the last one of a
content is returned only if the SHA-1 matches, provided that all blocks could be hashed.
"""

import hashlib
from collections import OrderedDict

from cmsfs import errors
from cmsfs.cache import bitmap

MAX_BYTES = 64 * 1024 * 1024

# Maximum number of contents hashed at a time.
FOLLOWED = 64


class _Followed:
    """The hash of a content up to a block."""

    def __init__(self) -> None:
        self.next = 0
        self.digest = hashlib.sha1(usedforsecurity=False)


class PassThrough:
    """The blocks in memory, by content and index."""

    def __init__(self, most: int = MAX_BYTES) -> None:
        self._most = most
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # in order of eviction
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self.used = 0

    def has_place(self, nbytes: int) -> bool:
        """Whether `nbytes` may be prefetched without evicting earlier blocks."""
        return self.used + nbytes <= self._most // 2

    def has(self, sha1: str, index: int) -> bool:
        return (sha1, index) in self._blocks

    def without(self, sha1: str, runs: list[bitmap.Run]) -> list[bitmap.Run]:
        """Return the runs without the blocks that are in memory."""
        if not self._blocks:
            return runs
        left: list[bitmap.Run] = []
        for first, last in runs:
            for index in range(first, last + 1):
                if self.has(sha1, index):
                    continue
                if left and left[-1][1] == index - 1:
                    left[-1] = (left[-1][0], index)
                else:
                    left.append((index, index))
        return left

    def get(self, sha1: str, index: int, start: int, end: int) -> bytes | None:
        """Return part of a block, or None; a block that was read to its end is evicted first."""
        block = self._blocks.get((sha1, index))
        if block is None:
            return None
        if end >= len(block):
            self._blocks.move_to_end((sha1, index), last=False)
        return block[start:end]

    def put(self, sha1: str, size: int, first: int, data: bytes | bytearray | memoryview) -> None:
        """Store whole blocks.

        Raises `IntegrityError`, and drops the content, if all of it has been hashed in order and it does not
        match its SHA-1.
        """
        view = memoryview(data)
        for number in range(bitmap.blocks(len(view))):
            block = bytes(view[number * bitmap.BLOCK : (number + 1) * bitmap.BLOCK])
            self._drop(sha1, first + number)
            self._blocks[sha1, first + number] = block
            self.used += len(block)
        if (actual := self._follow(sha1, size)) not in (None, sha1):
            self.forget(sha1)
            assert actual is not None
            raise errors.IntegrityError("a download is damaged", expected=sha1, actual=actual)
        while self.used > self._most:
            _, block = self._blocks.popitem(last=False)
            self.used -= len(block)

    def forget(self, sha1: str) -> None:
        """Drop all blocks of a content."""
        self._followed.pop(sha1, None)
        for key in [key for key in self._blocks if key[0] == sha1]:
            self._drop(*key)

    def _drop(self, sha1: str, index: int) -> None:
        if (block := self._blocks.pop((sha1, index), None)) is not None:
            self.used -= len(block)

    def _follow(self, sha1: str, size: int) -> str | None:
        """Hash the next blocks in order; return the SHA-1 once the content is complete."""
        if (followed := self._followed.get(sha1)) is None:
            followed = self._followed[sha1] = _Followed()
            while len(self._followed) > FOLLOWED:
                self._followed.popitem(last=False)
        while (block := self._blocks.get((sha1, followed.next))) is not None:
            followed.digest.update(block)
            followed.next += 1
        if followed.next < bitmap.blocks(size):
            return None
        del self._followed[sha1]
        return followed.digest.hexdigest()
