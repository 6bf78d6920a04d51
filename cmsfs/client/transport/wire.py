"""Sends one request: retries if safe, checks the status, decodes the response.

The API modules in `client` define the requests; how a request is sent is defined only here.

A body that is read as a whole is limited while it is decompressed: a small response can expand to fill the
machine's memory.  Only gzip is accepted, since its output can be limited.

Rule: an error response is always raised, never returned, and an httpx exception never leaves this module.

Rule: an endless, huge or extremely slow response is an error like any other.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar

import pydantic
import trio

from cmsfs import errors
from cmsfs.client.transport import bandwidth, bodies, download_urls, hosts, rate_gate, retry
from cmsfs.client.transport import errors as client_errors
from cmsfs.client.transport.lazy import httpx
from cmsfs.client.transport.retry import Repeat
from cmsfs.models import wire_names
from cmsfs.runtime import chance

Counters = collections.Counter[str]


class Decodable(Protocol):
    """What a response can be read as: pydantic's models, and pages of entries."""

    @classmethod
    def model_validate_json(cls, content: bytes, /) -> Self:
        """Decode a response's body.  Raises `pydantic.ValidationError`."""


M = TypeVar("M", bound=Decodable)

MAX_REDIRECTS = 5

# The largest responses are pages: 1,000 entries with all their fields are some MiB.
PAGE_BYTES = 32 * 1024 * 1024
# Tokens, errors, and the bodies of redirects.
SMALL_BYTES = 1024 * 1024

# A response may take a minute (`bodies.GRACE_SECONDS`), plus a second for this many bytes.
LEAST_BYTES = 2048

_GZIP = 16 + zlib.MAX_WBITS


# A response and its body, as a context.
Download = contextlib.AbstractAsyncContextManager[tuple["httpx.Response", bodies.Body]]

_applied: contextvars.ContextVar[bool] = contextvars.ContextVar("applied", default=False)


@contextlib.contextmanager
def applying_answers() -> Iterator[None]:
    """Mark requests in the block, and in tasks started in it, as changes whose responses are applied locally:
    the service need not report them to a poll of the same client (`Wire.session`)."""
    token = _applied.set(True)
    try:
        yield
    finally:
        _applied.reset(token)


