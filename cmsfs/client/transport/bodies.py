"""The bodies of uploads and downloads, streamed piece by piece.

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

# A body may take this long, plus a second for every `wire.LEAST_BYTES` or `LEAST_DOWNLOAD_BYTES` received.
GRACE_SECONDS = 60.0

# The extension of a request that may bypass httpcore (`direct_transport`), and of a response whose pieces can
# be read without httpx, which processes each of them.
DIRECT = "cmsfs.direct"

# A slower download is useless to any program.
LEAST_DOWNLOAD_BYTES = 256


class RequestBody(Protocol):
    """The bytes of a request, as httpx takes them; iterated again when the request is retried."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


class Body:
    """The bytes of a response, as they arrive; must be closed."""

    def __init__(self, response: httpx.Response, line: bandwidth.DirectionLimit | None) -> None:
        self._response = response
        self._line = line
        self._is_direct = DIRECT in response.extensions
        # Raw: `aiter_bytes` re-chunks the pieces, which halves the rate (measured).
        self._pieces: AsyncIterator[bytes] = (
            aiter(response.extensions[DIRECT]) if self._is_direct else response.aiter_raw()
        )
        self._rest = b""  # of a piece, while there is a limit
        self._waited, self._received = 0.0, 0
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = self._rest
        if not piece:
            began = trio.current_time()
            with _translating_errors():
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
        await self._line.throttle(len(piece))
        return piece

    async def pour(self, sink: Sink) -> int:
        """Write the next bytes to `sink` in the thread that receives them, instead of iterating.  Returns how
        many; 0 if this body does not support it.  Raises as `__anext__`."""
        if not self._is_direct or self._rest or (self._line is not None and self._line.is_limited):
            return 0
        began = trio.current_time()
        with _translating_errors():
            count: int = await self._response.extensions[DIRECT].pour(sink)
        if count:
            self._note(count, began)
        return count

    def _note(self, count: int, began: float) -> None:
        """Count received bytes and the time waited for them; raise `RemoteTimeout` if they come too
        slowly."""
        self._waited += trio.current_time() - began
        self._received += count
        if self._waited > GRACE_SECONDS + self._received / LEAST_DOWNLOAD_BYTES:
            raise errors.RemoteTimeout(f"a download comes too slowly: {self._received} bytes so far")

    async def aclose(self) -> None:
        """Return the connection to the pool; close it if the body was not read to its end."""
        if not self._ended and not self._is_direct:
            await discard(self._pieces)
        await self._response.aclose()


@contextlib.contextmanager
def _translating_errors() -> Iterator[None]:
    """Translate exceptions of httpx to those of `cmsfs.errors`."""
    try:
        yield
    except StopAsyncIteration:
        raise
    except Exception as error:
        if (found := client_errors.from_httpx(error)) is None:
            raise
        raise found from error


async def discard(pieces: AsyncIterator[bytes]) -> None:
    """Abandon a response that was not read to its end.

    Its pieces come through a chain of async generators of httpx and httpcore.  Closing the outer one would
    leave the inner ones to the garbage collector; cancelling one more read closes them all, from the inside
    out.
    """
    with trio.CancelScope() as scope, contextlib.suppress(httpx.HTTPError, httpx.StreamError):
        scope.cancel()
        async for _ in pieces:
            pass
