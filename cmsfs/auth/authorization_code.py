"""The authorization-code grant with PKCE: builds the browser URL and receives the code on loopback.

`Consent` is one attempt; its code arrives at the `Listener`, which waits on the loopback address for the
browser, or is pasted by the user.  `redeem` exchanges it for tokens.

Every user of the machine can read a browser's arguments and connect to the loopback address.  So the browser
is opened at a page of the listener, which sets a cookie and redirects it, and only that browser's response is
accepted: otherwise another user could consent with his own account and receive our drive's files.

Rule: a code is accepted only with the state of this attempt, from a program of this user that has the cookie;
the verifier is sent only to the token endpoint.
"""

import base64
import hashlib
import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

import pydantic
import trio

from cmsfs import errors
from cmsfs.auth import loopback_peers
from cmsfs.client import session
from cmsfs.models.enterprise import tokens
from cmsfs.runtime import chance, threads

PATH = "/callback"
START = "/start"
CONSENT_SECONDS = 600.0
_REQUEST_SECONDS = 10.0
_MAX_HEAD = 16 * 1024

_PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>"
    "<body style='font-family:sans-serif;margin:4em'><main><h1>{title}</h1><p>{said}</p></main></body></html>"
)


@dataclass(frozen=True, slots=True)
class Consent:
    """One authorization request."""

    authorize_url: str
    client_id: str
    redirect_uri: str
    scope: str = ""  # empty: all scopes of the application
    state: str = field(repr=False, default_factory=lambda: chance.token_urlsafe(24))
    verifier: str = field(repr=False, default_factory=lambda: chance.token_urlsafe(48))

    @property
    def url(self) -> str:
        """The authorization URL to open in the browser."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        query = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64.urlsafe_b64encode(digest).decode().rstrip("="),
            "code_challenge_method": "S256",
        }
        if self.scope:
            query["scope"] = self.scope
        joint = "&" if "?" in self.authorize_url else "?"
        return f"{self.authorize_url}{joint}{urlencode(query)}"

    def code_of(self, query: str) -> str | None:
        """Return the code in a redirect's query; None if the redirect does not belong to this attempt.

        Raises `UserError` if access was denied.
        """
        found = {name: values[0] for name, values in parse_qs(query).items()}
        if not hmac.compare_digest(found.get("state", "").encode(), self.state.encode()):
            return None
        if "error" in found:
            if found["error"] == "access_denied":
                raise errors.UserError("The access was denied; nothing has changed.", exit_code=6)
            is_scope = found["error"] == "invalid_scope"
            hint = "; `--admin` asks for all that the application has" if is_scope else ""
            raise errors.UserError(f"The service refuses: {_clean(found['error'])}{hint}.", exit_code=6)
        return found.get("code") or None

    def code_pasted(self, text: str) -> str:
        """Return the code in text that the user pasted: the final URL in the browser, or the code alone.

        Raises `UserError`.
        """
        text = text.strip()
        if "://" not in text and "?" not in text and "=" not in text:
            if text:
                return text
            raise errors.UserError("Nothing was pasted.", exit_code=2)
        code = self.code_of(urlsplit(text).query)
        if code is None:
            raise errors.UserError("This address does not belong to this log-in; begin anew.", exit_code=2)
        return code

    async def redeem(self, client: session.Client, code: str, client_secret: str) -> tokens.Token:
        """Exchange the code for tokens.  Raises `RemoteError`."""
        grant = tokens.AuthorizationCode(
            client_id=self.client_id,
            client_secret=pydantic.SecretStr(client_secret) if client_secret else None,
            code=pydantic.SecretStr(code),
            redirect_uri=self.redirect_uri,
            code_verifier=pydantic.SecretStr(self.verifier),
        )
        return await client.tokens.request(grant)


class Listener:
    """Waits on 127.0.0.1 for the browser's redirect."""

    def __init__(self, listening: trio.SocketListener) -> None:
        self._listening = listening
        self._host = f"127.0.0.1:{listening.socket.getsockname()[1]}"
        self._key = chance.token_urlsafe(16)
        # A host's cookies are sent to all its ports: a random name, so that two logins do not collide.
        self._cookie = f"cmsfs_login_{chance.token_hex(4)}={chance.token_urlsafe(24)}"

    @property
    def redirect_uri(self) -> str:
        """The URL that the service redirects the browser to."""
        return f"http://{self._host}{PATH}"

    @property
    def start_url(self) -> str:
        """The URL to open in the browser: it sets the cookie and redirects to the authorization URL."""
        return f"http://{self._host}{START}?{self._key}"

    async def code(self, consent: Consent) -> str:
        """Wait for the code.  Raises `UserError` if access is denied, or nobody answers in ten minutes.

        Other requests to the port are answered and ignored.
        """
        send, receive = trio.open_memory_channel[str | errors.UserError](1)  # the first answer counts

        async def handle(stream: trio.SocketStream) -> None:
            try:
                with trio.move_on_after(_REQUEST_SECONDS):
                    await self._handle_request(stream, consent, send)
            except (trio.BrokenResourceError, trio.ClosedResourceError, OSError):
                pass  # a browser's speculative connection

        with trio.move_on_after(CONSENT_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, handle, [self._listening])
                answer = await receive.receive()
                nursery.cancel_scope.cancel()
            if isinstance(answer, errors.UserError):
                raise answer
            return answer
        raise errors.UserError("Nobody answered in the browser within ten minutes.", exit_code=6)

    async def _handle_request(
        self,
        stream: trio.SocketStream,
        consent: Consent,
        send: trio.MemorySendChannel[str | errors.UserError],
    ) -> None:
        async with stream:
            asked = await _request(stream)
            ends = stream.socket.getsockname(), stream.socket.getpeername()
            if not await threads.run_sync(loopback_peers.is_ours, *ends):
                await _answer(stream, "403 Forbidden", "Not yours", "This log-in is another user's.")
            elif asked.host != self._host or asked.path not in (PATH, START):
                await _answer(stream, "404 Not Found", "Not here", "There is nothing here.")
            elif asked.path == START and hmac.compare_digest(asked.query.encode(), self._key.encode()):
                await _redirect(stream, consent.url, self._cookie)
            elif asked.path == START or not asked.has(self._cookie):
                await _answer(stream, "400 Bad Request", "Not this log-in", "This belongs to another log-in.")
            else:
                await _accept_answer(stream, consent, send, asked.query)


