"""A request body that is sent no faster than its limit allows, as httpx takes it.

Loaded with the first upload, since the class is one of httpx's.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from cmsfs.client.transport import bandwidth
from cmsfs.client.transport.bandwidth import DirectionLimit
from cmsfs.client.transport.bodies import RequestBody


@dataclass(eq=False)
class ThrottledBody(httpx.AsyncByteStream):
    """The pieces of another body, each when it may go; without a limit, at once."""

    body: RequestBody
    line: DirectionLimit | None

    def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self.body)
        return pieces if self.line is None else bandwidth.pieces(pieces, self.line)

    async def aclose(self) -> None:
        await self.body.aclose()
