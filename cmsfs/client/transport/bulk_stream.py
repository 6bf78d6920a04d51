"""A connection that is read in large pieces, in a thread while data keeps arriving.

TLS records are 16 KiB.  Waking a task for each of them, and passing it through every layer, costs ten times
as much as decrypting it.  So everything received is read at once; and after the beginning of a response, a
thread gathers and decrypts the pieces while the event loop does other work.  A `Sink` takes the pieces in
that thread, so that one thread call serves many of them.

Rules: a thread starts only when data has arrived, and ends when no more has arrived for `GATHER_SECONDS`, or
after the piece during which it was cancelled, so that it delays neither a reader nor a cancellation.  Data
that was read from the network is always delivered, whatever error follows it.
"""

import select
import socket
import ssl
from typing import Any, Protocol

import httpcore
import trio

from cmsfs.runtime import clock, threads

# What a thread gathers into one piece: a thousand pieces for a GiB.
PIECE_BYTES = 1024 * 1024

# The event loop itself reads this much of a response, as it arrives: its beginning is urgent, and most
# responses are not longer.
LOOP_BYTES = 256 * 1024

# A gathered piece is delivered when it is complete, and after this time in any case; if it is large enough
# already, as soon as nothing has arrived for a moment.  Otherwise, on a slow line, or on one shared by
# several connections, each thread switch and all further processing would serve only a few KiB.
GATHER_SECONDS = 0.05
LARGE_BYTES = 256 * 1024
LINGER_SECONDS = 0.004

# The most that one record of TLS holds.
RECORD_BYTES = 16 * 1024

# Mostly the whole socket buffer in one system call.
RECEIVE_BYTES = 256 * 1024


class Sink(Protocol):
    """Takes the bytes of a response in the thread that gathers them; only `begins` is called on the event
    loop."""

    def begins(self) -> None:
        """Called on the event loop when data has arrived, before a thread reads it."""

    def space(self) -> memoryview:
        """Return the buffer for the next bytes; not empty."""

    def came(self, count: int) -> bool:
        """Called after so many bytes were written to the buffer; whether it takes more.  Must not raise."""


class _Layer(Protocol):
    """A layer between the socket and the reader; non-blocking."""

    @property
    def has_more(self) -> bool:
        """Whether bytes have been read from the socket that were not taken yet."""

    def take(self) -> bytes | None:
        """Return received bytes; empty at the end of the stream, None if there are none yet."""

    def take_into(self, space: memoryview) -> int | None:
        """As `take`, into a given buffer; returns the number of bytes."""

    def wrap(self, data: bytes) -> bytes:
        """Return the bytes to send for this data."""


class _Plain:
    """The plain socket."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock

    @property
    def has_more(self) -> bool:
        return False

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
    """TLS, over the socket or over a proxy's TLS connection."""

    def __init__(self, below: _Layer, context: ssl.SSLContext, hostname: str | None) -> None:
        self._below = below
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=hostname)
        # Whether it can decrypt nothing before more has been received: asking it would cost an exception.
        self._is_starved = False

    @property
    def has_more(self) -> bool:
        return bool(self._incoming.pending or self.tls.pending() or self._below.has_more)

    def continue_handshake(self) -> bool:
        """Continue the handshake as far as possible; whether it is done.  Raises `ssl.SSLError`."""
        while True:
            try:
                self.tls.do_handshake()
                return True
            except ssl.SSLWantReadError:
                if not self._fill():
                    return False

    def take(self) -> bytes | None:
        if self._is_starved and not self._fill():
            return None
        while True:
            try:
                return self.tls.read(RECORD_BYTES)
            except ssl.SSLWantReadError:
                if not self._fill():
                    return None
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                # Few servers send close_notify; the content length shows whether the response is complete.
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
        self._is_starved = data is None
        if data is None:
            return False
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()
        return True


