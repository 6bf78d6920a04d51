"""HTTP/1.1 on a connection: requests one after the other, each by a call of the ASGI application.

Made for trio and for large bodies: an upload arrives by the mebibyte, an answer's head leaves with its
body, and the application runs in the connection's own task.  Bytes are read only when the application asks
for them, so a client is never ahead of it.

`connections.py` decides who may connect, `client_limits.py` how slow a body may be, `request_head.py` what a
request is.
"""

import logging
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote

import trio
from starlette import types

from cmsfs.runtime import clock
from cmsfs.service.server.request_head import END, MOST_HEAD, ChunkedBody, Malformed, RequestHead

log = logging.getLogger(__name__)

# What is read at once: of a head, and of a body.
HEAD_READ = 16 * 1024
BODY_READ = 1024 * 1024
CHUNKS_READ = 256 * 1024

# An answer's head and what of its body is no larger leave together; copying more would cost more.
JOINED = 64 * 1024

# What a client still sends after its answer is taken off the wire for so long, and so much of it; where that
# is all of its request, the connection goes on.
LINGER_SECONDS = 2.0
LINGER_BYTES = 1024 * 1024

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINES = {one.value: f"HTTP/1.1 {one.value} {one.phrase}\r\n".encode() for one in HTTPStatus}
_DISCONNECT = {"type": "http.disconnect"}
_EMPTY = (204, 304)


class Stream(Protocol):
    """What requests come over: a socket's stream, or TLS on it."""

    @property
    def socket(self) -> trio.socket.SocketType: ...
    async def receive_some(self, most: int) -> bytes | bytearray: ...
    async def send_all(self, data: bytes) -> None: ...
    async def send_eof(self) -> None: ...


