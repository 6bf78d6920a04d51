"""HTTP/1.1 on a connection: handles requests one after the other, each with a call of the ASGI application.

Made for trio and for large bodies: uploads are read in mebibytes, a response's head is sent together with its
body, and the application runs in the connection's own task.  Bytes are read only when the application asks
for them, so nothing is buffered ahead of it.

`connections.py` limits connections, `client_limits.py` slow bodies; `request_head.py` parses requests.
"""

import logging
import socket
import struct
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

import trio
from starlette import types

from cmsfs.runtime import clock
from cmsfs.service.server.request_head import END, MAX_HEAD_BYTES, ChunkedBody, Malformed, RequestHead

log = logging.getLogger(__name__)

# Read sizes: for a head, a body, and a chunked body.
HEAD_READ = 16 * 1024
BODY_READ = 1024 * 1024
CHUNKS_READ = 256 * 1024

# The head and a first piece of the body up to this size are sent together; copying more would cost more.
MAX_JOINED_BODY = 64 * 1024

# After a response, the rest of the request is read and discarded, up to these limits; if that was all of it,
# the connection is kept alive.
LINGER_SECONDS = 2.0
LINGER_BYTES = 1024 * 1024

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_DISCONNECT = {"type": "http.disconnect"}
_BODYLESS_STATUSES = (204, 304)


class Stream(Protocol):
    """A connection: a socket stream, or TLS over it."""

    @property
    def socket(self) -> trio.socket.SocketType: ...
    async def receive_some(self, most: int) -> bytes | bytearray: ...
    async def send_all(self, data: bytes) -> None: ...
    async def send_eof(self) -> None: ...


class Http1Server:
    """Serves an ASGI application on connections."""

    def __init__(self, app: types.ASGIApp, *, scheme: str, keep_alive_seconds: float) -> None:
        self.app = app
        self.scheme = scheme
        self.keep_alive_seconds = keep_alive_seconds
        self.stopping = False
        self._idle: set[trio.CancelScope] = set()

    def stop(self) -> None:
        """Close idle connections now, and the others after their responses."""
        self.stopping = True
        for scope in self._idle:
            scope.cancel()

    async def serve(self, stream: Stream) -> None:
        """Serve the requests of one connection until one side closes it."""
        try:
            wire = _Wire(self, stream)
            while await self._answer_next(wire):
                pass
            if not wire.is_aborted:
                await wire.end()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("a client disconnected")

    async def _answer_next(self, wire: "_Wire") -> bool:
        """Serve the next request; returns whether the connection stays open for another."""
        if self.stopping:
            return False
        try:
            with trio.move_on_after(self.keep_alive_seconds) as scope:
                self._idle.add(scope)
                try:
                    head = await wire.head()
                finally:
                    self._idle.discard(scope)
            if scope.cancelled_caught or head is None:
                return False
        except Malformed as error:
            await wire.refuse(error.status)
            return False
        return await _Exchange(self, wire, head).run()


