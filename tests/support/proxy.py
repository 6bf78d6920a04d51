"""A simulated link to a service on this machine: TCP with latency, a rate limit and failures.

`running` relays between a client and a service on loopback and delays bytes: every chunk arrives half a round
trip after it was sent, however many are in flight.  A rate, if given, is shared by all connections,
separately for each direction.  A connection's bytes in flight are limited as by a receive window, so that one
TCP stream is as fast here as it could be on such a link.

A new connection costs a round trip before the first byte.  Slow start and loss are not simulated: all
measured tools, ours and others, are faster here than on a real link.

Depends only on trio.  As a program, for benchmarks that need a separate process:
`python tests/support/proxy.py HOST PORT --round-trip 0.04` prints the port it listens on, and ends with its
stdin.
"""

import argparse
import math
import socket
import struct
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal

import trio

from cmsfs.wakeup import Signal

# The largest receive window of Linux (the last figure of tcp_rmem).
WINDOW = 6 * 1024**2

_CHUNK = 256 * 1024
# What waits before a capped line, as in a good router: more than the clock's grain, so that the line is never
# idle for want of a wake-up, and little enough that connections share it.
_QUEUE_SECONDS = 0.005
# A chunk of a capped link: short enough that connections take turns, and no shorter than a processor has time
# for.
_SLICE_SECONDS = 0.001
_SMALLEST_SLICE = 16 * 1024


@dataclass(frozen=True, slots=True)
class Link:
    """Round trip in seconds; bytes per second and direction, for all connections; bytes in flight in one."""

    round_trip: float = 0.040
    rate: float = math.inf
    window: int = WINDOW


