"""Turns exceptions into HTTP statuses and error bodies; nowhere else does.

Code of the service raises `Refused`; `Edge` wraps the whole application and turns it, and everything
unforeseen, into an answer.  A refusal that comes before the request's body was read is sent at once, and
what the client is still sending is then read and dropped, so that the answer is not lost to a reset.

Rule: hostile input ends as 4xx; a 5xx is our mistake and is logged with its traceback.
"""

import errno
import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

import pydantic
import pydantic_core
import trio
from starlette import exceptions, requests, responses, types

from cmsfs.models import wire_names
from cmsfs.runtime import chance, clock
from cmsfs.service.storage import engine

log = logging.getLogger(__name__)

# How much of an upload that is refused already is still taken off the wire, and for how long.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_SECONDS = 5

# When no request has met it for so long, it is said anew that something is out of reach.
QUIET_SECONDS = 60.0


class Refused(Exception):
    """A request that cannot be done: the status, the machine word, and what the client may want to know."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        context_info: dict[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.context_info = context_info
        self.headers = dict(headers or {})


class OAuthRefused(Exception):
    """A refusal of the token endpoint, whose body has a form of its own."""

    def __init__(
        self, error: str, description: str, *, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})


class UnauthorizedResponse(Exception):
    """No token, or a dead one.  The answer has an empty body; the reason stands in a header."""

    def __init__(self, description: str | None = None) -> None:
        super().__init__(description or "no token")
        self.description = description


def invalid(
    name: str, message: str, *, code: str = "bad_request", reason: str = "invalid_parameter"
) -> Refused:
    """400 for one parameter."""
    info = {"errors": [{"reason": reason, "name": name, "message": message}]}
    return Refused(400, code, f"{name}: {message}", context_info=info)


def not_found(name: str, wire_id: str, *, code: str = "not_found") -> Refused:
    """404 for an item that is not there or may not be seen."""
    info = {
        "errors": [{"reason": "invalid_parameter", "name": name, "message": f"Invalid value 'd_{wire_id}'."}]
    }
    said = {"trashed": "is in the trash", "not_trashed": "is not in the trash"}.get(code, "was not found")
    return Refused(404, code, f"The {name} {said}.", context_info=info)


_UNKNOWN = "there is no such field, or it cannot be changed"


def from_validation(error: pydantic.ValidationError, *, code: str = "bad_request") -> Refused:
    """400 for a body or a query string that a model refuses, one entry a field."""
    found = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        reason = "missing_parameter" if one["type"] == "missing" else "invalid_parameter"
        said = _UNKNOWN if one["type"] == "extra_forbidden" else one["msg"]
        found.append({"reason": reason, "name": ".".join(map(str, one["loc"])), "message": said})
    first = found[0]
    where = f"{first['name']}: " if first["name"] else ""
    return Refused(400, code, f"{where}{first['message']}", context_info={"errors": found})


def _answer(refused: Refused, request_id: str) -> responses.Response:
    body = {
        "type": "error",
        "status": refused.status,
        "code": refused.code,
        "message": refused.message,
        "context_info": refused.context_info,
        "help_url": "",
        "request_id": request_id,
    }
    return _json(body, refused.status, refused.headers)


def _json(body: dict[str, Any], status: int, headers: Mapping[str, str]) -> responses.Response:
    # Names in messages may hold what is no text (halves of surrogate pairs).
    data = pydantic_core.to_json(body, inf_nan_mode="null", serialize_unknown=True)
    return responses.Response(data, status, headers, media_type="application/json")


class Outage:
    """Says as a warning that something is out of reach; what else meets it is a detail."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last: float | None = None

    def met(self, error: object) -> None:
        before, self._last = self._last, clock.monotonic()
        is_new = before is None or self._last - before > QUIET_SECONDS
        log.log(logging.WARNING if is_new else logging.INFO, "%s out of reach: %s", self._what, error)