class _Wire:
    """Buffered reading from, and writing to, a connection."""

    def __init__(self, server: Http1Server, stream: Stream) -> None:
        self._stream = stream
        self.client = stream.socket.getpeername()[:2]
        self.server = stream.socket.getsockname()[:2]
        self.scheme = server.scheme
        self.buffer = b""
        self.has_unread = False  # part of a request was not read
        self.is_aborted = False

    async def head(self) -> RequestHead | None:
        """Read the next request's head; None at the end of the connection.  Raises `Malformed`."""
        data = self.buffer.lstrip(b"\r\n")
        while (end := data.find(END)) < 0:
            # Refuse another protocol, such as TLS, at its first byte.
            if len(data) > MAX_HEAD_BYTES or (data and data[0] < 0x21):
                raise Malformed(431 if len(data) > MAX_HEAD_BYTES else 400)
            more = await self._stream.receive_some(HEAD_READ)
            if not more:
                return None
            data = (data + more).lstrip(b"\r\n") if not data else data + more
        end += len(END)
        self.buffer = data[end:]
        if end > MAX_HEAD_BYTES:
            raise Malformed(431)
        return RequestHead(data[:end])

    async def read_some(self, most: int) -> bytes:
        """Up to `most` bytes of a body; empty if the connection has ended."""
        if not self.buffer:
            return bytes(await self._stream.receive_some(most))
        data, self.buffer = self.buffer[:most], self.buffer[most:]
        return data

    async def wait_closed(self) -> None:
        """Return when the client closes the connection; a pipelined request is buffered."""
        try:
            while len(self.buffer) <= MAX_HEAD_BYTES:
                data = await self._stream.receive_some(HEAD_READ)
                if not data:
                    return
                self.buffer += data
        except (OSError, trio.BrokenResourceError):
            return
        await trio.sleep_forever()

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def refuse(self, status: int) -> None:
        self.has_unread = True
        line = _STATUS_LINES[status]
        await self.send(line + b"content-length: 0\r\nconnection: close\r\n" + _date() + b"\r\n")

    def abort(self) -> None:
        """Have the connection reset when it is closed."""
        self.is_aborted = True
        linger = struct.pack("ii", 1, 0)
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    async def end(self) -> None:
        """Shut down and drain the connection: closing with unread data would discard the last response."""
        with trio.move_on_after(LINGER_SECONDS):
            await self._stream.send_eof()
            left = LINGER_BYTES if self.has_unread or self.buffer else 0
            while left > 0 and (data := await self._stream.receive_some(HEAD_READ)):
                left -= len(data)


