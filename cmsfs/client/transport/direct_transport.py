"""The httpx transport for requests without a proxy: bodies bypass the HTTP libraries, and plain heads h11.

httpcore passes a body through three copies and a chain of generators, and checks all its connections at every
request; that is half of a download's processor time, and a third of a small upload's.  So requests marked
`DIRECT` use connections of this transport: the head is sent together with a small body, the head of the
response is read by `heads`, or by h11 if it is not plain, and a body with a content length is delivered piece
by piece as it arrives.  All other requests, and those through a proxy, go to httpx's own transport.

Rules: a connection is reused only if exactly the announced bytes were received and the whole request was
sent.  A request is resent only if it is a GET and a reused connection was closed before any byte of a
response.
"""

import abc
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import h11
import httpcore
import httpx
import trio

from cmsfs import errors
from cmsfs.client.transport import heads
from cmsfs.client.transport.bodies import DIRECT
from cmsfs.client.transport.bulk_stream import PIECE_BYTES, BulkStream, Sink

# Idle connections in the pool, and how long they are kept: as many as a drive reads and uploads with.
MAX_IDLE = 64
IDLE_SECONDS = 30.0

# The largest head of a response.
HEAD_BYTES = 100 * 1024

# A request's head and the first piece of its body are sent together up to this size.
MAX_JOINED_BYTES = 128 * 1024

Origin = tuple[str, str, int]


class Cookies(httpx.Cookies):
    """Extracts cookies only if there are any: the search costs as much as parsing a response's head."""

    def extract_cookies(self, response: httpx.Response) -> None:
        if "set-cookie" in response.headers:
            super().extract_cookies(response)


