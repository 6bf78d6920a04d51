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
    if hasattr(response, "_content"):
        await response.aclose()
        return
    if not response.is_success:
        limit = min(limit, SMALL_BYTES)
    pieces, have_ended = response.aiter_raw(), False
    data, came = bytearray(), 0
    try:
        match response.headers.get("content-encoding", "").strip().lower():
            case "" | "identity":
                inflate = None
            case "gzip" | "x-gzip":
                inflate = zlib.decompressobj(_GZIP)
            case other:
                raise errors.ProtocolError(
                    f"the answer is packed in a way that was not asked for: {other[:40]}"
                )
        began = trio.current_time()
        with trio.CancelScope(deadline=began + GRACE_SECONDS) as scope:
            async for piece in pieces:
                came += len(piece)
                scope.deadline = began + GRACE_SECONDS + came / LEAST_BYTES
                # One byte more than there may be shows that there is more.
                data += piece if inflate is None else inflate.decompress(piece, limit - len(data) + 1)
                if len(data) > limit:
                    raise errors.ProtocolError(f"the answer is larger than {limit} bytes")
            have_ended = True
        if scope.cancelled_caught:
            raise errors.RemoteTimeout(f"an answer comes too slowly: {came} bytes so far")
        response._content = bytes(data)
    except zlib.error as error:
        raise errors.ProtocolError(f"the answer cannot be unpacked: {error}") from None
    finally:
        if not have_ended:
            await discard(pieces)
        await response.aclose()


async def discard(pieces: AsyncIterator[bytes]) -> None:
    """Have done with the pieces of an answer, of which more may be to come.

    They come through a chain of async generators, httpx's and httpcore's.  Closing the outer one would leave
    the inner ones to the garbage collector; cancelling one more read ends them all, from the inside out.
    """
    with trio.CancelScope() as scope, contextlib.suppress(httpx.HTTPError, httpx.StreamError):
        scope.cancel()
        async for _ in pieces:
            pass