def _translate(
    error: Exception, request_id: str, *, contents: Outage, database: Outage
) -> responses.Response:
    """The one table."""
    match error:
        case Refused():
            return _answer(error, request_id)
        case OAuthRefused():
            body = {"error": error.error, "error_description": error.description}
            return _json(body, error.status, {"Cache-Control": "no-store"} | error.headers)
        case UnauthorizedResponse():
            challenge = 'Bearer realm="Service"'
            if error.description:
                challenge += f', error="invalid_token", error_description="{error.description}"'
            return responses.Response(status_code=401, headers={"WWW-Authenticate": challenge})
        case exceptions.HTTPException():
            codes = {404: "not_found", 405: "method_not_allowed"}
            code = codes.get(error.status_code, "bad_request")
            return _answer(Refused(error.status_code, code, error.detail, headers=error.headers), request_id)
        case pydantic.ValidationError():
            return _answer(from_validation(error), request_id)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            log.error("no space left for the service's data")
            return _answer(Refused(403, "storage_limit_exceeded", "The service's disk is full."), request_id)
        case OSError() if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            log.error("the service has no descriptors or no memory left")
            return _answer(_busy(), request_id)
        case OSError() if error.errno == errno.EAGAIN:
            contents.met(error.strerror)
            return _answer(_busy(), request_id)
        case engine.DatabaseUnavailable():
            database.met(error)
            return _answer(_busy(), request_id)
        case sqlite3.OperationalError() if "unable to open" in str(error):
            log.error("the database cannot be opened: %s", error)
            return _answer(_busy(), request_id)
        case sqlite3.OperationalError() if "locked" in str(error) or "full" in str(error):
            log.error("the database cannot be written: %s", error)
            return _answer(_busy(), request_id)
        case _:
            log.error("a request failed", exc_info=error)
            return _answer(Refused(500, "internal_server_error", "The service failed."), request_id)


def _busy() -> Refused:
    said = "The service is busy; try again."
    return Refused(503, "unavailable", said, headers={"Retry-After": "2"})


class Edge:
    """The application with every error answered; an error after the answer began ends the connection."""

    def __init__(self, app: types.ASGIApp) -> None:
        self._app = app
        self._outages = {
            "contents": Outage("the contents are"),
            "database": Outage("the database is"),
        }

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False
        body_read = False
        # The access log tells the same id (see access_log.py).
        request_id = scope.setdefault("request_id", chance.token_hex(8))

        async def watched_send(message: types.Message) -> None:
            nonlocal started
            started = True
            await send(message)

        async def watched_receive() -> types.Message:
            nonlocal body_read
            message = await receive()
            body_read = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        try:
            _check_version(scope)
            await self._app(scope, watched_receive, watched_send)
        except requests.ClientDisconnect:
            log.debug("a client went away")
        except Exception as error:
            if started:
                raise
            response = _translate(error, request_id, **self._outages)
            # Who was too slow to send is not waited for once more.
            if body_read or response.status_code == 408:
                await response(scope, receive, send)
            else:
                await _answer_early(response, scope, receive, send)


def _check_version(scope: types.Scope) -> None:
    wanted = [value for name, value in scope["headers"] if name == wire_names.VERSION_HEADER.encode()]
    if wanted and wanted != [wire_names.VERSION.encode()]:
        said = f"Supported API versions: [{wire_names.VERSION}]."
        raise Refused(400, "invalid_api_version", said)


async def _answer_early(
    response: responses.Response, scope: types.Scope, receive: types.Receive, send: types.Send
) -> None:
    """Send a complete answer, then take what the client is still sending before the exchange is ended."""
    start: types.Message = {
        "type": "http.response.start",
        "status": response.status_code,
        "headers": response.raw_headers,
    }
    await send(start)
    body = b"" if scope["method"] == "HEAD" else bytes(response.body)
    await send({"type": "http.response.body", "body": body, "more_body": True})
    left = DRAIN_BYTES
    with trio.move_on_after(DRAIN_SECONDS):
        while left > 0:
            message = await receive()
            if message["type"] != "http.request" or not message.get("more_body", False):
                break
            left -= len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b"", "more_body": False})
