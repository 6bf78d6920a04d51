"""Fault injection: a relay in front of a service that spoils chosen responses.

`running` relays HTTP/1.1 to a service on loopback.  A `Plan` determines the fault of each request: another
response instead, with or without carrying out the request; a connection that is reset or stalls after some
bytes; a body that ends early, announces too short a length, or has a wrong byte.  Put `proxy.running` in
front of it for latency.

Depends on trio and h11, which httpx itself uses.
"""

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import h11
import trio

_CHUNK = 64 * 1024
# A service that responds before it has read the whole request does not want the rest of it.
_EARLY_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """This response instead of the service's; the request is carried out first only if `carried_out`."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    carried_out: bool = False


@dataclass(frozen=True, slots=True)
class Reset:
    """The connection is reset after so many bytes of the response body; `before`: before any response, and
    the request is not carried out."""

    after: int = 0
    before: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """The response stalls after so many bytes of its body, and the connection stays open; `before`: there is
    no response at all, and the request is not carried out."""

    after: int = 0
    before: bool = False


@dataclass(frozen=True, slots=True)
class Short:
    """The body ends after so many bytes: by a clean close before the announced length, or, if `hidden`, with
    that shorter length announced."""

    after: int
    hidden: bool = False


@dataclass(frozen=True, slots=True)
class Corrupt:
    """One bit of the response body is flipped, in the byte at this offset."""

    at: int = 0


Fault = Answer | Reset | Stall | Short | Corrupt

TOO_MANY = Answer(429, {"Retry-After": "1"})
UNAVAILABLE = Answer(503)
LOST = Answer(502, carried_out=True)


@dataclass(slots=True)
class _Rule:
    fault: Fault
    method: str
    part: str
    times: int


class Plan:
    """Determines which requests fail.  `requests` lists all received ones as (method, target)."""

    def __init__(self, choose: Callable[[str, str], Fault | None] | None = None) -> None:
        self.requests: list[tuple[str, str]] = []
        self.faults = 0
        self.choose = choose
        self.url = ""  # where the relay is, if its fixture says so
        self._rules: list[_Rule] = []

    def add(self, fault: Fault, *, method: str = "", part: str = "", times: int = 1) -> None:
        """Apply the fault to the next `times` requests with this method and this part in their target."""
        self._rules.append(_Rule(fault, method, part, times))

    def clear(self) -> None:
        """Remove all faults."""
        self._rules.clear()
        self.choose = None

    def count(self, method: str, part: str) -> int:
        return sum(1 for one, target in self.requests if one == method and part in target)

    def take_fault(self, method: str, target: str) -> Fault | None:
        """Record the request and return its fault, if any."""
        self.requests.append((method, target))
        found = self.choose(method, target) if self.choose else None
        for rule in self._rules:
            if rule.times and rule.method in ("", method) and rule.part in target:
                rule.times -= 1
                found = rule.fault
                break
        self.faults += found is not None
        return found


class _CloseConnection(Exception):
    """Closes the connection; `hard`: with a reset."""

    def __init__(self, *, hard: bool) -> None:
        self.hard = hard


class Side:
    """One end of the relay: h11 over a stream."""

    def __init__(self, stream: Any, role: type[h11.CLIENT] | type[h11.SERVER]) -> None:
        self.stream = stream
        self.conn = h11.Connection(role)

    async def event(self) -> h11.Event:
        while (event := self.conn.next_event()) is h11.NEED_DATA:
            self.conn.receive_data(await self.stream.receive_some(_CHUNK))
        assert isinstance(event, h11.Event), event
        return event

    async def send(self, event: h11.Event) -> None:
        if (data := self.conn.send(event)) is not None:
            await self.stream.send_all(data)


class Relay:
    """Forwards requests to the service, with the faults of its plan."""

    def __init__(self, host: str, port: int, plan: Plan) -> None:
        self.plan = plan
        self.host, self.port = "127.0.0.1", 0
        self._address = (host, port)

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one connection until it closes; for a listener."""
        client = Side(stream, h11.SERVER)
        async with stream:
            server: Side | None = None
            try:
                while isinstance(request := await client.event(), h11.Request):
                    if server is None:
                        server = Side(await trio.open_tcp_stream(*self._address), h11.CLIENT)
                    await self._exchange(client, server, request)
                    for side in (client, server):
                        if side is server and side.conn.our_state is h11.IDLE:
                            continue  # the request was not forwarded
                        if side.conn.our_state is not h11.DONE or side.conn.their_state is not h11.DONE:
                            return
                        side.conn.start_next_cycle()
            except* _CloseConnection as ends:
                if any(end.hard for end in ends.exceptions if isinstance(end, _CloseConnection)):
                    _reset_on_close(stream)
            except* (h11.ProtocolError, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                _reset_on_close(stream)
            finally:
                if server is not None:
                    server.stream.socket.close()

    async def _exchange(self, client: Side, server: Side, request: h11.Request) -> None:
        fault = self.plan.take_fault(request.method.decode(), request.target.decode())
        if isinstance(fault, Reset) and fault.before:
            raise _CloseConnection(hard=True)
        if isinstance(fault, Stall) and fault.before:
            await trio.sleep_forever()
        if isinstance(fault, Answer) and not fault.carried_out:
            if not client.conn.they_are_waiting_for_100_continue:
                while not isinstance(await client.event(), h11.EndOfMessage):
                    pass
            await self._answer(client, fault)
            return
        await server.send(request)
        uploaded = trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._upload, client, server, uploaded)
            response = await server.event()
            while isinstance(response, h11.InformationalResponse):
                await client.send(response)
                response = await server.event()
            if isinstance(fault, Answer):
                while not isinstance(await server.event(), h11.EndOfMessage):
                    pass
                await self._answer(client, fault)
            else:
                assert isinstance(response, h11.Response)
                await self._download(client, server, response, fault)
            # The end of the request may have arrived without being processed yet.
            with trio.move_on_after(_EARLY_SECONDS):
                await uploaded.wait()
            nursery.cancel_scope.cancel()

    @staticmethod
    async def _upload(client: Side, server: Side, uploaded: trio.Event) -> None:
        if client.conn.they_are_waiting_for_100_continue:
            await client.send(h11.InformationalResponse(status_code=100, headers=[]))
        while True:
            event = await client.event()
            await server.send(event)
            if isinstance(event, h11.EndOfMessage):
                uploaded.set()
                return

    @staticmethod
    async def _answer(client: Side, answer: Answer) -> None:
        headers = [*answer.headers.items(), ("Content-Length", str(len(answer.body)))]
        await client.send(h11.Response(status_code=answer.status, headers=headers))
        await client.send(h11.Data(data=answer.body))
        await client.send(h11.EndOfMessage())

    @staticmethod
    async def _download(client: Side, server: Side, response: h11.Response, fault: Fault | None) -> None:
        if isinstance(fault, Short) and fault.hidden:
            announced = dict(response.headers).get(b"content-length", b"%d" % fault.after)
            headers = [one for one in response.headers if one[0] != b"content-length"]
            headers.append((b"content-length", b"%d" % min(fault.after, int(announced))))
            response = h11.Response(status_code=response.status_code, headers=headers)
        await client.send(response)
        passed = 0
        while True:
            event = await server.event()
            if isinstance(event, h11.Data):
                data, end = _apply_fault(bytes(event.data), passed, fault)
                passed += len(event.data)
                if data:
                    await client.send(h11.Data(data=data))
                if not end:
                    continue
            elif not isinstance(event, h11.EndOfMessage) or not _applies_at_end(fault):
                await client.send(event)
                return
            match fault:
                case Stall():
                    await trio.sleep_forever()
                case Short(hidden=True):
                    await client.send(h11.EndOfMessage())
                    return
                case _:
                    raise _CloseConnection(hard=isinstance(fault, Reset))


