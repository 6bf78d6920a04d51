"""Read-ahead: predicts from one handle's reads which blocks to download next.

One `ReadaheadWindow` a handle, no state elsewhere and no disk; the vfs calls `advance` with every read and
hands the answer to the fetcher as background work.

Rule: the answer never holds blocks of the read itself, those are the reader's own demand.
"""

from dataclasses import dataclass, field

from cmsfs.cache import bitmap

# The window begins with one mebibyte, so that who reads a file's head costs little more, and doubles up to
# where a link of 40 ms carries several hundred MB/s.
MIN_BLOCKS = 1024 * 1024 // bitmap.BLOCK
MAX_BLOCKS = 64 * 1024 * 1024 // bitmap.BLOCK

# A window is refilled when half of it is used up: refilling block by block makes one request a MiB
# (176 MB/s measured over loopback), half windows make few (344-371 MB/s).
REFILL_AT = 0.5

# The kernel sends the reads of one reader in several requests and out of order, and programs skip
# headers: neither is a seek.
NEAR_BYTES = 1024 * 1024


@dataclass(slots=True)
class ReadaheadWindow:
    """What has been asked for ahead of one reader."""

    max_blocks: int = MAX_BLOCKS
    blocks: int = field(default=0, init=False)  # how far ahead blocks are wanted; 0: no sequence of reads yet
    _next: int = field(default=0, init=False)  # behind the furthest byte read in this sequence; 0: none yet
    _asked: int = field(default=0, init=False)  # the first block not asked for

    def advance(self, offset: int, length: int, size: int) -> tuple[int, int] | None:
        """Note a read; the first and last block to fetch now, inclusive, or None."""
        end = min(offset + length, size)
        if end <= offset:
            return None
        ahead = max(self._next + NEAR_BYTES, self._asked * bitmap.BLOCK)
        if not self._next or not self._next - NEAR_BYTES <= offset <= ahead:
            # Another sequence begins.
            self._next, self.blocks = end, 0
            self._asked = bitmap.blocks(end)
            return None
        self._next = max(self._next, end)
        here = bitmap.blocks(self._next)
        self._asked = max(self._asked, here)
        if self._asked - here > self.blocks * REFILL_AT:
            return None
        self.blocks = min(max(MIN_BLOCKS, self.blocks * 2), self.max_blocks)
        first, behind = self._asked, min(here + self.blocks, bitmap.blocks(size))
        if first >= behind:
            return None
        self._asked = behind
        return first, behind - 1
