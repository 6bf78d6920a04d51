"""The access log: method, path, status, duration and user of each request.

`serve` puts `AccessLog` around the application.  Lines are `key=value` through standard logging, to be read
by people and cut by programs; `request` is the id that an error body shows as `request_id`, and `by` the
administrator who acts as the `user`, where there is one.  It also knows
when nothing is being answered any more, which is when a service that is to stop may.

Rule: of the address only the route's template is told.  Ids, names, queries, words of shared links, headers
and bodies are not: tokens, codes and passwords travel in all of them.
"""

import logging

from starlette import routing, types

from cmsfs.runtime import chance, clock
from cmsfs.wakeup import Signal

log = logging.getLogger("cmsfs.service.access.calls")

# Held open for minutes to say that nothing has happened: no reason to wait for it.
_POLL = "/events/wait"


class AccessLog:
    """The application, told of."""

    def __init__(self, app: types.ASGIApp) -> None:
        self._app = app
        self._answering = 0
        self._idle = Signal(is_set=True)

    async def idle(self) -> None:
        """Return when nothing is being answered, long polls aside."""
        await self._idle.wait()

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["request_id"] = chance.token_hex(8)
        counts = not scope["path"].endswith(_POLL)
        self._begin(counts)
        line = _Line(scope)

        async def told_receive() -> types.Message:
            message = await receive()
            line.taken += len(message.get("body", b""))
            return message

        async def told_send(message: types.Message) -> None:
            await send(message)
            line.status = message.get("status", line.status)
            line.sent += len(message.get("body", b""))

        try:
            await self._app(scope, told_receive, told_send)
        finally:
            self._end(counts)
            line.write()

    def _begin(self, counts: bool) -> None:
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
        self.status = 0  # 0: the client was gone before there was an answer
        self.taken = 0
        self.sent = 0

    def write(self) -> None:
        took = (clock.monotonic() - self._began) * 1000
        user, by = self._scope.get("user_id", "-"), self._scope.get("acting_id")
        log.info(
            "method=%s path=%s status=%d ms=%.1f in=%d out=%d user=%s%s request=%s",
            _method(self._scope),
            template(self._scope),
            self.status,
            took,
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