def _applies_at_end(fault: Fault | None) -> bool:
    """Return whether the fault applies at the end of a body that is too short to reach its offset."""
    return isinstance(fault, Reset | Stall | Short)


def _apply_fault(data: bytes, passed: int, fault: Fault | None) -> tuple[bytes, bool]:
    """Return what to forward of these bytes at offset `passed`, and whether the response ends there."""
    match fault:
        case Reset(after=after) | Stall(after=after) | Short(after=after) if passed + len(data) > after:
            return data[: max(after - passed, 0)], True
        case Corrupt(at=at) if passed <= at < passed + len(data):
            place = at - passed
            return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :], False
    return data, False


def _reset_on_close(stream: trio.SocketStream) -> None:
    """Make closing the connection reset it."""
    stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, (1).to_bytes(4, "little") + bytes(4))


@asynccontextmanager
async def running(host: str, port: int, plan: Plan) -> AsyncIterator[Relay]:
    """Run a relay to the service at `host` and `port`; it listens at `relay.host` and `relay.port`."""
    relay = Relay(host, port, plan)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    relay.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, relay.serve, [listener])
        yield relay
        nursery.cancel_scope.cancel()


class RandomFaults:
    """Injects a random fault into one of `every` requests, from a seed."""

    def __init__(self, seed: int, *, every: int, stalls: bool) -> None:
        self._random = random.Random(seed)
        self._every = every
        self._stalls = stalls

    def __call__(self, method: str, target: str) -> Any:
        if "/oauth2/" in target or self._random.randrange(self._every):
            return None
        chosen = [Reset(before=True), LOST, TOO_MANY, UNAVAILABLE]
        if method == "POST":
            # The request is carried out, but its response breaks off or is an error.
            chosen += [Reset(after=10), Answer(500, carried_out=True)]
        elif target.rpartition("?")[0].endswith("/content") or target.endswith("/content"):
            chosen += [Stall(after=1), Corrupt(), Short(after=1)]
        if self._stalls:
            chosen.append(Stall())
        return self._random.choice(chosen)
