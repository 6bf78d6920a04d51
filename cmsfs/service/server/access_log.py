"""The access log: method, path, status, duration and user of each request.

`serve` puts `AccessLog` around the application.  Lines are `key=value` through standard logging, to be read
by people and cut by programs; `request` is the id that an error body shows as `request_id`, and `by` the
administrator who acts as the `user`, where there is one.  Every answer has the id as `X-Request-Id`, and a
proxy that gives its requests ids (`X-Request-Id`, too) finds them here again.  It also knows
when nothing is being answered any more, which is when a service that is to stop may.

Rule: of the address only the route's template is told.  Ids, names, queries, words of shared links, headers
and bodies are not: tokens, codes and passwords travel in all of them.
"""

import logging
import re
from typing import Protocol

from starlette import routing, types

from cmsfs.runtime import chance, clock
from cmsfs.wakeup import Signal

log = logging.getLogger("cmsfs.service.access.calls")

# Held open for minutes to say that nothing has happened: no reason to wait for it.
_POLL = "/events/wait"

# What proxies make: hexadecimal digits, UUIDs, and a machine's name before them.
_ID = re.compile(rb"[0-9A-Za-z][0-9A-Za-z._-]{7,63}")


class Observer(Protocol):
    """Who counts requests."""

    def began(self, *, polls: bool) -> None: ...
    def ended(
        self, method: str, route: str, status: int, *, seconds: float, received: int, sent: int, polls: bool
    ) -> None: ...


class AccessLog:
    """The application, told of.

    `proxied`: requests come by way of a proxy, whose ids they keep.
    """

    def __init__(
        self, app: types.ASGIApp, *, proxied: bool = False, observer: Observer | None = None
    ) -> None:
        self._app = app
        self._proxied = proxied
        self._observer = observer
        self._answering = 0
        self._idle = Signal(is_set=True)

    async def idle(self) -> None:
        """Return when nothing is being answered, long polls aside."""
        await self._idle.wait()

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._given_id(scope) or chance.token_hex(8)
        scope["request_id"] = request_id
        told_id = (b"x-request-id", request_id.encode())
        counts = not scope["path"].endswith(_POLL)
        self._begin(counts)
        line = _Line(scope)

        async def told_receive() -> types.Message:
            message = await receive()
            line.taken += len(message.get("body", b""))
            return message

        async def told_send(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), told_id]
            await send(message)
            line.status = message.get("status", line.status)
            line.sent += len(message.get("body", b""))

        try:
            await self._app(scope, told_receive, told_send)
        finally:
            self._end(counts)
            line.write()
            if self._observer is not None:
                line.count(self._observer, polls=not counts)

    def _given_id(self, scope: types.Scope) -> str | None:
        """The proxy's id of a request, if it is one."""
        if not self._proxied:
            return None
        given = [value for name, value in scope["headers"] if name == b"x-request-id"]
        return given[0].decode() if len(given) == 1 and _ID.fullmatch(given[0]) else None

    def _begin(self, counts: bool) -> None:
        if self._observer is not None:
            self._observer.began(polls=not counts)
        self._answering += counts
        if self._answering == 1:
            self._idle.clear()

    def _end(self, counts: bool) -> None:
        self._answering -= counts
        if not self._answering:
            self._idle.set()


class _Line:
    def __init__(self, scope: types.Scope) -> None:
        self._scope = scope
        self._began = clock.monotonic()
        self._took = 0.0
        self.status = 0  # 0: the client was gone before there was an answer
        self.taken = 0
        self.sent = 0

    def count(self, observer: Observer, *, polls: bool) -> None:
        observer.ended(
            _method(self._scope),
            template(self._scope),
            self.status,
            seconds=self._took,
            received=self.taken,
            sent=self.sent,
            polls=polls,
        )

    def write(self) -> None:
        self._took = clock.monotonic() - self._began
        user, by = self._scope.get("user_id", "-"), self._scope.get("acting_id")
        log.info(
            "method=%s path=%s status=%d ms=%.1f in=%d out=%d user=%s%s request=%s",
            _method(self._scope),
            template(self._scope),
            self.status,
            self._took * 1000,
            self.taken,
            self.sent,
            user,
            "" if by is None else f" by={by}",
            self._scope["request_id"],
        )


def _method(scope: types.Scope) -> str:
    """The method; what a client made up itself is not told."""
    method: str = scope["method"]
    return method if method.isalpha() and len(method) <= 10 else "(other)"


def template(scope: types.Scope) -> str:
    """The path with names in the place of ids; `(none)` where no route was found."""
    route = scope.get("route")
    if not isinstance(route, routing.Route):
        return "(none)"
    above: str = scope.get("root_path", "")
    return above + route.path
