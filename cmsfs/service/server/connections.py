"""Accepts and counts connections, and closes idle ones when there are too many.

A connection needs a file descriptor, and its request perhaps another.  At the limit, a connection that waits
for its client is closed to make room: of those of the address with the most connections, the one that has
waited longest.  If no connection waits for its client, the new one gets a 503.

Rule: if the process runs out of descriptors, the new client gets a 503; the listener never stops.
"""

import errno
import logging
import os
import resource
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import trio

from cmsfs.service.server.tls import TlsStream

log = logging.getLogger(__name__)

MAX_CONNECTIONS = 2000

# Descriptors for the database, the worker, and everything else but connections and their files.
RESERVE = 64

# A client that has not sent its first request within this time is disconnected.
FIRST_REQUEST_SECONDS = 20.0

_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

Stream = trio.SocketStream | TlsStream
Handler = Callable[[Stream], Awaitable[None]]

# The address and port of a client.
Peer = tuple[str, int]


def connection_limit() -> int:
    """How many connections the descriptor limit of this process allows."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft < 0 else max(8, min(MAX_CONNECTIONS, (soft - RESERVE) // 2))


def raise_descriptor_limit() -> None:
    """Raise the soft limit of descriptors to what MAX_CONNECTIONS needs, as far as the hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RESERVE + 2 * MAX_CONNECTIONS
    if 0 <= soft < wanted:
        more = wanted if hard < 0 else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, more), hard))


class Connection:
    """One client's connection, and since when it has been waiting for the client."""

    def __init__(self, sock: trio.socket.SocketType, peer: Peer) -> None:
        self.peer = peer
        self.request_received = trio.Event()  # set by the first request
        self._socket = sock
        self._answering = 0
        self._since: float | None = trio.current_time()

    @property
    def silent_since(self) -> float | None:
        """Since when the connection has been waiting for the client; None while the client waits for us."""
        return self._since

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Mark a request as being served."""
        self.request_received.set()
        self._answering += 1
        self._since = None
        try:
            yield
        finally:
            self._answering -= 1
            if not self._answering:
                self._since = trio.current_time()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark the connection as waiting for the client to send or receive; used inside `answering`."""
        self._since = trio.current_time()
        try:
            yield
        finally:
            self._since = None

    def end(self) -> None:
        """Shut down the socket; its task then ends as if the client had disconnected."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """All connections of a server."""

    def __init__(self, limit: int | None = None) -> None:
        self.limit = connection_limit() if limit is None else limit
        self._open: dict[Peer, Connection] = {}
        self._refusing = False

    def __len__(self) -> int:
        return len(self._open)

    def find(self, peer: Peer | None) -> Connection | None:
        """The connection of a client, by its address and port."""
        return None if peer is None else self._open.get((peer[0], peer[1]))

    async def accept(
        self, listener: socket.socket, handler: Handler, tls: ssl.SSLContext | None, nursery: trio.Nursery
    ) -> None:
        """Accept connections until cancelled; each is handled in `nursery`."""
        spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        server_socket = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        try:
            while True:
                try:
                    stream = await server_socket.accept()
                except OSError as error:
                    if error.errno not in _NO_DESCRIPTORS:
                        log.warning("a connection could not be accepted: %s", error.strerror)
                        await trio.sleep(0.1)
                        continue
                    self._note_refusal("the descriptors of this process are used up")
                    if spare >= 0:
                        os.close(spare)
                    spare = await _refuse_next(server_socket)
                else:
                    nursery.start_soon(self._handle, stream, handler, tls)
        finally:
            if spare >= 0:
                os.close(spare)
            await server_socket.aclose()

    async def _handle(self, stream: trio.SocketStream, handler: Handler, tls: ssl.SSLContext | None) -> None:
        try:
            peer = stream.socket.getpeername()
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        if not self._make_room():
            self._note_refusal(f"all {self.limit} connections are in use")
            if tls is None:
                await _send_busy(stream)
            await trio.aclose_forcefully(stream)
            return
        connection = Connection(stream.socket, (peer[0], peer[1]))
        self._open[connection.peer] = connection
        served: Stream = stream
        if tls is not None:
            served = TlsStream(stream, tls)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_expect_request, connection)
                await handler(served)
                nursery.cancel_scope.cancel()
        except Exception:
            log.exception("a connection failed")
        finally:
            if self._open.get(connection.peer) is connection:
                del self._open[connection.peer]
            await trio.aclose_forcefully(stream)

    def _make_room(self) -> bool:
        """Make room for one more connection if necessary; False if all are being served."""
        if len(self._open) < self.limit:
            self._refusing = False
            return True
        silent = [one for one in self._open.values() if one.silent_since is not None]
        if not silent:
            return False
        per_address = Counter(one.peer[0] for one in self._open.values())
        victim = min(silent, key=lambda one: (-per_address[one.peer[0]], one.silent_since))
        # It no longer counts; its task notices that when it ends.
        del self._open[victim.peer]
        victim.end()
        return True

    def _note_refusal(self, reason: str) -> None:
        """Log a refusal, once until there is room again."""
        if not self._refusing:
            self._refusing = True
            log.warning("connections are refused: %s", reason)


async def _expect_request(connection: Connection) -> None:
    with trio.move_on_after(FIRST_REQUEST_SECONDS):
        await connection.request_received.wait()
    if not connection.request_received.is_set():
        connection.end()


async def _refuse_next(listener: trio.SocketListener) -> int:
    """Refuse the next connection, using the spare descriptor; returns a new spare one, or -1."""
    with trio.move_on_after(0.1), suppress(OSError):
        stream = await listener.accept()
        try:
            await _send_busy(stream, 0.01)
        finally:
            await trio.aclose_forcefully(stream)
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        await trio.sleep(0.1)  # until somebody releases a descriptor
        return -1


async def _send_busy(stream: trio.SocketStream, seconds: float = 1) -> None:
    """Send a 503, and read what the client sends for a moment, so that no reset discards the response."""
    with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(seconds):
        await stream.send_all(_BUSY)
        await stream.send_eof()
        while await stream.receive_some():
            pass
