"""Answers that are too large, too slow or without an end, and addresses that lead elsewhere."""

import gzip
import json
import socket

import httpx
import pydantic
import pytest
import trio

from cmsfs import errors
from cmsfs.auth import bearer
from cmsfs.client import session
from cmsfs.client.transport import hosts, retry, wire
from cmsfs.models.enterprise import tokens

ONCE = retry.Policy(attempts=1, connect_attempts=1)
GRANT = tokens.RefreshToken(
    client_id="c", client_secret=pydantic.SecretStr("s"), refresh_token=pydantic.SecretStr("r")
)


class Stream(httpx.AsyncByteStream):
    """Pieces, each after so many seconds; for ever if there is one to repeat."""

    def __init__(self, piece, *, count=None, seconds=0.0):
        self._piece, self._count, self._seconds = piece, count, seconds

    async def __aiter__(self):
        sent = 0
        while self._count is None or sent < self._count:
            await trio.sleep(self._seconds)
            yield self._piece
            sent += 1


class Service(httpx.AsyncBaseTransport):
    """Answers every request with what `make` gives."""

    def __init__(self, make):
        self._make = make
        self.requests = []

    async def handle_async_request(self, request):
        self.requests.append(request)
        return self._make(request)


def bomb(request):
    packed = gzip.compress(b" " * (8 * wire.PAGE_BYTES), 1)
    return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Stream(packed, count=1))


def endless(request):
    return httpx.Response(200, stream=Stream(b" " * 1024 * 1024))


@pytest.mark.parametrize("make", [bomb, endless])
async def test_huge_response_is_an_error(connect, make):
    client = await connect(transport=Service(make), policy=ONCE)
    for ask in (client.users.me, lambda: client.tokens.request(GRANT)):
        with pytest.raises(errors.ProtocolError, match="larger than"):
            await ask()


async def test_huge_refusal_of_a_token_is_an_error(connect):
    """Not one that is read to its end before the next token is tried."""

    async def fetch():
        return tokens.Token(access_token=pydantic.SecretStr("t"), expires_in=60)

    service = Service(lambda request: httpx.Response(401, stream=Stream(b" " * wire.SMALL_BYTES, count=40)))
    client = await connect(transport=service, auth=bearer.BearerAuth(fetch), policy=ONCE)
    with pytest.raises(errors.ProtocolError, match="larger than"):
        await client.users.me()
    assert len(service.requests) == 1


async def test_an_answer_that_is_packed_is_read(connect):
    body = gzip.compress(json.dumps({"id": "7", "type": "user"}).encode())

    def packed(request):
        assert request.headers["accept-encoding"] == "gzip"
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Stream(body, count=1))

    assert (await (await connect(transport=Service(packed))).users.me()).id == "7"


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip"])
async def test_an_answer_that_is_packed_otherwise_is_refused(connect, encoding):
    def packed(request):
        return httpx.Response(200, headers={"content-encoding": encoding}, stream=Stream(b"x", count=1))

    with pytest.raises(errors.ProtocolError, match="packed"):
        await (await connect(transport=Service(packed), policy=ONCE)).users.me()


async def test_dripping_response_times_out(connect, autojump_clock):
    client = await connect(
        transport=Service(lambda request: httpx.Response(200, stream=Stream(b" ", seconds=2))), policy=ONCE
    )
    with pytest.raises(errors.RemoteTimeout, match="too slowly"):
        await client.users.me()
    with pytest.raises(errors.RemoteTimeout, match="too slowly"):
        async with client.files.content("1") as content:
            async for _ in content:
                pass


@pytest.mark.parametrize("kind", ["round and round", "without end"])
async def test_pages_without_an_end_are_an_error(connect, kind):
    asked = 0

    def page(request):
        nonlocal asked
        asked += 1
        assert asked < 1000
        if kind == "without end":
            return httpx.Response(200, json={"entries": [], "next_marker": str(asked)})
        return httpx.Response(200, json={"entries": [{"id": "1"}], "next_marker": "AB"[asked % 2]})

    client = await connect(transport=Service(page), policy=ONCE)
    with pytest.raises(errors.ProtocolError, match="page"):
        async for _ in client.metadata.templates():
            pass


