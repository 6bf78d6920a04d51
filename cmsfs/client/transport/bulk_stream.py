"""A connection whose bytes are read in large pieces, by a thread while they flow.

TLS comes in records of 16 KiB.  A task that wakes up for each of them, and carries it through every layer
above by itself, costs ten times what decrypting it does.  So all that has come is taken at once; and behind
the beginning of an answer a thread gathers the pieces, and decrypts them, while the loop does something else.
Who takes the pieces in that thread, too (`Sink`), has one thread for many of them.

Rules: a thread begins only when something has come, and ends when nothing more has for `GATHER_SECONDS`, or
behind the piece in which it was cancelled, so that it holds up neither a reader nor a cancellation.  What was
taken from the network is given on, whatever follows it.
"""

import select
import socket
import ssl
from typing import Any, Protocol

import httpcore
import trio

from cmsfs.runtime import clock, threads

# What a thread gathers into one piece: a thousand pieces a GiB.
PIECE_BYTES = 1024 * 1024

# So much of an answer the loop takes by itself, as it comes: somebody waits for its beginning, and most
# answers end there.
LOOP_BYTES = 256 * 1024

# A gathered piece is given on when it is all that was asked for, and after so long in any case; and if it is
# large enough already, when nothing has come for a moment.  On a slow line, or with several connections that
# share one, a hop of a thread, and all that follows a piece, would be for some KiB else.
GATHER_SECONDS = 0.05
LARGE_BYTES = 256 * 1024
LINGER_SECONDS = 0.004

# The most that one record of TLS holds.
RECORD_BYTES = 16 * 1024

# A socket's buffer, mostly, in one system call.
RECEIVE_BYTES = 256 * 1024


class Sink(Protocol):
    """Takes the bytes of an answer in the thread in which they are gathered, all but `begins`."""

    def begins(self) -> None:
        """Something has come, and a thread is about to take it; on the loop."""

    def space(self) -> memoryview:
        """Where the next bytes go; not empty."""

    def came(self, count: int) -> bool:
        """So many bytes have come there; whether it takes more.  Raises nothing."""


class _Layer(Protocol):
    """What bytes pass on their way; never waits."""

    def take(self) -> bytes | None:
        """Some bytes that have come; none at the end, None if there are none yet."""

    def take_into(self, space: memoryview) -> int | None:
        """As `take`, into a place of one's own: how many bytes."""

    def wrap(self, data: bytes) -> bytes:
        """The bytes to send for these."""


