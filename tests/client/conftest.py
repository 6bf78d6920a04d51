"""A client on small applications: a test writes a handler and gets a client for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from cmsfs.client import session
from cmsfs.client.transport import embedded

Handler = Callable[[Request], Awaitable[Response]]
Connect = Callable[..., Awaitable[session.Client]]


def asgi(handler: Handler) -> ASGIApp:
    """Return an application that answers every request with the handler."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    return app


class Broken(httpx.AsyncBaseTransport):
    """A transport that raises the given exceptions, one per request, and then answers."""

    def __init__(self, *failures: Exception) -> None:
        self.requests = 0
        self._failures = list(failures)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        if self._failures:
            raise self._failures.pop(0)
        return httpx.Response(200, json={"id": "7", "type": "user"})


@pytest.fixture
def broken() -> type[Broken]:
    return Broken


@pytest.fixture
async def connect(nursery: trio.Nursery) -> AsyncIterator[Connect]:
    """`await connect(handler, ...)`: a client whose service is the handler; or one on a `transport`."""
    async with AsyncExitStack() as stack:

        async def make(
            handler: Handler | None = None,
            *,
            transport: httpx.AsyncBaseTransport | None = None,
            **options: Any,
        ) -> session.Client:
            transport = transport or embedded.EmbeddedTransport(asgi(handler), nursery)
            endpoints = session.ServiceEndpoints.of_server("http://service.test")
            opened = session.open_client(endpoints, transport=transport, **options)
            return await stack.enter_async_context(opened)

        yield make
