"""The stream of events: what comes twice, late or not at all, and positions."""

from functools import partial
from typing import Any

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.client.content.events import PAGE
from cmsfs.replica import kv_store, tree
from cmsfs.runtime import clock
from daemon.pull import event_feed, reconciler
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


@pytest.fixture
def settings(events_only: config.Settings) -> config.Settings:
    return events_only


async def _until(drive: Drive, what: Any) -> None:
    with trio.fail_after(10):
        while not await what():
            await drive.changed.wait()


async def test_event_applies_at_once(starting: Starting, other: Remote) -> None:
    async with starting(agents=("health", "fs", "pull")) as drive:
        await drive.names()
        number = await other.file("f", b"one")

        async def came() -> bool:
            return await drive.names() == ["f"]

        await _until(drive, came)
        await other.write(number, b"two, longer")

        async def changed() -> bool:
            return bool(await drive.read("f") == b"two, longer")

        await _until(drive, changed)


async def test_own_changes_are_not_announced_back(
    starting: Starting, other: Remote, network: Network
) -> None:
    """Only what the push does, which knows it by the answers; what others do shows at once, as ever."""
    async with starting(agents=("health", "fs", "push", "pull")) as drive:
        waits, go = network.gate("GET", "/events/wait", before=True)
        await waits.wait()
        told, tell = network.gate("GET", "/events/wait")
        go.set()
        sessions: dict[str, str | None] = {}

        def note(request: httpx.Request) -> None:
            if request.method != "GET" or request.url.path.endswith("/events/wait"):
                sessions[request.method + request.url.path] = request.headers.get("x-session-id")

        network.instead = note
        asked = network.count("GET", "/events?")
        await drive.mkdir("d")
        await drive.write("d/f", b"one")
        await drive.sync()
        await drive.write(".tmp", b"two")
        await drive.rename(".tmp", "d/f")
        await drive.sync()
        await drive.rename("d/f", "d/g")
        await drive.sync()
        await drive.unlink("d/g")
        await drive.sync()
        assert len(set(sessions.values())) == 1
        assert None not in sessions.values()
        assert not told.is_set()
        await other.file("theirs", b"x")
        await told.wait()
        tell.set()

        async def came() -> bool:
            return "theirs" in await drive.names()

        await _until(drive, came)
        # All of it in one page, which is asked for once.
        assert network.count("GET", "/events?") == asked + 1
        number = (await other.find("theirs")).id
        await drive.agents.client.items.update("file", number, name="by a command")

        async def shows() -> bool:
            return "by a command" in await drive.names()

        await _until(drive, shows)


async def test_the_position_is_kept_with_what_it_brought(
    starting: Starting, other: Remote, network: Network
) -> None:
    async with starting() as drive:
        await drive.names()
        await other.file("f", b"x")
        await drive.poll()
        position = kv_store.get(drive.db, kv_store.EVENTS_POSITION)
    await other.file("g", b"y")
    async with starting() as drive:
        assert kv_store.get(drive.db, kv_store.EVENTS_POSITION) == position
        listings = drive.agents.health.requests["listing"]
        await drive.poll()
        assert await drive.names() == ["f", "g"]
        assert drive.agents.health.requests["listing"] == listings == 0


async def test_a_page_that_is_not_applied_comes_again(drive: Drive, other: Remote, network: Network) -> None:
    """The position does not pass what could not be asked for."""
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    await drive.names()
    await drive.poll()
    await other.client.items.delete("folder", docs, recursive=True)
    await drive.poll()
    await other.client.items.restore("folder", docs)
    # A restored folder is asked for; both attempts fail.
    network.lose_answer("GET", f"/folders/{docs}")
    network.lose_answer("GET", f"/folders/{docs}")
    with pytest.raises(errors.RemoteError):
        await drive.poll()
    assert await drive.names() == []
    await drive.poll()
    assert await drive.names() == ["docs"]
    assert await drive.read("docs/f") == b"x"


