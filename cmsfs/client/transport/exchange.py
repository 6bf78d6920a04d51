"""Makes requests and sends them as httpx's client does, without what most of them do not need.

For a request without a body httpx parses the address character by character, merges four sets of headers,
and asks its way through five coroutines and a generator: a fifth of what a small file takes of the processor.
What is plain goes from here to the transport at once; all else (a proxy, a transport of tests, cookies, an
unusual address) is httpx's.

Rule: what leaves, and what comes back, is the same either way.
"""

import functools
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol, cast

import httpx

from cmsfs.client.transport import bodies
from cmsfs.client.transport.direct_transport import DirectTransport

# An address with nothing in it that would have to be escaped, or resolved.
_PLAIN = re.compile(r"(https?://[A-Za-z0-9.:\[\]-]+)((?:/(?!\.)[A-Za-z0-9_.~-]+)+)", re.ASCII)


class TokenSigner(Protocol):
    """What signs requests, beside httpx's own way of it."""

    async def sign(self, request: httpx.Request, refused: Any = None) -> Any:
        """Put the token into the request, another one than `refused`; that token."""

    async def is_refused(self, response: httpx.Response) -> bool:
        """Whether the token is no longer good; then the answer has been read."""


class _NoBody(httpx.AsyncByteStream):
    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        raise StopAsyncIteration


_NO_BODY = _NoBody()


class Exchange:
    """Requests of one client of httpx."""

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
        """A request as `http.build_request` makes it, which may go past httpcore.  Raises as that does."""
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
                # In httpx's order.
                headers=[(b"Host", where.netloc), *common, *own],
                stream=_NO_BODY,
                extensions={"timeout": http.timeout.as_dict()},
            )
        made.extensions[bodies.DIRECT] = True
        return made

    async def send(
        self, request: httpx.Request, *, auth: httpx.Auth | None, stream: bool = True
    ) -> httpx.Response:
        """As `http.send`; the body of the answer is left to the caller."""
        http, signer = self._http, cast("TokenSigner | None", auth)
        transport: object = http._transport
        is_plain = isinstance(transport, DirectTransport) and not (http._mounts or http.is_closed)
        if not is_plain or (auth is not None and not hasattr(auth, "sign")):
            return await http.send(request, auth=auth, stream=stream)
        if signer is None:
            return await self._sent(request)
        token = await signer.sign(request)
        response = await self._sent(request)
        if await signer.is_refused(response):
            await signer.sign(request, token)
            response = await self._sent(request)
            await signer.is_refused(response)
        return response

    async def _sent(self, request: httpx.Request) -> httpx.Response:
        response = await self._http._transport.handle_async_request(request)
        response.request = request
        if "set-cookie" in response.headers:
            self._http.cookies.extract_cookies(response)
        if response.has_redirect_location:
            response.next_request = self._http._build_redirect_request(request, response)
        return response


def address(url: str, params: tuple[tuple[str, str], ...] = ()) -> httpx.URL:
    """An address with parameters."""
    plain = _PLAIN.fullmatch(url)
    found = httpx.URL(url) if plain is None else httpx.URL(_origin(plain[1]))
    changes: dict[str, Any] = {} if plain is None else {"path": plain[2]}
    if params:
        # As an argument above it would be looked at character by character: for the names of all fields that
        # is a third of a request's time on this side.
        changes["query"] = _query(params)
    if changes:
        found._uri_reference = found._uri_reference._replace(**changes)
    return found


@functools.lru_cache(maxsize=64)
def _origin(text: str) -> httpx.URL:
    return httpx.URL(text)


@functools.lru_cache(maxsize=64)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return str(httpx.QueryParams(params))
