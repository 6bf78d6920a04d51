"""Concurrent clients of a service whose processes and components fail, and the checks of the result.

A `Worker` uploads, renames, moves, deletes and restores in its own folders, and knows the acknowledged state
of each item; after a lost response or a 503 it allows both outcomes, and leaves the item alone.  A `Follower`
reads a user's events from any process.  `judge` compares both with the state of the service.
"""

import hashlib
import json
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx
import trio

# Upper limit of one request, also on a slow machine.
SECONDS = 150

LARGE = 3 * 1024 * 1024
CHUNKED = 20_000_000
_PAGE = 40


@dataclass(frozen=True, slots=True)
class State:
    name: str
    folder: str
    sha1: str
    trashed: bool = False


@dataclass(slots=True)
class Known:
    """A file: its allowed states, the likeliest last, and the names of its events."""

    states: list[State]
    words: list[str]
    doubtful: str | None = None  # what an event may be called besides

    @property
    def is_sure(self) -> bool:
        return len(self.states) == 1


@dataclass(slots=True)
class Tally:
    """Counters of the requests of all clients."""

    acknowledged: int = 0
    refused: int = 0
    cut: int = 0


class _Body(httpx.AsyncByteStream):
    """A request body; unlike httpx's own, it leaves nothing open when the connection breaks."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __aiter__(self) -> AsyncIterator[bytes]:
        return _Once(self._data)


class _Once(AsyncIterator[bytes]):
    def __init__(self, data: bytes) -> None:
        self._left = [data]

    async def __anext__(self) -> bytes:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class Account:
    """A user, with a token that is valid at every process."""

    def __init__(self, urls: list[str], token: str, tally: Tally, dice: random.Random) -> None:
        self.urls, self.tally, self.dice = urls, tally, dice
        self._headers = {"authorization": f"Bearer {token}"}
        self._http = httpx.AsyncClient(
            timeout=SECONDS, headers=self._headers, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def close(self) -> None:
        await self._http.aclose()

    async def ask(self, method: str, path: str, **options: Any) -> httpx.Response | None:
        """The answer of a process; None: there was none, or it was 503, which must say when to come again.

        Raises AssertionError for another failure of a service, and if it takes for ever.
        """
        url = f"{self.dice.choice(self.urls)}{path}"
        request = self._http.build_request(method, url, **options)
        request.stream = _Body(request.read())
        try:
            answer = await self._http.send(request)
        except httpx.TimeoutException as error:
            raise AssertionError(f"{method} {path}: {error!r}") from error
        except httpx.TransportError:
            self.tally.cut += 1
            return None
        if answer.status_code == 503:
            assert answer.headers.get("retry-after", "").isdigit(), answer.headers
            self.tally.refused += 1
            return None
        assert answer.status_code < 500, (method, path, answer.status_code, answer.text)
        return answer

    async def sure(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Repeat the request until there is a response; for idempotent requests."""
        while (answer := await self.ask(method, path, **options)) is None:  # noqa: ASYNC110
            await trio.sleep(0.1)
        return answer

    async def content(self, number: str) -> bytes:
        """The bytes of a file."""
        headers = {"prefer": "return=representation"}
        answer = await self.sure("GET", f"/2.0/files/{number}/content", headers=headers)
        assert answer.status_code == 200, (number, answer.text)
        return answer.content

    async def json(self, path: str, **params: Any) -> Any:
        answer = await self.sure("GET", path, params=params)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()


