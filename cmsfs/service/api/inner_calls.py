"""Lets a web page call an operation of the API, as a request of the user who views the page.

The operation's own handler runs, with the same checks, events and error messages.  A request with a body of
bytes (an upload) is streamed through, never read here.

Rule: pages change nothing directly where an operation exists.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import pydantic
from starlette import requests, responses, types

from cmsfs import errors
from cmsfs.service import problems
from cmsfs.service.access import calls
from cmsfs.service.storage.store import Store

# The only headers of the browser that are forwarded: those that describe a streamed body.
_OF_THE_BODY = frozenset(
    (b"content-type", b"content-length", b"content-md5", b"content-range", b"digest", b"if-match")
)


class Mistake(Exception):
    """A failed request of a page; the message is shown to the user."""

    def __init__(self, message: str, *, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def message_of(error: Exception) -> str:
    """Return an error's message for people."""
    if isinstance(error, pydantic.ValidationError):
        return problems.from_validation(error).message
    return error.message if isinstance(error, problems.Refused) else str(error)


def as_mistake(error: Exception) -> Mistake:
    """Convert an error to the `Mistake` that a page shows."""
    if isinstance(error, problems.Refused):
        return Mistake(message_of(error), status=error.status, code=error.code)
    return Mistake(message_of(error))


async def call_operation(
    request: requests.Request,
    store: Store,
    caller: calls.Caller,
    line: str,
    *,
    wire_id: str = "",
    params: Mapping[str, str] | None = None,
    body: Any = None,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> responses.Response:
    """Return the operation's response to `caller`; raises `Mistake` if the operation refuses.

    `params` are path parameters other than the id.
    """
    given = [(name.encode(), one.encode()) for name, one in (headers or {}).items()]
    scope = _scope(request, line, {"id": wire_id, **(params or {})}, given, query or {})
    data = b"{}" if body is None else json.dumps(body).encode()

    async def receive() -> types.Message:
        return {"type": "http.request", "body": data, "more_body": False}

    call = calls.Call(requests.Request(scope, receive), store, caller, data)
    try:
        found: responses.Response = await request.app.operations[line].handler(call)
    except (problems.Refused, pydantic.ValidationError, errors.UserError) as error:
        raise as_mistake(error) from None
    return found


async def forward(
    request: requests.Request, store: Store, caller: calls.Caller, line: str, *, wire_id: str = ""
) -> responses.Response:
    """Pass the incoming body and query on to an operation; errors are raised as the operation raises them."""
    given = [one for one in request.scope["headers"] if one[0] in _OF_THE_BODY]
    scope = _scope(request, line, {"id": wire_id}, given, request.query_params)
    call = calls.Call(requests.Request(scope, request.receive), store, caller)
    found: responses.Response = await request.app.operations[line].handler(call)
    return found


def _scope(
    request: requests.Request,
    line: str,
    params: Mapping[str, str],
    headers: list[tuple[bytes, bytes]],
    query: Mapping[str, Any],
) -> dict[str, Any]:
    method, path = line.split()
    host = [one for one in request.scope["headers"] if one[0] == b"host"]
    return {
        "type": "http",
        "method": method,
        "path": path,
        "scheme": request.scope.get("scheme", "http"),
        "server": request.scope.get("server"),
        "client": request.scope.get("client"),
        "query_string": urlencode({name: one for name, one in query.items() if one}).encode(),
        "headers": [*host, *headers],
        "path_params": dict(params),
        "app": request.app,
    }
