"""Read-ahead: predicts from one handle's reads which blocks to download next.

One `ReadaheadWindow` per handle holds all state; the vfs calls `advance` with every read and passes the
result to the fetcher as background work.

Rule: the result never includes blocks of the read itself, which the reader requests on its own.
"""

from dataclasses import dataclass, field

from cmsfs.cache import bitmap

# The window starts at 1 MiB, so that reading only a file's head costs little more, and doubles up to the size
# with which a 40 ms link carries several hundred MB/s.
MIN_BLOCKS = 1024 * 1024 // bitmap.BLOCK
MAX_BLOCKS = 64 * 1024 * 1024 // bitmap.BLOCK

# The window is refilled when half of it is used: refilling block by block makes one request per MiB (176 MB/s
# measured over loopback), half windows make few (344-371 MB/s).
REFILL_AT = 0.5

# Reads within this distance are not seeks: the kernel splits and reorders the reads of one reader, and
# programs skip headers.
NEAR_BYTES = 1024 * 1024


@dataclass(slots=True)
class ReadaheadWindow:
    """The blocks requested ahead of one sequential reader."""

    max_blocks: int = MAX_BLOCKS
    blocks: int = field(default=0, init=False)  # window size; 0: no sequential reads yet
    _next: int = field(default=0, init=False)  # end of the furthest read in this sequence; 0: none yet
    _asked: int = field(default=0, init=False)  # the first block not requested

    def advance(self, offset: int, length: int, size: int) -> tuple[int, int] | None:
        """Record a read; return the first and last block to prefetch now, inclusive, or None."""
        end = min(offset + length, size)
        if end <= offset:
            return None
        ahead = max(self._next + NEAR_BYTES, self._asked * bitmap.BLOCK)
        if not self._next or not self._next - NEAR_BYTES <= offset <= ahead:
            # A seek: a new sequence starts.
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
