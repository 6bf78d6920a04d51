"""The wire of a client that is there before its service is: a request waits until the service is open.

A drive that starts answers programs from its replica while the service is opened beside it; what must ask
the service waits here, as for a slow answer.

Rule: nobody waits for a service that will not come (`give_up`).
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import trio

from cmsfs import errors
from cmsfs.client.transport.bodies import Body
from cmsfs.client.transport.lazy import httpx
from cmsfs.client.transport.retry import Repeat
from cmsfs.client.transport.wire import Counters, M, Wire


class LateWire(Wire):
    """Hands every request on to the wire that `become` brings."""

    def __init__(
        self,
    ) -> None:  # what its wire has, it has not, but for these
        self.counters = Counters()
        self.session = {}
        self._wire: Wire | None = None
        self._settled = trio.Event()

    def become(self, wire: Wire) -> None:
        """Let requests go, through this wire."""
        self.session = wire.session
        self._wire = wire
        self._settled.set()

    def give_up(self) -> None:
        """The service could not be opened, or is closed: who waits, or comes later, is told `Offline`."""
        self._wire = None
        self._settled.set()

    async def _opened(self) -> Wire:
        await self._settled.wait()
        if self._wire is None:
            raise errors.Offline("the service is not open")
        return self._wire

    async def ask(self, shape: type[M], method: str, url: str, **how: Any) -> M:
        return await (self._wire or await self._opened()).ask(shape, method, url, **how)

    async def ask_ready(self, shape: type[M], method: str, url: str, **how: Any) -> M | float:
        return await (self._wire or await self._opened()).ask_ready(shape, method, url, **how)

    async def tell(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> None:
        await (self._wire or await self._opened()).tell(method, url, headers=headers, body=body)

    async def token(self, shape: type[M], url: str, form: Mapping[str, str], *, repeat: Repeat) -> M:
        return await (self._wire or await self._opened()).token(shape, url, form, repeat=repeat)

    async def form(self, url: str, form: Mapping[str, str], *, repeat: Repeat) -> httpx.Response:
        return await (self._wire or await self._opened()).form(url, form, repeat=repeat)

    @contextlib.asynccontextmanager
    async def stream(self, url: str, **how: Any) -> AsyncIterator[tuple[httpx.Response, Body]]:
        async with (self._wire or await self._opened()).stream(url, **how) as found:
            yield found
