"""Accepts and counts connections, and closes idle ones when there are too many.

A connection costs a descriptor, and what it asks for perhaps another.  When there are as many as there may
be, the one that has been silent for longest makes room, of those from the address that has most: an idle one,
or one whose client is slow to send or to take.  Where every client is being served, the next is told 503.

Rule: running out of descriptors is an answer to the client that comes, never the end of a listener.
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

MOST = 2000

# What the database, the worker, and everything but connections and their files may need.
RESERVE = 64

# A client that does not get its first request across in so long is gone, or means to stay for nothing.
FIRST_REQUEST_SECONDS = 20.0

_FULL = (errno.EMFILE, errno.ENFILE)
_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)

Stream = trio.SocketStream | TlsStream
Handler = Callable[[Stream], Awaitable[None]]

# The address and port of a client.
Peer = tuple[str, int]


def most_possible() -> int:
    """How many connections the descriptors of this process are good for."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft < 0 else max(8, min(MOST, (soft - RESERVE) // 2))


def raise_limit() -> None:
    """Let this process have as many descriptors as it may, as far as there is use for them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = RESERVE + 2 * MOST
    if 0 <= soft < wanted:
        more = wanted if hard < 0 else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, more), hard))


class Connection:
    """One client's; which of its two sides the other waits for, and since when."""

    def __init__(self, sock: trio.socket.SocketType, peer: Peer) -> None:
        self.peer = peer
        self.asked = trio.Event()  # the first request has come
        self._socket = sock
        self._answering = 0
        self._since: float | None = trio.current_time()

    @property
    def silent_since(self) -> float | None:
        """Since when the client is waited for; None while it waits for us."""
        return self._since

    @contextmanager
    def answering(self) -> Iterator[None]:
        """A request is being answered."""
        self.asked.set()
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
        """The client is to send or to take something; inside `answering`."""
        self._since = trio.current_time()
        try:
            yield
        finally:
            self._since = None

    def end(self) -> None:
        """Have the connection end in its own time, as if the client had gone."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)


class Connections:
    """All of a server."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most_possible() if most is None else most
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
        """Take connections until cancelled; each is handled in `nursery`."""
        spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        taken = trio.SocketListener(trio.socket.from_stdlib_socket(listener))
        try:
            while True:
                try:
                    stream = await taken.accept()
                except OSError as error:
                    if error.errno not in _FULL:
                        log.warning("a connection could not be taken: %s", error.strerror)
                        await trio.sleep(0.1)
                        continue
                    self._note_refusal("the descriptors of this process are used up")
                    if spare >= 0:
                        os.close(spare)
                    spare = await _refuse_next(taken)
                else:
                    nursery.start_soon(self._handle, stream, handler, tls)
        finally:
            if spare >= 0:
                os.close(spare)
            await taken.aclose()

    async def _handle(self, stream: trio.SocketStream, handler: Handler, tls: ssl.SSLContext | None) -> None:
        try:
            peer = stream.socket.getpeername()
        except OSError:
            await trio.aclose_forcefully(stream)
            return
        if not self._make_room():
            self._note_refusal(f"all {self.most} connections are in use")
            if tls is None:
                await _say_busy(stream)
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
        """Whether there is room for one more; who is silent is sent away for it."""
        if len(self._open) < self.most:
            self._refusing = False
            return True
        silent = [one for one in self._open.values() if one.silent_since is not None]
        if not silent:
            return False
        of = Counter(one.peer[0] for one in self._open.values())
        victim = min(silent, key=lambda one: (-of[one.peer[0]], one.silent_since))
        # It counts no more; the end of its task finds that it is gone.
        del self._open[victim.peer]
        victim.end()
        return True

    def _note_refusal(self, reason: str) -> None:
        """Once, until there is room again."""
        if not self._refusing:
            self._refusing = True
            log.warning("connections are refused: %s", reason)


async def _expect_request(connection: Connection) -> None:
    with trio.move_on_after(FIRST_REQUEST_SECONDS):
        await connection.asked.wait()
    if not connection.asked.is_set():
        connection.end()


async def _refuse_next(listener: trio.SocketListener) -> int:
    """Refuse the next connection with the spare descriptor, and give the spare one back; -1: none."""
    with trio.move_on_after(0.1), suppress(OSError):
        stream = await listener.accept()
        try:
            await _say_busy(stream, 0.01)
        finally:
            await trio.aclose_forcefully(stream)
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        await trio.sleep(0.1)  # whoever took it gives it back
        return -1


async def _say_busy(stream: trio.SocketStream, seconds: float = 1) -> None:
    """Refuse a client, and take what it sends for a moment, so that the answer is not lost to a reset."""
    with suppress(OSError, trio.BrokenResourceError), trio.move_on_after(seconds):
        await stream.send_all(_BUSY)
        await stream.send_eof()
        while await stream.receive_some():
            pass
