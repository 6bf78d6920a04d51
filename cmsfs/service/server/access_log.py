"""The access log: method, path, status, duration and user of each request.

`serve` wraps the application in `AccessLog`.  Lines are `key=value` pairs through standard logging; `request`
is the id that an error body shows as `request_id`, and `by` the administrator who acts as the `user`, if any.
Every response has the id as `X-Request-Id`; ids from a proxy's `X-Request-Id` are kept.  It also tracks when
no request is running any more, so that the service can shut down.

Rule: only the route's template is logged.  Ids, names, queries, words of shared links, headers and bodies are
not: any of them may contain tokens, codes or passwords.
"""

import logging
import re
from typing import Protocol

from starlette import routing, types

from cmsfs.runtime import chance, clock
from cmsfs.wakeup import Signal

log = logging.getLogger("cmsfs.service.access.calls")

# Long polls stay open for minutes; shutdown does not wait for them.
_POLL = "/events/wait"

# Request ids of proxies: hexadecimal digits or UUIDs, perhaps after a host name.
_ID = re.compile(rb"[0-9A-Za-z][0-9A-Za-z._-]{7,63}")


class Observer(Protocol):
    """Gets the beginning and end of each request, for metrics."""

    def request_started(self, *, is_long_poll: bool) -> None: ...
    def request_finished(
        self,
        method: str,
        route: str,
        status: int,
        *,
        seconds: float,
        received_bytes: int,
        sent_bytes: int,
        is_long_poll: bool,
    ) -> None: ...


class AccessLog:
    """ASGI middleware that logs each request.

    `proxied`: requests come through a proxy, whose request ids are kept.
    """

    def __init__(
        self, app: types.ASGIApp, *, proxied: bool = False, observer: Observer | None = None
    ) -> None:
        self._app = app
        self._proxied = proxied
        self._observer = observer
        self._answering = 0
        self._is_idle = Signal(is_set=True)

    async def wait_until_idle(self) -> None:
        """Return when no request is running, except long polls."""
        await self._is_idle.wait()

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._proxy_request_id(scope) or chance.token_hex(8)
        scope["request_id"] = request_id
        id_header = (b"x-request-id", request_id.encode())
        is_counted = not scope["path"].endswith(_POLL)
        self._begin(is_counted)
        line = _LogLine(scope)

        async def counting_receive() -> types.Message:
            message = await receive()
            line.received_bytes += len(message.get("body", b""))
            return message

        async def counting_send(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), id_header]
            await send(message)
            line.status = message.get("status", line.status)
            line.sent_bytes += len(message.get("body", b""))

        try:
            await self._app(scope, counting_receive, counting_send)
        finally:
            self._end(is_counted)
            line.write()
            if self._observer is not None:
                line.count(self._observer, is_long_poll=not is_counted)

    def _proxy_request_id(self, scope: types.Scope) -> str | None:
        """The proxy's id of a request, if it is a valid one."""
        if not self._proxied:
            return None
        given = [value for name, value in scope["headers"] if name == b"x-request-id"]
        return given[0].decode() if len(given) == 1 and _ID.fullmatch(given[0]) else None

    def _begin(self, is_counted: bool) -> None:
        if self._observer is not None:
            self._observer.request_started(is_long_poll=not is_counted)
        self._answering += is_counted
        if self._answering == 1:
            self._is_idle.clear()

    def _end(self, is_counted: bool) -> None:
        self._answering -= is_counted
        if not self._answering:
            self._is_idle.set()


class _LogLine:
    def __init__(self, scope: types.Scope) -> None:
        self._scope = scope
        self._start_time = clock.monotonic()
        self._duration = 0.0
        self.status = 0  # 0: the client disconnected before the response
        self.received_bytes = 0
        self.sent_bytes = 0

    def count(self, observer: Observer, *, is_long_poll: bool) -> None:
        observer.request_finished(
            _method(self._scope),
            template(self._scope),
            self.status,
            seconds=self._duration,
            received_bytes=self.received_bytes,
            sent_bytes=self.sent_bytes,
            is_long_poll=is_long_poll,
        )

    def write(self) -> None:
        self._duration = clock.monotonic() - self._start_time
        user, by = self._scope.get("user_id", "-"), self._scope.get("acting_id")
        log.info(
            "method=%s path=%s status=%d ms=%.1f in=%d out=%d user=%s%s request=%s",
            _method(self._scope),
            template(self._scope),
            self.status,
            self._duration * 1000,
            self.received_bytes,
            self.sent_bytes,
            user,
            "" if by is None else f" by={by}",
            self._scope["request_id"],
        )


def _method(scope: types.Scope) -> str:
    """The method; `(other)` for an arbitrary string from a client."""
    method: str = scope["method"]
    return method if method.isalpha() and len(method) <= 10 else "(other)"


def template(scope: types.Scope) -> str:
    """The route's path template; `(none)` if no route matched."""
    route = scope.get("route")
    if not isinstance(route, routing.Route):
        return "(none)"
    above: str = scope.get("root_path", "")
    return above + route.path
