"""Reads without caching: blocks in memory only, while the disk has no room for the cache.

A drive must be readable on a full disk.  What is fetched then stays here until it is read, or until others
need the place; nothing of it is ever written to the disk, nor counted as being here.

Rule: never more than `MOST_BYTES`.  Blocks that come in order are hashed as they come, and the last of a
content is given out only if the whole has the right SHA-1, as far as that could be followed.
"""

import hashlib
from collections import OrderedDict

from cmsfs import errors
from cmsfs.cache import bitmap

MOST_BYTES = 64 * 1024 * 1024

# Contents whose hash is followed.
FOLLOWED = 64


class _Followed:
    """The hash of a content up to a block."""

    def __init__(self) -> None:
        self.next = 0
        self.digest = hashlib.sha1(usedforsecurity=False)


class PassThrough:
    """The blocks in memory, by content and index."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._blocks: OrderedDict[tuple[str, int], bytes] = OrderedDict()  # the first to go first
        self._followed: OrderedDict[str, _Followed] = OrderedDict()
        self.used = 0

    def has_place(self, nbytes: int) -> bool:
        """Whether so much may be fetched ahead without driving out what was."""
        return self.used + nbytes <= self._most // 2

    def has(self, sha1: str, index: int) -> bool:
        return (sha1, index) in self._blocks

    def without(self, sha1: str, runs: list[bitmap.Run]) -> list[bitmap.Run]:
        """Runs of blocks less those that are here."""
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
        """A part of a block, None if it is not here; once its end was read it is the first to go."""
        block = self._blocks.get((sha1, index))
        if block is None:
            return None
        if end >= len(block):
            self._blocks.move_to_end((sha1, index), last=False)
        return block[start:end]

    def put(self, sha1: str, size: int, first: int, data: bytes | bytearray | memoryview) -> None:
        """Take in whole blocks.

        Raises `IntegrityError`, and forgets the content, if they are the last of one that was followed from
        its beginning and that does not have its SHA-1.
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
        """Give up all blocks of a content."""
        self._followed.pop(sha1, None)
        for key in [key for key in self._blocks if key[0] == sha1]:
            self._drop(*key)

    def _drop(self, sha1: str, index: int) -> None:
        if (block := self._blocks.pop((sha1, index), None)) is not None:
            self.used -= len(block)

    def _follow(self, sha1: str, size: int) -> str | None:
        """Hash what has come in order; the SHA-1 if that is all."""
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
