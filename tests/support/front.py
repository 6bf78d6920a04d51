"""A front of several servers: each request goes to one of them at random, from a seed.

`running` listens on loopback, with TLS if it is given a context.  A connection to a server carries one
request: what a client sends by one connection comes to all of them.  `in_thread` is the same for synchronous
tests, and `in_process` for those of a drive.
"""

import json
import random
import ssl
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import h11
import trio

from tests.support.faults import Side

# A server that responds before it has read the whole request does not want the rest of it.
_EARLY_SECONDS = 0.2
# Recorded bytes of a body.
_MOST = 16 * 1024**2


@dataclass(slots=True)
class Passed:
    """An exchange that went through the front."""

    request: h11.Request
    response: h11.Response | None = None
    asked: bytearray = field(default_factory=bytearray)
    answered: bytearray = field(default_factory=bytearray)


class Front:
    """`ports` are those of the servers, on loopback; `counts` tells how many requests each got."""

    def __init__(self, seed: int, record: Callable[[Passed], None] | None = None) -> None:
        self.seed = seed
        self.port = 0
        self.ports: Sequence[int] = ()
        self.counts: dict[int, int] = {}
        self._dice = random.Random(seed)
        self._record = record

    async def serve(self, stream: trio.SocketStream | trio.SSLStream[trio.SocketStream]) -> None:
        """Serve one connection until it closes; for a listener."""
        client = Side(stream, h11.SERVER)
        plain = stream if isinstance(stream, trio.SocketStream) else stream.transport_stream
        try:
            # While servers are restarted, connections are closed.
            while self.ports and isinstance(request := await client.event(), h11.Request):
                if not await self._exchange(client, plain, request):
                    break
                client.conn.start_next_cycle()
        except* (h11.ProtocolError, OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            plain.socket.close()

    async def _exchange(self, client: Side, plain: trio.SocketStream, request: h11.Request) -> bool:
        """Carry out a request; return whether the connection is good for another."""
        port = self._dice.choice(self.ports)
        self.counts[port] = self.counts.get(port, 0) + 1
        passed = Passed(request)
        server = Side(await trio.open_tcp_stream("127.0.0.1", port), h11.CLIENT)
        try:
            await server.send(request)
            uploaded = trio.Event()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._upload, client, plain, server, passed, uploaded)
                while True:
                    event = await server.event()
                    if isinstance(event, h11.ConnectionClosed):
                        return False
                    _keep(passed, event, passed.answered)
                    if isinstance(event, h11.EndOfMessage) and self._record is not None:
                        self._record(passed)  # before the client can act on it
                    await client.send(event)
                    if isinstance(event, h11.EndOfMessage):
                        break
                with trio.move_on_after(_EARLY_SECONDS):
                    await uploaded.wait()
                nursery.cancel_scope.cancel()
        finally:
            server.stream.socket.close()
        return client.conn.our_state is h11.DONE and client.conn.their_state is h11.DONE

    async def _upload(
        self, client: Side, plain: trio.SocketStream, server: Side, passed: Passed, uploaded: trio.Event
    ) -> None:
        if client.conn.they_are_waiting_for_100_continue:
            await client.send(h11.InformationalResponse(status_code=100, headers=[]))
        while not uploaded.is_set():
            event = await client.event()
            _keep(passed, event, passed.asked)
            with suppress(trio.BrokenResourceError):  # it has answered already, and does not want the rest
                await server.send(event)
            if isinstance(event, h11.EndOfMessage):
                uploaded.set()
        # A client that has gone does not wait for the response.
        await trio.lowlevel.wait_readable(plain.socket)
        if not await plain.socket.recv(1, trio.socket.MSG_PEEK):
            raise trio.BrokenResourceError


def _keep(passed: Passed, event: h11.Event, body: bytearray) -> None:
    if isinstance(event, h11.Response):
        passed.response = event
    elif isinstance(event, h11.Data) and len(body) < _MOST:
        body.extend(event.data)


@asynccontextmanager
async def running(front: Front, context: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """Run the front; it listens on loopback at `front.port`, where it was before if it is run again."""
    (listener,) = await trio.open_tcp_listeners(front.port, host="127.0.0.1")
    front.port = listener.socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        if context is None:
            nursery.start_soon(trio.serve_listeners, front.serve, [listener])
        else:
            secure = trio.SSLListener(listener, context, https_compatible=True)
            nursery.start_soon(trio.serve_listeners, front.serve, [secure])
        yield
        nursery.cancel_scope.cancel()


@contextmanager
def in_thread(front: Front, context: ssl.SSLContext | None = None) -> Iterator[None]:
    """Run it in a thread of its own, for the duration of the context.

    Not for a drive that this process uses: a page fault in a mapped file stops all of its threads.
    """
    up, down = threading.Event(), trio.Event()
    tokens: list[trio.lowlevel.TrioToken] = []

    async def run() -> None:
        async with running(front, context):
            tokens.append(trio.lowlevel.current_trio_token())
            up.set()
            await down.wait()

    thread = threading.Thread(target=trio.run, args=(run,))
    thread.start()
    try:
        assert up.wait(30)
        yield
    finally:
        tokens[0].run_sync_soon(down.set)
        thread.join(10)


@contextmanager
def in_process(front: Front) -> Iterator[Callable[[], None]]:
    """Run one like it in a process of its own; call what this yields when its ports are known."""
    command = [sys.executable, "-m", "tests.support.front", str(front.seed), str(front.port)]
    process = subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    told_port, to = process.stdout, process.stdin

    def tell() -> None:
        assert to is not None
        to.write(f"{json.dumps(list(front.ports))}\n")
        to.flush()

    try:
        front.port = int(told_port.readline())
        yield tell
    finally:
        told, _ = process.communicate(timeout=30)
        front.counts = {int(port): number for port, number in json.loads(told or "{}").items()}


async def _main(seed: int, port: int) -> None:
    """Print the port, read those of the servers; at the end of the input print how many requests each got."""
    front = Front(seed)
    front.port = port
    async with running(front):
        sys.stdout.write(f"{front.port}\n")
        sys.stdout.flush()
        front.ports = json.loads(await trio.to_thread.run_sync(sys.stdin.readline) or "[]")
        await trio.to_thread.run_sync(sys.stdin.read)
    sys.stdout.write(json.dumps(front.counts))


if __name__ == "__main__":
    trio.run(_main, int(sys.argv[1]), int(sys.argv[2]))
