"""A request body that is sent no faster than its limit allows, as httpx takes it.

Loaded with the first upload, since the class is one of httpx's.
"""

from collections.abc import AsyncIterator

import httpx

from cmsfs.client.transport.bandwidth import DirectionLimit, pieces
from cmsfs.client.transport.bodies import RequestBody


class ThrottledBody(httpx.AsyncByteStream):
    """The pieces of another body, each when it may go; without a limit, at once."""

    def __init__(self, body: RequestBody, line: DirectionLimit | None) -> None:
        self._body = body
        self._line = line

    def __aiter__(self) -> AsyncIterator[bytes]:
        body = aiter(self._body)
        return body if self._line is None else pieces(body, self._line)

    async def aclose(self) -> None:
        await self._body.aclose()
