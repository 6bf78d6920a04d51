"""Who comes to the service's socket, how many, how slowly, and under which name."""

import contextlib
import socket

import httpx
import pytest
import trio

from cmsfs.service.server import client_limits, connections, serve

HALF = b"POST /oauth2/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"


@pytest.fixture
def start(service, nursery):
    async def run(**options):
        return await nursery.start(
            lambda task_status: serve.serve(service, port=0, task_status=task_status, **options)
        )

    return run


async def connect(url: str) -> trio.SocketStream:
    return await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))


async def everything(stream: trio.SocketStream) -> bytes:
    """What comes until the server ends the connection."""
    got = b""
    with trio.fail_after(10):
        try:
            while data := await stream.receive_some():
                got += data
        except trio.BrokenResourceError:
            pass
    return got


async def is_served(url: str) -> int:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{url}/2.0/users/me")).status_code


@pytest.mark.parametrize(
    "request_line", [HALF + b"Content-Length: 9\r\n\r\nx", HALF + b"Transfer-Encoding: chunked\r\n\r\n"]
)
async def test_stalled_body_is_given_up(start, monkeypatch, request_line):
    monkeypatch.setattr(client_limits, "GRACE_SECONDS", 0.2)
    async with await connect(await start()) as stream:
        await stream.send_all(request_line)
        got = await everything(stream)
    assert got.startswith(b"HTTP/1.1 408 ")
    assert b"request_timeout" in got


async def test_dripping_body_is_dropped(start, monkeypatch, api):
    """Each byte buys time; a hundred a second are too few here."""
    monkeypatch.setattr(client_limits, "GRACE_SECONDS", 0.4)
    monkeypatch.setattr(client_limits, "LEAST_RATE", 10_000)
    url = await start()
    body, headers = api.form({"name": "slow", "parent": {"id": "0"}}, b"x" * 20_000)
    headers |= {"authorization": api.http.headers["authorization"]}

    async def slow():
        for start in range(0, len(body), 1000):
            yield body[start : start + 1000]
            await trio.sleep(0.05)  # more than the grace all together

    async with httpx.AsyncClient() as client:
        answer = await client.post(f"{url}/api/2.0/files/content", content=slow(), headers=headers)
        assert answer.status_code == 201
    assert await api.names() == {"slow"}
    async with await connect(url) as stream, trio.open_nursery() as nursery:

        async def drip() -> None:
            await stream.send_all(HALF + b"Content-Length: 100000\r\n\r\n")
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                while True:
                    await stream.send_all(b"x")
                    await trio.sleep(0.01)

        nursery.start_soon(drip)
        assert (await everything(stream)).startswith(b"HTTP/1.1 408 ")
        nursery.cancel_scope.cancel()


async def test_who_asks_for_nothing_is_sent_away(start, monkeypatch):
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 0.2)
    url = await start()
    async with await connect(url) as silent, await connect(url) as half:
        await half.send_all(b"GET / HTTP/1.1\r\nHost:")
        assert await everything(silent) == b""
        assert await everything(half) == b""