@asynccontextmanager
async def listening(port: int = 0) -> AsyncIterator[Listener]:
    """Open a listener, on a free port unless one is given.  Raises `UserError`."""
    try:
        (listener,) = await trio.open_tcp_listeners(port, host="127.0.0.1")
    except OSError as error:
        raise errors.UserError(f"Port {port} cannot be listened on: {error.strerror}.") from None
    async with listener:
        yield Listener(listener)


def reserved_port(port: int = 0) -> socket.socket:
    """Reserve a port that nobody can listen on while the returned socket is open: if the code is pasted, the
    browser's redirect must reach no program."""
    holder = socket.socket()
    try:
        holder.bind(("127.0.0.1", port))
    except OSError as error:
        holder.close()
        raise errors.UserError(f"Port {port} cannot be used: {error.strerror}.") from None
    return holder


async def _accept_answer(
    stream: trio.SocketStream,
    consent: Consent,
    send: trio.MemorySendChannel[str | errors.UserError],
    query: str,
) -> None:
    try:
        code = consent.code_of(query)
    except errors.UserError as refusal:
        await _answer(stream, "200 OK", "No access", "You may close this page.")
        _deliver(send, refusal)
        return
    if code is None:
        await _answer(stream, "400 Bad Request", "Not this log-in", "This belongs to another log-in.")
        return
    await _answer(stream, "200 OK", "Access granted", "cmsfs goes on in its window. You may close this page.")
    _deliver(send, code)


def _deliver(send: trio.MemorySendChannel[str | errors.UserError], answer: str | errors.UserError) -> None:
    try:
        send.send_nowait(answer)
    except trio.WouldBlock:
        pass  # a page that was loaded twice


@dataclass(frozen=True, slots=True)
class _Request:
    """A browser's request; empty if it is not a GET."""

    path: str = ""
    query: str = ""
    host: str = ""
    cookies: tuple[str, ...] = ()

    def has(self, cookie: str) -> bool:
        return any(hmac.compare_digest(one.encode(), cookie.encode()) for one in self.cookies)


async def _request(stream: trio.SocketStream) -> _Request:
    head = bytearray()
    while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD:
        if not (chunk := await stream.receive_some()):
            break
        head += chunk
    first, *lines = bytes(head).partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or words[0] != "GET":
        return _Request()
    path, _, query = words[1].partition("?")
    headers = [(name.strip().lower(), value.strip()) for name, _, value in (x.partition(":") for x in lines)]
    cookies = [one.strip() for name, value in headers if name == "cookie" for one in value.split(";")]
    host = next((value for name, value in headers if name == "host"), "")
    return _Request(path, query, host, tuple(cookies))


async def _redirect(stream: trio.SocketStream, url: str, cookie: str) -> None:
    head = (
        f"HTTP/1.1 303 See Other\r\nLocation: {url}\r\nContent-Length: 0\r\n"
        f"Set-Cookie: {cookie}; Path=/; HttpOnly; SameSite=Lax; Max-Age={CONSENT_SECONDS:.0f}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n\r\n"
    )
    await stream.send_all(head.encode())


async def _answer(stream: trio.SocketStream, status: str, title: str, said: str) -> None:
    body = _PAGE.format(title=title, said=said).encode()
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nConnection: close\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'\r\n\r\n"
    )
    await stream.send_all(head.encode() + body)


def _clean(text: str) -> str:
    """Return untrusted text so that it can be printed on a terminal."""
    return "".join(c for c in text[:80] if c.isprintable())