class _Exchange:
    """One request and its response."""

    def __init__(self, server: Http1Server, wire: _Wire, head: RequestHead) -> None:
        self._server = server
        self._wire = wire
        self._head = head
        self._body_left = head.length or 0  # of the body
        self._chunks = ChunkedBody() if head.length is None else None
        self._body_complete = head.length == 0  # the whole body was read
        self._end_delivered = False  # the application has received the end of the body
        self._client_closed = False  # the client has closed the connection
        self._send_failed = False  # nothing more can be sent
        self._expects_continue = not self._body_complete and head.expects_continue
        self._keep_alive = head.keep_alive
        # The response: its unsent head, and below the rest of its declared length.
        self._pending: bytes | None = None
        self._started = self._done = self._chunked = self._has_no_body = self._ends_with_connection = False
        self._length_left: int | None = None

    async def run(self) -> bool:
        """Run the application; returns whether the connection can be kept alive."""
        try:
            await self._server.app(self._scope(), self.receive, self.send)
        except Exception:
            if not self._send_failed:
                log.exception("an answer broke off")
        if self._send_failed:
            return False
        if not self._started:
            await self._wire.refuse(500)
            return False
        if not self._done and self._ends_with_connection:
            # An orderly end of the connection would say that the body is complete.
            self._wire.abort()
        return (
            self._done
            and self._keep_alive
            and not (self._client_closed or self._server.stopping)
            and await self._drain_request()
        )

    def _scope(self) -> types.Scope:
        head = self._head
        path, _, query = head.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": head.version,
            "method": head.method,
            "scheme": self._wire.scheme,
            "path": unquote(path.decode("ascii")),
            "raw_path": path,
            "query_string": query,
            "root_path": "",
            "headers": head.headers,
            "client": self._wire.client,
            "server": self._wire.server,
            "state": {},
            "extensions": {},
        }

    async def receive(self) -> types.Message:
        """ASGI receive: the next piece of the body; after the end, waits for a disconnect."""
        if not self._end_delivered:
            is_complete = self._body_complete
            # A client that expects 100-continue and gets a final response does not send its body.
            data = b"" if is_complete or (self._expects_continue and self._started) else await self._body()
            if data or self._body_complete:
                self._end_delivered = self._body_complete
                return {"type": "http.request", "body": data, "more_body": not self._end_delivered}
            self._end_delivered = self._client_closed = True
        if not self._client_closed and not self._done:
            await self._wire.wait_closed()
            self._client_closed = True
        return _DISCONNECT

    async def _body(self) -> bytes:
        """The next bytes of the body; empty if the client is gone or the body is malformed."""
        if self._expects_continue:
            self._expects_continue = False
            await self._wire.send(_CONTINUE)
        try:
            if self._chunks is None:
                data = await self._wire.read_some(min(self._body_left, BODY_READ))
                self._body_left -= len(data)
                self._body_complete = not self._body_left
                return data
            found = b""
            while not found and not self._body_complete and (data := await self._wire.read_some(CHUNKS_READ)):
                found = self._chunks.feed(data)
                self._body_complete = self._chunks.is_complete
            if self._body_complete:
                self._wire.buffer = self._chunks.buffer + self._wire.buffer
            return found
        except (OSError, trio.BrokenResourceError):
            return b""
        except Malformed as error:
            self._send_failed = True
            if not self._started:
                self._started = True
                await self._wire.refuse(error.status)
            return b""

    async def send(self, message: types.Message) -> None:
        """ASGI send: start the response, or send the next piece of its body."""
        if message["type"] == "http.response.start":
            if self._started:
                raise RuntimeError("the response has already started")
            self._started = True
            self._pending = self._response_head(message["status"], message.get("headers", ()))
            return
        if self._done or not self._started:
            raise RuntimeError("the response has not started or is already complete")
        more = message.get("more_body", False)
        data = b"" if self._has_no_body else message.get("body", b"")
        if self._length_left is not None:
            self._length_left -= len(data)
            if self._length_left < 0 or (self._length_left and not more):
                self._keep_alive = False
                raise RuntimeError("the response's body does not have its declared length")
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            data += b"" if more else b"0\r\n\r\n"
        if self._pending is not None:
            first, self._pending = self._pending, None
            if len(data) <= MAX_JOINED_BODY:
                data = first + data
            else:
                await self._write(first)
        if data:
            await self._write(data)
        self._done = not more

    async def _write(self, data: bytes) -> None:
        if self._send_failed:
            raise trio.BrokenResourceError("the connection has ended")
        self._send_failed = True  # reset below if everything was sent
        await self._wire.send(data)
        self._send_failed = False

    def _response_head(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """Build the response's head, and decide how its body is framed."""
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        self._has_no_body = self._head.method == "HEAD" or status in _BODYLESS_STATUSES
        size = None
        for name, value in headers:
            if name == b"content-length":
                size = int(value)
            elif name == b"connection":
                self._keep_alive = self._keep_alive and value.lower() != b"close"
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
        if self._has_no_body:
            pass
        elif size is not None:
            self._length_left = size
        elif self._head.version == "1.1":
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        else:
            self._ends_with_connection = True
            self._keep_alive = False
        lines.append(_date())
        if self._expects_continue or self._server.stopping:
            self._keep_alive = False
        if not self._keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        # No header may contain a line break (response splitting).
        if head.count(b"\n") != len(lines) or head.count(b"\r") != len(lines) or b"\0" in head:
            raise ValueError("a header contains a line break")
        return head

    async def _drain_request(self) -> bool:
        """Discard the rest of the request, within limits; returns whether nothing is left."""
        left = LINGER_BYTES
        with trio.move_on_after(LINGER_SECONDS):
            while not self._body_complete and left > 0:
                data = await self._body()
                if not data and not self._body_complete:
                    break
                left -= len(data)
        self._wire.has_unread = not self._body_complete
        return self._body_complete and self._keep_alive


_second = 0
_date_line = b""


def _date() -> bytes:
    """The date header, formatted once a second."""
    global _second, _date_line
    now = int(clock.time())
    if now != _second:
        _second, _date_line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _date_line
