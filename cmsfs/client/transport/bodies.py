"""The bodies of requests and of downloads, which go and come piece by piece.

Rule: an endlessly slow download is an error like any other.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Protocol

import trio

from cmsfs import errors
from cmsfs.client.transport import bandwidth
from cmsfs.client.transport import errors as client_errors
from cmsfs.client.transport.lazy import httpx

if TYPE_CHECKING:
    from cmsfs.client.transport.bulk_stream import Sink

# A body may take so long, and a second more for so many bytes (`wire.LEAST_BYTES`, or these).
GRACE_SECONDS = 60.0

# The extension of a request that may go past httpcore (`direct_transport`), and of a response whose pieces
# can be had past httpx, which looks at each of them.
DIRECT = "cmsfs.direct"

# Who sends less of a download sends nothing that a program could wait for.
LEAST_DOWNLOAD_BYTES = 256


class RequestBody(Protocol):
    """The bytes of a request, as httpx takes them; iterated again where the request is sent again."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Body:
    """The bytes of an answer, as the connection gives them; to be closed."""

    def __init__(self, response: httpx.Response, line: bandwidth.DirectionLimit | None) -> None:
        self._response = response
        self._line = line
        self._is_direct = DIRECT in response.extensions
        # Raw: `aiter_bytes` cuts pieces to size, which halves the rate (measured).
        self._pieces: AsyncIterator[bytes] = (
            aiter(response.extensions[DIRECT]) if self._is_direct else response.aiter_raw()
        )
        self._rest = b""  # of a piece, while there is a limit
        self._waited, self._came = 0.0, 0
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = self._rest
        if not piece:
            began = trio.current_time()
            with _as_ours():
                try:
                    piece = await anext(self._pieces)
                except StopAsyncIteration:
                    self._ended = True
                    raise
            self._note(len(piece), began)
        if self._line is None or not self._line.is_limited:
            self._rest = b""
            return piece
        piece, self._rest = piece[: bandwidth.PIECE], piece[bandwidth.PIECE :]
        await self._line.passed(len(piece))
        return piece

    async def pour(self, sink: Sink) -> int:
        """Have the next bytes taken by the thread that receives them, instead of by whoever iterates; how
        many, none where that cannot be.  Raises as `__anext__`."""
        if not self._is_direct or self._rest or (self._line is not None and self._line.is_limited):
            return 0
        began = trio.current_time()
        with _as_ours():
            count: int = await self._response.extensions[DIRECT].pour(sink)
        if count:
            self._note(count, began)
        return count

    def _note(self, count: int, began: float) -> None:
        """So many bytes have come that were waited for since."""
        self._waited += trio.current_time() - began
        self._came += count
        if self._waited > GRACE_SECONDS + self._came / LEAST_DOWNLOAD_BYTES:
            raise errors.RemoteTimeout(f"a download comes too slowly: {self._came} bytes so far")

    async def aclose(self) -> None:
        """Give back the connection; one with bytes still to come is closed."""
        if not self._ended and not self._is_direct:
            await discard(self._pieces)
        await self._response.aclose()


@contextlib.contextmanager
def _as_ours() -> Iterator[None]:
    """What httpx raises as an error of ours."""
    try:
        yield
    except StopAsyncIteration:
        raise
    except Exception as error:
        if (found := client_errors.from_httpx(error)) is None:
            raise
        raise found from error


async def discard(pieces: AsyncIterator[bytes]) -> None:
    """Have done with the pieces of an answer, of which more may be to come.

    They come through a chain of async generators, httpx's and httpcore's.  Closing the outer one would leave
    the inner ones to the garbage collector; cancelling one more read ends them all, from the inside out.
    """
    with trio.CancelScope() as scope, contextlib.suppress(httpx.HTTPError, httpx.StreamError):
        scope.cancel()
        async for _ in pieces:
            pass