async def test_idle_connections_outlive_clients(start, monkeypatch):
    assert serve.KEEP_ALIVE_SECONDS > 60
    monkeypatch.setattr(serve, "KEEP_ALIVE_SECONDS", 0.2)
    async with await connect(await start()) as stream:
        await stream.send_all(b"GET /2.0/users/me HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await everything(stream)).startswith(b"HTTP/1.1 401 ")


async def test_who_is_silent_for_longest_makes_room(start, monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    url = await start()
    async with contextlib.AsyncExitStack() as stack:
        idle = await stack.enter_async_context(await connect(url))
        await idle.send_all(b"GET /2.0/users/me HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"401" in await idle.receive_some()
        slow = []
        for _ in range(7):
            one = await stack.enter_async_context(await connect(url))
            await one.send_all(HALF + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            assert b" 100 " in await one.receive_some()
            slow.append(one)
        assert await is_served(url) == 401
        assert await everything(idle) == b""
        # The client above has gone; two more and the first of the slow ones has, too.
        for _ in range(2):
            one = await stack.enter_async_context(await connect(url))
            await one.send_all(HALF + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n")
            assert b" 100 " in await one.receive_some()
        assert await is_served(url) == 401
        assert await everything(slow[0]) == b""


async def test_excess_connection_is_told_to_wait(start, monkeypatch, api, expect_log):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 8)
    url = await start()
    poll = (
        f"GET /2.0/events/wait HTTP/1.1\r\nHost: x\r\nAuthorization: {api.http.headers['authorization']}\r\n"
    )
    expect_log("connections are refused: all 8 connections are in use")
    asked = (await api.ask("OPTIONS", "/events"))["entries"][0]["url"].partition("?")[2]
    poll = poll.replace("/wait", f"/wait?{asked}") + "\r\n"
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(8):
            one = await stack.enter_async_context(await connect(url))
            await one.send_all(poll.encode())
        with trio.fail_after(10):
            while (status := await is_served(url)) != 503:
                assert status == 401  # a poll had not arrived yet, and was silent
                one = await stack.enter_async_context(await connect(url))
                await one.send_all(poll.encode())
    with trio.fail_after(10):
        while await is_served(url) != 401:  # noqa: ASYNC110  (it is the server's to notice)
            await trio.sleep(0.01)


async def test_the_address_with_most_connections_gives_way():
    taken = connections.Connections(3)
    for peer in (("127.0.0.2", 1), ("127.0.0.3", 1), ("127.0.0.3", 2)):
        with trio.socket.socket() as sock:  # none that anybody is at the other end of
            taken._open[peer] = connections.Connection(sock, peer)
    assert taken._make_room()
    assert set(taken._open) == {("127.0.0.2", 1), ("127.0.0.3", 2)}


async def test_security_headers_are_sent(start):
    url = await start()
    async with httpx.AsyncClient() as client:
        for path in ("/2.0/users/me", "/docs", "/nothing", "/s/nothing"):
            answer = await client.get(f"{url}{path}")
            assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
            assert "server" not in answer.headers
            assert "strict-transport-security" not in answer.headers


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8472", "127.0.0.1@evil.example", "192.0.2.1", "localhost.evil.example"],
)
async def test_forged_host_is_never_used(start, api, host):
    url = await start()
    file = await api.upload("a.txt", b"x")
    headers = {"authorization": api.http.headers["authorization"], "host": host}
    async with httpx.AsyncClient(headers=headers) as client:
        answers = [
            await client.request("OPTIONS", f"{url}/2.0/files/content", json={}),
            await client.request("OPTIONS", f"{url}/2.0/events"),
            await client.put(f"{url}/2.0/files/{file['id']}", json={"shared_link": {"access": "open"}}),
            await client.get(f"{url}/2.0/files/{file['id']}?fields=expiring_embed_link,shared_link"),
            await client.get(f"{url}/2.0/files/{file['id']}/content"),
        ]
    for answer in answers:
        said = answer.text + str(answer.headers)
        assert "evil" not in said and "192.0.2.1" not in said
    assert answers[0].json()["upload_url"] == f"{url}/api/2.0/files/content"
    assert answers[2].json()["shared_link"]["url"].startswith(f"{url}/s/")


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1:9999", "localhost:80", "[::1]:1", socket.gethostname()]
)
async def test_a_name_of_this_machine_is_believed(start, api, host):
    url = await start()
    headers = {"authorization": api.http.headers["authorization"], "host": host}
    async with httpx.AsyncClient(headers=headers) as client:
        found = (await client.request("OPTIONS", f"{url}/2.0/files/content", json={})).json()
    assert found["upload_url"] == f"http://{host.lower()}/api/2.0/files/content"


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = b"\0\0\0\x04\0\0\0\0\0"
ASK = b"GET /docs HTTP/1.1\r\nHost: localhost\r\n%sConnection: %s\r\n\r\n"


@pytest.mark.parametrize(
    "sent", [PREFACE, PREFACE + SETTINGS, PREFACE[:18], b"GET /docs HTTP/3.0\r\nHost: x\r\n\r\n"]
)
async def test_another_version_of_http_is_refused(start, sent):
    async with await connect(await start()) as stream:
        await stream.send_all(sent)
        got = await everything(stream)
    assert got.startswith(b"HTTP/1.1 505 ")
    assert SETTINGS[3:5] not in got


async def test_the_wish_for_http_2_is_passed_over(start):
    more = b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
    async with await connect(await start()) as stream:
        await stream.send_all(ASK % (more, b"Upgrade, HTTP2-Settings"))
        await stream.send_all(ASK % (b"", b"close"))
        got = await everything(stream)
    assert got.startswith(b"HTTP/1.1 200 ")
    assert got.count(b"HTTP/1.1 200 ") == 2
    assert b"101 Switching" not in got