class DirectTransport(httpx.AsyncBaseTransport):
    """Sends marked requests over its own connections, others through `inner`."""

    is_direct = True

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        backend: httpcore.AsyncNetworkBackend,
        context: ssl.SSLContext,
        *,
        socket_options: Iterable[Any],
    ) -> None:
        self.inner = inner
        self._backend = backend
        self._context = context
        self._context.set_alpn_protocols(["http/1.1"])
        self._socket_options = list(socket_options)
        self._idle: dict[Origin, list[_Connection]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Cancelled: the connection is closed."""
        if DIRECT not in request.extensions or "transfer-encoding" in request.headers:
            return await self.inner.handle_async_request(request)
        origin, timeouts = _origin(request.url), request.extensions.get("timeout", {})
        with _as_httpx():
            while (idle := await self._take_idle(origin)) is not None:
                if (response := await idle.send(request, timeouts)) is not None:
                    return response
            response = await (await self._connect(origin, timeouts.get("connect"))).send(request, timeouts)
        if response is None:
            raise httpx.RemoteProtocolError("the connection was closed without an answer")
        return response

    async def make_ready(self, url: httpx.URL, count: int, timeout: float | None) -> None:
        """Open connections until so many are idle: a request then does not wait for a handshake first.

        What cannot be opened is left to the requests.  Cancelled: what was opened stays.
        """
        origin = _origin(url)

        async def open_one() -> None:
            with contextlib.suppress(httpcore.NetworkError, httpcore.TimeoutException, errors.ProtocolError):
                await self.put_back(await self._connect(origin, timeout))

        async with trio.open_nursery() as nursery:
            for _ in range(count - len(self._idle.get(origin, ()))):
                nursery.start_soon(open_one)

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):  # closing does not block
            for connections in self._idle.values():
                for connection in connections:
                    await connection.stream.aclose()
        self._idle.clear()
        await self.inner.aclose()

    async def _take_idle(self, origin: Origin) -> "_Connection | None":
        """Take a usable idle connection from the pool; the most recently used one, so that others expire."""
        while connections := self._idle.get(origin):
            connection = connections.pop()
            is_old = trio.current_time() - connection.idle_since > IDLE_SECONDS
            if not is_old and not connection.stream.get_extra_info("is_readable"):
                return connection
            await connection.stream.aclose()
        return None

    async def _connect(self, origin: Origin, timeout: float | None) -> "_Connection":
        scheme, host, port = origin
        stream = await self._backend.connect_tcp(host, port, timeout, socket_options=self._socket_options)
        if scheme == "https":
            stream = await stream.start_tls(self._context, host, timeout)
        return _Connection(self, origin, stream)

    async def put_back(self, connection: "_Connection") -> None:
        """Return a reusable connection to the pool; close the oldest one if there are too many."""
        connection.idle_since = trio.current_time()
        self._idle.setdefault(connection.origin, []).append(connection)
        if sum(map(len, self._idle.values())) > MAX_IDLE:
            oldest = min((found[0] for found in self._idle.values() if found), key=lambda one: one.idle_since)
            self._idle[oldest.origin].remove(oldest)
            await oldest.stream.aclose()


class _Connection:
    """One connection, for one request at a time."""

    def __init__(
        self, transport: DirectTransport, origin: Origin, stream: httpcore.AsyncNetworkStream
    ) -> None:
        self._transport = transport
        self.origin = origin
        self.stream = stream
        self.idle_since = 0.0

    async def send(self, request: httpx.Request, timeouts: dict[str, float]) -> httpx.Response | None:
        """Send a request; return the response with its body unread, None if the connection was closed before
        it."""
        try:
            return await self._exchange(request, timeouts)
        except h11.ProtocolError as error:
            await self.done(reusable=False)
            raise httpx.RemoteProtocolError(str(error)) from error
        except BaseException:
            await self.done(reusable=False)
            raise

    async def _exchange(self, request: httpx.Request, timeouts: dict[str, float]) -> httpx.Response | None:
        sent = False
        try:
            await self._write_request(request, timeouts.get("write"))
            sent = True
        except httpcore.WriteError:
            pass  # the server may have responded before it closed; otherwise reading fails
        if not (data := await self._read(timeouts, has_answer=False)):
            await self.done(reusable=False)
            if request.method == "GET":
                return None
            raise httpx.RemoteProtocolError("the connection was closed without an answer")
        if request.method == "HEAD" or (head := heads.read_plain(data)) is None:
            return await self._by_h11(request, timeouts, data, sent=sent)
        reusable = sent and not head.closes
        body = _PlainBody(self, timeouts, data[head.end :], head.length, reusable=reusable)
        return self._response(head.status, head.headers, b"HTTP/1.1", body)

    async def _by_h11(
        self, request: httpx.Request, timeouts: dict[str, float], data: bytes, *, sent: bool
    ) -> httpx.Response:
        """Return the response that begins with `data`, with its head parsed by h11."""
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        # Only to set h11's state.
        http.send(_METHODS[request.method])
        http.send(_END)
        http.receive_data(data)
        while not isinstance(event := http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                http.receive_data(await self._read(timeouts, has_answer=True))
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the answer has no head")
        length = 0 if request.method == "HEAD" else _length(event)
        body: _Body
        if length is None:
            body = _FramedBody(self, timeouts, http, reusable=sent)
        else:
            closes = event.http_version != b"1.1" or any(
                b"close" in value.lower() for name, value in event.headers if name == b"connection"
            )
            body = _PlainBody(self, timeouts, http.trailing_data[0], length, reusable=sent and not closes)
        version = b"HTTP/" + event.http_version
        return self._response(event.status_code, event.headers.raw_items(), version, body)

    def _response(
        self, status: int, headers: list[tuple[bytes, bytes]], version: bytes, body: "_Body"
    ) -> httpx.Response:
        extensions = {"http_version": version, "network_stream": self.stream, DIRECT: body}
        return httpx.Response(status, headers=headers, stream=body, extensions=extensions)

    async def _write_request(self, request: httpx.Request, timeout: float | None) -> None:
        head = heads.of_request(request)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for piece in request.stream:
            if head and len(head) + len(piece) > MAX_JOINED_BYTES:
                await self.stream.write(head, timeout)
                head = b""
            await self.stream.write(head + piece if head else piece, timeout)
            head = b""
        if head:
            await self.stream.write(head, timeout)

    async def _read(self, timeouts: dict[str, float], *, has_answer: bool) -> bytes:
        try:
            return await self.stream.read(HEAD_BYTES, timeouts.get("read"))
        except httpcore.ReadError:
            if has_answer:
                raise
            return b""  # the connection was reset while idle

    async def done(self, *, reusable: bool) -> None:
        """Release the connection after a response was read or abandoned."""
        if reusable:
            await self._transport.put_back(self)
        else:
            await self.stream.aclose()


# The requests as shown to h11: it needs only the method to determine how the response ends.
_METHODS = {
    method: h11.Request(method=method, target="/", headers=[("host", "-")])
    for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
}
_END = h11.EndOfMessage()


@contextlib.contextmanager
def _as_httpx() -> Iterator[None]:
    """Translate exceptions of httpcore to those of httpx."""
    try:
        yield
    except (httpcore.NetworkError, httpcore.TimeoutException) as error:
        kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
        raise kind(str(error)) from error


def _origin(url: httpx.URL) -> Origin:
    return (url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))


def _length(head: h11.Response) -> int | None:
    """Return the length of an unencoded body; None if h11 must determine the framing."""
    if head.status_code in (204, 304):
        return 0
    headers = dict(head.headers)
    if b"transfer-encoding" in headers or b"content-length" not in headers:
        return None
    return int(headers[b"content-length"])


class _Body(httpx.AsyncByteStream):
    """The body of a response; reading it to the end, or `aclose`, releases the connection."""

    def __init__(self, connection: _Connection, timeouts: dict[str, float]) -> None:
        self._connection = connection
        self._timeouts = timeouts
        self._is_open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._is_open or not (piece := await self._piece()):
            await self.aclose()
            raise StopAsyncIteration
        return piece

    @abc.abstractmethod
    async def _piece(self) -> bytes:
        """Return the next bytes; empty at the end.  Raises `httpx.TransportError`."""

    async def pour(self, sink: Sink) -> int:
        """Write the next bytes to `sink` in the receiving thread; return how many, 0 if not supported.

        Raises `httpx.TransportError`.
        """
        return 0

    async def _received(self, wanted: int) -> bytes:
        with _as_httpx():
            return await self._connection.stream.read(wanted, self._timeouts.get("read"))

    @property
    @abc.abstractmethod
    def _is_whole(self) -> bool:
        """Whether the body was received completely, so that the connection can be reused."""

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._connection.done(reusable=self._is_whole)


class _PlainBody(_Body):
    """A body with a content length."""

    def __init__(
        self,
        connection: _Connection,
        timeouts: dict[str, float],
        first: bytes,
        length: int,
        *,
        reusable: bool,
    ) -> None:
        super().__init__(connection, timeouts)
        self._first = first
        self._left = self._length = length
        self._reusable = reusable

    @property
    def _is_whole(self) -> bool:
        return self._reusable and not self._left and not self._first

    async def _piece(self) -> bytes:
        piece, self._first = self._first, b""
        if not self._left:
            self._reusable &= not piece
            return b""
        received = self._length - self._left
        # Align reads to piece boundaries, so that the consumer need not join partial pieces.
        wanted = min(self._left, PIECE_BYTES - received % PIECE_BYTES)
        if not piece and not (piece := await self._received(wanted)):
            raise self._too_early()
        if len(piece) > self._left:
            self._reusable = False
            piece = piece[: self._left]
        self._left -= len(piece)
        if not self._left:
            await self.aclose()  # the next request may come before the reader asks for more
        return piece

    async def pour(self, sink: Sink) -> int:
        stream = self._connection.stream
        if self._first or not self._left or not isinstance(stream, BulkStream):
            return 0
        with _as_httpx():
            count = await stream.pour(sink, self._left, self._timeouts.get("read"))
        if not count:
            raise self._too_early()
        self._left -= count
        return count

    def _too_early(self) -> httpx.RemoteProtocolError:
        came = self._length - self._left
        return httpx.RemoteProtocolError(f"the connection was closed after {came} of {self._length} bytes")


class _FramedBody(_Body):
    """A chunked body, or one that ends with the connection."""

    def __init__(
        self, connection: _Connection, timeouts: dict[str, float], http: h11.Connection, *, reusable: bool
    ) -> None:
        super().__init__(connection, timeouts)
        self._http = http
        self._reusable = reusable

    @property
    def _is_whole(self) -> bool:
        are_done = self._http.our_state is h11.DONE and self._http.their_state is h11.DONE
        return self._reusable and are_done

    async def _piece(self) -> bytes:
        try:
            while not isinstance(event := self._http.next_event(), h11.Data):
                if event is not h11.NEED_DATA:
                    return b""
                self._http.receive_data(await self._received(HEAD_BYTES))
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return bytes(event.data)
