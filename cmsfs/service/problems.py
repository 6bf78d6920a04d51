"""Turns exceptions into HTTP statuses and error bodies; the only place that does.

Code of the service raises `Refused`; `ErrorMiddleware` wraps the whole application and turns it, and every
unexpected exception, into a response.  An error that is known before the request's body was read is
sent at once, and the rest of the body is then read and discarded, so that a connection reset does not lose
the response.

Rule: hostile input ends as 4xx; a 500 is our bug and is logged with its traceback, unless a content is lost.
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

from cmsfs.models import problems, wire_names
from cmsfs.runtime import chance, clock
from cmsfs.service.storage import blobs, engine

log = logging.getLogger(__name__)

# How much of a refused upload we still read and discard, and for how long.
DRAIN_BYTES = 16 * 1024 * 1024
DRAIN_SECONDS = 5

# An outage is logged as a warning again if no request ran into it for this time.
QUIET_SECONDS = 60.0


class Refused(Exception):
    """An error response: the status, the error code, the message and the details for the client."""

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
    """An error of the token endpoint, whose body has a format of its own."""

    def __init__(
        self, error: str, description: str, *, status: int = 400, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description
        self.status = status
        self.headers = dict(headers or {})


class UnauthorizedResponse(Exception):
    """No token, or an invalid one.  The response has an empty body; the reason is in a header."""

    def __init__(self, description: str | None = None) -> None:
        super().__init__(description or "no token")
        self.description = description


def invalid(
    name: str, message: str, *, code: str = "bad_request", reason: str = "invalid_parameter"
) -> Refused:
    """Return a 400 for one invalid parameter."""
    info = {"errors": [{"reason": reason, "name": name, "message": message}]}
    return Refused(400, code, f"{name}: {message}", context_info=info)


def not_found(name: str, wire_id: str, *, code: str = "not_found") -> Refused:
    """Return a 404 for an item that does not exist or may not be seen."""
    info = {
        "errors": [{"reason": "invalid_parameter", "name": name, "message": f"Invalid value 'd_{wire_id}'."}]
    }
    message = {"trashed": "is in the trash", "not_trashed": "is not in the trash"}.get(code, "was not found")
    return Refused(404, code, f"The {name} {message}.", context_info=info)


_UNKNOWN = "there is no such field, or it cannot be changed"


def from_validation(error: pydantic.ValidationError, *, code: str = "bad_request") -> Refused:
    """Return a 400 for a body or query string that fails validation, with one error per field."""
    found = []
    for one in error.errors(include_url=False, include_context=False, include_input=False):
        reason = "missing_parameter" if one["type"] == "missing" else "invalid_parameter"
        message = _UNKNOWN if one["type"] == "extra_forbidden" else one["msg"]
        found.append({"reason": reason, "name": ".".join(map(str, one["loc"])), "message": message})
    first = found[0]
    where = f"{first['name']}: " if first["name"] else ""
    return Refused(400, code, f"{where}{first['message']}", context_info={"errors": found})


def _error_response(refused: Refused, request_id: str) -> responses.Response:
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
    # Names in messages may hold invalid text (lone surrogates).
    data = pydantic_core.to_json(body, inf_nan_mode="null", serialize_unknown=True)
    return responses.Response(data, status, headers, media_type="application/json")


class Outage:
    """Logs an outage as a warning once; within that time, others that run into it are logged as info."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._last: float | None = None

    def log_outage(self, error: object) -> None:
        before, self._last = self._last, clock.monotonic()
        is_new = before is None or self._last - before > QUIET_SECONDS
        log.log(logging.WARNING if is_new else logging.INFO, "%s out of reach: %s", self._what, error)


def _translate(
    error: Exception, request_id: str, *, contents: Outage, database: Outage
) -> responses.Response:
    """Map each exception to its response."""
    match error:
        case Refused():
            return _error_response(error, request_id)
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
            return _error_response(
                Refused(error.status_code, code, error.detail, headers=error.headers), request_id
            )
        case pydantic.ValidationError():
            return _error_response(from_validation(error), request_id)
        case blobs.ContentLost():
            blobs.log_lost(error)
            message = "The service has lost the content of this file; an administrator can bring it back."
            return _error_response(Refused(500, problems.CONTENT_LOST, message), request_id)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):
            log.error("no space left for the service's data")
            return _error_response(
                Refused(403, "storage_limit_exceeded", "The service's disk is full."), request_id
            )
        case OSError() if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM):
            log.error("the service has no descriptors or no memory left")
            return _error_response(_busy(), request_id)
        case OSError() if error.errno == errno.EAGAIN:
            contents.log_outage(error.strerror)
            return _error_response(_busy(), request_id)
        case engine.DatabaseUnavailable():
            database.log_outage(error)
            return _error_response(_busy(), request_id)
        case sqlite3.OperationalError() if "unable to open" in str(error):
            log.error("the database cannot be opened: %s", error)
            return _error_response(_busy(), request_id)
        case sqlite3.OperationalError() if "locked" in str(error) or "full" in str(error):
            log.error("the database cannot be written: %s", error)
            return _error_response(_busy(), request_id)
        case _:
            log.error("a request failed", exc_info=error)
            return _error_response(Refused(500, "internal_server_error", "The service failed."), request_id)


def _busy() -> Refused:
    message = "The service is busy; try again."
    return Refused(503, "unavailable", message, headers={"Retry-After": "2"})


class ErrorMiddleware:
    """ASGI middleware that answers every error; an error after the response began ends the connection."""

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
        # The access log uses the same id (see access_log.py).
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
            log.debug("a client disconnected")
        except Exception as error:
            if started:
                raise
            response = _translate(_unwrap(error), request_id, **self._outages)
            # A client that was too slow to send the body (408) is not waited for again.
            if body_read or response.status_code == 408:
                await response(scope, receive, send)
            else:
                await _answer_early(response, scope, receive, send)


def _unwrap(error: Exception) -> Exception:
    """The error itself, if a task of the request raised it: a nursery puts it into a group."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


def _check_version(scope: types.Scope) -> None:
    wanted = [value for name, value in scope["headers"] if name == wire_names.VERSION_HEADER.encode()]
    if wanted and wanted != [wire_names.VERSION.encode()]:
        message = f"Supported API versions: [{wire_names.VERSION}]."
        raise Refused(400, "invalid_api_version", message)


async def _answer_early(
    response: responses.Response, scope: types.Scope, receive: types.Receive, send: types.Send
) -> None:
    """Send a complete response, then drain the rest of the request's body before ending the exchange."""
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
