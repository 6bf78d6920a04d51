"""A service restricted to the operations of its specification, in front of a complete one.

`SpecifiedService` is a transport to a service.  All requests except the twelve operations, and the URLs that
their responses contain, are refused without being forwarded: with an unknown path (`UNKNOWN`), by a gateway
in front of the service (`BARE`), or with an unsupported method (`METHOD`).
"""

import re
from collections.abc import Callable

import httpx

API = "/2.0"
UPLOAD = "/api/2.0"

_OPERATIONS = [
    ("GET", rf"{API}/search"),
    ("POST", rf"{UPLOAD}/files/content"),
    ("PUT", rf"{API}/legal_hold_policies/[^/]+"),
    ("GET", rf"{API}/legal_hold_policies"),
    ("POST", r"/oauth2/token"),
    ("POST", rf"{API}/web_links/[^/]+"),
    ("GET", rf"{API}/users"),
    ("GET", rf"{API}/users/[^/]+"),
    ("POST", rf"{API}/users"),
    ("GET", rf"{API}/retention_policy_assignments/[^/]+"),
    ("DELETE", rf"{API}/metadata_templates/[^/]+/[^/]+/schema"),
    ("GET", rf"{API}/collaboration_whitelist_exempt_targets/[^/]+"),
    # URLs from responses: downloads of shared links, and representations.
    ("GET", r"/shared/static/[^/]+"),
    ("GET", rf"{API}/internal_files/.+"),
]
OFFERED = [(method, re.compile(path)) for method, path in _OPERATIONS]

Refusal = Callable[[httpx.Request], httpx.Response]


def is_offered(method: str, path: str) -> bool:
    """Return whether a request to this path is in the specification."""
    return any(method == one and pattern.fullmatch(path) for one, pattern in OFFERED)


def unknown(request: httpx.Request) -> httpx.Response:
    """The service's own words, and those of an item that is not there are hardly others."""
    return _worded(404, "not_found", "Not Found")


def bare(request: httpx.Request) -> httpx.Response:
    """A gateway that lets the specification's operations through."""
    return httpx.Response(404, text="<h1>404 Not Found</h1>")


def method(request: httpx.Request) -> httpx.Response:
    """The service knows the address, and nothing to do with it."""
    return _worded(405, "method_not_allowed", "Method Not Allowed")


def _worded(status: int, code: str, message: str) -> httpx.Response:
    body = {"type": "error", "status": status, "code": code, "message": message, "request_id": "1"}
    return httpx.Response(status, json=body)


REFUSALS: dict[str, Refusal] = {"unknown": unknown, "bare": bare, "method": method}


class SpecifiedService(httpx.AsyncBaseTransport):
    """`refused`: the requests outside the specification; `is_whole`: refuse nothing; `is_mute`: answer
    everything missing alike."""

    def __init__(self, inner: httpx.AsyncBaseTransport, refusal: Refusal = unknown) -> None:
        self.inner = inner
        self.refusal = refusal
        self.is_whole = self.is_mute = False
        self.refused: list[tuple[str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self.is_whole or is_offered(request.method, request.url.path):
            response = await self.inner.handle_async_request(request)
            if response.status_code != 404 or not self.is_mute:
                return response
            await response.aclose()
            return unknown(request)
        self.refused.append((request.method, request.url.path))
        return self.refusal(request)

    async def aclose(self) -> None:
        await self.inner.aclose()
