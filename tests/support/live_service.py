"""A service with documented behaviour of the live one that ours does not have.

`LiveService` is a transport to a service that changes its responses:

    downloads       a 202 with `Retry-After` first, then an address at another host, which refuses tokens
    times           Pacific, in whole seconds; none on the root, no content times on folders
    the trash       what is in it is answered with 200 to who asks by its ID
    search          lags behind, in any order (`late`); a query that begins with NOT finds nothing
    events          each page repeats earlier events, in another order
    sizes           a folder's is what it was once
    names           may end with a space, which ours lets nobody make: one that ends with `~` does
"""

import json
import random
import re
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import parse_qs

import httpx

DOWNLOADS = "dl.live.test"

_PACIFIC = timezone(timedelta(hours=-8))
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_CONTENT = re.compile(r"/2\.0/files/(\d+)/content")
_ITEM = re.compile(r"/2\.0/(file|web_link|folder)s/(\d+)")


class LiveService(httpx.AsyncBaseTransport):
    """`went_out`: requests that the download host saw, with their headers."""

    def __init__(self, inner: httpx.AsyncBaseTransport, *, seed: int = 1) -> None:
        self.inner = inner
        self.dice = random.Random(seed)
        self.went_out: list[httpx.Request] = []
        self.refused_tokens = 0
        self._prepared: set[str] = set()
        self._addresses: dict[str, httpx.Request] = {}
        # Names that searches do not find yet; and whether they support a leading NOT.
        self.late: set[str] = set()
        self.knows_not = False
        self._told: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.host == DOWNLOADS:
            return await self._download(request)
        path = request.url.path
        if request.method == "GET" and _CONTENT.fullmatch(path):
            return self._located(request)
        response = await self.inner.handle_async_request(request)
        if "application/json" not in response.headers.get("content-type", ""):
            return response
        body = json.loads(await response.aread())
        await response.aclose()
        if response.status_code == 404 and body.get("code") == "trashed" and _ITEM.fullmatch(path):
            return await self._in_the_trash(request)
        if path.endswith("/search"):
            body = self._found(request, body)
        elif path == "/2.0/events" and request.method == "GET":
            body = self._repeated(body)
        return _answer(response.status_code, live(body), response.headers)

    # ---- downloads ----

    def _located(self, request: httpx.Request) -> httpx.Response:
        what = str(request.url)
        if what not in self._prepared:
            self._prepared.add(what)
            return httpx.Response(202, headers={"retry-after": "0"})
        key = f"{len(self._addresses)}"
        self._addresses[key] = request
        return httpx.Response(
            302, headers={"location": f"{request.url.scheme}://{DOWNLOADS}/d/1/{key}/download"}
        )

    async def _download(self, request: httpx.Request) -> httpx.Response:
        self.went_out.append(request)
        if "authorization" in request.headers:
            self.refused_tokens += 1
            return httpx.Response(403, text="<Error>Only one auth mechanism allowed</Error>")
        first = self._addresses[request.url.path.split("/")[3]]
        headers = dict(first.headers) | {"prefer": "return=representation"}
        headers.pop("range", None)
        if "range" in request.headers:
            headers["range"] = request.headers["range"]
        return await self.inner.handle_async_request(httpx.Request("GET", first.url, headers=headers))

    # ---- the trash, searches, events ----

    async def _in_the_trash(self, request: httpx.Request) -> httpx.Response:
        url = request.url.copy_with(path=f"{request.url.path}/trash")
        asked = httpx.Request("GET", url, headers=request.headers)
        response = await self.inner.handle_async_request(asked)
        return _answer(response.status_code, live(json.loads(await response.aread())), response.headers)

    def _found(self, request: httpx.Request, body: dict[str, Any]) -> dict[str, Any]:
        query = parse_qs(request.url.query.decode()).get("query", [""])[0]
        if "entries" not in body:
            return body
        understood = self.knows_not or not query.startswith("NOT ")
        entries = [one for one in body["entries"] if understood and one.get("name") not in self.late]
        return body | {"entries": entries, "total_count": body["total_count"] if understood else 0}

    def _repeated(self, body: dict[str, Any]) -> dict[str, Any]:
        if not isinstance(body.get("entries"), list):
            return body
        page = body["entries"] + self.dice.sample(self._told, min(3, len(self._told)))
        self._told += body["entries"]
        self.dice.shuffle(page)
        return body | {"entries": page, "chunk_size": len(page)}


def live(value: Any) -> Any:
    """Return the response in the live service's format."""
    if isinstance(value, list):
        return [live(one) for one in value]
    if isinstance(value, str) and _TIME.fullmatch(value):
        moment = datetime.fromisoformat(value).astimezone(_PACIFIC)
        return moment.replace(microsecond=0).isoformat()
    if not isinstance(value, dict):
        return value
    found = {key: live(one) for key, one in value.items()}
    if str(found.get("name", "")).endswith("~"):
        found["name"] = found["name"][:-1] + " "
    if isinstance(found.get("id"), int):
        found["id"] = str(found["id"])
    if found.get("type") == "folder":
        found |= {key: 0 for key in ("size",) if key in found}
        gone = ["content_created_at", "content_modified_at"]
        gone += ["created_at", "modified_at"] if found.get("id") == "0" else []
        found |= {key: None for key in gone if key in found}
    return found


def _answer(status: int, body: Any, headers: httpx.Headers) -> httpx.Response:
    kept = {key: headers[key] for key in ("retry-after", "location", "www-authenticate") if key in headers}
    return httpx.Response(status, json=body, headers=kept)