class _Line:
    """One direction of the link: computes when bytes sent now have left, behind all earlier ones."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._free = 0.0

    def sent(self, size: int, now: float) -> float:
        self._free = max(self._free, now) + size / self._rate
        return self._free


class Proxy:
    """A link that is up.  `connections`, `sent` and `received` count, as the client sees it."""

    def __init__(self, address: tuple[str, int], link: Link) -> None:
        self.link = link
        self.connections = 0
        self.sent = 0
        self.received = 0
        self.port = 0
        self._address = address
        self._state: Literal["up", "cut", "silent"] = "up"
        self._changed = Signal()
        self._up = _Line(link.rate)
        self._down = _Line(link.rate)
        self._open: set[_Connection] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # ---- breaking it ----

    def cut(self) -> None:
        """Reset all connections, and each new one immediately."""
        self._become("cut")
        self.reset()

    def silence(self) -> None:
        """Stop delivering without an error, as with an unplugged cable or a sleeping machine."""
        self._become("silent")

    def mend(self) -> None:
        """Restore the link; bytes held during the silence arrive now."""
        self._become("up")

    def reset(self) -> None:
        """Reset the existing connections."""
        for connection in list(self._open):
            connection.reset()

    def _become(self, state: Literal["up", "cut", "silent"]) -> None:
        self._state = state
        self._changed.pulse()

    async def heard(self) -> None:
        """Wait while the link is silent."""
        while self._state == "silent":
            await self._changed.wait()

    # ---- one connection ----

    async def serve(self, client: trio.SocketStream) -> None:
        """Relay one connection until it closes; for a listener."""
        if self._state == "cut":
            _reset(client)
            return
        self.connections += 1
        try:
            server = await trio.open_tcp_stream(*self._address)
        except OSError:
            _reset(client)
            return
        connection = _Connection(self, client, server)
        self._open.add(connection)
        try:
            await connection.run(self._up, self._down)
        finally:
            self._open.discard(connection)


class _Connection:
    def __init__(self, proxy: Proxy, client: trio.SocketStream, server: trio.SocketStream) -> None:
        self._proxy = proxy
        self._client = client
        self._server = server
        self._scope = trio.CancelScope()

    def reset(self) -> None:
        _reset(self._client)
        _reset(self._server)
        self._scope.cancel()

    async def run(self, up: _Line, down: _Line) -> None:
        # The client connected immediately; over a real link this takes a round trip.
        ready = trio.current_time() + self._proxy.link.round_trip
        with self._scope:
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._carry, self._client, self._server, up, ready)
                    nursery.start_soon(self._carry, self._server, self._client, down, ready)
            finally:
                for stream in (self._client, self._server):
                    # Not by `aclose`, which a cancellation may keep from the second one.
                    stream.socket.close()

    async def _carry(
        self, source: trio.SocketStream, target: trio.SocketStream, line: _Line, ready: float
    ) -> None:
        """Relay all bytes from one end to the other, and end of file."""
        flight = _Flight(self._proxy.link)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._arrive, flight, target)
                fair = max(self._proxy.link.rate * _SLICE_SECONDS, _SMALLEST_SLICE)
                size = int(max(min(_CHUNK, fair, self._proxy.link.window // 4), 1))
                while data := await source.receive_some(size):
                    if source is self._client:
                        self._proxy.sent += len(data)
                    else:
                        self._proxy.received += len(data)
                    left = line.sent(len(data), max(trio.current_time(), ready))
                    await flight.put(left, bytes(data))
                await flight.put(trio.current_time(), b"")
        except* (trio.BrokenResourceError, trio.ClosedResourceError):
            self.reset()

    async def _arrive(self, flight: "_Flight", target: trio.SocketStream) -> None:
        while data := await flight.take():
            await self._proxy.heard()
            await target.send_all(data)
        await self._proxy.heard()
        await target.send_eof()


class _Flight:
    """The chunks in flight in one direction of one connection, in order."""

    def __init__(self, link: Link) -> None:
        self._half = link.round_trip / 2
        self._window = link.window
        self._chunks: deque[tuple[float, bytes]] = deque()
        self._unconfirmed: deque[tuple[float, int]] = deque()
        self._size = 0
        self._news = Signal()

    async def put(self, left: float, data: bytes) -> None:
        """Send a chunk; waits for room in the window, and for the queue before the line to be short."""
        while self._size and self._size + len(data) > self._window:
            if self._unconfirmed:
                at, size = self._unconfirmed.popleft()
                await trio.sleep_until(at)
                self._size -= size
            else:
                await self._told()
        self._size += len(data)
        self._chunks.append((left + self._half, data))
        self._tell()
        await trio.sleep_until(left - _QUEUE_SECONDS)

    async def take(self) -> bytes:
        """Wait for the next chunk and return it.  It counts as in flight until its acknowledgement is
        back."""
        while not self._chunks:
            await self._told()
        at, data = self._chunks.popleft()
        await trio.sleep_until(at)
        self._unconfirmed.append((trio.current_time() + self._half, len(data)))
        self._tell()
        return data

    async def _told(self) -> None:
        await self._news.wait()

    def _tell(self) -> None:
        self._news.pulse()


def _reset(stream: trio.SocketStream) -> None:
    """Reset a connection: bytes in flight are lost, the other end gets ECONNRESET."""
    if stream.socket.fileno() < 0:
        return
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    stream.socket.close()


@asynccontextmanager
async def running(host: str, port: int, link: Link | None = None, *, listen: int = 0) -> AsyncIterator[Proxy]:
    """Run a link to the server at `host` and `port`; its own port is `proxy.port`, on loopback."""
    proxy = Proxy((host, port), link or Link())
    (listener,) = await trio.open_tcp_listeners(listen, host="127.0.0.1")
    proxy.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, proxy.serve, [listener])
        yield proxy
        nursery.cancel_scope.cancel()


async def _main() -> None:
    parser = argparse.ArgumentParser(description="A link with latency on loopback; ends with its stdin.")
    parser.add_argument("host")
    parser.add_argument("port", type=int)
    parser.add_argument("--round-trip", type=float, default=Link().round_trip, help="seconds")
    parser.add_argument("--rate", type=float, default=math.inf, help="bytes a second, each way")
    parser.add_argument("--window", type=int, default=WINDOW, help="bytes under way in one connection")
    args = parser.parse_args()
    link = Link(args.round_trip, args.rate, args.window)
    async with running(args.host, args.port, link) as proxy:
        sys.stdout.write(f"{proxy.port}\n")
        sys.stdout.flush()
        await trio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    trio.run(_main)