class Http1Server:
    """Answers what comes over connections by an application."""

    def __init__(self, app: types.ASGIApp, *, scheme: str, keep_alive_seconds: float) -> None:
        self.app = app
        self.scheme = scheme
        self.keep_alive_seconds = keep_alive_seconds
        self.stopping = False
        self._idle: set[trio.CancelScope] = set()

    def stop(self) -> None:
        """End every connection that has no request, and the others after their answers."""
        self.stopping = True
        for scope in self._idle:
            scope.cancel()

    async def serve(self, stream: Stream) -> None:
        """Answer the requests of one connection, until one side ends it."""
        try:
            wire = _Wire(self, stream)
            while await self._answer_next(wire):
                pass
            await wire.end()
        except (OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            log.debug("a client went away")

    async def _answer_next(self, wire: "_Wire") -> bool:
        """Whether there may be another request."""
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
    """A connection's bytes: what has come and not been taken, and what is sent."""

    def __init__(self, server: Http1Server, stream: Stream) -> None:
        self._stream = stream
        self.client = stream.socket.getpeername()[:2]
        self.server = stream.socket.getsockname()[:2]
        self.scheme = server.scheme
        self.rest = b""
        self.unread = False  # something of a request was left on the wire

    async def head(self) -> RequestHead | None:
        """The next request's; None at the end of the connection.  Raises `Malformed`."""
        data = self.rest.lstrip(b"\r\n")
        while (end := data.find(END)) < 0:
            # Whoever speaks another protocol, TLS perhaps, is told before they have said it all.
            if len(data) > MOST_HEAD or (data and data[0] < 0x21):
                raise Malformed(431 if len(data) > MOST_HEAD else 400)
            more = await self._stream.receive_some(HEAD_READ)
            if not more:
                return None
            data = (data + more).lstrip(b"\r\n") if not data else data + more
        end += len(END)
        self.rest = data[end:]
        if end > MOST_HEAD:
            raise Malformed(431)
        return RequestHead(data[:end])

    async def some(self, most: int) -> bytes:
        """Up to so many bytes of a body; nothing: the connection has ended."""
        if not self.rest:
            return bytes(await self._stream.receive_some(most))
        data, self.rest = self.rest[:most], self.rest[most:]
        return data

    async def gone(self) -> None:
        """Return when the client has ended the connection; a next request waits for its turn."""
        try:
            while len(self.rest) <= MOST_HEAD:
                data = await self._stream.receive_some(HEAD_READ)
                if not data:
                    return
                self.rest += data
        except (OSError, trio.BrokenResourceError):
            return
        await trio.sleep_forever()

    async def send(self, data: bytes) -> None:
        await self._stream.send_all(data)

    async def refuse(self, status: int) -> None:
        self.unread = True
        line = _LINES[status]
        await self.send(line + b"content-length: 0\r\nconnection: close\r\n" + _date() + b"\r\n")

    async def end(self) -> None:
        """Let the client have the last answer: with something unread, a close would take it back."""
        with trio.move_on_after(LINGER_SECONDS):
            await self._stream.send_eof()
            left = LINGER_BYTES if self.unread or self.rest else 0
            while left > 0 and (data := await self._stream.receive_some(HEAD_READ)):
                left -= len(data)


class _Exchange:
    """One request and its answer."""

    def __init__(self, server: Http1Server, wire: _Wire, head: RequestHead) -> None:
        self._server = server
        self._wire = wire
        self._head = head
        self._left = head.length or 0  # of the body
        self._chunks = ChunkedBody() if head.length is None else None
        self._whole = head.length == 0  # all of it has come
        self._told = False  # the application knows that the body has ended
        self._gone = False  # the client has ended the connection
        self._lost = False  # nothing more can be sent
        self._expects = not self._whole and head.expects
        self._keeps = head.keeps
        # Of the answer: its head until that has left, the rest of its length, what each piece is put into.
        self._pending: bytes | None = None
        self._started = self._done = self._chunked = self._bare = False
        self._owed: int | None = None

    async def run(self) -> bool:
        """Have it answered; whether the connection may go on."""
        try:
            await self._server.app(self._scope(), self.receive, self.send)
        except Exception:
            if not self._lost:
                log.exception("an answer broke off")
        if self._lost:
            return False
        if not self._started:
            await self._wire.refuse(500)
            return False
        return (
            self._done and self._keeps and not (self._gone or self._server.stopping) and await self._drained()
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
        """The next of the body; after it, the end of the connection."""
        if not self._told:
            whole = self._whole
            # A client that waits for a word and gets a refusal keeps its body.
            data = b"" if whole or (self._expects and self._started) else await self._body()
            if data or self._whole:
                self._told = self._whole
                return {"type": "http.request", "body": data, "more_body": not self._told}
            self._told = self._gone = True
        if not self._gone and not self._done:
            await self._wire.gone()
            self._gone = True
        return _DISCONNECT

    async def _body(self) -> bytes:
        """Some of the body; nothing: the client has gone, or what it says is none."""
        if self._expects:
            self._expects = False
            await self._wire.send(_CONTINUE)
        try:
            if self._chunks is None:
                data = await self._wire.some(min(self._left, BODY_READ))
                self._left -= len(data)
                self._whole = not self._left
                return data
            found = b""
            while not found and not self._whole and (data := await self._wire.some(CHUNKS_READ)):
                found = self._chunks.take(data)
                self._whole = self._chunks.whole
            if self._whole:
                self._wire.rest = self._chunks.rest + self._wire.rest
            return found
        except (OSError, trio.BrokenResourceError):
            return b""
        except Malformed as error:
            self._lost = True
            if not self._started:
                self._started = True
                await self._wire.refuse(error.status)
            return b""

    async def send(self, message: types.Message) -> None:
        """Take the next of the answer."""
        if message["type"] == "http.response.start":
            if self._started:
                raise RuntimeError("an answer begins once")
            self._started = True
            self._pending = self._start(message["status"], message.get("headers", ()))
            return
        if self._done or not self._started:
            raise RuntimeError("an answer has a beginning and an end")
        more = message.get("more_body", False)
        data = b"" if self._bare else message.get("body", b"")
        if self._owed is not None:
            self._owed -= len(data)
            if self._owed < 0 or (self._owed and not more):
                self._keeps = False
                raise RuntimeError("an answer is of another length than it says")
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            data += b"" if more else b"0\r\n\r\n"
        if self._pending is not None:
            first, self._pending = self._pending, None
            if len(data) <= JOINED:
                data = first + data
            else:
                await self._out(first)
        if data:
            await self._out(data)
        self._done = not more

    async def _out(self, data: bytes) -> None:
        if self._lost:
            raise trio.BrokenResourceError("the connection has ended")
        self._lost = True  # unless it leaves whole
        await self._wire.send(data)
        self._lost = False

    def _start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
        """The head of the answer; how its body is framed follows from it."""
        lines = [_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        self._bare = self._head.method == "HEAD" or status in _EMPTY
        size = None
        for name, value in headers:
            if name == b"content-length":
                size = int(value)
            elif name == b"connection":
                self._keeps = self._keeps and value.lower() != b"close"
                continue
            lines.append(b"%b: %b\r\n" % (name, value))
        if self._bare:
            pass
        elif size is not None:
            self._owed = size
        elif self._head.version == "1.1":
            self._chunked = True
            lines.append(b"transfer-encoding: chunked\r\n")
        else:
            self._keeps = False
        lines.append(_date())
        if self._expects or self._server.stopping:
            self._keeps = False
        if not self._keeps:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        made = b"".join(lines)
        # No name and no value may begin a line of its own.
        if made.count(b"\n") != len(lines) or made.count(b"\r") != len(lines) or b"\0" in made:
            raise ValueError("a header holds the end of a line")
        return made

    async def _drained(self) -> bool:
        """Whether nothing of the request is left on the wire."""
        left = LINGER_BYTES
        with trio.move_on_after(LINGER_SECONDS):
            while not self._whole and left > 0:
                data = await self._body()
                if not data and not self._whole:
                    break
                left -= len(data)
        self._wire.unread = not self._whole
        return self._whole and self._keeps


_second = 0
_line = b""


def _date() -> bytes:
    """The header with the time, made once a second."""
    global _second, _line
    now = int(clock.time())
    if now != _second:
        _second, _line = now, f"date: {formatdate(now, usegmt=True)}\r\n".encode()
    return _line
