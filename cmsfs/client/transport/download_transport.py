"""The httpx transport of downloads: their heads are h11's, their bytes go past it.

httpcore carries a body through three copies and a chain of generators, and looks at each of its connections
at every request; that is half of what a download takes of the processor.  So requests that are marked
(`DOWNLOAD`) have connections of their own here: the head of an answer is parsed by h11, and of a body whose
length is said, each piece is given on as it comes from the connection.  All else goes to httpx's own
transport, as do requests by a proxy.

Rules: a connection serves again only when exactly the announced bytes have come.  A request goes out anew
only where a connection that had served before was closed without a byte of an answer.
"""

import abc
import ssl
from collections.abc import AsyncIterator, Iterable
from typing import Any

import h11
import httpcore
import httpx
import trio

from cmsfs.client.transport.bodies import DIRECT
from cmsfs.client.transport.bulk_stream import PIECE_BYTES
from cmsfs.client.transport.wire import DOWNLOAD

# Connections that wait for another request, and how long.
KEPT = 32
KEPT_SECONDS = 30.0

# A head is no larger.
HEAD_BYTES = 100 * 1024

Origin = tuple[str, str, int]


class DownloadTransport(httpx.AsyncBaseTransport):
    """Sends marked requests over connections of its own, others by `inner`."""

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
        if DOWNLOAD not in request.extensions:
            return await self.inner.handle_async_request(request)
        url, timeouts = request.url, request.extensions.get("timeout", {})
        port = url.port or (443 if url.scheme == "https" else 80)
        origin = (url.scheme, url.raw_host.decode("ascii"), port)
        try:
            while (kept := await self._kept(origin)) is not None:
                if (response := await kept.ask(request, timeouts)) is not None:
                    return response
            response = await (await self._connected(origin, timeouts)).ask(request, timeouts)
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
            raise kind(str(error)) from error
        if response is None:
            raise httpx.RemoteProtocolError("the connection was closed without an answer")
        return response

    async def aclose(self) -> None:
        with trio.CancelScope(shield=True):  # each is closed at once
            for connections in self._idle.values():
                for connection in connections:
                    await connection.stream.aclose()
        self._idle.clear()
        await self.inner.aclose()

    async def _kept(self, origin: Origin) -> "_Connection | None":
        """A connection that has served before and is still good; the one used last, so that others may go."""
        while connections := self._idle.get(origin):
            connection = connections.pop()
            is_old = trio.current_time() - connection.kept_at > KEPT_SECONDS
            if not is_old and not connection.stream.get_extra_info("is_readable"):
                return connection
            await connection.stream.aclose()
        return None

    async def _connected(self, origin: Origin, timeouts: dict[str, float]) -> "_Connection":
        scheme, host, port = origin
        timeout = timeouts.get("connect")
        stream = await self._backend.connect_tcp(host, port, timeout, socket_options=self._socket_options)
        if scheme == "https":
            stream = await stream.start_tls(self._context, host, timeout)
        return _Connection(self, origin, stream)

    async def keep(self, connection: "_Connection") -> None:
        """It has served, and can again."""
        connection.kept_at = trio.current_time()
        self._idle.setdefault(connection.origin, []).append(connection)
        if sum(map(len, self._idle.values())) > KEPT:
            oldest = min((found[0] for found in self._idle.values() if found), key=lambda one: one.kept_at)
            self._idle[oldest.origin].remove(oldest)
            await oldest.stream.aclose()


