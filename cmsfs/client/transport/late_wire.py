"""A wire that exists before its service is open: requests wait until it is.

A starting drive answers programs from its replica while the service is opened in the background; operations
that need the service wait here, as for a slow response.

Rule: requests do not wait for a service that could not be opened (`give_up`).
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
from cmsfs.client.transport.wire import Counters, Download, M, Wire


class LateWire(Wire):
    """Forwards every request to the wire that `become` sets."""

    def __init__(
        self,
    ) -> None:  # no super(): the other state is in `_wire`
        self.counters = Counters()
        self.session = {}
        self._wire: Wire | None = None
        self._settled = trio.Event()

    def become(self, wire: Wire) -> None:
        """Forward waiting and later requests to this wire."""
        self.session = wire.session
        self._wire = wire
        self._settled.set()

    def give_up(self) -> None:
        """The service could not be opened, or is closed: waiting and later requests raise `Offline`."""
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

    def stream(self, url: str, **how: Any) -> Download:
        return self._later(url, how) if self._wire is None else self._wire.stream(url, **how)

    @contextlib.asynccontextmanager
    async def _later(self, url: str, how: dict[str, Any]) -> AsyncIterator[tuple[httpx.Response, Body]]:
        async with (await self._opened()).stream(url, **how) as found:
            yield found