async def test_another_host_gets_no_token(connect):
    async def fetch():
        return tokens.Token(access_token=pydantic.SecretStr("t"), expires_in=60)

    service = Service(lambda request: httpx.Response(200, json={"message": "reconnect"}))
    client = await connect(transport=service, auth=bearer.BearerAuth(fetch))
    wire = client.events._wire
    for url in ("http://service.test/x", "https://elsewhere.test/x", "http://127.0.0.2/x"):
        await wire.tell("GET", url)
    assert ["authorization" in one.headers for one in service.requests] == [True, False, False]


@pytest.mark.parametrize(
    ("named", "host", "own"),
    [
        ("api.example.com", "upload.example.com", True),
        ("api.example.com", "example.com", False),
        ("api.example.com", "badexample.com", False),
        ("example.com", "other.com", False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.0.0.2", False),
        ("10.1.2.3", "9.1.2.3", False),
    ],
)
def test_which_hosts_are_the_services_own(named, host, own):
    assert hosts.Hosts({named}).is_own(host) is own


@pytest.mark.parametrize(
    "host",
    ["127.0.0.2", "localhost", "a.localhost", "169.254.169.254", "0.0.0.0", "[::1]", "::ffff:127.0.0.2"],
)
def test_loopback_download_needs_loopback_service(host):
    assert not hosts.Hosts({"127.0.0.1"}).may_lead_to(host)
    assert hosts.Hosts({host}).may_lead_to(host)


async def test_a_redirection_into_this_machine_is_not_followed(nursery):
    reached = []

    async def serve(stream):
        async with stream:
            await stream.receive_some(10_000)
            head = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:%d/secret\r\nContent-Length: 0\r\n\r\n"
            await stream.send_all(head % inside.socket.getsockname()[1])

    async def steal(stream):
        reached.append(stream)
        await stream.aclose()

    (outside,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    (inside,) = await trio.open_tcp_listeners(0, host="127.0.0.2")
    nursery.start_soon(trio.serve_listeners, serve, [outside])
    nursery.start_soon(trio.serve_listeners, steal, [inside])
    url = f"http://127.0.0.1:{outside.socket.getsockname()[1]}"
    async with session.open_client(session.ServiceEndpoints.of_server(url), policy=ONCE) as client:
        with pytest.raises(errors.ProtocolError, match="into this machine"):
            async with client.files.content("1"):
                pass
    assert reached == []


class Names(trio.abc.HostnameResolver):
    """Every name of `elsewhere.example` is an address of this machine."""

    async def getaddrinfo(self, host, port, family=0, type=0, proto=0, flags=0):
        host = b"127.0.0.2" if host == b"files.elsewhere.example" else host
        return socket.getaddrinfo(host, port, family, type, proto, flags | socket.AI_NUMERICHOST)

    async def getnameinfo(self, sockaddr, flags):
        raise AssertionError(sockaddr)


async def test_name_resolving_to_loopback_is_refused(nursery):
    told = []

    async def serve(stream):
        async with stream:
            await stream.receive_some(10_000)
            head = b"HTTP/1.1 302 Found\r\nLocation: http://files.elsewhere.example:%d/secret\r\n"
            await stream.send_all(head % inside.socket.getsockname()[1] + b"Content-Length: 0\r\n\r\n")

    async def steal(stream):
        async with stream:
            told.append(await stream.receive_some(10_000))
            await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret")

    (outside,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    (inside,) = await trio.open_tcp_listeners(0, host="127.0.0.2")
    nursery.start_soon(trio.serve_listeners, serve, [outside])
    nursery.start_soon(trio.serve_listeners, steal, [inside])
    trio.socket.set_custom_hostname_resolver(Names())
    url = f"http://127.0.0.1:{outside.socket.getsockname()[1]}"
    async with session.open_client(session.ServiceEndpoints.of_server(url), policy=ONCE) as client:
        with pytest.raises(errors.ProtocolError, match="into this machine"):
            async with client.files.content("1"):
                pass
    assert told in ([], [b""])  # the connection, and not a byte
