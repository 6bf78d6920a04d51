"""The transport between a client and an application in the same process."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import trio
import trio.testing
from starlette import types

from cmsfs.client import session
from cmsfs.client.transport import embedded

URL = "http://service.test/path"
MIB = bytes(1024 * 1024)


def client_of(app: embedded.App, nursery: trio.Nursery) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=embedded.EmbeddedTransport(app, nursery))


async def start(send: embedded.Send, status: int = 200, **headers: str) -> None:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def body(send: embedded.Send, data: bytes, *, more: bool = False) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})


class Pieces(httpx.AsyncByteStream):
    """A request body that counts what was taken of it."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.taken = 0
        self._count = count
        self._error = error

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        await trio.lowlevel.checkpoint()
        if self.taken == self._count:
            if self._error is not None:
                raise self._error
            raise StopAsyncIteration
        self.taken += 1
        return MIB


def upload(pieces: Pieces) -> httpx.Request:
    return httpx.Request("POST", URL, stream=pieces)


async def test_app_sees_a_server_request(nursery: trio.Nursery) -> None:
    seen: dict[str, Any] = {}

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        seen.update(scope)
        seen["message"] = await receive()
        await start(send, 201, content_type="text/plain")
        await body(send, b"good")

    async with client_of(app, nursery) as client:
        response = await client.post("http://service.test:8080/a%2Fb?q=%41", content=b"hello")
    assert (response.status_code, response.text) == (201, "good")
    assert response.headers["content-type"] == "text/plain"
    assert seen["asgi"]["spec_version"] == "2.4"
    assert (seen["method"], seen["path"], seen["raw_path"]) == ("POST", "/a/b", b"/a%2Fb")
    assert (seen["query_string"], seen["server"]) == (b"q=%41", ("service.test", 8080))
    assert (b"content-length", b"5") in seen["headers"]
    assert seen["message"] == {"type": "http.request", "body": b"hello", "more_body": True}


async def test_plain_requests_go_past_httpx(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await start(send, content_type="application/json")
        await body(send, b'{"type": "user", "id": "7"}')

    async def no_detour(*args: object, **how: object) -> None:
        raise AssertionError("a plain request went through httpx")

    monkeypatch.setattr(httpx.AsyncClient, "send", no_detour)
    endpoints = session.ServiceEndpoints.of_server("http://service.test")
    transport = embedded.EmbeddedTransport(app, nursery)
    async with session.open_client(endpoints, transport=transport) as client:
        assert (await client.users.me()).id == "7"


async def test_a_request_body_is_pulled_piece_by_piece(nursery: trio.Nursery) -> None:
    pieces = Pieces(5)
    ahead = []

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        read = 0
        while (message := await receive())["more_body"]:
            read += 1
            await trio.testing.wait_all_tasks_blocked()
            ahead.append(pieces.taken - read)
            assert len(message["body"]) == len(MIB)
        await start(send)
        await body(send, b"")

    async with client_of(app, nursery) as client:
        await client.send(upload(pieces))
    assert ahead == [0, 0, 0, 0, 0]


async def test_a_response_body_waits_for_its_reader(nursery: trio.Nursery) -> None:
    made = 0

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        nonlocal made
        await start(send)
        for _ in range(4):
            made += 1
            await body(send, MIB, more=True)
        await body(send, b"")

    async with client_of(app, nursery) as client, client.stream("GET", URL) as response:
        read = 0
        async for piece in response.aiter_raw():
            read += 1
            await trio.testing.wait_all_tasks_blocked()
            # The app may stand with the next piece in its hands, and no more.
            assert made <= read + 1
            assert len(piece) == len(MIB)
    assert read == 4


async def test_the_last_piece_of_a_body_does_not_wait_for_its_reader(nursery: trio.Nursery) -> None:
    ended = trio.Event()

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await start(send)
        await body(send, b"one ", more=True)
        await body(send, b"two")
        ended.set()

    async with client_of(app, nursery) as client, client.stream("GET", URL) as response:
        pieces = response.aiter_raw()
        assert await anext(pieces) == b"one "
        await ended.wait()
        assert [piece async for piece in pieces] == [b"two"]


async def test_closing_a_response_early_ends_the_app(nursery: trio.Nursery) -> None:
    ended = False

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        nonlocal ended
        try:
            await start(send)
            while True:
                await body(send, MIB, more=True)
        finally:
            ended = True

    async with client_of(app, nursery) as client:
        request = client.build_request("GET", URL)
        response = await client.send(request, stream=True)
        await response.aclose()
        assert ended
    assert not nursery.child_tasks


async def test_cancelled_call_ends_the_app(nursery: trio.Nursery) -> None:
    pieces = Pieces(3)
    reached = trio.Event()

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await receive()
        reached.set()
        await trio.sleep_forever()

    async def call(client: httpx.AsyncClient) -> None:
        await client.send(upload(pieces))

    async with client_of(app, nursery) as client:
        async with trio.open_nursery() as calls:
            calls.start_soon(call, client)
            await reached.wait()
            calls.cancel_scope.cancel()
        assert not nursery.child_tasks
    assert pieces.taken == 1


async def test_response_to_cancelled_call_is_dropped(nursery: trio.Nursery) -> None:
    calls = trio.CancelScope()

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        calls.cancel()
        await start(send)
        while True:
            await body(send, MIB, more=True)

    async with client_of(app, nursery) as client:
        with calls:
            await client.send(client.build_request("GET", URL), stream=True)
        assert calls.cancelled_caught
        await trio.testing.wait_all_tasks_blocked()
        assert not nursery.child_tasks


async def test_failing_app_raises_in_the_caller(
    nursery: trio.Nursery, expect_log: Callable[[str], None]
) -> None:
    expect_log("the embedded app failed")

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        raise ValueError("a bug")

    async with client_of(app, nursery) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="no answer") as caught:
            await client.get(URL)
        assert isinstance(caught.value.__cause__, ValueError)
    await trio.lowlevel.checkpoint()


