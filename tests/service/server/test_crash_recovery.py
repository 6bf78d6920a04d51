"""The service is killed: it starts again, has all that it acknowledged, and nothing that nobody has."""

import functools
import hashlib
import math
import random
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

import httpx
import pytest
import trio

from cmsfs.models.content import upload_sessions
from cmsfs.service.storage import store
from tests.support import forked

# Two parts.
BIG = random.Random(7).randbytes(20_000_001)
PART = 8 * 1024 * 1024


class Client:
    """What is done to the service, and what it acknowledged: SHA-1s by name."""

    def __init__(self, api, url="http://none"):
        self._form = api.form
        self.headers = {"authorization": api.http.headers["authorization"]}
        self.url = url
        self.known = {}
        self.first = ""  # the id of a file
        self.database = []  # its URL, if it is not in the folder
        self.gone = set()

    async def ask(self, method, path, **options):
        headers = self.headers | options.pop("headers", {})
        async with httpx.AsyncClient(headers=headers, timeout=30) as client:
            return (await client.request(method, f"{self.url}/api/2.0{path}", **options)).raise_for_status()

    async def upload(self, name, data):
        body, headers = self._form({"name": name, "parent": {"id": "0"}}, data)
        answer = await self.ask("POST", "/files/content", content=body, headers=headers)
        self.known[name] = answer.json()["entries"][0]["sha1"]
        return answer.json()["entries"][0]["id"]

    async def version(self, wire_id, name, data):
        body, headers = self._form({}, data)
        answer = await self.ask("POST", f"/files/{wire_id}/content", content=body, headers=headers)
        self.known[name] = answer.json()["entries"][0]["sha1"]

    async def purge(self, wire_id, name):
        await self.ask("DELETE", f"/files/{wire_id}")
        await self.ask("DELETE", f"/files/{wire_id}/trash")
        self.gone.add(name)
        del self.known[name]

    async def upload_in_parts(self, name, data=BIG):
        body = {"folder_id": "0", "file_size": len(data), "file_name": name}
        session = (await self.ask("POST", "/files/upload_sessions", json=body)).json()["id"]
        parts = []
        for offset in range(0, len(data), PART):
            part = data[offset : offset + PART]
            headers = {"digest": upload_sessions.digest(_sha1(part).digest())}
            headers["content-range"] = f"bytes {offset}-{offset + len(part) - 1}/{len(data)}"
            path = f"/files/upload_sessions/{session}"
            parts.append((await self.ask("PUT", path, content=part, headers=headers)).json()["part"])
        headers = {"digest": upload_sessions.digest(_sha1(data).digest())}
        path = f"/files/upload_sessions/{session}/commit"
        answer = await self.ask("POST", path, json={"parts": parts}, headers=headers)
        self.known[name] = answer.json()["entries"][0]["sha1"]


def _sha1(data):
    return hashlib.sha1(data, usedforsecurity=False)


@pytest.fixture
async def client(root, on_postgres, fill, as_user):
    """A caller with a few files, of a service that is not running."""
    async with store.open_store(root) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        found = Client(api)
        for number in range(3):
            data = f"content {number}".encode()
            file = await api.upload(f"before{number}", data)
            found.known[f"before{number}"] = file["sha1"]
            found.first = file["id"]
    found.database = [*on_postgres.values()]
    return found


@asynccontextmanager
async def running(root, client, point="none"):
    """The service in a process of its own."""
    async with trio.open_nursery() as nursery:
        command = [sys.executable, "-m", forked.CRASHING, root, point, *client.database]
        run = functools.partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
        process = await nursery.start(run)
        line = b""
        with trio.fail_after(30):
            while not line.endswith(b"\n") and (data := await process.stdout.receive_some()):
                line += data
        client.url = line.decode().strip()
        yield process
        process.kill()


async def judge(root, client):
    """It starts and has what it acknowledged; on the disk is what the rows name, and nothing else."""
    async with store.open_store(root) as opened:
        rows = opened.read("SELECT name, sha1 FROM item WHERE kind = 1 AND status = 0")
        there = {row["name"]: row["sha1"] for row in rows}
        assert there.items() >= client.known.items()
        assert not there.keys() & client.gone
        named = {row["sha1"] for row in opened.read("SELECT DISTINCT sha1 FROM version")}
        blobs = {path.name: path for path in (root / "blobs").rglob("*") if path.is_file()}
        assert blobs.keys() == named
        assert all(_sha1(path.read_bytes()).hexdigest() == name for name, path in blobs.items())
        assert list((root / "incoming").iterdir()) == []
        parts = {
            (row["session"], row["file"]) for row in opened.read("SELECT session, file FROM upload_part")
        }
        on_disk = [path for path in (root / "sessions").rglob("*") if path.is_file()]
        assert {(path.parent.name, path.name) for path in on_disk} == parts
        sessions = {row["id"] for row in opened.read("SELECT id FROM upload_session WHERE committed = 0")}
        assert {path.name for path in (root / "sessions").iterdir()} == sessions
        assert client.database or opened.read("PRAGMA integrity_check")[0][0] == "ok"
        used = opened.read("SELECT space_used FROM account WHERE login LIKE 'ann%'")[0]["space_used"]
        assert used == opened.read("SELECT coalesce(sum(size), 0) AS n FROM version")[0]["n"]


