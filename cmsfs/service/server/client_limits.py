"""Limits on slow clients and on request headers, before the application sees a request.

`serve` wraps the application in `ClientLimits`; an in-process service does not need it.

A request body may keep us waiting for GRACE_SECONDS, and longer for every byte received (LEAST_RATE), so that
a slow upload succeeds and a slowloris attack does not.  Only time spent waiting for the client counts.

Rule: a request's `Host` is trusted only if it names this server: URLs in responses, and stored ones, are
built from it.
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

# A client that sends nothing for this long in the middle of a body is considered gone.
SILENCE_SECONDS = 60.0

_ALWAYS = ((b"x-content-type-options", b"nosniff"),)
_WITH_TLS = ((b"strict-transport-security", b"max-age=31536000"),)


class ClientLimits:
    """ASGI middleware that enforces the limits."""

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
        scope["headers"] = self._with_trusted_host(scope)
        connection = self._connections.find(scope.get("client"))
        if connection is None:  # it was closed to make room a moment ago
            await self._app(scope, receive, self._with_headers(send))
            return
        body = _Body(connection, receive)

        async def monitored_send(message: types.Message) -> None:
            with connection.waiting():
                await send(message)

        with connection.answering():
            await self._app(scope, body.receive, self._with_headers(monitored_send))

    def _with_headers(self, send: types.Send) -> types.Send:
        async def send_with_headers(message: types.Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message.get("headers", ())}
                more = [one for one in self._headers if one[0] not in known]
                message = {**message, "headers": [*message.get("headers", ()), *more]}
            await send(message)

        return send_with_headers

    def _with_trusted_host(self, scope: types.Scope) -> list[tuple[bytes, bytes]]:
        """The request's headers, with our address as `Host` if it does not name this server."""
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        address, port = scope["server"]
        given = next((value.decode("latin-1") for name, value in headers if name == b"host"), "")
        if _is_ours(given, address, self._names):
            return headers
        shown = f"[{address}]" if ":" in address else address
        return [(b"host", f"{shown}:{port}".encode()), *(one for one in headers if one[0] != b"host")]


@functools.lru_cache(maxsize=256)
def _is_ours(given: str, address: str, names: frozenset[str]) -> bool:
    """Whether a `Host` names this server, at any port: it differs behind a tunnel."""
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


def certificate_names(certfile: Path) -> frozenset[str]:
    """The DNS names and IP addresses in a certificate.  Raises `OSError`."""
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
    """A request's body, with its remaining waiting time."""

    def __init__(self, connection: Connection, receive: types.Receive) -> None:
        self._connection = connection
        self._receive = receive
        self._allowance = GRACE_SECONDS
        self._is_complete = False

    async def receive(self) -> types.Message:
        """The next piece of the body; 408 if it does not arrive in time."""
        if self._is_complete:  # after the body, wait for a disconnect
            return await self._receive()
        began = trio.current_time()
        with self._connection.waiting(), trio.move_on_after(min(self._allowance, SILENCE_SECONDS)):
            message = await self._receive()
            self._allowance -= trio.current_time() - began
            self._allowance += len(message.get("body", b"")) / LEAST_RATE
            self._is_complete = not message.get("more_body", False)
            return message
        self._is_complete = True
        reason = "The body of the request did not come in time."
        raise problems.Refused(408, "request_timeout", reason, headers={"Connection": "close"})
