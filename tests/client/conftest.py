"""A client on small applications: a test writes a handler and gets the client that speaks to it."""

from contextlib import AsyncExitStack

import httpx
import pytest
from starlette.requests import Request

from cmsfs.client import session
from cmsfs.client.transport import embedded


def asgi(handler):
    """The application that answers every request with the handler."""

    async def app(scope, receive, send):
        response = await handler(Request(scope, receive))
        await response(scope, receive, send)

    return app


class Broken(httpx.AsyncBaseTransport):
    """A network that raises the given exceptions, one a request, and then answers."""

    def __init__(self, *failures):
        self.requests = 0
        self._failures = list(failures)

    async def handle_async_request(self, request):
        self.requests += 1
        if self._failures:
            raise self._failures.pop(0)
        return httpx.Response(200, json={"id": "7", "type": "user"})


@pytest.fixture
def broken():
    return Broken


@pytest.fixture
async def connect(nursery):
    """`await connect(handler, ...)`: a client whose service is the handler; or one on a `transport`."""
    async with AsyncExitStack() as stack:

        async def make(handler=None, *, transport=None, **options):
            transport = transport or embedded.EmbeddedTransport(asgi(handler), nursery)
            endpoints = session.ServiceEndpoints.of_server("http://service.test")
            opened = session.open_client(endpoints, transport=transport, **options)
            return await stack.enter_async_context(opened)

        yield make