class Worker:
    """Changes files in its own folders."""

    def __init__(self, account: Account, name: str, folders: list[str]) -> None:
        self.account, self.name, self.folders = account, name, folders
        self.files: dict[str, Known] = {}
        # Uploads without a response: their contents, by name.
        self.unheard: dict[str, str] = {}
        self._dice = account.dice
        self._number = 0

    async def run(self, stop: trio.Event) -> None:
        work = (
            *[self.upload] * 5,
            *(self.upload_large, self.version, self.rename, self.move, self.delete, self.restore),
        )
        while not stop.is_set():
            await self._dice.choice(work)()

    async def upload(self, size: int | None = None) -> None:
        data = os.urandom(self._dice.randrange(1, 3000) if size is None else size)
        if self._dice.random() < 0.1:
            data = b"what many have"
        name, folder = self._name(), self._dice.choice(self.folders)
        answer = await self._send("/api/2.0/files/content", {"name": name, "parent": {"id": folder}}, data)
        self._uploaded(name, folder, _sha1(data), answer)

    async def upload_large(self) -> None:
        await self.upload(LARGE)

    async def upload_chunked(self) -> None:
        """Upload in parts; repeat each part, and the commit, until it succeeds."""
        data = os.urandom(CHUNKED)
        name, folder = self._name(), self._dice.choice(self.folders)
        wish = {"folder_id": folder, "file_size": len(data), "file_name": name}
        made = await self.account.sure("POST", "/api/2.0/files/upload_sessions", json=wish)
        assert made.status_code == 201, made.text
        session, size = made.json()["id"], made.json()["part_size"]
        url, parts = f"/api/2.0/files/upload_sessions/{session}", []
        for start in range(0, len(data), size):
            part = data[start : start + size]
            headers = {
                "content-range": f"bytes {start}-{start + len(part) - 1}/{len(data)}",
                "digest": _digest(part),
                "content-type": "application/octet-stream",
            }
            answer = await self.account.sure("PUT", url, content=part, headers=headers)
            if answer.status_code == 409:  # it is there already, by one that was not heard of
                there = (await self.account.json(f"{url}/parts"))["entries"]
                parts += [one for one in there if one["offset"] == start]
            else:
                assert answer.status_code == 200, answer.text
                parts.append(answer.json()["part"])
        heard = True
        while True:
            answer = await self.account.ask(
                "POST", f"{url}/commit", json={"parts": parts}, headers={"digest": _digest(data)}
            )
            if answer is not None and answer.status_code == 201:
                break
            heard = heard and answer is not None
            if answer is not None and answer.status_code in (404, 409, 410):
                # An earlier commit succeeded, but its response was lost.
                assert not heard, answer.text
                answer = None
                break
            assert answer is None or answer.status_code == 202, answer.text
            await trio.sleep(0.1)
        self._uploaded(name, folder, _sha1(data), answer)

    async def version(self) -> None:
        if (chosen := self._chosen(trashed=False)) is not None:
            number, state = chosen
            data = os.urandom(100)
            answer = await self._send(f"/api/2.0/files/{number}/content", {"name": state.name}, data)
            self._changed(number, replace(state, sha1=_sha1(data)), "ITEM_UPLOAD", answer)

    async def rename(self) -> None:
        if (chosen := self._chosen(trashed=False)) is not None:
            number, state = chosen
            name = self._name()
            answer = await self.account.ask("PUT", f"/2.0/files/{number}", json={"name": name})
            self._changed(number, replace(state, name=name), "ITEM_RENAME", answer)

    async def move(self) -> None:
        if (chosen := self._chosen(trashed=False)) is not None:
            number, state = chosen
            folder = next(one for one in self.folders if one != state.folder)
            answer = await self.account.ask("PUT", f"/2.0/files/{number}", json={"parent": {"id": folder}})
            self._changed(number, replace(state, folder=folder), "ITEM_MOVE", answer)

    async def delete(self) -> None:
        if (chosen := self._chosen(trashed=False)) is not None:
            number, state = chosen
            answer = await self.account.ask("DELETE", f"/2.0/files/{number}")
            self._changed(number, replace(state, trashed=True), "ITEM_TRASH", answer)

    async def restore(self) -> None:
        if (chosen := self._chosen(trashed=True)) is not None:
            number, state = chosen
            answer = await self.account.ask("POST", f"/2.0/files/{number}", json={})
            self._changed(number, replace(state, trashed=False), "ITEM_UNDELETE_VIA_TRASH", answer)

    def _name(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"

    def _chosen(self, *, trashed: bool) -> tuple[str, State] | None:
        found = [
            (number, one.states[0])
            for number, one in self.files.items()
            if one.is_sure and one.states[0].trashed is trashed
        ]
        return self._dice.choice(found) if found else None

    async def _send(self, path: str, attributes: Mapping[str, Any], data: bytes) -> httpx.Response | None:
        files = {"attributes": (None, json.dumps(attributes)), "file": ("file", data)}
        headers = {"content-md5": _sha1(data)}
        return await self.account.ask("POST", path, files=files, headers=headers)

    def _uploaded(self, name: str, folder: str, sha1: str, answer: httpx.Response | None) -> None:
        if answer is None:
            self.unheard[name] = sha1
            return
        assert answer.status_code == 201, answer.text
        entry = answer.json()["entries"][0]
        assert entry["sha1"] == sha1
        self.files[entry["id"]] = Known([State(name, folder, sha1)], ["ITEM_UPLOAD"])
        self.account.tally.acknowledged += 1

    def _changed(self, number: str, after: State, word: str, answer: httpx.Response | None) -> None:
        known = self.files[number]
        if answer is None:
            known.states.append(after)
            known.doubtful = word
            return
        assert answer.status_code in (200, 201, 204), answer.text
        known.states = [after]
        known.words.append(word)
        self.account.tally.acknowledged += 1


@dataclass(slots=True)
class Follower:
    """Reads the events of an account from a position, until it is stopped and no events are left."""

    account: Account
    position: int
    events: list[tuple[str, str, str]] = field(default_factory=list)  # event, word, item

    async def run(self, stop: trio.Event) -> None:
        while True:
            is_last = stop.is_set()
            page = await self.account.json("/2.0/events", stream_position=self.position, limit=_PAGE)
            for one in page["entries"]:
                self.events.append((one["event_id"], one["event_type"], one["source"]["id"]))
            self.position = page["next_stream_position"]
            if page["entries"]:
                continue
            if is_last:
                return
            with trio.move_on_after(2):
                await self.account.ask("GET", "/2.0/events/wait", params={"stream_position": self.position})


async def judge(workers: list[Worker], followers: list[Follower]) -> None:
    """Check for one account that everything acknowledged is there exactly once, and nothing is incomplete."""
    account = workers[0].account
    whole = Follower(account, followers[0].position)
    whole.position = 0
    stop = trio.Event()
    stop.set()
    await whole.run(stop)
    first = followers[0].events[0][0] if followers[0].events else "~"
    told = [one for one in whole.events if one[0] >= first]
    assert len({one[0] for one in told}) == len(told)
    for follower in followers:
        assert follower.events == told, _difference(follower.events, told)
    words: dict[str, list[str]] = {}
    for _, word, number in told:
        words.setdefault(number, []).append(word)
    for worker in workers:
        await _judge_worker(worker, words)


async def _judge_worker(worker: Worker, words: dict[str, list[str]]) -> None:
    account = worker.account
    found: dict[str, str] = {}
    for folder in worker.folders:
        listed = await account.json(f"/2.0/folders/{folder}/items", limit=1000, fields="id,type")
        assert listed["total_count"] <= 1000
        found |= {one["id"]: folder for one in listed["entries"] if one["type"] == "file"}
    unheard = dict(worker.unheard)
    for number in {**found, **worker.files}:
        item = await _look(account, number)
        known = worker.files.get(number)
        if known is None:
            assert unheard.pop(item.name, None) == item.sha1, (worker.name, item)
            assert words[number] == ["ITEM_UPLOAD"]
        else:
            states = [_seen(one) for one in known.states]
            assert item in states, (worker.name, item, known)
            wanted = known.words
            if item != states[0]:
                assert known.doubtful is not None
                wanted = [*wanted, known.doubtful]
            assert words[number] == wanted, (number, words[number], known)
        if not item.trashed:
            assert found[number] == item.folder
            assert _sha1(await account.content(number)) == item.sha1


async def _look(account: Account, number: str) -> State:
    answer = await account.sure("GET", f"/2.0/files/{number}")
    assert answer.status_code == 200, (number, answer.text)
    item = answer.json()
    trashed = item["item_status"] == "trashed"
    return State(item["name"], "" if trashed else item["parent"]["id"], item["sha1"], trashed)


def _seen(state: State) -> State:
    """Return the state of an item: one in the trash has no folder."""
    return replace(state, folder="") if state.trashed else state


def _difference(one: list[Any], other: list[Any]) -> str:
    lost = Counter(other) - Counter(one)
    more = Counter(one) - Counter(other)
    return f"lost {dict(lost)}, doubled or of nobody {dict(more)}, {len(one)} of {len(other)}"


def _sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def _digest(data: bytes) -> str:
    from cmsfs.models.content import upload_sessions

    return upload_sessions.digest(hashlib.sha1(data, usedforsecurity=False).digest())
