"""Limits on slow clients and on request headers, before the application sees a request.

`serve` puts `ClientLimits` around the application; a service in the same process does without.

A body has GRACE_SECONDS of waiting, and more for every byte that came (LEAST_RATE), so that a slow upload
lives and one that drips does not.  Only waiting for the client counts.

Rule: of a request's `Host` nothing is believed but the names of this server; addresses in answers, and those
that are stored, are made of it.
"""

import functools
import ipaddress
import ssl
from pathlib import Path
from urllib.parse import urlsplit

import trio
from cryptography import x509
from starlette import types

from cmsfs.service import problems
from cmsfs.service.server.connections import Connection, Connections

GRACE_SECONDS = 20.0
LEAST_RATE = 500  # bytes a second, from the first one on

# Nobody who is still there says nothing for so long in the middle of a body.
SILENCE_SECONDS = 60.0

_ALWAYS = ((b"x-content-type-options", b"nosniff"),)
_WITH_TLS = ((b"strict-transport-security", b"max-age=31536000"),)


class ClientLimits:
    """The application, guarded."""

    def __init__(
        self, app: types.ASGIApp, connections: Connections, *, names: frozenset[str], tls: bool
    ) -> None:
        self._app = app
        self._connections = connections
        self._names = names
        self._headers = _ALWAYS + (_WITH_TLS if tls else ())

    async def __call__(self, scope: types.Scope, receive: types.Receive, send: types.Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["headers"] = self._checked(scope)
        connection = self._connections.find(scope.get("client"))
        if connection is None:  # it was sent away a moment ago
            await self._app(scope, receive, self._telling(send))
            return
        body = _Body(connection, receive)

        async def timely_send(message: types.Message) -> None:
            with connection.waiting():
                await send(message)

        with connection.answering():
            await self._app(scope, body.receive, self._telling(timely_send))

    def _telling(self, send: types.Send) -> types.Send:
        async def told(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [one for one in self._headers if one[0] not in known]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return told

    def _checked(self, scope: types.Scope) -> list[tuple[bytes, bytes]]:
        """The headers with a `Host` that is ours."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        address, port = scope["server"]
        given = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        if _is_ours(given, address, self._names):
            return headers
        shown = f"[{address}]" if ":" in address else address
        return [(b"host", f"{shown}:{port}".encode()), *(one for one in headers if one[0] != b"host")]


@functools.lru_cache(maxsize=256)
def _is_ours(given: str, address: str, names: frozenset[str]) -> bool:
    """Whether a `Host` names this server, at whatever port: a tunnel's may be another."""
    try:
        parts = urlsplit(f"//{given}")
        host = parts.hostname or ""
        if parts.netloc != given or "@" in given or (parts.port is not None and not parts.port):
            return False
    except ValueError:
        return False
    if host in names or host == address or any(one[:2] == "*." and _matches(host, one) for one in names):
        return True
    return _is_loopback(address) and (host == "localhost" or _is_loopback(host))


def _matches(host: str, pattern: str) -> bool:
    return host.partition(".")[2] == pattern[2:] and bool(host.partition(".")[0])


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def names_of(certfile: Path) -> frozenset[str]:
    """What a certificate says that its server is called.  Raises `OSError`."""
    try:
        first = x509.load_pem_x509_certificates(certfile.read_bytes())[0]
        found = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except ValueError as error:
        raise ssl.SSLError(str(error)) from error
    except x509.ExtensionNotFound:
        return frozenset()
    names = [one.lower() for one in found.get_values_for_type(x509.DNSName)]
    return frozenset([*names, *map(str, found.get_values_for_type(x509.IPAddress))])


class _Body:
    """A request's body, and how long it has been waited for."""

    def __init__(self, connection: Connection, receive: types.Receive) -> None:
        self._connection = connection
        self._receive = receive
        self._left = GRACE_SECONDS
        self._whole = False

    async def receive(self) -> types.Message:
        """The next of it.  408 if it does not come in time."""
        if self._whole:  # what comes now is the end of the connection
            return await self._receive()
        began = trio.current_time()
        with self._connection.waiting(), trio.move_on_after(min(self._left, SILENCE_SECONDS)):
            message = await self._receive()
            self._left -= trio.current_time() - began
            self._left += len(message.get("body", b"")) / LEAST_RATE
            self._whole = not message.get("more_body", False)
            return message
        self._whole = True
        said = "The body of the request did not come in time."
        raise problems.Refused(408, "request_timeout", said, headers={"Connection": "close"})