class BulkStream(httpcore.AsyncNetworkStream):
    """A connection over a non-blocking socket, which it owns."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._layer: _Layer = _Plain(sock)
        self._tls: ssl.SSLObject | None = None
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._answered = 0  # bytes received since the last write
        self._ended = False
        self._rest = b""  # received, but more than was asked for

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read up to `max_bytes` of what has arrived; empty at the end of the stream.

        Cancelled: nothing is lost.
        """
        try:
            data: bytes | None = self._rest or self._layer.take()
            self._rest = b""
            if data is None:
                # A cancel scope only here: it is needed only if there is something to wait for.
                with trio.fail_after(float("inf") if timeout is None else timeout):
                    while data is None:
                        await trio.lowlevel.wait_readable(self._socket)
                        data = self._layer.take()
            if not data:
                self._ended = True
                return b""
            if self._answered < LOOP_BYTES:
                # A short record is the end of what the service has sent at once: mostly all of it.
                if len(data) >= RECORD_BYTES or len(data) > max_bytes or self._layer.has_more:
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
        """Return `first` and the bytes that follow it until `until` (monotonic seconds), up to `most`."""
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
        """Write up to `most` bytes to a sink in a thread as they arrive; return how many, 0 at the end.

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
            count = await threads.run_sync(self._pour, sink, most)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            raise _as_httpcore(error, timeout, httpcore.ReadTimeout, httpcore.ReadError) from error
        self._answered += count
        return count

    def _pour(self, sink: Sink, most: int) -> int:
        done = 0
        while True:
            space = sink.space()[: most - done]
            count = self._fill(space)
            done += count
            if not (count and sink.came(count)) or count < len(space) or done == most:
                return done
            threads.check_cancelled()

    def _fill(self, space: memoryview) -> int:
        """Fill the buffer with what has arrived or arrives within `GATHER_SECONDS`; return the number of
        bytes."""
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
        """Wait for more data after `held` bytes; whether it has arrived."""
        left = until - clock.monotonic()
        wait = left if held < LARGE_BYTES else min(left, LINGER_SECONDS)
        return left > 0 and bool(self._poll.poll(wait * 1000))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._answered = 0
        try:
            await trio.lowlevel.checkpoint_if_cancelled()
            left = self._send_now(memoryview(self._layer.wrap(buffer)))
            if left or len(buffer) > LARGE_BYTES:
                with trio.fail_after(float("inf") if timeout is None else timeout):
                    # Yield to other tasks even if the peer always reads fast enough.
                    await trio.lowlevel.checkpoint()
                    await self._send_rest(left)
        except (OSError, trio.ClosedResourceError, trio.TooSlowError) as error:
            raise _as_httpcore(error, timeout, httpcore.WriteTimeout, httpcore.WriteError) from error

    def _send_now(self, data: memoryview) -> memoryview:
        """Send what the socket takes without blocking; return the rest."""
        while data:
            try:
                data = data[self._socket.send(data) :]
            except (BlockingIOError, InterruptedError):
                break
        return data

    async def _send_rest(self, left: memoryview) -> None:
        while left := self._send_now(left):
            await trio.lowlevel.wait_writable(self._socket)

    async def _send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        await self._send_rest(memoryview(data))

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.AsyncNetworkStream:
        """Upgrade this connection to TLS; close it if that fails."""
        layer = _Tls(self._layer, ssl_context, server_hostname)
        try:
            with trio.fail_after(float("inf") if timeout is None else timeout):
                while not layer.continue_handshake():
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
                # Readable while no response is expected: the peer has closed the connection.
                is_open = not self._ended and self._socket.fileno() >= 0
                return not is_open or bool(self._rest or (self._poll.poll(0) and self._has_content()))
        return None

    def _has_content(self) -> bool:
        """Whether data has arrived, or the end of the stream, and not only what TLS tells on its own: the
        tickets that follow a handshake."""
        try:
            data = self._layer.take()
        except OSError:
            return True
        self._rest, self._ended = data or b"", data == b""
        return data is not None


def _as_httpcore(
    error: Exception,
    timeout: float | None,
    slow: type[httpcore.TimeoutException],
    broken: type[httpcore.NetworkError],
) -> Exception:
    """Return the error as an httpcore exception: `slow` after a timeout, else `broken`."""
    return slow(f"after {timeout:g} s") if isinstance(error, trio.TooSlowError) else broken(str(error))
