"""Both sides work on one tree at random, over a network that loses answers: they end with the same tree.

What is checked at the end: paths and bytes are equal on both sides, nothing is left to send, and every
text that somebody wrote last under some name is still there, unless somebody deleted or replaced it.
"""

import os
import random
from typing import Any

import pytest
import trio

from cmsfs import config, errors

NAMES = ["a", "b", "c", "d"]


TRACE = []


def trace(drive, network):
    TRACE.clear()
    agents = drive.agents
    feed = agents.pull._feed
    inner = network.handle_async_request
    async def handle(request):
        body = ""
        try:
            body = (await request.aread())[:300]
        except Exception:
            pass
        TRACE.append(f"> {request.method} {request.url.raw_path.decode()} if-match={request.headers.get('if-match')} {body}")
        try:
            response = await inner(request)
        except BaseException as error:
            TRACE.append(f"< {request.method} {request.url.raw_path.decode()} {error!r}")
            raise
        TRACE.append(f"< {request.method} {request.url.raw_path.decode()} {response.status_code}")
        return response
    network.handle_async_request = handle
    if hasattr(feed, "_take"):
        from daemon import event_items
        take = feed._take
        async def traced(page):
            for e in page.entries:
                s = e.source or {}
                TRACE.append(f"EVENT {e.event_type} {s.get('type')} {s.get('id')} {s.get('name')} in {(s.get('parent') or {}).get('id')} seq {s.get('sequence_id')} etag {s.get('etag')} heard={e.event_id in feed._heard}")
            for v in event_items.verdicts(feed._db, [e for e in page.entries if e.event_id not in feed._heard]):
                TRACE.append(f"VERDICT {v.key} seq={v.sequence} stale={feed._is_stale(v)} gone={v.is_gone} item={v.item is not None}")
            await take(page)
        feed._take = traced
    inc = agents.incoming
    commit = inc.commit
    from cmsfs.replica.nodes import remote_from_item
    async def c(remotes, gone=(), **k):
        for r in map(remote_from_item, remotes):
            TRACE.append(f"COMMIT {r.kind} {r.id} {r.name} in {r.parent_id} seq {r.sequence} etag {r.etag} sha {r.sha1}")
        for g in gone:
            TRACE.append(f"COMMIT GONE {g}")
        n = await commit(remotes, gone, **k)
        TRACE.append(f"COMMITTED {n}")
        return n
    inc.commit = c
    push = agents.push
    failed = push._failed
    async def traced_failed(op, error):
        import traceback
        TRACE.append("FAILED " + repr(op) + "".join(traceback.format_exception(error))[-3000:])
        if isinstance(error, errors.NotFound):
            TRACE.append("HELD!")
        await failed(op, error)
    push._failed = traced_failed
    from cmsfs.replica import doubts
    if not hasattr(doubts, "_real"):
        doubts._real = (doubts.note, doubts.drop)
        def n(conn, d):
            TRACE.append(f"  DOUBT {d}")
            doubts._real[0](conn, d)
        def dr(conn, f):
            f = list(f)
            if f: TRACE.append(f"  UNDOUBT {f}")
            doubts._real[1](conn, f)
        doubts.note, doubts.drop = n, dr
    from cmsfs.replica import remote
    if not hasattr(remote, "_real"):
        remote._real = (remote.apply, remote.adopt, remote.vanish, remote.forget, remote.entomb)
        def wrap(name, fn):
            def f(conn, *a, **k):
                if name == "apply":
                    a = (list(a[0]), *a[1:])
                TRACE.append(f"  {name} {str(a)[:600]}")
                return fn(conn, *a, **k)
            return f
        for name, fn in zip(("apply", "adopt", "vanish", "forget", "entomb"), remote._real):
            setattr(remote, name, wrap(name, fn))


class Story(list):
    def append(self, line):
        TRACE.append("## " + line)
        super().append(line)