class _Plain:
    """The socket itself."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    def take(self) -> bytes | None:
        try:
            return self._socket.recv(RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return None

    def take_into(self, space: memoryview) -> int | None:
        try:
            return self._socket.recv_into(space)
        except (BlockingIOError, InterruptedError):
            return None

    def wrap(self, data: bytes) -> bytes:
        return data


class _Tls:
    """TLS, over the socket or over the TLS of a proxy."""

    def __init__(self, below: _Layer, context: ssl.SSLContext, hostname: str | None) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)

    def greet(self) -> bool:
        """Go on with the handshake as far as can be; whether it is done.  Raises `ssl.SSLError`."""
        while True:
            try:
                self.tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                if not self._fill():
                    return False

    def take(self) -> bytes | None:
        while True:
            try:
                return self.tls.read(RECORD_BYTES)
            except ssl.SSLWantReadError:
                if not self._fill():
                    return None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Few servers take leave as they should; whether all has come, the length says.
                return b""

    def take_into(self, space: memoryview) -> int | None:
        while True:
            try:
                return self.tls.read(len(space), space)  # type: ignore[return-value]
            except ssl.SSLWantReadError:
                if not self._fill():
                    return None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return 0

    def wrap(self, data: bytes) -> bytes:
        if data:
            self.tls.write(data)
        return self._below.wrap(self._outgoing.read())

    def _fill(self) -> bool:
        data = self._below.take()
        if data is None:
            return False
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return True


class BulkStream(httpcore.AsyncNetworkStream):
    """A connection over a socket that does not block, which is closed with it."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._layer: _Layer = _Plain(sock)
        self._tls: ssl.SSLObject | None = None
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._answered = 0  # bytes that have come since something was sent
        self._ended = False
        self._rest = b""  # of a record that came with more than was asked for

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """What has come, up to `max_bytes`; nothing at the end.

        Cancelled: nothing is lost.
        """
        try:
            data: bytes | None = self._rest or self._layer.take()
            self._rest = b""
            if data is None:
                # Only here: most of what a scope costs is for who waits.
                with trio.fail_after(float("inf") if timeout is None else timeout):
                    while data is None:
                        await trio.lowlevel.wait_readable(self._socket)
                        data = self._layer.take()
            if not data:
                self._ended = True
                return b""
            if self._answered < LOOP_BYTES:
                data = self._gathered(data, min(LOOP_BYTES, max_bytes), until=0.0)
                await trio.lowlevel.checkpoint_if_cancelled()
            else:
                until = clock.monotonic() + GATHER_SECONDS
                data = await threads.run_sync(self._gathered, data, min(PIECE_BYTES, max_bytes), until)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            raise _as_httpcore(error, timeout, httpcore.ReadTimeout, httpcore.ReadError) from error
        self._answered += len(data)
        return data

    def _gathered(self, first: bytes, most: int, until: float) -> bytes:
        """`first` and what comes behind it, of which some may take until then."""
        pieces, held = [first], len(first)
        while held < most:
            piece = self._layer.take()
            if piece is None:
                if not self._more_comes(held, until):
                    break
                continue
            if not piece:
                self._ended = True
                break
            pieces.append(piece)
            held += len(piece)
        if held > most:
            cut = len(pieces[-1]) - (held - most)
            pieces[-1], self._rest = pieces[-1][:cut], pieces[-1][cut:]
        return b"".join(pieces) if len(pieces) > 1 else pieces[0]

    async def pour(self, sink: Sink, most: int, timeout: float | None = None) -> int:
        """Give up to `most` bytes to a sink, while they come, by a thread; how many, and none at the end.

        Cancelled: nothing is lost.
        """
        try:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                while not self._rest:
                    data = self._layer.take()
                    if data is None:
                        await trio.lowlevel.wait_readable(self._socket)
                    elif not data:
                        self._ended = True
                        return 0
                    else:
                        self._rest = data
            sink.begins()
            count = await threads.run_sync(self._poured, sink, most)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            raise _as_httpcore(error, timeout, httpcore.ReadTimeout, httpcore.ReadError) from error
        self._answered += count
        return count

    def _poured(self, sink: Sink, most: int) -> int:
        done = 0
        while True:
            space = sink.space()[: most - done]
            count = self._filled(space)
            done += count
            if not (count and sink.came(count)) or count < len(space) or done == most:
                return done
            threads.check_cancelled()

    def _filled(self, space: memoryview) -> int:
        """What has come, and what comes within a moment, up to the end of the place."""
        held = min(len(self._rest), len(space))
        space[:held], self._rest = self._rest[:held], self._rest[held:]
        until = clock.monotonic() + GATHER_SECONDS
        while held < len(space):
            count = self._layer.take_into(space[held:])
            if count is None:
                if not self._more_comes(held, until):
                    break
            elif count:
                held += count
            else:
                self._ended = True
                break
        return held

    def _more_comes(self, held: int, until: float) -> bool:
        """Wait for more, behind so many bytes."""
        left = until - clock.monotonic()
        wait = left if held < LARGE_BYTES else min(left, LINGER_SECONDS)
        return left > 0 and bool(self._poll.poll(wait * 1000))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._answered = 0
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            left = self._sent(memoryview(self._layer.wrap(buffer)))
            if left or len(buffer) > LARGE_BYTES:
                with trio.fail_after(float("inf") if timeout is None else timeout):
                    # Also a reader who is always faster lets others have the loop.
                    await trio.lowlevel.checkpoint()
                    await self._send_rest(left)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            raise _as_httpcore(error, timeout, httpcore.WriteTimeout, httpcore.WriteError) from error

    def _sent(self, data: memoryview) -> memoryview:
        """What is left of this after what the socket takes at once."""
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, InterruptedError):
                break
        return data

    async def _send_rest(self, left: memoryview) -> None:
        while left := self._sent(left):
            await trio.lowlevel.wait_writable(self._socket)

    async def _send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        await self._send_rest(memoryview(data))

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """The same connection, with TLS from here on; closed if that fails."""
        layer = _Tls(self._layer, ssl_context, server_hostname)
        try:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                while not layer.greet():
                    await self._send(layer.wrap(b""))
                    await trio.lowlevel.wait_readable(self._socket)
                await self._send(layer.wrap(b""))
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            await self.aclose()
            raise _as_httpcore(error, timeout, httpcore.ConnectTimeout, httpcore.ConnectError) from error
        except BaseException:
            await self.aclose()
            raise
        self._layer, self._tls = layer, layer.tls
        return self

    async def aclose(self) -> None:
        if self._socket.fileno() >= 0:
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
        await trio.lowlevel.checkpoint()

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._tls
            case "socket":
                return self._socket
            case "client_addr":
                return self._socket.getsockname()
            case "server_addr":
                return self._socket.getpeername()
            case "is_readable":
                # What can be read while nothing was asked is the end.
                return bool(self._ended or self._rest or self._socket.fileno() < 0 or self._poll.poll(0))
        return None


def _as_httpcore(
    error: Exception,
    timeout: float | None,
    slow: type[httpcore.TimeoutException],
    broken: type[httpcore.NetworkError],
) -> Exception:
    """What went wrong as httpcore has it: `slow` after the timeout, else `broken`."""
    return slow(f"after {timeout:g} s") if isinstance(error, trio.TooSlowError) else broken(str(error))