async def test_app_failing_midway_breaks_response(
    nursery: trio.Nursery, expect_log: Callable[[str], None]
) -> None:
    expect_log("the embedded app failed")

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await start(send)
        await body(send, b"begun", more=True)
        raise ValueError("a bug")

    async with client_of(app, nursery) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="broke off"):
            await client.get(URL)


@pytest.mark.parametrize("announced", [4, 6])
async def test_wrong_content_length_is_detected(nursery: trio.Nursery, announced: int) -> None:
    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await start(send, content_length=str(announced))
        await body(send, b"12345")

    async with client_of(app, nursery) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(URL)


async def test_an_app_without_an_answer_is_noticed(nursery: trio.Nursery) -> None:
    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await receive()

    async with client_of(app, nursery) as client:
        with pytest.raises(httpx.RemoteProtocolError, match="no answer"):
            await client.get(URL)


async def test_failing_body_raises(nursery: trio.Nursery) -> None:
    after = []

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        while True:
            after.append((await receive())["type"])

    async with client_of(app, nursery) as client:
        with pytest.raises(OSError, match="disk"):
            await client.send(upload(Pieces(1, OSError("disk"))))
    assert after == ["http.request"]


async def test_app_sees_disconnect_after_response(nursery: trio.Nursery) -> None:
    later = []

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await receive()
        await receive()
        await start(send)
        await body(send, b"done")
        later.append((await receive())["type"])

    async with client_of(app, nursery) as client:
        assert (await client.get(URL)).content == b"done"
    await trio.testing.wait_all_tasks_blocked()
    assert later == ["http.disconnect"]


async def test_head_has_no_body_whatever_the_app_sends(nursery: trio.Nursery) -> None:
    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        await start(send, content_length="5")
        await body(send, b"12345")

    async with client_of(app, nursery) as client:
        response = await client.head(URL)
    assert (response.headers["content-length"], response.content) == ("5", b"")


async def test_without_a_nursery_there_is_no_connection() -> None:
    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        raise AssertionError("not reached")

    async with trio.open_nursery() as ended:
        pass
    async with client_of(app, ended) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(URL)


async def test_many_calls_run_side_by_side(nursery: trio.Nursery) -> None:
    inside = 0
    most = 0

    async def app(scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await trio.testing.wait_all_tasks_blocked()
        inside -= 1
        await start(send)
        await body(send, scope["query_string"])

    async def call(client: httpx.AsyncClient, number: int) -> None:
        assert (await client.get(URL, params={"n": number})).text == f"n={number}"

    async with client_of(app, nursery) as client, trio.open_nursery() as calls:
        for number in range(10):
            calls.start_soon(call, client, number)
    assert most == 10
