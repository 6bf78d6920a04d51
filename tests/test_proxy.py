"""The network that other tests rely on: later is not slower, and every fault is the one that was ordered."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import trio
import trio.testing

from tests.support import faults, proxy

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789"


class Service:
    """Answers every request with ten digits; `came` are the requests."""

    def __init__(self) -> None:
        self.port = 0
        self.came: list[str] = []

    async def serve(self, stream: trio.SocketStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            await self._answer(stream)

    async def _answer(self, stream: trio.SocketStream) -> None:
        data = bytearray()
        async for chunk in stream:
            data += chunk
            while b"\r\n\r\n" in data:
                head, _, rest = bytes(data).partition(b"\r\n\r\n")
                size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0] or 0)
                if len(rest) < size:
                    break
                self.came.append(head.partition(b"\r\n")[0].decode())
                data = bytearray(rest[size:])
                await stream.send_all(HELLO)


async def _echo(stream: trio.SocketStream) -> None:
    with contextlib.suppress(trio.BrokenResourceError):
        async for chunk in stream:
            await stream.send_all(chunk)
        await stream.send_eof()


@pytest.fixture
async def service(nursery: trio.Nursery) -> Service:
    made = Service()
    made.port = (await _listen(nursery, made.serve)).socket.getsockname()[1]
    return made


@pytest.fixture
async def echo(nursery: trio.Nursery) -> int:
    return int((await _listen(nursery, _echo)).socket.getsockname()[1])


async def _listen(nursery: trio.Nursery, handler: Any) -> trio.SocketListener:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, handler, [listener])
    return listener


@pytest.fixture
async def relay(service: Service) -> AsyncIterator[faults.Relay]:
    async with faults.running("127.0.0.1", service.port, faults.Plan()) as running:
        yield running


async def get(relay: faults.Relay, target: str = "/x", **kwargs: Any) -> httpx.Response:
    async with httpx.AsyncClient(timeout=5) as client:
        return await client.get(f"http://127.0.0.1:{relay.port}{target}", **kwargs)


async def test_proxy_adds_a_round_trip(echo: int) -> None:
    sent = bytes(range(256)) * 4096
    async with proxy.running("127.0.0.1", echo, proxy.Link(round_trip=0.05)) as link:
        async with await trio.open_tcp_stream("127.0.0.1", link.port) as stream:
            began = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stream.send_all, sent)
                came = bytearray(await stream.receive_some(1))
                # One round trip to connect, one for the byte.
                assert trio.current_time() - began >= 0.1
                while len(came) < len(sent):
                    came += await stream.receive_some()
            await stream.send_eof()
            assert await stream.receive_some() == b""
        assert came == sent
        assert (link.connections, link.sent, link.received) == (1, len(sent), len(sent))


async def test_later_request_is_not_blocked(echo: int) -> None:
    async with (
        proxy.running("127.0.0.1", echo, proxy.Link(round_trip=0.2)) as link,
        await trio.open_tcp_stream("127.0.0.1", link.port) as stream,
    ):
        began = trio.current_time()
        for number in range(100):
            await stream.send_all(bytes([number]))
            await trio.testing.wait_all_tasks_blocked()
        came = b""
        while len(came) < 100:
            came += await stream.receive_some()
        assert came == bytes(range(100))
        assert trio.current_time() - began < 100 * 0.2 / 4


async def test_a_rate_is_shared_by_all_connections(echo: int) -> None:
    size = 50_000
    async with proxy.running("127.0.0.1", echo, proxy.Link(0.0, rate=500_000)) as link:

        async def one() -> None:
            async with await trio.open_tcp_stream("127.0.0.1", link.port) as stream:
                await stream.send_all(bytes(size))
                came = 0
                while came < size:
                    came += len(await stream.receive_some())

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(one)
        assert trio.current_time() - began >= 3 * size / 500_000


async def test_a_window_bounds_what_is_under_way(echo: int) -> None:
    async with (
        proxy.running("127.0.0.1", echo, proxy.Link(round_trip=0.05, window=64 * 1024)) as link,
        await trio.open_tcp_stream("127.0.0.1", link.port) as stream,
        trio.open_nursery() as nursery,
    ):
        began = trio.current_time()
        nursery.start_soon(stream.send_all, bytes(5 * 1024**2))
        with trio.move_on_after(0.3):
            while await stream.receive_some():
                pass
        # A window a round trip each way, and one that was still before the line.
        trips = (trio.current_time() - began) / 0.05
        assert 0 < link.received <= 64 * 1024 * (trips + 1) + 256 * 1024
        nursery.cancel_scope.cancel()


async def test_a_cut_link_resets_and_comes_back(service: Service) -> None:
    async with (
        proxy.running("127.0.0.1", service.port, proxy.Link(0.0)) as link,
        httpx.AsyncClient(timeout=5) as client,
    ):
        assert (await client.get(link.url)).text == "0123456789"
        link.cut()
        with pytest.raises(httpx.TransportError):
            await client.get(link.url)
        link.mend()
        assert (await client.get(link.url)).text == "0123456789"


async def test_silenced_proxy_passes_nothing(service: Service) -> None:
    async with (
        proxy.running("127.0.0.1", service.port, proxy.Link(0.0)) as link,
        httpx.AsyncClient(timeout=None) as client,
    ):
        link.silence()
        with trio.move_on_after(0.05) as scope:
            await client.get(link.url)
        assert scope.cancelled_caught
        link.mend()
        assert (await client.get(link.url)).text == "0123456789"


async def test_without_a_fault_requests_pass_and_are_counted(relay: faults.Relay, service: Service) -> None:
    async with httpx.AsyncClient(timeout=5) as client:
        for _ in range(3):
            response = await client.post(f"http://127.0.0.1:{relay.port}/files", content=bytes(100_000))
            assert response.text == "0123456789"
    assert relay.plan.count("POST", "/files") == len(service.came) == 3


async def test_injected_response_skips_the_service(relay: faults.Relay, service: Service) -> None:
    relay.plan.add(faults.TOO_MANY, method="GET", part="/x")
    response = await get(relay)
    assert (response.status_code, response.headers["Retry-After"], service.came) == (429, "1", [])
    assert (await get(relay)).text == "0123456789"


async def test_a_lost_answer_was_carried_out(relay: faults.Relay, service: Service) -> None:
    relay.plan.add(faults.LOST)
    assert (await get(relay)).status_code == 502
    assert service.came == ["GET /x HTTP/1.1"]


@pytest.mark.parametrize("after", [0, 4, 10])
async def test_resets_and_short_bodies(relay: faults.Relay, after: int) -> None:
    for fault in (faults.Reset(after), faults.Short(after), faults.Reset(before=True)):
        relay.plan.add(fault)
        if fault in (faults.Short(10), faults.Reset(10)):
            # All of it was announced, and all of it came.
            assert (await get(relay)).text == "0123456789"
            continue
        with pytest.raises(httpx.TransportError):
            await get(relay)
    assert relay.plan.faults == 3


async def test_a_stall_is_open_and_silent(relay: faults.Relay) -> None:
    relay.plan.add(faults.Stall(after=4))
    came = b""
    async with httpx.AsyncClient(timeout=httpx.Timeout(5, read=0.1)) as client:
        with pytest.raises(httpx.ReadTimeout):
            async with client.stream("GET", f"http://127.0.0.1:{relay.port}/") as response:
                async for chunk in response.aiter_raw():
                    came += chunk
    assert came == b"0123"


async def test_body_can_be_corrupted(relay: faults.Relay) -> None:
    relay.plan.add(faults.Short(4, hidden=True))
    assert (await get(relay)).text == "0123"
    relay.plan.add(faults.Corrupt(at=4))
    assert (await get(relay)).text == "0123556789"


async def test_a_plan_can_choose_by_itself(service: Service) -> None:
    plan = faults.Plan(lambda method, target: faults.UNAVAILABLE if target == "/bad" else None)
    async with faults.running("127.0.0.1", service.port, plan) as relay:
        assert (await get(relay, "/bad")).status_code == 503
        assert (await get(relay, "/good")).status_code == 200
        plan.clear()
        assert (await get(relay, "/bad")).status_code == 200
