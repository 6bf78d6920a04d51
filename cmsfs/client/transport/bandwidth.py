"""Bandwidth limits per direction, shared by all transfers of a client.

The wire passes the bytes of downloads and uploads through `TransferLimits`; metadata is not counted.  The
limit is evaluated for every piece, so one that depends on the time of day takes effect in the middle of a
file.

Rule: pieces are small while there is a limit, so that all streams progress steadily and none runs into a
timeout.
"""

import math
from collections.abc import AsyncIterator, Callable

import trio

# Bytes a second; None: no limit.
Limit = Callable[[], float | None]

# With twenty streams at the slowest rate that can be set (32 kB/s) each gets one every ten seconds.
PIECE = 16 * 1024

# After an idle period, this many seconds' worth of bytes may go at once.
BURST_SECONDS = 1.0


class DirectionLimit:
    """The limit of one direction.  Construct inside the event loop."""

    def __init__(self, limit: Limit) -> None:
        self._limit = limit
        self._free_at = -math.inf  # when everything let through so far has been sent at the rate

    @property
    def is_limited(self) -> bool:
        return self._limit() is not None

    async def throttle(self, nbytes: int) -> None:
        """Wait until this many more bytes fit the rate, in the order of the callers.  Cancelled: they
        count."""
        rate = self._limit()
        if rate is None:
            self._free_at = -math.inf
            return
        now = trio.current_time()
        # atomic: no await between reading and advancing the schedule
        self._free_at = max(self._free_at, now - BURST_SECONDS) + nbytes / rate
        if self._free_at > now:
            await trio.sleep(self._free_at - now)


class TransferLimits:
    """The limits of both directions."""

    def __init__(self, *, up: Limit, down: Limit) -> None:
        self.up = DirectionLimit(up)
        self.down = DirectionLimit(down)


def pieces(body: AsyncIterator[bytes], line: DirectionLimit) -> AsyncIterator[bytes]:
    """Iterate over a body in pieces, each delayed to stay within the limit."""
    return _Pieces(body, line)


class _Pieces:
    """The throttled pieces of one body.  Not a generator, which would have to be closed if abandoned."""

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
        await self._line.throttle(len(piece))
        return piece
