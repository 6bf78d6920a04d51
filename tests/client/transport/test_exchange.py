"""Requests that go past most of httpx leave as httpx would send them, and are answered alike."""

import httpx
import pytest
import trio

from cmsfs.auth import bearer
from cmsfs.client import session
from cmsfs.client.transport import direct_transport, exchange, retry
from cmsfs.models.enterprise import tokens

SERVICE = "https://api.service.test/2.0"

URLS = [
    f"{SERVICE}/files/123/content",
    f"{SERVICE}/folders/0/items/",
    "http://127.0.0.1:8080/2.0/users/me",
    "http://[::1]:8080/a/b",
    "https://Service.Test:443/x",
    f"{SERVICE}/files/../users",
    f"{SERVICE}/./x",
    f"{SERVICE}/a%20b/ä?x=1#end",
    f"{SERVICE}//double",
    "https://service.test",
    "https://user:secret@service.test/x",
]


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("params", [None, {"fields": "id,name", "q": "a b&ü"}])
@pytest.mark.parametrize("headers", [None, {"Accept-Encoding": "identity", "range": "bytes=0-9"}])
def test_requests_are_those_of_httpx(url, params, headers):
    client = httpx.AsyncClient(headers={"user-agent": "test", "accept-encoding": "gzip"})
    if params and "?" in url:
        url = url.partition("?")[0]
    ours = exchange.Exchange(client).request("GET", url, params=params, headers=headers, json=None)
    other = client.build_request("GET", url, params=params, headers=headers)
    assert httpx.QueryParams(ours.url.query) == httpx.QueryParams(other.url.query)
    assert ours.url.copy_with(query=None) == other.url.copy_with(query=None)
    assert ours.headers.raw == other.headers.raw
    assert ours.extensions["timeout"] == other.extensions["timeout"]


@pytest.mark.parametrize("url", ["https://service.test/a b\x00", "https://[::zz]/", "https://x:port/"])
def test_bad_addresses_are_refused_as_by_httpx(url):
    client = httpx.AsyncClient()
    with pytest.raises(httpx.InvalidURL):
        client.build_request("GET", url)
    with pytest.raises(httpx.InvalidURL):
        exchange.Exchange(client).request("GET", url)


class Service:
    """Refuses tokens, and redirects."""

    def __init__(self, *refused: str) -> None:
        self.refused = refused
        self.heads: list[str] = []

    async def serve(self, stream: trio.SocketStream) -> None:
        heard = b""
        async with stream:
            while piece := await stream.receive_some():
                heard += piece
                while b"\r\n\r\n" in heard:
                    head, _, heard = heard.partition(b"\r\n\r\n")
                    self.heads.append(head.decode())
                    await stream.send_all(self._answer(head.decode()))

    def _answer(self, head: str) -> bytes:
        if any(f"authorization: Bearer {token}" in head for token in self.refused):
            return b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 4\r\n\r\nmine"
        if head.startswith("GET /2.0/files/7/content"):
            return b"HTTP/1.1 302 Found\r\nlocation: /elsewhere?x=1\r\ncontent-length: 0\r\n\r\n"
        if head.startswith("GET /elsewhere"):
            return b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nbytes"
        body = b'{"type": "user", "id": "7"}'
        return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


class Drive:
    def __init__(self, client: session.Client, service: Service) -> None:
        self.client, self.service = client, service

    def said(self, name: str) -> list[str | None]:
        """The values of a header, request by request."""
        found = [dict(line.split(": ", 1) for line in head.split("\r\n")[1:]) for head in self.service.heads]
        return [one.get(name) for one in found]


@pytest.fixture
async def connect(nursery, monkeypatch):
    async def no_detour(*args, **how):
        raise AssertionError("a plain request went through httpx")

    monkeypatch.setattr(httpx.AsyncClient, "send", no_detour)
    async with trio.open_nursery() as clients:

        async def start(*refused: str) -> Drive:
            service, number = Service(*refused), 0
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, service.serve, [listener])

            async def fetch() -> tokens.Token:
                nonlocal number
                number += 1
                return tokens.Token(access_token=f"t{number}", expires_in=3600)

            async def hold(task_status):
                url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
                async with session.open_client(
                    session.ServiceEndpoints.of_server(url),
                    auth=bearer.BearerAuth(fetch),
                    policy=retry.Policy(attempts=1, connect_attempts=1),
                ) as client:
                    task_status.started(client)
                    await trio.sleep_forever()

            return Drive(await clients.start(hold), service)

        yield start
        clients.cancel_scope.cancel()


async def test_a_refused_token_is_renewed_once(connect):
    drive = await connect("t1")
    assert (await drive.client.users.me()).id == "7"
    assert drive.said("authorization") == ["Bearer t1", "Bearer t2"]
    drive = await connect("t1", "t2", "t3")
    with pytest.raises(Exception, match="401"):
        await drive.client.users.me()
    assert drive.said("authorization") == ["Bearer t1", "Bearer t2"]


async def test_redirections_are_followed(connect):
    drive = await connect()
    for _ in range(2):
        async with drive.client.files.content("7", version="1") as pieces:
            assert b"".join([piece async for piece in pieces]) == b"bytes"
    # The second time at once, where the first had led.
    targets = [head.split()[1] for head in drive.service.heads]
    assert targets == ["/2.0/files/7/content?version=1", "/elsewhere?x=1", "/elsewhere?x=1"]


async def test_what_a_proxy_may_get_is_left_to_httpx(monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    async with session.open_client(session.ServiceEndpoints.of_server("http://service.test")) as client:
        http = client.users._wire._http
        assert isinstance(http._transport, direct_transport.DirectTransport)
        asked = []

        async def send(request, **how):
            asked.append(request)
            return httpx.Response(200, json={"type": "user", "id": "7"}, request=request)

        monkeypatch.setattr(http, "send", send)
        await client.users.me()
        assert len(asked) == 1