async def test_unknown_position_triggers_full_comparison(drive: Drive, other: Remote) -> None:
    gone = await other.file("gone", b"x")
    assert await drive.names() == ["gone"]
    await drive.poll()
    for position in ("no position", str(10**15)):
        await drive.db.write(lambda conn: kv_store.drop(conn, kv_store.SWEEP_DUE))
        await drive.db.write(partial(kv_store.put, key=kv_store.EVENTS_POSITION, value=position))
        drive.agents.pull._feed._position = None  # type: ignore[attr-defined]
        await drive.poll()
        assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
        assert kv_store.get(drive.db, kv_store.EVENTS_POSITION) != position
    await other.client.items.delete("file", gone)
    await drive.poll()
    assert await drive.names() == []


async def test_old_stream_position_is_distrusted(drive: Drive, other: Remote) -> None:
    await drive.names()
    await drive.poll()
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) is None
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.EVENTS_READ_AT, "1000"))
    await other.file("f", b"x")
    await drive.poll()
    assert await drive.names() == []
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
    await drive.agents.reconciler.once(full=True)
    assert await drive.names() == ["f"]


async def test_new_folder_that_is_used_there_before_its_answer_arrives_is_listed(
    starting: Starting, other: Remote, network: Network
) -> None:
    """The event of what is put into it is missed."""
    async with starting(profile="box") as drive:
        await drive.names()
        await drive.poll()
        made, go = network.gate("POST", "/folders")
        await drive.mkdir("new")
        with trio.fail_after(10):
            await made.wait()
            await drive.db.write(lambda conn: kv_store.put(conn, kv_store.EVENTS_READ_AT, "1000"))
            await other.file("f", b"x", parent=(await other.find("new")).id)
            await drive.poll()
            await drive.agents.reconciler.once(full=True)
            go.set()
            while drive.ops():
                await trio.lowlevel.checkpoint()
        await drive.poll()
        assert await drive.names("new") == ["f"]


