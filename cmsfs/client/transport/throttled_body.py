"""A request body that is throttled to its bandwidth limit, as an httpx stream.

Imported with the first upload, since the class inherits from httpx.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx

from cmsfs.client.transport import bandwidth
from cmsfs.client.transport.bandwidth import DirectionLimit
from cmsfs.client.transport.bodies import RequestBody


@dataclass(eq=False)
class ThrottledBody(httpx.AsyncByteStream):
    """Another body, throttled to the limit if there is one."""

    body: RequestBody
    line: DirectionLimit | None

    def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = aiter(self.body)
        return pieces if self.line is None else bandwidth.pieces(pieces, self.line)

    async def aclose(self) -> None:
        await self.body.aclose()
