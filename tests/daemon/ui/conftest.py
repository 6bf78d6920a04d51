"""The web page of a drive, and browsers that request it over real HTTP."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import trio

from tests.support.daemon_drive import Drive


class Reader:
    """A browser without scripts: keeps cookies and follows redirects."""

    def __init__(self, client: httpx.AsyncClient, at: str) -> None:
        self.client = client
        self.at = at

    async def get(self, page: str = "", **query: str) -> str:
        answer = await self.client.get(f"{self.at}/{page}", params=query)
        assert answer.status_code == 200, (page, answer.text)
        return answer.text

    async def post(self, form: str, **fields: str) -> str:
        """Submit a form and return the resulting page."""
        headers = {
            "Origin": str(self.client.base_url).rstrip("/"),
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = await self.client.post(f"{self.at}/{form}", content=urlencode(fields), headers=headers)
        assert answer.status_code == 303, (form, answer.text)
        return (await self.client.get(answer.headers["location"])).text


class Events:
    """The server-sent events of a page."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._rest = b""

    async def next(self) -> dict[str, Any]:
        while (found := re.search(rb"data: (.*)\n\n", self._rest)) is None:
            data = await self._stream.receive_some()
            assert data, "it ended"
            self._rest += data
        self._rest = self._rest[found.end() :]
        told: dict[str, Any] = json.loads(found[1])
        return told


@asynccontextmanager
async def following(reader: Reader) -> AsyncIterator[Events]:
    """The events of a page, until it is closed."""
    base = reader.client.base_url
    (cookie,) = reader.client.cookies.jar
    async with await trio.open_tcp_stream(base.host, base.port or 0) as stream:
        head = f"GET {reader.at}/live HTTP/1.1\r\nHost: {base.host}:{base.port}\r\n"
        await stream.send_all(f"{head}Cookie: {cookie.name}={cookie.value}\r\n\r\n".encode())
        yield Events(stream)


Visit = Callable[..., Awaitable[Reader]]


@pytest.fixture
async def visit(drive: Drive) -> AsyncIterator[Visit]:
    """Opens the page as `cmsfs ui` does."""
    async with AsyncExitStack() as stack:

        async def opened(section: str = "", path: str = "") -> Reader:
            url = (await drive.agents.open_page(section, path)).url
            client = await stack.enter_async_context(
                httpx.AsyncClient(timeout=60, base_url=httpx.URL(url).copy_with(raw_path=b"/"))
            )
            answer = await client.get(url)
            where = re.search('content="0; url=([^"]*)"', answer.text)
            assert answer.status_code == 200, answer.text
            assert where is not None
            at = "/".join(where[1].split("/")[:3])
            return Reader(client, at)

        yield opened


@pytest.fixture
async def reader(visit: Visit) -> Reader:
    return await visit()
