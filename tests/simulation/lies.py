"""Complete but wrong requests and responses, at random: damaged bytes, lost or malformed events and items.

Bytes are damaged only in file contents: a drive has to trust metadata that it can parse.
"""

import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx

# Contents that programs and people write, as made by `Promises._new_text` and `Person._new_text`.
_FILE_TEXT = re.compile(rb"(?:one|two|three|person) \d+\n")

# Requests for one item or a folder's items; and invalid responses to them.
_ITEM = re.compile(r"/(?:files|folders|web_links)/\d+(?:/items)?$")
_MALFORMED_ITEMS = (
    b"",
    b"null",
    b"{}",
    b"[]",
    b'{"type": "file", "id',
    b'{"type": "comet", "id": "1"}',
    b"<html>",
)

# Entries that are invalid or cannot be parsed.
_MALFORMED: tuple[Any, ...] = (
    None,
    {},
    [],
    "entry",
    {"type": "comet", "id": "1"},
    {"type": "file"},
    {"type": "file", "id": None, "name": 7},
    {"event_type": "ITEM_CREATE"},
    {"type": "event", "event_id": "odd", "event_type": "SOMETHING_NEW", "source": {"type": "dog", "id": "3"}},
)

# The folder that a drive shows, as a result of a search in it; whatever is said of it changes nothing.
_FOLDER = {"type": "folder", "etag": "9", "sequence_id": "9", "name": "a name", "item_status": "active"}


class Liar:
    """Falsifies requests and responses, with probability `rate`."""

    def __init__(self, chance: random.Random, faults: Counter[str]) -> None:
        self._chance = chance
        self._faults = faults
        self.rate = 0.0
        # The folder that the drive shows.
        self.root_id = "0"
        # Dropped events make the judge run a full comparison, which hides other faults: so for half of the
        # drives nothing is dropped.
        self.may_drop = chance.random() < 0.5
        # Events held back for a later response.
        self._delayed: list[Any] = []
        # Something was dropped or delayed, which only a full comparison finds.
        self.has_dropped = False

    def _draw(self, kind: str) -> bool:
        if self.rate <= 0 or self._chance.random() >= self.rate:
            return False
        self._faults[kind] += 1
        return True

    def damage_request(self, request: httpx.Request) -> None:
        """Perhaps damage the bytes of an upload."""
        path = request.url.path
        is_upload = request.method in ("POST", "PUT") and ("/content" in path or "/upload_sessions/" in path)
        if is_upload and not path.endswith("/commit") and self._draw("damaged upload"):
            request.stream = _Damaged(request.stream)

    async def falsify_response(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        """Return the response that the drive receives."""
        if request.method != "GET" or response.status_code not in (200, 206):
            return response
        path = request.url.path
        if path.endswith("/content") or "/content/" in path:
            return await self._content(response)
        if path.endswith("/events") and "application/json" in response.headers.get("content-type", ""):
            return await self._events(response)
        if path.endswith("/search"):
            return await self._search(request, response)
        if _ITEM.search(path) and self._draw("odd item"):
            await response.aclose()
            return _with_body(response, self._chance.choice(_MALFORMED_ITEMS))
        return response

    # ---- contents ----

    async def _content(self, response: httpx.Response) -> httpx.Response:
        if self._draw("damaged download"):
            other = bytearray(await _read_body(response))
            if other:
                other[self._chance.randrange(len(other))] ^= 4
            return _with_body(response, bytes(other))
        if self._draw("short download"):
            data = await _read_body(response)
            return _with_body(response, data[: self._chance.randrange(len(data))] if data else b"")
        return response

    # ---- events and search results ----

    async def _events(self, response: httpx.Response) -> httpx.Response:
        if self.rate <= 0 and not self._delayed:
            return response
        page = json.loads(await _read_body(response))
        entries = page.get("entries", [])
        before = list(entries)
        entries += self._delayed
        self._delayed = []
        if entries and self.may_drop and self._draw("event lost"):
            entries.pop(self._chance.randrange(len(entries)))
            self.has_dropped = True
        if entries and self._draw("event twice"):
            entries.insert(self._chance.randrange(len(entries)), self._chance.choice(entries))
        if entries and self._draw("events shuffled"):
            self._chance.shuffle(entries)
        if entries and self.may_drop and self._draw("event late"):
            self._delayed.append(entries.pop(self._chance.randrange(len(entries))))
            self.has_dropped = True
        if self._draw("odd event"):
            entries.insert(self._chance.randrange(len(entries) + 1), self._chance.choice(_MALFORMED))
        if entries == before:
            return _with_body(response, json.dumps(page).encode())
        return _with_body(response, json.dumps(page | {"chunk_size": len(entries)}).encode())

    async def _search(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        if self.may_drop and self._draw("empty answer"):
            self.has_dropped = True
            await response.aclose()
            nothing = {"total_count": 0, "entries": [], "limit": 200, "offset": 0}
            return _with_body(
                response, self._chance.choice([b"", b"{}", b"null", json.dumps(nothing).encode()])
            )
        if not self._draw("odd answer"):
            return response
        page = json.loads(await _read_body(response))
        entries = page.get("entries", [])
        what = self._chance.choice(["odd", "twice", "shuffled", "without one", "with the folder"])
        if what == "without one" and entries and self.may_drop:
            entries.pop(self._chance.randrange(len(entries)))
            self.has_dropped = True
        elif what == "twice" and entries:
            entries.append(self._chance.choice(entries))
        elif what == "shuffled":
            self._chance.shuffle(entries)
        elif what == "with the folder" and request.url.params.get("ancestor_folder_ids") == self.root_id:
            entries.insert(self._chance.randrange(len(entries) + 1), _FOLDER | {"id": self.root_id})
        else:
            entries.insert(self._chance.randrange(len(entries) + 1), self._chance.choice(_MALFORMED))
        return _with_body(response, json.dumps(page).encode())


async def _read_body(response: httpx.Response) -> bytes:
    try:
        return await response.aread()
    finally:
        await response.aclose()


def _with_body(response: httpx.Response, body: bytes) -> httpx.Response:
    """Return the response with another body and its length in the headers."""
    gone = ("content-length", "content-encoding", "transfer-encoding")
    headers = {name: value for name, value in response.headers.items() if name not in gone}
    headers["content-length"] = str(len(body))
    return httpx.Response(response.status_code, headers=headers, stream=_Body(body))


class _Body(httpx.AsyncByteStream):
    """An unread body: `httpx` treats a body passed as bytes as already read."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Damaged(httpx.AsyncByteStream):
    """A body in which one byte of a file's contents is changed."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        is_done = False
        async for piece in self._inner:
            if not is_done and (found := _FILE_TEXT.search(piece)) is not None:
                is_done = True
                at = found.start()
                piece = piece[:at] + bytes([piece[at] ^ 0x20]) + piece[at + 1 :]
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