class Wire:
    """Sends requests through one httpx client, with the given auth, and counts them by kind."""

    def __init__(
        self,
        http: httpx.AsyncClient,
        *,
        auth: httpx.Auth | None,
        policy: retry.Policy,
        counters: Counters,
        pace: rate_gate.RateGate,
        flow: bandwidth.TransferLimits | None = None,
        in_process: bool = False,
        own: set[str],
    ) -> None:
        self._hosts = hosts.Hosts(own)
        self._in_process = in_process
        self._flow = flow
        # Imported here: it inherits from classes of httpx, which is imported by now.
        from cmsfs.client.transport import exchange

        self._http = http
        self._exchange = exchange.Exchange(http)
        self.make_ready = self._exchange.make_ready
        self._auth = auth
        self._ours: set[tuple[str, str]] = set()  # schemes and hosts already verified to receive the token
        self._policy = policy
        self.counters = counters
        self._pace, self._addresses = pace, download_urls.DownloadUrls()
        # Sent as a header, so that the service does not report a client's own changes to it.
        self.session = {wire_names.SESSION_HEADER: chance.token_hex(8)}

    async def ask(
        self,
        shape: type[M],
        method: str,
        url: str,
        *,
        kind: str = "other",
        repeat: Repeat = Repeat.CHANGE,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        content: bodies.RequestBody | None = None,
        silence: float | None = None,
    ) -> M:
        """Send a request and return the response as a model.  `body` is sent as JSON, `content` as it is.

        `silence` is the read timeout in seconds, if not the default.
        """
        request = self._request(method, url, params=params, headers=headers, json=body)
        if silence is not None:
            request.extensions["timeout"] = self._http.timeout.as_dict() | {"read": silence}
        if content is not None:
            # Imported here: it inherits from a class of httpx.
            from cmsfs.client.transport import throttled_body

            line = None if self._flow is None else self._flow.up
            # Set directly: httpx's encoder would wrap it in a generator.
            request.stream = throttled_body.ThrottledBody(content, line)
        return _decoded(shape, await self._answer(request, kind=kind, repeat=repeat))

    async def ask_ready(
        self,
        shape: type[M],
        method: str,
        url: str,
        *,
        kind: str = "other",
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
    ) -> M | float:
        """Send a change whose response may be "not ready yet" (202); then return the seconds to wait."""
        request = self._request(method, url, params=params, headers=headers, json=body)
        response = await self._answer(request, kind=kind, repeat=Repeat.CHANGE)
        if response.status_code == httpx.codes.ACCEPTED:
            return client_errors.retry_after(response) or 0.0
        return _decoded(shape, response)

    async def tell(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: Any = None
    ) -> None:
        """Send a change whose response has no body."""
        request = self._request(method, url, headers=headers, json=body)
        await self._answer(request, kind="other", repeat=Repeat.CHANGE)

    async def token(self, shape: type[M], url: str, form: Mapping[str, str], *, repeat: Repeat) -> M:
        """Post a form to the token endpoint, without a bearer token; an error response raises
        `OAuthError`."""
        return _decoded(shape, await self.form(url, form, repeat=repeat))

    async def form(self, url: str, form: Mapping[str, str], *, repeat: Repeat) -> httpx.Response:
        """As `token`, for a response without a body."""
        request = self._request("POST", url, data=form)
        if not self.is_private(request.url):
            raise _in_the_clear(request.url)
        return await self._answer(
            request,
            kind="token",
            repeat=repeat,
            is_signed=False,
            limit=SMALL_BYTES,
            refusal=client_errors.from_token_response,
        )

    def stream(self, url: str, **how: Any) -> Download:
        """As `_stream`, which see."""
        return self._stream(url, **how)

    @contextlib.asynccontextmanager
    async def _stream(
        self,
        url: str,
        *,
        kind: str,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str],
        lasting: bool = False,
    ) -> AsyncIterator[tuple[httpx.Response, bodies.Body]]:
        """GET `url`; yield the response and its body as it arrives.  Redirects are followed.

        Retried until the head has arrived.  A 202 means "not ready yet".  `lasting`: the contents at `url`
        never change, so that the redirect target is cached while it is valid.
        """
        request = self._request("GET", url, params=params, headers=headers)
        what = str(request.url)

        async def send(request: httpx.Request, **how: Any) -> httpx.Response:
            if what in self._addresses and (cached := await self._from_cached_url(what, headers)) is not None:
                return cached
            response = await self._exchange.send(request, **how)
            if response.next_request is not None:
                response = await self._follow_redirects(response)
            if lasting and response.request is not request and response.is_success:
                self._addresses.keep(what, str(response.url))
            if response.status_code == httpx.codes.ACCEPTED:
                await read_whole(response, limit=SMALL_BYTES)
                # Transient like a 5xx, and handled like one.
                raise errors.ServerError(
                    202,
                    "unavailable",
                    "the content is not ready yet",
                    retry_after=client_errors.retry_after(response),
                )
            return response

        response = await self._answer(request, kind=kind, repeat=Repeat.READ, send=send, limit=None)
        line = None if self._flow is None else self._flow.down
        async with contextlib.aclosing(bodies.Body(response, line)) as body:
            try:
                yield response, body
            except Exception:
                self._addresses.forget(what)
                raise

    async def _from_cached_url(self, what: str, headers: Mapping[str, str]) -> httpx.Response | None:
        """GET the cached redirect target, without a token; None if it is no longer valid."""
        address = self._addresses.find(what)
        if address is None:
            return None
        is_good = False
        try:
            request = self._request("GET", address, headers=headers)
            response = await self._exchange.send(request, auth=None)
            is_good = response.status_code in (httpx.codes.OK, httpx.codes.PARTIAL_CONTENT)
        finally:
            if not is_good:
                self._addresses.forget(what)
        if is_good:
            return response
        await read_whole(response, limit=SMALL_BYTES)
        return None

    def _auth_for(self, url: httpx.URL) -> httpx.Auth | None:
        """Return the auth for a URL; None for hosts that are not the service's.

        Raises `ProtocolError` if the token would be sent unencrypted.
        """
        if self._auth is None or not self._hosts.is_own(url.host):
            return None
        if not self.is_private(url):
            raise _in_the_clear(url)
        self._ours.add((url.scheme, url.host))
        return self._auth

    def is_private(self, url: httpx.URL) -> bool:
        """Whether the connection cannot be read on the way: TLS, loopback or in-process."""
        return url.scheme == "https" or self._in_process or hosts.is_loopback(url.host)

    def _request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **parts: Any,
    ) -> httpx.Request:
        # Not for GET: downloads may be redirected to other hosts, which must not see it.
        if method != "GET" and _applied.get():
            headers = {**(headers or {}), **self.session}
        try:
            return self._exchange.request(method, url, params=params, headers=headers, **parts)
        except Exception as error:
            if (found := client_errors.from_httpx(error)) is None:
                raise
            raise found from error

    async def _answer(
        self,
        request: httpx.Request,
        *,
        kind: str,
        repeat: Repeat,
        is_signed: bool = True,
        send: Callable[..., Awaitable[httpx.Response]] | None = None,
        limit: int | None = PAGE_BYTES,
        refusal: Callable[[httpx.Response], errors.RemoteError] = client_errors.from_response,
    ) -> httpx.Response:
        """Send a request (with `send` if given), retry it as the policy allows, and return the response.

        The body is read, up to `limit` bytes; None leaves it to the caller.
        """
        url, auth = request.url, None
        if is_signed:
            auth = self._auth if (url.scheme, url.host) in self._ours else self._auth_for(url)
        failed = 0
        while True:
            try:
                async with self._pace.turn(kind):
                    self.counters[kind] += 1
                    try:
                        response = await (send or self._exchange.send)(request, auth=auth)
                        if limit is not None or not response.is_success:
                            await read_whole(response, limit=limit or SMALL_BYTES)
                    except Exception as error:
                        if (found := client_errors.from_httpx(error)) is None:
                            raise
                        raise found from error
                    if response.is_success:
                        return response
                    raise refusal(response)
            except errors.RemoteError as error:
                if isinstance(error, errors.RateLimited):
                    self._pace.refused(kind, error.retry_after)
                failed += 1
                await retry.pause(error, failed=failed, repeat=repeat, policy=self._policy)

    async def _follow_redirects(self, response: httpx.Response) -> httpx.Response:
        """Follow redirects.  Other hosts get neither the token, which httpx removes, nor the link header."""
        for _ in range(MAX_REDIRECTS):
            target = response.next_request
            if target is None:
                return response
            await read_whole(response, limit=SMALL_BYTES)
            if response.url.scheme == "https" and target.url.scheme != "https":
                raise errors.ProtocolError("a download is redirected to an address without TLS")
            if not self._in_process and not self._hosts.may_lead_to(target.url.host):
                raise errors.ProtocolError(f"a download is redirected into this machine ({target.url.host})")
            if "authorization" not in target.headers:
                target.headers.pop(wire_names.LINK_HEADER, None)
            response = await self._exchange.send(target, auth=None)
        await response.aclose()
        raise errors.ProtocolError(f"a download is redirected more than {MAX_REDIRECTS} times")


