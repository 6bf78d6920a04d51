"""What no feed tells is found by comparing; and comparing costs little when there is nothing to find."""

from functools import partial

import httpx
import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.service.storage import tree_paths
from cmsfs.sqlite import Connection
from daemon.pull import reconciler
from daemon.pull.context import PullContext
from daemon.pull.new_folders import NewFolders
from tests.support import errno_probe
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

FOLDER_BY_FOLDER = config.Settings(
    settle_seconds=0,
    network_seconds=5,
    profile="box",
    base_url=f"{errno_probe.URL}/2.0",
    upload_url=f"{errno_probe.URL}/api/2.0",
    auth_url=errno_probe.URL,
)


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    if isinstance(request.param, config.Settings):
        return request.param
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


async def test_what_was_purged_goes_with_the_quick_sweep(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    gone = await other.file("gone", b"x", parent=docs)
    await other.file("kept", b"y", parent=docs)
    assert await drive.names("docs") == ["gone", "kept"]
    await drive.poll()
    await other.store.write(lambda conn: conn.execute("DELETE FROM version WHERE file = ?", (int(gone),)))
    await other.store.write(lambda conn: conn.execute("DELETE FROM item WHERE id = ?", (int(gone),)))
    await drive.poll()
    assert await drive.names("docs") == ["gone", "kept"]
    assert await drive.agents.reconciler.once(full=False) == 1
    assert await drive.names("docs") == ["kept"]


async def test_comparison_waits_for_the_listing(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, nursery: trio.Nursery
) -> None:
    agents, polls = drive.agents, 0

    async def poll() -> None:
        nonlocal polls
        polls += 1
        assert polls < 5, "asks without rest"
        await trio.lowlevel.checkpoint()

    monkeypatch.setattr(reconciler, "SETTLE_SECONDS", 0)
    context = PullContext(
        drive.db, agents.client, agents.remote_updates, agents.health, NewFolders(drive.db, agents.hydrator)
    )
    made = reconciler.Reconciler(context, agents.deletion_check, poll=poll, fill=None, full_seconds=0)
    await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
    nursery.start_soon(made.run)
    with trio.fail_after(20):
        while not polls:
            await trio.testing.wait_all_tasks_blocked()
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert polls == 1


async def test_unchanged_quick_comparison_is_one_request(drive: Drive, other: Remote) -> None:
    for number in range(5):
        await other.file(f"f{number}", b"x")
    await drive.names()
    await drive.mkdir("ours")
    await drive.sync()
    before = drive.agents.health.requests["sweep"]
    assert await drive.agents.reconciler.once(full=False) == 0
    assert drive.agents.health.requests["sweep"] == before + 1


@pytest.mark.parametrize("settings", ["events"], indirect=True)
async def test_full_comparison_finds_traceless_move(drive: Drive, other: Remote) -> None:
    one, two = await other.folder("one"), await other.folder("two")
    moved = await other.file("f", b"x", parent=one)
    assert await drive.names("one") == ["f"]
    await drive.poll()

    def silently(conn: Connection) -> None:
        folder = conn.execute("SELECT * FROM item WHERE id = ?", (int(two),)).fetchone()
        sql = "UPDATE item SET parent = ?, path = ? WHERE id = ?"
        conn.execute(sql, (int(two), tree_paths.below(folder)[0], int(moved)))

    await other.store.write(silently)
    await drive.poll()
    assert await drive.agents.reconciler.once(full=False) == 0
    assert await drive.names("one") == ["f"]
    assert await drive.agents.reconciler.once(full=True) > 0
    assert (await drive.names("one"), await drive.names("two")) == ([], ["f"])


async def test_local_work_survives_the_sweep(drive: Drive, other: Remote, network: Network) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    assert await drive.names("docs") == ["f"]
    network.is_down = True
    await drive.write("docs/f", b"ours")
    await drive.write("docs/new", b"new")
    network.is_down = False
    await other.client.items.delete("folder", docs, recursive=True)
    await other.client.items.purge("folder", docs)
    await drive.agents.reconciler.once(full=True)
    await drive.sync()
    assert await drive.read("docs/f") == b"ours"
    assert await other.read("f") == b"ours"
    assert await other.read("new") == b"new"


class _Restless(httpx.AsyncBaseTransport):
    """Before every other search a file goes into the trash, and before the next it is back."""

    def __init__(self, inner: httpx.AsyncBaseTransport, other: Remote, number: str) -> None:
        self.inner = inner
        self._other = other
        self._number = number
        self._turning = trio.Lock()
        self.is_away = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/search"):
            # One page at a time, so that no two are of the same moment.
            async with self._turning:
                await self.turn()
                return await self.inner.handle_async_request(request)
        return await self.inner.handle_async_request(request)

    async def turn(self) -> None:
        self.is_away = not self.is_away
        if self.is_away:
            await self._other.client.items.delete("file", self._number)
        else:
            await self._other.client.items.restore("file", self._number)


@pytest.mark.parametrize("settings", ["events"], indirect=True)
async def test_nothing_goes_away_while_things_move(drive: Drive, other: Remote, network: Network) -> None:
    """A listing that did not hold still is no proof that anything is gone."""
    made = [await other.file(f"f{number:03}", b"x") for number in range(350)]
    assert len(await drive.names()) == 350
    await drive.poll()
    calm, network.inner = network.inner, _Restless(network.inner, other, made[100])
    await drive.agents.reconciler.once(full=True)
    restless, network.inner = network.inner, calm
    assert len(await drive.names()) == 350
    if restless.is_away:
        await restless.turn()
    await drive.poll()
    assert len(await drive.names()) == 350


async def test_due_comparison_survives_restart(starting: Starting, other: Remote) -> None:
    await other.file("f", b"x")
    async with starting() as drive:
        await drive.names()
        await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
        await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.QUICK))
    async with starting() as drive:
        assert await drive.agents.reconciler.is_full_due()
        await drive.agents.reconciler.once(full=True)
        assert kv_store.get(drive.db, kv_store.SWEEP_DUE) is None
        assert not await drive.agents.reconciler.is_full_due()


