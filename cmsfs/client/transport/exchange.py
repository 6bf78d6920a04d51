"""A fast path for building and sending requests as httpx's client does.

For a request without a body, httpx parses the URL character by character, merges four sets of headers, and
passes through five coroutines and a generator: a fifth of the processor time of a small file.  Plain requests
go directly to a transport that says it `is_direct`; all others (a proxy, cookies, an unusual URL) go through
httpx.

Rule: requests and responses are identical on both paths.
"""

import functools
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, cast

import httpx

from cmsfs.client.transport import bodies
from cmsfs.client.transport.direct_transport import DirectTransport

# A URL that needs no escaping and no normalization.
_PLAIN = re.compile(r"(https?://[A-Za-z0-9.:\[\]-]+)((?:/(?!\.)[A-Za-z0-9_.~-]+)+)", re.ASCII)


class TokenSigner(Protocol):
    """Signs requests outside of httpx's auth flow."""

    async def sign(self, request: httpx.Request, refused: Any = None) -> Any:
        """Add a token other than `refused` to the request, and return it."""

    async def is_refused(self, response: httpx.Response) -> bool:
        """Whether the token was rejected; then the response body has been read."""


class _NoBody(httpx.AsyncByteStream):
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


_NO_BODY = _NoBody()


class Exchange:
    """Builds and sends the requests of one httpx client."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._common = [(name, name.lower(), value) for name, value in http.headers.raw]

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> httpx.Request:
        """Build a request as `http.build_request` does, marked `DIRECT`.  Raises as that does."""
        http, where = self._http, address(url, tuple(params.items()) if params else ())
        if method != "GET" or http.cookies or any(part is not None for part in parts.values()):
            made = http.build_request(method, where, headers=headers, **parts)
        else:
            own = [(name.encode("ascii"), value.encode("ascii")) for name, value in (headers or {}).items()]
            named = {name.lower() for name, _ in own}
            common = [(name, value) for name, lower, value in self._common if lower not in named]
            made = httpx.Request(
                method,
                where,
                # In the same order as httpx.
                headers=[(b"Host", where.netloc), *common, *own],
                stream=_NO_BODY,
                extensions={"timeout": http.timeout.as_dict()},
            )
        made.extensions[bodies.DIRECT] = True
        return made

    async def make_ready(self, url: str, connections: int) -> None:
        """Open connections for the first requests to this URL; none to a proxy, or without a network."""
        transport: object = self._http._transport
        if isinstance(transport, DirectTransport) and not self._http._mounts:
            await transport.make_ready(address(url), connections, self._http.timeout.connect)

    async def send(
        self, request: httpx.Request, *, auth: httpx.Auth | None, stream: bool = True
    ) -> httpx.Response:
        """Send as `http.send` does; the response's body is left to the caller."""
        http, signer = self._http, cast("TokenSigner | None", auth)
        transport: object = http._transport
        is_plain = getattr(transport, "is_direct", False) and not (http._mounts or http.is_closed)
        if not is_plain or (auth is not None and not hasattr(auth, "sign")):
            return await http.send(request, auth=auth, stream=stream)
        if signer is None:
            return await self._send_directly(request)
        token = await signer.sign(request)
        response = await self._send_directly(request)
        if await signer.is_refused(response):
            await signer.sign(request, token)
            response = await self._send_directly(request)
            await signer.is_refused(response)
        return response

    async def _send_directly(self, request: httpx.Request) -> httpx.Response:
        response = await self._http._transport.handle_async_request(request)
        response.request = request
        if "set-cookie" in response.headers:
            self._http.cookies.extract_cookies(response)
        if response.has_redirect_location:
            response.next_request = self._http._build_redirect_request(request, response)
        return response


def address(url: str, params: tuple[tuple[str, str], ...] = ()) -> httpx.URL:
    """Return a URL with query parameters."""
    plain = _PLAIN.fullmatch(url)
    found = httpx.URL(url) if plain is None else httpx.URL(_origin(plain[1]))
    changes: dict[str, Any] = {} if plain is None else {"path": plain[2]}
    if params:
        # Passed to `httpx.URL`, the query would be parsed character by character: with the names of all
        # fields that is a third of a request's time on the client.
        changes["query"] = _plain_query(params) or _query(params)
    if changes:
        found._uri_reference = found._uri_reference._replace(**changes)
    return found


@functools.lru_cache(maxsize=64)
def _origin(text: str) -> httpx.URL:
    return httpx.URL(text)


def _plain_query(params: tuple[tuple[str, str], ...]) -> str | None:
    """Return a query of one ASCII number or word; None for others.  Versions differ from file to file."""
    ((name, value), *more) = params
    return f"{name}={value}" if not more and value.isascii() and value.isalnum() else None


@functools.lru_cache(maxsize=64)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return str(httpx.QueryParams(params))