async def read_whole(response: httpx.Response, *, limit: int = PAGE_BYTES) -> None:
    """Read `response.content`.  Raises `ProtocolError` for more than `limit`, `RemoteTimeout` if too slow."""
    if hasattr(response, "_content"):
        await response.aclose()
        return
    if not response.is_success:
        limit = min(limit, SMALL_BYTES)
    is_direct, have_ended = bodies.DIRECT in response.extensions, False
    pieces = aiter(response.extensions[bodies.DIRECT]) if is_direct else response.aiter_raw()
    data, received = bytearray(), 0
    try:
        match response.headers.get("content-encoding", "").strip().lower():
            case "" | "identity":
                inflate = None
            case "gzip" | "x-gzip":
                inflate = zlib.decompressobj(_GZIP)
            case other:
                raise errors.ProtocolError(
                    f"the answer is packed in a way that was not asked for: {other[:40]}"
                )
        began = trio.current_time()
        with trio.CancelScope(deadline=began + bodies.GRACE_SECONDS) as scope:
            async for piece in pieces:
                received += len(piece)
                scope.deadline = began + bodies.GRACE_SECONDS + received / LEAST_BYTES
                # One byte beyond the limit shows that there is more.
                data += piece if inflate is None else inflate.decompress(piece, limit - len(data) + 1)
                if len(data) > limit:
                    raise errors.ProtocolError(f"the answer is larger than {limit} bytes")
            have_ended = True
        if scope.cancelled_caught:
            raise errors.RemoteTimeout(f"an answer comes too slowly: {received} bytes so far")
        response._content = bytes(data)
    except zlib.error as error:
        raise errors.ProtocolError(f"the answer cannot be unpacked: {error}") from None
    finally:
        if not have_ended and not is_direct:
            await bodies.discard(pieces)
        await response.aclose()


def _in_the_clear(url: httpx.URL) -> errors.ProtocolError:
    return errors.ProtocolError(
        f"secrets and tokens are not sent to {url.host} without TLS: the address must begin with https"
    )


def _decoded(shape: type[M], response: httpx.Response) -> M:
    try:
        return shape.model_validate_json(response.content)
    except pydantic.ValidationError as error:
        if (salvaged := getattr(shape, "salvaged", None)) is not None:
            with contextlib.suppress(ValueError, RecursionError):
                found: M = salvaged(response.content)
                return found
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise errors.ProtocolError(f"the answer is no {shape.__name__}: {where}: {first['msg']}") from None