@pytest.mark.parametrize("settings", ["events"], indirect=True)
async def test_a_clock_that_is_set_back_delays_no_comparison(
    starting: Starting, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison by a clock that was a month ahead is of no known age."""
    right = clock.time
    async with starting() as drive:
        await drive.names()
        monkeypatch.setattr(clock, "time", lambda: right() + 30 * reconciler.DAY)
        await drive.agents.reconciler.once(full=True)
        assert not await drive.agents.reconciler.is_full_due()
    monkeypatch.setattr(clock, "time", right)
    async with starting() as drive:
        assert await drive.agents.reconciler.is_full_due()
        await drive.agents.reconciler.once(full=True)
        assert not await drive.agents.reconciler.is_full_due()


@pytest.mark.parametrize("settings", ["events"], indirect=True)
async def test_comparison_requested_during_another_one_is_made_after_it(
    drive: Drive, network: Network
) -> None:
    await drive.names()
    await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
    arrived, go = network.gate("GET", "/search")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(drive.agents.reconciler.once, full=True))
        with trio.fail_after(5):
            await arrived.wait()
        assert await drive.agents.reconciler.is_full_due()
        await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
        go.set()
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
    await drive.agents.reconciler.once(full=True)
    assert kv_store.get(drive.db, kv_store.SWEEP_DUE) is None


@pytest.mark.parametrize("settings", ["events"], indirect=True)
async def test_a_sweep_begins_when_the_events_are_found_to_be_incomplete(
    drive: Drive, other: Remote, nursery: trio.Nursery, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1
    gone = await other.file("gone", b"x")
    assert await drive.names() == ["gone"]
    await drive.poll()
    nursery.start_soon(drive.agents.reconciler.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    mock_clock.jump(reconciler.SETTLE_SECONDS)
    await trio.testing.wait_all_tasks_blocked(0.01)
    await other.client.items.delete("file", gone)
    await drive.db.write(partial(kv_store.put, key=kv_store.EVENTS_POSITION, value="of another service"))
    drive.agents.pull._feed._position = None  # type: ignore[attr-defined]
    await drive.poll()
    with trio.fail_after(reconciler.LOOK_SECONDS / 4):
        while await drive.names():
            await drive.changed.wait()
            await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("settings", [FOLDER_BY_FOLDER], indirect=True)
async def test_what_is_shown_of_an_unlisted_folder_is_compared(drive: Drive, other: Remote) -> None:
    """A folder that a comparison found is listed when it is opened; what was put into it since is known by
    events, and programs see it by its name."""

    async def compare_without_events() -> None:
        await other.store.write(lambda conn: conn.execute("DELETE FROM event"))
        await drive.agents.reconciler.once(full=True)

    await drive.names()
    await drive.poll()
    docs = await other.folder("docs")
    await compare_without_events()
    changed, gone = [await other.file(name, b"old", parent=docs) for name in ("changed", "gone")]
    await drive.poll()
    assert not tree.is_listed(drive.db, await drive.ino("docs"))
    assert await drive.read("docs/changed") == b"old"
    await other.write(changed, b"new")
    await other.client.items.delete("file", gone)
    await compare_without_events()
    assert await drive.read("docs/changed") == b"new"
    with pytest.raises(FileNotFoundError):
        await drive.read("docs/gone")


@pytest.mark.parametrize("is_first", [False, True])
async def test_root_that_became_incomplete_is_listed_again_for_the_comparison(
    drive: Drive, other: Remote, is_first: bool
) -> None:
    """It was compared before, or changes were missed before the first comparison."""
    await other.file("f", b"x")
    assert await drive.names() == ["f"]
    agents = drive.agents
    if is_first:
        await drive.db.write(partial(kv_store.drop, key=kv_store.SWEPT_AT))
        await drive.db.write(lambda conn: reconciler.schedule(conn, reconciler.FULL))
    else:
        assert await agents.reconciler.once(full=True) is not None
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    assert await agents.reconciler.once(full=True) is None
    await until_listed(drive)
    assert await agents.reconciler.once(full=True) is not None


async def until_listed(drive: Drive) -> None:
    with trio.fail_after(10):
        while not tree.is_listed(drive.db, ROOT):
            await drive.db.written.wait()
