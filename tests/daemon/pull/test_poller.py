"""Pull: what others do at the service, seen on the drive."""

import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.replica import kv_store
from cmsfs.replica.changes import ChangeKind
from daemon.pull import reconciler
from daemon.pull.poller import MANY_READ
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


@pytest.fixture(params=["search", "events"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


async def test_changes_of_others_arrive(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    kept = await other.file("kept", b"one", parent=docs)
    gone = await other.file("gone", b"x", parent=docs)
    assert await drive.names("docs") == ["gone", "kept"]
    await other.write(kept, b"two!")
    await other.client.items.delete("file", gone)
    await other.file("new", b"n", parent=docs)
    await other.client.items.update("file", kept, name="renamed")
    await drive.poll()
    assert await drive.names("docs") == ["new", "renamed"]
    assert await drive.read("docs/renamed") == b"two!"
    assert ChangeKind.CONTENT in {change.what for change in drive.changes}
    assert ChangeKind.GONE in {change.what for change in drive.changes}


async def test_poll_takes_few_requests(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x")
    await drive.names()
    await drive.mkdir("d")
    await drive.write("d/ours", b"o")
    await drive.sync()
    drive.changes.clear()
    before = drive.agents.health.requests["poll"]
    await drive.poll()
    # One page of events; a search for what was changed and one for what was deleted.
    few = 1 if config.profile(drive.agents.settings).feed == "events" else 2
    assert drive.agents.health.requests["poll"] == before + few
    assert drive.changes == []


async def test_new_folder_with_contents_is_listed(drive: Drive, other: Remote) -> None:
    await drive.names()
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    requests = drive.agents.health.requests["listing"]
    await drive.poll()
    await drive.agents.hydrator.listing(await drive.ino("docs"))
    # Whoever asked found it listed by then, or under way; events tell of all that is in it themselves.
    assert drive.agents.health.requests["listing"] <= requests + 1
    asked = drive.agents.health.requests["listing"]
    assert await drive.names("docs") == ["f"]
    assert drive.agents.health.requests["listing"] == asked


async def test_deleted_folder_returns_with_contents(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    deep = await other.folder("deep", docs)
    await other.file("f", b"x", parent=deep)
    assert await drive.names("docs/deep") == ["f"]
    await other.client.items.delete("folder", docs, recursive=True)
    await drive.poll()
    assert await drive.names() == []
    await other.client.items.restore("folder", docs)
    await drive.poll()
    assert await drive.names() == ["docs"]
    assert await drive.names("docs/deep") == ["f"]
    assert await drive.read("docs/deep/f") == b"x"


async def test_a_file_restored_from_the_trash_comes_back(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"x")
    await drive.sync()
    number = (await other.find("f")).id
    await drive.unlink("f")
    await drive.sync()
    await drive.poll()
    await drive.poll()
    await other.client.items.restore("file", number)
    await drive.poll()
    assert await drive.names() == ["f"]
    assert await drive.read("f") == b"x"


async def test_item_moved_into_deleted_folder_stays(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    await drive.write("f", b"x")
    await drive.sync()
    await other.client.items.delete("folder", (await other.find("d")).id, recursive=True)
    await drive.rename("f", "d/f")
    await drive.poll()
    await drive.sync()
    assert await other.paths() == ["d/", "d/f"]
    assert await drive.names("d") == ["f"]


async def test_the_poll_goes_on_after_an_outage(starting: Starting, other: Remote, network: Network) -> None:
    async with starting(agents=("health", "pull", "fs")) as drive:
        await drive.names()
        network.is_down = True
        drive.agents.pull.poke()
        with trio.fail_after(5):
            while drive.agents.health.can_ask:
                await drive.agents.health.changed()
        await other.file("f", b"x")
        network.is_down = False
        with trio.fail_after(15):
            while not drive.changes:
                await drive.changed.wait()
        assert await drive.names() == ["f"]


async def test_a_look_is_asked_for_before_the_first_one(
    starting: Starting, other: Remote, network: Network
) -> None:
    network.is_down = True
    async with starting(agents=("health",)) as drive:
        network.is_down = False
        await other.file("f", b"x")
        await drive.poll()
        assert await drive.names() == ["f"]


async def test_offline_changes_arrive_at_start(starting: Starting, other: Remote) -> None:
    kept = await other.file("kept", b"one")
    gone = await other.file("gone", b"x")
    async with starting() as drive:
        assert await drive.names() == ["gone", "kept"]
    await other.write(kept, b"two")
    await other.client.items.delete("file", gone)
    await other.file("new", b"n")
    async with starting(agents=("health", "fs")) as drive:
        await drive.poll()
        assert await drive.names() == ["kept", "new"]
        assert await drive.read("kept") == b"two"
        assert drive.agents.health.requests["listing"] == 0


async def test_what_came_to_an_empty_account_while_offline_arrives_at_start(
    starting: Starting, other: Remote
) -> None:
    async with starting() as drive:
        await drive.agents.pull.begin()
        assert await drive.names() == []
    await other.folder("first")
    hour = 3600 * 10**6
    await other.store.write(
        lambda conn: conn.execute("UPDATE item SET modified_at = modified_at - ?", (hour,))
    )
    await other.file("second", b"x")
    async with starting() as drive:
        await drive.agents.pull.begin()
        await drive.poll()
        assert await drive.names() == ["first", "second"]


async def test_changes_between_the_first_listing_and_the_first_poll_are_found(
    starting: Starting, other: Remote, network: Network
) -> None:
    """A drive that started offline lists what is looked at as soon as the service answers."""
    old = await other.file("old", b"x")
    network.is_down = True
    async with starting(agents=("fs",)) as drive:
        network.is_down = False
        assert await drive.names() == ["old"]
        await other.client.items.delete("file", old)
        await other.file("new", b"x")
        await drive.agents.pull.begin()
        assert kv_store.get(drive.db, kv_store.SWEEP_DUE) == reconciler.FULL
        await drive.agents.reconciler.once(full=True)
        assert await drive.names() == ["new"]


async def test_changes_between_the_windows_of_an_interrupted_listing_are_found(
    starting: Starting, other: Remote, network: Network
) -> None:
    """A drive that started offline has listed the folders, then loses the network until after the changes."""
    network.is_down = True
    async with starting() as drive:
        network.is_down = False
        async with trio.open_nursery() as nursery:
            arrived, _ = network.gate("GET", "type=file", before=True)
            nursery.start_soon(drive.agents.crawler.once)
            await arrived.wait()
            nursery.cancel_scope.cancel()
        await other.file("f", b"x", parent=await other.folder("new"))
        await drive.agents.pull.begin()
        await drive.agents.crawler.once()
        assert await drive.agents.reconciler.is_full_due()
        await drive.agents.reconciler.once(full=True)
        assert await drive.names("new") == ["f"]


@pytest.mark.parametrize("settings", ["search"], indirect=True)
async def test_cursor_at_rest_reads_no_older_changes(
    starting: Starting, other: Remote, mock_clock: trio.testing.MockClock
) -> None:
    """Two minutes after the newest change nothing from before it can still come."""
    mock_clock.rate = 1
    async with starting(agents=("fs",)) as drive:
        await drive.names()
        for number in range(300):
            await other.file(f"f{number}", b"x")
        await drive.poll()
        before = drive.agents.health.requests["poll"]
        await drive.poll()
        assert drive.agents.health.requests["poll"] > before + 2
        mock_clock.jump(121)
        before = drive.agents.health.requests["poll"]
        await drive.poll()
        assert drive.agents.health.requests["poll"] == before + 2


@pytest.mark.parametrize("settings", [config.Settings(settle_seconds=0, feed="search")], ids=["search"])
async def test_a_look_that_took_minutes_does_not_make_the_drive_blind(drive: Drive) -> None:
    """A request that nobody answers takes a minute, and so may a look that takes it for a refusal."""
    poller = drive.agents.pull
    poller._feed.read = MANY_READ
    poller._took = 120.0
    assert poller._pause_after_poll() <= 61
    poller._took = 3.0
    assert poller._pause_after_poll() >= 12
    # It read next to nothing, so it has waited: the next one comes as usual.
    poller._feed.read = 7
    assert poller._pause_after_poll() <= config.Settings().poll_seconds * 2
