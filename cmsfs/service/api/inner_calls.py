"""Lets a page ask an operation of the API, as a request of the person who looks at it.

The operation's own handler runs: the same checks, the same events, the same words when something is refused.
What has a body of bytes (an upload) is handed on as it arrives, never read here.

Rule: no page changes anything where there is an operation for it.
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

# What a streamed body needs to be understood; nothing else of a browser's headers is a client's.
_OF_THE_BODY = frozenset((b"content-type", b"content-length", b"content-md5", b"if-match"))


class Mistake(Exception):
    """What cannot be done, and the sentence that says why."""

    def __init__(self, said: str, *, status: int = 400, code: str = "invalid_request") -> None:
        super().__init__(said)
        self.status = status
        self.code = code


def sentence(error: Exception) -> str:
    """A refusal for people."""
    if isinstance(error, pydantic.ValidationError):
        return problems.from_validation(error).message
    return error.message if isinstance(error, problems.Refused) else str(error)


def mistake(error: Exception) -> Mistake:
    """A refusal as what a page says."""
    if isinstance(error, problems.Refused):
        return Mistake(sentence(error), status=error.status, code=error.code)
    return Mistake(sentence(error))


async def answer(
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
    """What an operation answers to `caller`; raises `Mistake` for what it refuses.

    `params` are those of the path beside the id.
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
        raise mistake(error) from None
    return found


async def hand_on(
    request: requests.Request, store: Store, caller: calls.Caller, line: str, *, wire_id: str = ""
) -> responses.Response:
    """What an operation answers to the very body that is arriving; refusals are the operation's own."""
    given = [one for one in request.scope["headers"] if one[0] in _OF_THE_BODY]
    scope = _scope(request, line, {"id": wire_id}, given, {})
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
