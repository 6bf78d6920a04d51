"""Bandwidth limits per direction, shared by all transfers of a client.

The wire hands the bytes of downloads and of uploads through `TransferLimits`; metadata is not counted.  A
limit is asked for at every piece, so one that follows the time of day takes hold in the middle of a file.

Rule: pieces are small while there is a limit, so that every stream gets on all the time, and none looks dead
to whoever waits for a sign of life.
"""

import math
from collections.abc import AsyncIterator, Callable

import trio

# Bytes a second; None: no limit.
Limit = Callable[[], float | None]

# With twenty streams at the slowest rate that can be set (32 kB/s) each gets one every ten seconds.
PIECE = 16 * 1024

# So many seconds of the rate may go at once after a silence.
BURST_SECONDS = 1.0


class DirectionLimit:
    """The limit of one direction.  Construct inside the event loop."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._free_at = -math.inf  # when all that was let through so far has gone, at the rate

    @property
    def is_limited(self) -> bool:
        return self._limit() is not None

    async def passed(self, nbytes: int) -> None:
        """Wait until so many bytes may have gone, in the order of the callers.  Cancelled: they have."""
        rate = self._limit()
        if rate is None:
            self._free_at = -math.inf
            return
        now = trio.current_time()
        # atomic: no await between the look at the line and the place in it
        self._free_at = max(self._free_at, now - BURST_SECONDS) + nbytes / rate
        if self._free_at > now:
            await trio.sleep(self._free_at - now)


class TransferLimits:
    """The limits of both directions."""

    def __init__(self, *, up: Limit, down: Limit) -> None:
        self.up = DirectionLimit(up)
        self.down = DirectionLimit(down)


def pieces(body: AsyncIterator[bytes], line: DirectionLimit) -> AsyncIterator[bytes]:
    """The pieces of a body, each when it may go."""
    return _Pieces(body, line)


class _Pieces:
    """The pieces of one sending.  No generator: one that is left in the middle would have to be closed."""

    def __init__(self, pieces: AsyncIterator[bytes], line: DirectionLimit) -> None:
        self._pieces = pieces
        self._line = line
        self._rest = b""

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = self._rest or await anext(self._pieces)
        if not self._line.is_limited:
            self._rest = b""
            return piece
        piece, self._rest = piece[:PIECE], piece[PIECE:]
        await self._line.passed(len(piece))
        return piece