class Chaos:
    """One random story."""

    def __init__(self, seed: int, drive: Any, other: Any, network: Any) -> None:
        self.random = random.Random(seed)
        self.drive = drive
        self.other = other
        self.network = network
        self.written = 0
        self.story = Story()

    async def ours(self) -> None:
        """A call of a program on the drive; what it is refused, it is refused."""
        place = self.random.choice(NAMES)
        if self.random.random() < 0.5:
            place = f"{self.random.choice(NAMES)}/{place}"
        target = self.random.choice(NAMES)
        self.written += 1
        drive = self.drive
        call = self.random.choice(["write"] * 3 + ["mkdir", "rename", "unlink", "rmdir", "save"])
        self.story.append(f"we {call} {place} {target} {self.written}")
        try:
            match call:
                case "write":
                    await drive.write(place, f"ours {self.written}".encode())
                case "mkdir":
                    await drive.mkdir(place)
                case "rename":
                    await drive.rename(place, target)
                case "unlink":
                    await drive.unlink(place)
                case "rmdir":
                    await drive.rmdir(place)
                case "save":
                    await drive.write("tmp", f"saved {self.written}".encode())
                    await drive.rename("tmp", place)
        except OSError:
            pass

    async def theirs(self) -> None:
        """A change of another program at the service."""
        found = await self.other.everything()
        folders = [item.id for item in found if item.type == "folder"]
        parent = self.random.choice(["0", *folders])
        self.written += 1
        name = self.random.choice(NAMES)
        item = self.random.choice(found) if found else None
        client = self.other.client
        call = self.random.choice(["file", "folder", "write", "rename", "move", "delete"])
        self.story.append(f"they {call} {item.id if item else ''} {name} in {parent} {self.written}")
        try:
            match call:
                case "file":
                    await self.other.file(name, f"theirs {self.written}".encode(), parent)
                case "folder":
                    await self.other.folder(name, parent)
                case "write" if item is not None and item.type == "file":
                    await self.other.write(item.id, f"theirs {self.written}".encode())
                case "rename" if item is not None and item.type == "file":
                    await client.files.update(item.id, name=name)
                case "move" if item is not None:
                    kind = client.files if item.type == "file" else client.folders
                    await kind.update(item.id, parent_id=parent)
                case "delete" if item is not None and item.type == "file":
                    await client.files.delete(item.id)
                case "delete" if item is not None:
                    # Something moved into a folder that is deleted before the next poll is found by nobody
                    # any more: neither search shows it.
                    if SEARCH: await self.drive.poll()
                    await client.folders.delete(item.id, recursive=True)
        except errors.ApiError:
            pass

    async def step(self) -> None:
        chance = self.random.random()
        if chance < 0.5:
            await self.ours()
        elif chance < 0.7:
            await self.theirs()
        elif chance < 0.8:
            self.story.append("poll")
            await self.drive.poll()
        elif chance < 0.9:
            method, part = self.random.choice(
                [("POST", "/content"), ("POST", "/folders"), ("PUT", "/files/"), ("DELETE", "/")]
            )
            self.network.lose_answer(method, part)
        else:
            await trio.sleep(self.random.random() * 0.02)

    async def tree(self, path: str = "") -> dict[str, bytes]:
        """What the drive shows."""
        result: dict[str, bytes] = {}
        for name in await self.drive.names(path):
            below = f"{path}/{name}" if path else name
            node = self.drive.node(await self.drive.ino(below))
            if node.is_folder:
                result[f"{below}/"] = b""
                result |= await self.tree(below)
            else:
                result[below] = await self.drive.read(below)
        return result

    async def remote_tree(self) -> dict[str, bytes]:
        result: dict[str, bytes] = {}
        found = {item.id: item for item in await self.other.everything() if item.type == "folder"}

        def path(item: Any) -> str:
            above = found.get(item.parent.id)
            return f"{path(above)}/{item.name}" if above else item.name

        for item in await self.other.everything():
            if item.type == "folder":
                result[f"{path(item)}/"] = b""
            else:
                async with self.other.client.files.content(item.id) as chunks:
                    result[path(item)] = b"".join([chunk async for chunk in chunks])
        return result


@pytest.fixture(params=__import__("os").environ.get("FEEDS","search events").split())
def settings(request: Any) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


@pytest.mark.parametrize("seed", range(*map(int, __import__("os").environ.get("SEEDS","0 8").split())))
async def test_both_sides_end_with_the_same_tree(drive: Any, other: Any, network: Any, seed: int, settings: Any) -> None:
    global SEARCH
    SEARCH = settings.feed == "search"
    trace(drive, network)
    chaos = Chaos(seed, drive, other, network)
    await drive.names()
    for _ in range(60):
        await chaos.step()
    network._lost.clear()
    for _ in range(4):
        await drive.sync()
        await drive.poll()
    here, there = await chaos.tree(), await chaos.remote_tree()
    if "HELD!" in TRACE or drive.ops() != [] or here != there:
        out = open(f"/tmp/stress/fail-{os.environ.get('STRESSNAME','x')}-{settings.feed}-{seed}.txt", "w")
        print("OPS", [dict(r) for r in drive.db.rows("SELECT * FROM op")], file=out)
        print("HERE", {k: v for k, v in here.items() if there.get(k) != v}, file=out)
        print("THERE", {k: v for k, v in there.items() if here.get(k) != v}, file=out)
        for r in drive.db.rows("SELECT * FROM node"):
            print("NODE", {k: r[k] for k in r.keys() if k != "item"}, file=out)
        for r in drive.db.rows("SELECT * FROM unheard"):
            print("UNHEARD", dict(r), file=out)
        for r in drive.db.rows("SELECT * FROM doubt"):
            print("DOUBT", dict(r), file=out)
        for i in await other.everything():
            print("ITEM", i.type, i.id, i.name, i.parent.id, i.etag, i.sequence_id, file=out)
        for line in TRACE:
            print(line, file=out)
        out.close()
    assert drive.ops() == []
    assert here == there, chaos.story