async def _new(client):
    await client.upload("new", b"new content")


async def _version(client):
    await client.version(client.first, "before2", b"a second version")


async def _purge(client):
    await client.purge(client.first, "before2")


async def _in_parts(client):
    await client.upload_in_parts("big")


@pytest.mark.parametrize(
    ("point", "act"),
    [
        ("content complete, not in its place", _new),
        ("content in its place, no row", _new),
        ("rows written, not committed", _new),
        ("committed, not answered", _new),
        ("content in its place, no row", _version),
        ("rows written, not committed", _version),
        ("committed, not answered", _version),
        ("session folder made, no row", _in_parts),
        ("part in its place, no row", _in_parts),
        ("parts half joined", _in_parts),
        ("parts joined, no row", _in_parts),
        ("rows written, not committed", _in_parts),
        ("file committed, parts still there", _in_parts),
        ("purged, not committed", _purge),
        ("committed, not answered", _purge),
    ],
)
async def test_killed_service_loses_nothing(root, client, point, act):
    known = dict(client.known)
    async with running(root, client, point) as process:
        with pytest.raises(httpx.TransportError):
            await act(client)
        assert await process.wait() == -signal.SIGKILL
    if act is _purge:
        # In the trash, not acknowledged as gone: either is right.
        del client.known["before2"]
    elif act is _version:
        async with store.open_store(root) as opened:
            now = opened.read("SELECT sha1 FROM item WHERE name = 'before2'")[0]["sha1"]
        assert now in (known["before2"], _sha1(b"a second version").hexdigest())
        client.known["before2"] = now
    await judge(root, client)
    if act in (_new, _in_parts):
        async with running(root, client):
            try:
                await act(client)
            except httpx.HTTPStatusError as error:
                # It was there already.
                assert point in ("committed, not answered", "file committed, parts still there")
                assert error.response.status_code == 409
        await judge(root, client)


async def test_killed_removal_resumes_at_start(root, client):
    async with store.open_store(root) as opened:
        for number in range(3):
            opened.blobs.keep_bytes(f"nobody has this {number}".encode())
    async with running(root, client, "one content removed at start") as process:
        assert await process.wait() == -signal.SIGKILL
    left = [path for path in (root / "blobs").rglob("*") if path.is_file()]
    assert len(left) == 3 + 2
    await judge(root, client)


# The client's library does not close what it was sending.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.long
async def test_killed_at_any_moment(root, client):
    chance = random.Random(11)
    for turn in range(20):
        done, each_done = trio.open_memory_channel[None](math.inf)
        async with running(root, client) as process:
            with trio.move_on_after(60):
                async with trio.open_nursery() as nursery:
                    for worker in range(4):
                        nursery.start_soon(
                            _work, client, f"{turn}-{worker}", random.Random(turn * 4 + worker), done
                        )
                    # How far they come in a time depends on the machine.
                    for _ in range(chance.randrange(16)):
                        await each_done.receive()
                    await trio.sleep(chance.uniform(0, 0.05))
                    process.kill()
        await judge(root, client)
    assert len(client.known) > 50


async def _work(client, name, chance, done):
    """Until the service is gone; what was not acknowledged may be so or so."""
    for number in range(10_000):
        here = f"{name}-{number}"
        try:
            file = await client.upload(here, chance.randbytes(chance.choice([10, 1000, 3_000_000])))
            what = chance.random()
            if what < 0.3:
                client.known.pop(here)
                await client.version(file, here, chance.randbytes(5000))
            elif what < 0.5:
                client.known.pop(here)
                await client.ask("DELETE", f"/files/{file}")
                await client.ask("DELETE", f"/files/{file}/trash")
                client.gone.add(here)
            elif what < 0.6:
                await client.upload_in_parts(f"{here}-big")
            done.send_nowait(None)
        except httpx.TransportError:
            return
