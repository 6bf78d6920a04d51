"""Reads response bodies with limits on size and time.

What is counted is what comes out of the decompression, and it is counted while it comes: a small answer can
be the whole memory of a machine.  Only gzip is asked for, since how much comes out of it can be limited.

Rule: an endless, a huge or an endlessly slow answer is an error like any other.
"""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import AsyncIterator
from typing import Protocol

import trio

from cmsfs import errors
from cmsfs.client.transport.lazy import httpx

# The largest answers are pages: 1,000 entries with all their fields are some MiB.
PAGE_BYTES = 32 * 1024 * 1024
# Tokens, errors, and what comes along with a redirection.
SMALL_BYTES = 1024 * 1024

# A body may take so long, and a second more for so many bytes.
GRACE_SECONDS = 60.0
LEAST_BYTES = 2048


class RequestBody(Protocol):
    """The bytes of a request, as httpx takes them; iterated again where the request is sent again."""

    def __aiter__(self) -> AsyncIterator[bytes]: ...

    async def aclose(self) -> None: ...


_GZIP = 16 + zlib.MAX_WBITS


async def read(response: httpx.Response, *, limit: int = PAGE_BYTES) -> None:
    """Have `response.content`.  Raises `ProtocolError` for more than `limit`, `RemoteTimeout` for a crawl."""
    if not response.is_success:
        limit = min(limit, SMALL_BYTES)
    try:
        if not hasattr(response, "_content"):
            response._content = await _all(response, limit)
    finally:
        await response.aclose()


async def _all(response: httpx.Response, limit: int) -> bytes:
    unpacked = _Unpacked(response.headers.get("content-encoding", ""), limit)
    began, came = trio.current_time(), 0
    pieces = response.aiter_raw()
    try:
        with trio.CancelScope(deadline=began + GRACE_SECONDS) as scope:
            async for piece in pieces:
                came += len(piece)
                scope.deadline = began + GRACE_SECONDS + came / LEAST_BYTES
                unpacked.feed(piece)
    finally:
        await discard(pieces)
    if scope.cancelled_caught:
        raise errors.RemoteTimeout(f"an answer comes too slowly: {came} bytes so far")
    return bytes(unpacked.data)


async def discard(pieces: AsyncIterator[bytes]) -> None:
    """Have done with the pieces of an answer, of which more may be to come.

    They come through a chain of async generators, httpx's and httpcore's.  Closing the outer one would leave
    the inner ones to the garbage collector; cancelling one more read ends them all, from the inside out.
    """
    with trio.CancelScope() as scope, contextlib.suppress(httpx.HTTPError, httpx.StreamError):
        scope.cancel()
        async for _ in pieces:
            pass


class _Unpacked:
    def __init__(self, encoding: str, limit: int) -> None:
        self.data = bytearray()
        self._limit = limit
        self._inflate = None
        match encoding.strip().lower():
            case "gzip" | "x-gzip":
                self._inflate = zlib.decompressobj(_GZIP)
            case "" | "identity":
                pass
            case other:
                raise errors.ProtocolError(
                    f"the answer is packed in a way that was not asked for: {other[:40]}"
                )

    def feed(self, piece: bytes) -> None:
        if self._inflate is not None:
            try:
                piece = self._inflate.decompress(piece, self._limit - len(self.data) + 1)
            except zlib.error as error:
                raise errors.ProtocolError(f"the answer cannot be unpacked: {error}") from None
        self.data += piece
        if len(self.data) > self._limit:
            raise errors.ProtocolError(f"the answer is larger than {self._limit} bytes")