class _Connection:
    """One connection, which serves one request at a time."""

    def __init__(
        self, transport: DownloadTransport, origin: Origin, stream: httpcore.AsyncNetworkStream
    ) -> None:
        self._transport = transport
        self.origin = origin
        self.stream = stream
        self.kept_at = 0.0

    async def ask(self, request: httpx.Request, timeouts: dict[str, float]) -> httpx.Response | None:
        """The head of the answer, with its body to come; None if the connection was closed before."""
        try:
            return await self._ask(request, timeouts)
        except h11.ProtocolError as error:
            await self.done(reusable=False)
            raise httpx.RemoteProtocolError(str(error)) from error
        except BaseException:
            await self.done(reusable=False)
            raise

    async def _ask(self, request: httpx.Request, timeouts: dict[str, float]) -> httpx.Response | None:
        http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_BYTES)
        head = h11.Request(method=request.method, target=request.url.raw_path, headers=request.headers.raw)
        asked = (http.send(head) or b"") + (http.send(h11.EndOfMessage()) or b"")
        heard = False
        try:
            await self.stream.write(asked, timeouts.get("write"))
        except httpcore.WriteError:
            pass  # it may have answered before it closed; otherwise reading says so
        while not isinstance(event := http.next_event(), h11.Response):
            if event is h11.NEED_DATA:
                data = await self._read(timeouts, heard=heard)
                if not data and not heard:
                    await self.done(reusable=False)
                    return None
                heard = True
                http.receive_data(data)
            elif not isinstance(event, h11.InformationalResponse):
                raise h11.RemoteProtocolError("the answer has no head")
        length = _length(event)
        body: _Body
        if length is None:
            body = _FramedBody(self, timeouts, http)
        else:
            closes = event.http_version != b"1.1" or any(
                b"close" in value.lower() for name, value in event.headers if name == b"connection"
            )
            body = _PlainBody(self, timeouts, http.trailing_data[0], length, reusable=not closes)
        return httpx.Response(
            event.status_code,
            headers=event.headers.raw_items(),
            stream=body,
            extensions={
                "http_version": b"HTTP/" + event.http_version,
                "network_stream": self.stream,
                DIRECT: body,
            },
        )

    async def _read(self, timeouts: dict[str, float], *, heard: bool) -> bytes:
        try:
            return await self.stream.read(HEAD_BYTES, timeouts.get("read"))
        except httpcore.ReadError:
            if heard:
                raise
            return b""  # a connection that was reset while nobody used it

    async def done(self, *, reusable: bool) -> None:
        """The answer has been taken, or given up."""
        if reusable:
            await self._transport.keep(self)
        else:
            await self.stream.aclose()


def _length(head: h11.Response) -> int | None:
    """The bytes of the body where they follow the head as they are; None: h11 knows."""
    if head.status_code in (204, 304):
        return 0
    headers = dict(head.headers)
    if b"transfer-encoding" in headers or b"content-length" not in headers:
        return None
    return int(headers[b"content-length"])


class _Body(httpx.AsyncByteStream):
    """The rest of an answer; its end, or `aclose`, gives the connection back."""

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
        """The next bytes; none at the end.  Raises `httpx.TransportError`."""

    async def _received(self, wanted: int) -> bytes:
        try:
            return await self._connection.stream.read(wanted, self._timeouts.get("read"))
        except (httpcore.NetworkError, httpcore.TimeoutException) as error:
            kind: type[httpx.TransportError] = getattr(httpx, type(error).__name__)
            raise kind(str(error)) from error

    @property
    @abc.abstractmethod
    def _is_whole(self) -> bool:
        """Whether all of it has come, and the connection can serve again."""

    async def aclose(self) -> None:
        if self._is_open:
            self._is_open = False
            await self._connection.done(reusable=self._is_whole)


class _PlainBody(_Body):
    """Bytes of a length that was announced."""

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
        came = self._length - self._left
        # Up to where the next piece begins, so that whoever takes them one by one need not join them.
        wanted = min(self._left, PIECE_BYTES - came % PIECE_BYTES)
        if not piece and not (piece := await self._received(wanted)):
            raise httpx.RemoteProtocolError(f"the connection was closed after {came} of {self._length} bytes")
        if len(piece) > self._left:
            self._reusable = False
            piece = piece[: self._left]
        self._left -= len(piece)
        return piece


class _FramedBody(_Body):
    """Bytes in chunks, or as many as come."""

    def __init__(self, connection: _Connection, timeouts: dict[str, float], http: h11.Connection) -> None:
        super().__init__(connection, timeouts)
        self._http = http

    @property
    def _is_whole(self) -> bool:
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _piece(self) -> bytes:
        try:
            while not isinstance(event := self._http.next_event(), h11.Data):
                if event is not h11.NEED_DATA:
                    return b""
                self._http.receive_data(await self._received(HEAD_BYTES))
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return bytes(event.data)
