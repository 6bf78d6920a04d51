"""Answers and bodies that arrive whole and are wrong, as the story's chance has it.

Bytes are damaged only where a program's are: of what is told of items a drive must believe what can be read.
"""

import json
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx

# What programs and people write, as `Promises._text` and `Person._text` make it.
_OURS = re.compile(rb"(?:one|two|three|person) \d+\n")

# What a question for one item, or for what is in a folder, is asked by; and answers that are neither.
_ITEM = re.compile(r"/(?:files|folders|web_links)/\d+(?:/items)?$")
_NO_ITEM = (b"", b"null", b"{}", b"[]", b'{"type": "file", "id', b'{"type": "comet", "id": "1"}', b"<html>")

# What is no entry, or one that cannot be read.
_ODD: tuple[Any, ...] = (
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


class Liar:
    """What becomes of a request and of its answer; `rate` says how often."""

    def __init__(self, chance: random.Random, faults: Counter[str]) -> None:
        self._chance = chance
        self._faults = faults
        self.rate = 0.0
        # Where something is not told at all a comparison of everything follows, which hides what else went
        # wrong: so for half of the drives all is told, in whatever way.
        self.hides = chance.random() < 0.5
        # Events that are told later than they should be.
        self._late: list[Any] = []
        # Something was told that was not so, or was not told: only a comparison of everything finds that.
        self.has_hidden = False

    def _happens(self, kind: str) -> bool:
        if self.rate <= 0 or self._chance.random() >= self.rate:
            return False
        self._faults[kind] += 1
        return True

    def damage_request(self, request: httpx.Request) -> None:
        """Perhaps the service receives other bytes than were sent."""
        path = request.url.path
        is_upload = request.method in ("POST", "PUT") and ("/content" in path or "/upload_sessions/" in path)
        if is_upload and not path.endswith("/commit") and self._happens("damaged upload"):
            request.stream = _Damaged(request.stream)

    async def answered(self, request: httpx.Request, response: httpx.Response) -> httpx.Response:
        """The answer that the drive gets."""
        if request.method != "GET" or response.status_code not in (200, 206):
            return response
        path = request.url.path
        if path.endswith("/content") or "/content/" in path:
            return await self._content(response)
        if path.endswith("/events") and "application/json" in response.headers.get("content-type", ""):
            return await self._events(response)
        if path.endswith("/search"):
            return await self._search(response)
        if _ITEM.search(path) and self._happens("odd item"):
            await response.aclose()
            return _with(response, self._chance.choice(_NO_ITEM))
        return response

    # ---- contents ----

    async def _content(self, response: httpx.Response) -> httpx.Response:
        if self._happens("damaged download"):
            other = bytearray(await _whole(response))
            if other:
                other[self._chance.randrange(len(other))] ^= 4
            return _with(response, bytes(other))
        if self._happens("short download"):
            data = await _whole(response)
            return _with(response, data[: self._chance.randrange(len(data))] if data else b"")
        return response

    # ---- what is told ----

    async def _events(self, response: httpx.Response) -> httpx.Response:
        if self.rate <= 0 and not self._late:
            return response
        page = json.loads(await _whole(response))
        entries = page.get("entries", [])
        before = list(entries)
        entries += self._late
        self._late = []
        if entries and self.hides and self._happens("event lost"):
            entries.pop(self._chance.randrange(len(entries)))
            self.has_hidden = True
        if entries and self._happens("event twice"):
            entries.insert(self._chance.randrange(len(entries)), self._chance.choice(entries))
        if entries and self._happens("events shuffled"):
            self._chance.shuffle(entries)
        if entries and self.hides and self._happens("event late"):
            self._late.append(entries.pop(self._chance.randrange(len(entries))))
            self.has_hidden = True
        if self._happens("odd event"):
            entries.insert(self._chance.randrange(len(entries) + 1), self._chance.choice(_ODD))
        if entries == before:
            return _with(response, json.dumps(page).encode())
        return _with(response, json.dumps(page | {"chunk_size": len(entries)}).encode())

    async def _search(self, response: httpx.Response) -> httpx.Response:
        if self.hides and self._happens("empty answer"):
            self.has_hidden = True
            await response.aclose()
            nothing = {"total_count": 0, "entries": [], "limit": 200, "offset": 0}
            return _with(response, self._chance.choice([b"", b"{}", b"null", json.dumps(nothing).encode()]))
        if not self._happens("odd answer"):
            return response
        page = json.loads(await _whole(response))
        entries = page.get("entries", [])
        what = self._chance.choice(["odd", "twice", "shuffled", "without one"])
        if what == "without one" and entries and self.hides:
            entries.pop(self._chance.randrange(len(entries)))
            self.has_hidden = True
        elif what == "twice" and entries:
            entries.append(self._chance.choice(entries))
        elif what == "shuffled":
            self._chance.shuffle(entries)
        else:
            entries.insert(self._chance.randrange(len(entries) + 1), self._chance.choice(_ODD))
        return _with(response, json.dumps(page).encode())


async def _whole(response: httpx.Response) -> bytes:
    try:
        return await response.aread()
    finally:
        await response.aclose()


def _with(response: httpx.Response, body: bytes) -> httpx.Response:
    """The answer with another body, of which its head tells the length."""
    gone = ("content-length", "content-encoding", "transfer-encoding")
    headers = {name: value for name, value in response.headers.items() if name not in gone}
    headers["content-length"] = str(len(body))
    return httpx.Response(response.status_code, headers=headers, stream=_Body(body))


class _Body(httpx.AsyncByteStream):
    """Bytes that are still to be read: those that `httpx` is given whole count as read."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._body


class _Damaged(httpx.AsyncByteStream):
    """A body in which a byte of a file is another one."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        is_done = False
        async for piece in self._inner:
            if not is_done and (found := _OURS.search(piece)) is not None:
                is_done = True
                at = found.start()
                piece = piece[:at] + bytes([piece[at] ^ 0x20]) + piece[at + 1 :]
            yield piece

    async def aclose(self) -> None:
        await self._inner.aclose()