async def test_response_that_arrives_after_a_long_sleep_is_distrusted(
    drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service may have dropped events that the request would have returned."""
    await drive.names()
    await drive.poll()
    arrived, go = network.gate("GET", "/events?", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.poll)
        with trio.fail_after(5):
            await arrived.wait()
        now = clock.time()
        monkeypatch.setattr(clock, "time", lambda: now + event_feed.KEPT_SECONDS + 60)
        go.set()
    await drive.poll()
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL


async def test_unknown_folder_is_fetched_and_listed(drive: Drive, other: Remote, network: Network) -> None:
    """The events of two folders are lost; one in the deeper one is not."""
    await drive.names()
    outer = await other.folder("outer")
    inner = await other.folder("inner", outer)
    await other.file("early", b"e", parent=inner)
    network.inner = _Losing(network.inner)
    await drive.poll()
    assert await drive.names() == []
    network.inner = network.inner.inner
    await other.file("late", b"l", parent=inner)
    await drive.poll()
    assert await drive.names() == ["outer"]
    assert await drive.names("outer/inner") == ["early", "late"]


async def test_older_event_is_ignored(drive: Drive, other: Remote, network: Network) -> None:
    """A file is made and removed for good; that it was made is told last, and it does not come back."""
    await drive.names()
    network.inner = late = _Late(network.inner)
    number = await other.file("f", b"x")
    await drive.poll()
    await other.client.items.delete("file", number)
    await drive.poll()
    assert late.held
    late.released = True
    await other.client.items.purge("file", number)
    await other.folder("another")
    await drive.poll()
    await drive.poll()
    assert not late.held
    assert await drive.names() == ["another"]


async def test_own_deletion_is_not_undone_by_older_events_after_a_restart(
    starting: Starting, other: Remote, network: Network
) -> None:
    """A page ends between the event of our upload and that of our deletion."""
    async with starting() as drive:
        await drive.names()
        await drive.write("f", b"x")
        await drive.sync()
        docs = await other.folder("docs")
        for number in range(PAGE):
            await other.client.items.update("folder", docs, name=f"docs {number}")
        await drive.unlink("f")
        await drive.sync()
    async with starting() as drive:
        shown: set[str] = set()
        drive.agents.hub.subscribe(lambda changes: shown.update(change.name for change in changes))
        await drive.poll()
        assert f"docs {PAGE - 1}" in shown
        assert "f" not in shown


class _Late(httpx.AsyncBaseTransport):
    """That a file came is told when it is `released`, behind what came since."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner
        self.held: list[Any] = []
        self.released = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith("/events"):
            return response
        await response.aread()
        page = response.json()
        if self.released:
            page["entries"], self.held = page["entries"] + self.held, []
        else:
            self.held += [one for one in page["entries"] if one["event_type"] == "ITEM_UPLOAD"]
            page["entries"] = [one for one in page["entries"] if one["event_type"] != "ITEM_UPLOAD"]
        return httpx.Response(200, json={**page, "chunk_size": len(page["entries"])})


class _Losing(httpx.AsyncBaseTransport):
    """No event comes through."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self.inner.handle_async_request(request)
        if request.method != "GET" or not request.url.path.endswith("/events"):
            return response
        await response.aread()
        return httpx.Response(200, json={**response.json(), "entries": [], "chunk_size": 0})


@pytest.mark.parametrize("is_shared", [False, True])
async def test_restored_folder_has_again_what_was_missing_meanwhile(
    drive: Drive, other: Remote, ben: Remote, is_shared: bool
) -> None:
    """A file that was requested while its folder was in the trash, and counted as gone."""
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    assert await drive.names("docs") == ["f"]
    await drive.poll()
    await other.client.items.delete("folder", docs, recursive=True)
    with pytest.raises(OSError):
        await drive.read("docs/f")
    await drive.agents.deferred_updates.settle()
    with pytest.raises(OSError):
        await drive.ino("docs/f")
    await other.client.items.restore("folder", docs)
    if is_shared:
        await other.client.collaborations.create("folder", docs, "editor", user_id=str(ben.user))
    await drive.poll()
    assert await drive.names("docs") == ["f"]


async def test_a_page_is_one_transaction(drive: Drive, other: Remote) -> None:
    """Whoever looks at the tree sees all that a page brings, or nothing."""
    await drive.names()
    batches: list[int] = []
    drive.agents.hub.subscribe(lambda changes: batches.append(len(changes)))
    for number in range(20):
        await other.file(f"f{number}", b"x")
    await drive.poll()
    assert batches == [20]


async def test_what_an_event_does_not_show_stays_known(drive: Drive, other: Remote) -> None:
    """A new version's event says nothing of tags: they are still there."""
    number = await other.file("f", b"one")
    url = f"{other.client.files._url}/{number}"
    await other.client.files._wire.tell("PUT", url, body={"tags": ["kept"], "description": "d"})
    await drive.names()
    await drive.poll()
    await other.write(number, b"two")
    await drive.poll()
    ino = await drive.ino("f")
    assert '"kept"' in (tree.item_json(drive.db, ino) or "")
    assert await drive.read("f") == b"two"


async def test_position_never_passes_unapplied_events(
    starting: Starting, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fails on the way, and a process that is killed there: the events come again."""
    async with starting() as drive:
        docs = await other.folder("docs")
        await drive.names()
        await drive.poll()
        await other.client.items.delete("folder", docs, recursive=True)
        await drive.poll()
        before = kv_store.get(drive.db, kv_store.EVENTS_POSITION)
        await other.client.items.restore("folder", docs)
        for _ in range(2):
            network.lose_answer("GET", f"/folders/{docs}")
        with pytest.raises(errors.RemoteError):
            await drive.poll()
        assert kv_store.get(drive.db, kv_store.EVENTS_POSITION) == before

        async def fail(*args: Any, **kwargs: Any) -> None:
            raise OSError(28, "the disk is full")

        with monkeypatch.context() as patched, pytest.raises(OSError, match="disk is full"):
            patched.setattr(drive.agents.remote_updates, "apply", fail)
            await drive.poll()
        assert kv_store.get(drive.db, kv_store.EVENTS_POSITION) == before
    async with starting() as drive:
        await drive.poll()
        assert await drive.names() == ["docs"]
