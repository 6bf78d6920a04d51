"""An httpx transport for an ASGI app: the embedded service in our own process, without a socket.

The app runs as a task of the given nursery.  It pulls the request's body piece by piece, and its response is
passed through a channel of capacity 0, so that a body of any length needs the memory of one piece.  The last
piece, the only one of most responses, is stored, so that the app need not wait for the reader.

Rules: when a call has failed or its response is closed, the app no longer touches the request's body.
An exception in the app becomes an httpx error for the caller and never ends the nursery.  Deadlines are the
caller's; httpx's timeouts are for sockets only.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, NoReturn

import httpx
import trio

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class EmbeddedTransport(httpx.AsyncBaseTransport):
    """Passes requests to `app`.  Stateless: several clients may share it."""

    is_direct = True

    def __init__(self, app: App, nursery: trio.Nursery) -> None:
        self._app = app
        self._nursery = nursery

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Cancelled: the app is cancelled too, and has ended when this returns."""
        exchange = _Exchange(request)
        try:
            self._nursery.start_soon(exchange.run, self._app, name="embedded app")
        except RuntimeError as error:
            raise httpx.ConnectError("the embedded service has stopped") from error
        try:
            await exchange.answered.wait()
            if exchange.head is None:
                exchange.fail("no answer")
        except BaseException:
            # The head may have arrived at the moment of the cancellation: close the exchange in any case.
            await exchange.aclose()
            raise
        return httpx.Response(exchange.head["status"], headers=exchange.head["headers"], stream=exchange)


class _Exchange(httpx.AsyncByteStream):
    """One request and its response; also the stream of the response's body."""

    def __init__(self, request: httpx.Request) -> None:
        self.head: Message | None = None
        self.answered = trio.Event()  # the head has arrived, or there will be none
        self._request = request
        self._body: AsyncIterator[bytes] | None = None
        self._body_error: Exception | None = None  # raised by the request's body
        self._app_error: Exception | None = None
        self._all_received = False
        self._all_sent = trio.Event()
        self._missing: int | None = None  # announced bytes that have not arrived yet
        self._begun = trio.Event()  # the body has started, or there will be none
        self._last = b""
        # Only for a body in several pieces.
        self._sender: trio.MemorySendChannel[bytes] | None = None
        self._receiver: trio.MemoryReceiveChannel[bytes] | None = None
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    # -- the app's side -------------------------------------------------------------------------------

    async def run(self, app: App) -> None:
        request, url = self._request, self._request.url
        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},  # 2.4: Starlette streams without a helper task
            "http_version": "1.1",
            "method": request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 0),
        }
        try:
            with self._scope:
                await app(scope, self._receive, self._send)
            if (aclose := getattr(self._body, "aclose", None)) is not None:
                await aclose()
        except Exception as error:
            # Here we are the app's server, which has to log its errors.
            log.exception("the embedded app failed")
            self._app_error = error
        finally:
            self._end_body()
            self._ended.set()
            self.answered.set()

    async def _receive(self) -> Message:
        if self._all_received:
            await self._all_sent.wait()
            return {"type": "http.disconnect"}
        if self._body is None:
            assert isinstance(self._request.stream, httpx.AsyncByteStream)
            self._body = aiter(self._request.stream)
        try:
            return {"type": "http.request", "body": await anext(self._body), "more_body": True}
        except StopAsyncIteration:
            self._all_received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except Exception as error:
            # The caller gets the error in `fail`; to the app the client has disconnected.
            self._body_error = error
            self._scope.cancel()
            await trio.lowlevel.checkpoint()
            raise

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.head = {"status": message["status"], "headers": list(message.get("headers", []))}
            self._missing = _announced(self._request, self.head)
            self.answered.set()
            return
        body = b"" if self._request.method == "HEAD" else message.get("body", b"")
        if not message.get("more_body", False):
            self._last = body
            self._all_sent.set()
            self._end_body()
            return
        if body:
            if self._sender is None:
                self._sender, self._receiver = trio.open_memory_channel[bytes](0)
                self._begun.set()
            await self._sender.send(body)

    def _end_body(self) -> None:
        if self._sender is not None:
            self._sender.close()
        self._begun.set()

    # -- the caller's side ----------------------------------------------------------------------------

    # Not a generator, which would have to be closed if the reader stops early.
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = b""
        if not self._begun.is_set():
            await self._begun.wait()
        if self._receiver is not None:
            with contextlib.suppress(trio.EndOfChannel):
                piece = await self._receiver.receive()
        if not piece:
            piece, self._last = self._last, b""
        if not piece:
            if self._missing or not self._all_sent.is_set():
                self.fail("the answer broke off")
            raise StopAsyncIteration
        if self._missing is not None:
            self._missing -= len(piece)
            if self._missing < 0:
                self.fail("the answer is longer than it announced")
        return piece

    async def aclose(self) -> None:
        """Disconnect: cancel the app if its response is incomplete."""
        if not self._all_sent.is_set():
            self._scope.cancel()
            with trio.CancelScope(shield=True):  # short: the app itself is being cancelled
                await self._ended.wait()
        self._last = b""
        if self._receiver is not None:
            self._receiver.close()

    def fail(self, what: str) -> NoReturn:
        if self._body_error is not None:
            raise self._body_error
        raise httpx.RemoteProtocolError(f"embedded service: {what}") from self._app_error


def _announced(request: httpx.Request, head: Message) -> int | None:
    """The length that the answer's head promises, where a body is to follow."""
    if request.method == "HEAD" or head["status"] in (204, 304):
        return None
    lengths = [int(value) for name, value in head["headers"] if name.lower() == b"content-length"]
    return lengths[0] if lengths else None
