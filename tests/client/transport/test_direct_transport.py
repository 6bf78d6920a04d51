"""Requests over connections of the client's own, to servers that answer in every way."""

import hashlib
import re
import socket
from collections.abc import Callable

import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.client import session
from cmsfs.client.content.uploads import BytesSource
from cmsfs.client.transport import direct_transport, retry

BODY = bytes(range(256)) * 4096
ONCE = retry.Policy(attempts=1, connect_attempts=1)

Answer = Callable[[bytes], bytes]


class Server:
    """Answers each request with the bytes that `answer` makes of it, and closes after the `closing` ones."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0
        self.requests = 0
        self.heads: list[bytes] = []
        self.hasty = False  # it answers before it has read a body
        self.closing: set[int] = set()
        self.ended = trio.Event()  # a client has closed its connection

    async def serve(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        heard = b""
        async with stream:
            while piece := await stream.receive_some():
                heard += piece
                while b"\r\n\r\n" in heard:
                    request, _, heard = heard.partition(b"\r\n\r\n")
                    self.heads.append(request)
                    length = re.search(rb"content-length: (\d+)", request)
                    if self.hasty:
                        await stream.send_all(self.answer(request))
                    while length and len(heard) < int(length[1]):
                        heard += await stream.receive_some()
                    heard = heard[int(length[1]) if length else 0 :]
                    if self.hasty:
                        continue
                    self.requests += 1
                    number = self.requests
                    try:
                        await stream.send_all(self.answer(request))
                    except trio.BrokenResourceError:
                        self.ended.set()
                        return
                    if number in self.closing:
                        return
        self.ended.set()


@pytest.fixture
async def connect(nursery):
    """A server, and a client of it."""
    async with trio.open_nursery() as clients:

        async def start(answer: Answer, *, closing: set[int] = frozenset()):  # type: ignore[assignment]
            server = Server(answer)
            server.closing = set(closing)
            (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
            nursery.start_soon(trio.serve_listeners, server.serve, [listener])
            url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"

            async def hold(task_status):
                endpoints = session.ServiceEndpoints.of_server(url)
                async with session.open_client(endpoints, policy=ONCE) as client:
                    task_status.started(client)
                    await trio.sleep_forever()

            return server, await clients.start(hold)

        yield start
        clients.cancel_scope.cancel()


def plain(body: bytes = BODY, *, length: int | None = None, more: str = "") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body) if length is None else length}\r\n{more}\r\n"
    return head.encode() + body


def chunked(body: bytes) -> bytes:
    parts = [body[at : at + 70_000] for at in range(0, len(body), 70_000)]
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


async def fetch(client: session.Client) -> bytes:
    async with client.files.content("1") as pieces:
        return b"".join([piece async for piece in pieces])


@pytest.mark.parametrize("body", [b"", b"x", BODY])
@pytest.mark.parametrize("make", [plain, chunked])
async def test_connections_serve_again(connect, make, body):
    server, client = await connect(lambda _: make(body))
    for _ in range(3):
        assert await fetch(client) == body
    assert (server.requests, server.connections) == (3, 1)


@pytest.mark.parametrize("size", [1, len(BODY)])
async def test_a_connection_serves_again_once_all_bytes_have_come(connect, size):
    server, client = await connect(lambda _: plain(BODY[:size]))
    async with client.files.content("1") as pieces:
        left = size
        while left:
            left -= len(await anext(pieces))
        assert await fetch(client) == BODY[:size]
    assert (server.requests, server.connections) == (2, 1)


async def test_the_first_requests_find_connections(connect):
    server, client = await connect(lambda _: plain())
    await client.make_ready(3)
    await client.make_ready(2)
    await trio.testing.wait_all_tasks_blocked()
    assert (server.requests, server.connections) == (0, 3)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(fetch, client)
    assert (server.requests, server.connections) == (3, 3)


async def test_connections_that_cannot_be_opened_are_left_to_the_requests():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    endpoints = session.ServiceEndpoints.of_server(f"http://127.0.0.1:{port}")
    async with session.open_client(endpoints, policy=ONCE) as client:
        await client.make_ready(2)
        with pytest.raises(errors.Offline):
            await fetch(client)


async def test_a_body_without_length_ends_with_its_connection(connect):
    server, client = await connect(lambda _: b"HTTP/1.1 200 OK\r\n\r\n" + BODY, closing={1, 2})
    for _ in range(2):
        assert await fetch(client) == BODY
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        plain(more="connection: close\r\n"),
        plain().replace(b"HTTP/1.1", b"HTTP/1.0", 1),
        plain(BODY + b"more", length=len(BODY)),
    ],
    ids=["close", "1.0", "bytes behind"],
)
async def test_some_connections_serve_once(connect, answer):
    server, client = await connect(lambda _: answer)
    for _ in range(2):
        assert await fetch(client) == BODY
    assert server.connections == 2


async def test_a_hint_before_the_answer_is_passed_over(connect):
    _, client = await connect(lambda _: b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + plain())
    assert await fetch(client) == BODY


@pytest.mark.parametrize("came", [0, 1, len(BODY) - 1])
async def test_a_short_body_is_an_error_after_its_bytes(connect, came):
    _, client = await connect(lambda _: plain(BODY[:came], length=len(BODY)), closing={1})
    got = bytearray()
    with pytest.raises(errors.Offline, match=f"after {came} of {len(BODY)} bytes"):
        async with client.files.content("1") as pieces:
            async for piece in pieces:
                got += piece
    assert got == BODY[:came]


class Collecting:
    """A sink that keeps what it is given, in pieces of a size; `ends` after so many of them."""

    def __init__(self, size: int = 100_000, ends: int = 1000) -> None:
        self.got = bytearray()
        self.pieces = self.begun = 0
        self._size, self._ends = size, ends
        self._buffer = bytearray(size)

    def begins(self) -> None:
        self.begun += 1

    def space(self) -> memoryview:
        return memoryview(self._buffer)

    def came(self, count: int) -> bool:
        self.got += self._buffer[:count]
        self.pieces += 1
        return self.pieces < self._ends


@pytest.mark.parametrize("size", [1000, 100_000, 2 * len(BODY)])
async def test_a_sink_is_given_what_follows(connect, size):
    server, client = await connect(lambda _: plain())
    sink = Collecting(size)
    async with client.files.content("1") as pieces:
        got = bytearray(await anext(pieces))
        while len(got) + len(sink.got) < len(BODY):
            assert await pieces.pour(sink)
        assert [piece async for piece in pieces] == []
    assert got + sink.got == BODY
    assert sink.begun >= 1
    assert await fetch(client) == BODY
    assert server.connections == 1  # it has served, and serves again


async def test_what_a_sink_does_not_take_is_iterated(connect):
    _, client = await connect(lambda _: plain())
    sink = Collecting(ends=2)
    async with client.files.content("1") as pieces:
        got = bytearray(await anext(pieces))
        await pieces.pour(sink)
        assert sink.pieces <= 2
        got += sink.got
        async for piece in pieces:
            got += piece
    assert got == BODY


async def test_a_body_without_length_is_not_poured(connect):
    _, client = await connect(lambda _: chunked(BODY))
    sink = Collecting()
    async with client.files.content("1") as pieces:
        got = bytearray(await anext(pieces))
        assert not await pieces.pour(sink)
        async for piece in pieces:
            got += piece
    assert got == BODY


async def test_a_short_body_is_an_error_for_a_sink_too(connect):
    _, client = await connect(lambda _: plain(BODY[:-5], length=len(BODY)), closing={1})
    sink = Collecting()
    with pytest.raises(errors.Offline, match=f"after {len(BODY) - 5} of {len(BODY)} bytes"):
        async with client.files.content("1") as pieces:
            got = bytearray(await anext(pieces))
            while await pieces.pour(sink):
                pass
    assert got + sink.got == BODY[:-5]


async def test_cancelling_ends_a_sink_between_two_pieces(connect, monkeypatch):
    server, client = await connect(lambda _: plain(length=10 * len(BODY)))
    sink = Collecting(1000)
    with trio.CancelScope() as scope:
        monkeypatch.setattr(sink, "begins", scope.cancel)
        async with client.files.content("1") as pieces:
            await anext(pieces)
            await pieces.pour(sink)
    assert scope.cancelled_caught
    assert sink.pieces <= 1
    with trio.fail_after(30):
        await server.ended.wait()


async def test_a_connection_that_was_closed_while_idle_is_replaced(connect):
    """Not noticed before the request: it is sent anew, without an attempt being counted."""
    answers = iter([plain(), b"", plain()])
    server, client = await connect(lambda _: next(answers), closing={2})
    assert await fetch(client) == BODY
    assert await fetch(client) == BODY
    assert (server.requests, server.connections) == (3, 2)
    assert client.counters["download"] == 2


async def test_a_server_that_never_answers_is_asked_once(connect):
    server, client = await connect(lambda _: b"", closing={1})
    with pytest.raises(errors.Offline, match="without an answer"):
        await fetch(client)
    assert server.requests == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nx: " + b"x" * direct_transport.HEAD_BYTES * 2,
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    ],
    ids=["none", "two lengths", "endless", "switch"],
)
async def test_what_is_no_answer_is_an_error(connect, answer):
    _, client = await connect(lambda _: answer, closing={1})
    with trio.fail_after(30), pytest.raises(errors.RemoteError):
        await fetch(client)


async def test_leaving_early_closes_the_connection(connect):
    server, client = await connect(lambda _: plain(length=10 * len(BODY)))
    async with client.files.content("1") as pieces:
        await anext(pieces)
    with trio.fail_after(30):
        await server.ended.wait()


async def test_cancelling_closes_the_connection(connect):
    server, client = await connect(lambda _: plain(length=10 * len(BODY)))
    with trio.CancelScope() as scope:
        async with client.files.content("1") as pieces:
            got = 0
            async for piece in pieces:
                got += len(piece)
                if got == len(BODY):  # nothing more will come
                    scope.cancel()
    assert scope.cancelled_caught
    with trio.fail_after(30):
        await server.ended.wait()


async def test_idle_connections_are_few(connect, monkeypatch):
    monkeypatch.setattr(direct_transport, "MAX_IDLE", 2)
    _, client = await connect(lambda _: plain(b"x"))
    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(fetch, client)
    transport = client.files._wire._http._transport
    assert sum(map(len, transport._idle.values())) <= 2
    assert await fetch(client) == b"x"


def answered(body: bytes, status: str = "200 OK", *, more: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\ncontent-type: application/json\r\n{more}\r\n"
    return head.encode() + body


def taken(data: bytes) -> bytes:
    """What a service says of an upload that it has taken."""
    file = f'{{"type": "file", "id": "1", "name": "x", "sha1": "{hashlib.sha1(data).hexdigest()}"}}'
    return answered(f'{{"total_count": 1, "entries": [{file}]}}'.encode(), "201 Created")


async def send(client: session.Client, data: bytes, *, etag: str | None = None) -> str:
    sha1 = hashlib.sha1(data).hexdigest()
    return (await client.uploads.new_version("1", BytesSource(data), sha1=sha1, etag=etag)).id


@pytest.mark.parametrize("data", [b"", b"x", BODY])
async def test_uploads_share_a_connection(connect, data):
    server, client = await connect(lambda _: taken(data))
    for _ in range(3):
        assert await send(client, data) == "1"
    assert (server.requests, server.connections) == (3, 1)


async def test_a_change_is_not_sent_anew(connect):
    """The connection was closed, but nobody knows when."""
    answers = iter([taken(b"x"), b"", taken(b"x")])
    server, client = await connect(lambda _: next(answers), closing={2})
    assert await send(client, b"x") == "1"
    with pytest.raises(errors.Offline, match="without an answer"):
        await send(client, b"x")
    assert server.requests == 2


async def test_no_header_holds_another(connect):
    server, client = await connect(lambda _: taken(b"x"))
    for etag in ("1\r\nx-more: 1", "1\nx-more: 1", "1\rx", "1\0"):
        with pytest.raises(errors.RemoteError):
            await send(client, b"x", etag=etag)
    assert server.heads == []


async def test_a_refusal_before_the_body_has_gone_is_heard(connect):
    refused = b'{"type": "error", "status": 412, "code": "precondition_failed"}'
    server, client = await connect(lambda _: answered(refused, "412 Precondition Failed"))
    server.hasty = True
    for _ in range(2):
        with pytest.raises(errors.PreconditionFailed):
            await send(client, BODY * 8)


async def test_cookies_go_back_to_who_set_them(connect):
    me = answered(b'{"type": "user", "id": "1"}', more="set-cookie: at=7\r\n")
    server, client = await connect(lambda _: me)
    for _ in range(2):
        await client.users.me()
    assert [b"cookie: at=7" in head.lower() for head in server.heads] == [False, True]
