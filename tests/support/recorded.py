"""Records the HTTP exchanges of clients and the service, to check them against the public description."""

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cmsfs.service.server import app
from tests.support import front, public_api, public_deviations
from tests.support.public_api import Exchange

# Recorded bytes of a request body: uploads are long, and their attributes come first.
_MOST = 1024**2
_PART = re.compile(rb'form-data; name="(\w+)"; filename=')
_ATTRIBUTES = re.compile(rb'name="attributes"[^\r]*\r\n(?:[^\r\n]+\r\n)*\r\n(.*?)\r\n--', re.DOTALL)


class Recorder:
    """ASGI middleware that records exchanges."""

    def __init__(self, inner: ASGIApp, exchanges: list[Exchange]) -> None:
        self._inner = inner
        self._exchanges = exchanges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        request_body, response_body = bytearray(), bytearray()
        answer: dict[str, Any] = {}

        async def recorded_receive() -> Message:
            message = await receive()
            if len(request_body) < _MOST:
                request_body.extend(message.get("body", b""))
            return message

        async def recorded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.update(message)
            elif len(response_body) < _MOST * 16:
                response_body.extend(message.get("body", b""))
            await send(message)

        try:
            await self._inner(scope, recorded_receive, recorded_send)
        finally:
            if answer and scope["method"] != "HEAD":
                self._exchanges.append(_exchange(scope, bytes(request_body), answer, bytes(response_body)))


def passed(one: front.Passed) -> Exchange | None:
    """The exchange that went through a front; None if it is not recorded here either."""
    if one.response is None or one.request.method == b"HEAD":
        return None
    path, _, query = one.request.target.partition(b"?")
    scope = {
        "method": one.request.method.decode(),
        "path": unquote(path.decode("latin-1")),
        "query_string": query,
        "headers": list(one.request.headers),
    }
    answer = {"status": one.response.status_code, "headers": list(one.response.headers)}
    return _exchange(scope, bytes(one.asked), answer, bytes(one.answered))


def _exchange(
    scope: Mapping[str, Any], request_body: bytes, answer: dict[str, Any], response_body: bytes
) -> Exchange:
    query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
    return Exchange(
        method=scope["method"],
        path=scope["path"],
        query=frozenset(name for name, _ in query),
        asked=_body(_header(scope["headers"], b"content-type"), request_body),
        status=answer["status"],
        answered=_body(_header(answer.get("headers", ()), b"content-type"), response_body),
        length=len(response_body),
    )


def _header(headers: Any, name: bytes) -> bytes:
    return next((value for one, value in headers if one.lower() == name), b"")


def _body(content_type: bytes, body: bytes) -> Any:
    """What is said; the older Python client does not say that it is JSON."""
    if b"multipart" in content_type:
        found = _ATTRIBUTES.search(body)
        if found is not None:
            return {"attributes": json.loads(found[1])}
        # Files alone: what they are called, without their bytes.
        return {name.decode(): "" for name in _PART.findall(body)} or None
    if b"urlencoded" in content_type:
        return dict(parse_qsl(body.decode("utf-8")))
    is_json = b"json" in content_type or (not content_type and body[:1] in (b"{", b"["))
    return json.loads(body) if is_json and body else None


def install(monkeypatch: pytest.MonkeyPatch) -> list[Exchange]:
    """The list of what passes the services that are built from now on."""
    found: list[Exchange] = []
    build = app.build

    def recorded(*args: Any, **options: Any) -> ASGIApp:
        return Recorder(build(*args, **options), found)

    monkeypatch.setattr(app, "build", recorded)
    return found


def conform(exchanges: list[Exchange]) -> None:
    """Fail for an exchange that deviates from the public description in an undocumented way."""
    lines = [line for one in exchanges for line in public_api.problems(one)]
    untold = public_deviations.untold(list(dict.fromkeys(lines)))
    assert not untold, "\n".join(untold)
