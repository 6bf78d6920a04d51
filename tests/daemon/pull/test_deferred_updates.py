"""What others do while work of ours is under way is not lost, whichever of the two is heard first."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.replica import tree
from cmsfs.replica.changes import ChangeKind
from cmsfs.replica.merge import local_work
from cmsfs.replica.merge.local_work import DeferredUpdate
from cmsfs.replica.nodes import ROOT, NodeKind
from cmsfs.sqlite import Connection
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    # The feed that tells everything once.
    return config.Settings(settle_seconds=0, network_seconds=5, feed="events")


async def reached(event: trio.Event) -> None:
    with trio.fail_after(10):
        await event.wait()


async def settled(drive: Drive) -> None:
    await drive.sync()
    await drive.poll()
    assert local_work.count_deferred(drive.db) == 0
    assert drive.ops() == []


async def known(drive: Drive, other: Remote, name: str = "f") -> str:
    """A file that both sides have, with the bytes `first`; its id."""
    number: str = await other.file(name, b"first")
    assert await drive.read(name) == b"first"
    return number


def version_of(number: str) -> tuple[str, str]:
    """The request that sends a version of a file."""
    return "POST", f"/files/{number}/content"


Overtaking = Callable[..., AbstractAsyncContextManager[None]]


@pytest.fixture
def overtaking(drive: Drive, network: Network) -> Overtaking:
    """`async with overtaking(ours, method, part)`: what is done inside is done, and heard of, after the
    service has carried out this request of ours and before we have its answer; then all is settled."""

    @asynccontextmanager
    async def hold_up(ours: Awaitable[Any], method: str, part: str) -> AsyncIterator[None]:
        carried_out, go = network.gate(method, part)
        await ours
        await reached(carried_out)
        yield
        await drive.poll()
        go.set()
        await settled(drive)

    return hold_up


async def test_a_version_that_overtakes_our_answer(
    drive: Drive, other: Remote, overtaking: Overtaking
) -> None:
    number = await known(drive, other)
    async with overtaking(drive.write("f", b"ours"), *version_of(number)):
        await other.write(number, b"theirs, later")
    assert await drive.read("f") == b"theirs, later"
    assert await other.read("f") == b"theirs, later"


async def test_a_name_that_overtakes_our_answer(drive: Drive, other: Remote, overtaking: Overtaking) -> None:
    number = await known(drive, other)
    async with overtaking(drive.rename("f", "ours"), "PUT", f"/files/{number}"):
        await other.client.items.update("file", number, name="theirs")
    assert await drive.names() == ["theirs"]


async def test_remote_rename_overtakes_upload_response(
    drive: Drive, other: Remote, overtaking: Overtaking
) -> None:
    number = await known(drive, other)
    async with overtaking(drive.write("f", b"ours"), *version_of(number)):
        await other.client.items.update("file", number, name="theirs")
    assert await drive.names() == ["theirs"]
    assert await drive.read("theirs") == b"ours"


async def test_an_old_version_made_current_over_ours(
    drive: Drive, other: Remote, overtaking: Overtaking
) -> None:
    """It has the bytes that ours started from, so that nothing seems to have happened."""
    number = await known(drive, other)
    async with overtaking(drive.write("f", b"ours"), *version_of(number)):
        await other.write(number, b"first")
    assert await drive.read("f") == b"first"


async def test_a_deletion_that_overtakes_our_answer(
    drive: Drive, other: Remote, overtaking: Overtaking
) -> None:
    number = await known(drive, other)
    async with overtaking(drive.write("f", b"ours"), *version_of(number)):
        await other.client.items.delete("file", number)
    assert await drive.names() == []
    assert await other.paths() == []


async def test_remote_move_during_local_rename(drive: Drive, other: Remote, network: Network) -> None:
    """The answer is the first that we hear of it, and the event no news any more."""
    folder = await other.folder("d")
    number = await known(drive, other)
    await drive.names("d")
    arrives, go = network.gate("PUT", f"/files/{number}", before=True)
    await drive.rename("f", "g")
    await reached(arrives)
    await other.client.items.update("file", number, parent_id=folder)
    go.set()
    await settled(drive)
    assert await drive.names() == ["d"]
    assert await drive.names("d") == ["g"]


async def test_their_bytes_come_when_ours_are_taken_back(
    starting: Starting, other: Remote, network: Network
) -> None:
    """Written back to what it was, with its time, our file needs no request whose answer tells of theirs."""
    async with starting(agents=("health", "fs")) as drive, trio.open_nursery() as nursery:
        number = await known(drive, other)
        before = drive.node(await drive.ino("f"))
        await drive.write("f", b"ours")
        await other.write(number, b"theirs")
        await drive.poll()
        await drive.write("f", b"first")
        await drive.fs.setattr(before.ino, SetAttr(mtime_ns=before.mtime_ns))
        nursery.start_soon(drive.agents.push.run)
        await settled(drive)
        assert await drive.read("f") == b"theirs"
        assert await other.versions(number) == 2
        assert [method for method, path in network.requests if number in path and method != "GET"] == []
        nursery.cancel_scope.cancel()


async def test_own_new_file_is_not_foreign(drive: Drive, other: Remote, network: Network) -> None:
    """Its event comes before its answer; it is asked about only if the answer does not come."""
    await drive.names()
    carried_out, go = network.gate("POST", "/content")
    await drive.write("f", b"ours")
    await reached(carried_out)
    await drive.poll()
    assert local_work.count_deferred(drive.db) == 1
    assert await drive.names() == ["f"]
    before = len(network.requests)
    go.set()
    await settled(drive)
    assert not [path for method, path in network.requests[before:] if method == "GET" and "/files/" in path]
    assert await drive.names() == ["f"]
    assert await other.paths() == ["f"]


async def failed_once(drive: Drive) -> None:
    with trio.fail_after(10):
        while not drive.db.rows("SELECT 1 FROM op WHERE attempts > 0 AND state = 'ready'"):
            await trio.lowlevel.checkpoint()


async def test_upload_adopts_vanished_item(drive: Drive, other: Remote, network: Network) -> None:
    """While it is found out what became of a first attempt, the file is saved over another one."""
    number = await known(drive, other, "a")
    network.lose_answer("POST", "/files/content")
    await drive.write("new", b"ours")
    await failed_once(drive)
    await drive.rename("new", "newer")
    asks, go = network.gate("OPTIONS", "/files/content")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await reached(asks)
        await other.client.items.delete("file", number)
        await drive.rename("newer", "a")
        go.set()
    await settled(drive)
    assert await drive.names() == ["a"]
    assert await other.paths() == ["a"]
    assert await other.read("a") == b"ours"


async def test_in_flight_record_of_gone_file_hides_nothing(
    drive: Drive, other: Remote, network: Network
) -> None:
    """It was saved over another file, and that one deleted here and changed there."""
    number = await known(drive, other, "a")
    network.lose_answer("POST", "/files/content")
    await drive.write("new", b"ours")
    await failed_once(drive)
    network.is_down = True
    await drive.rename("new", "a")
    await drive.unlink("a")
    sent = await other.find("new")
    await other.write(sent.id, b"theirs, in our new file")
    await other.write(number, b"theirs")
    network.is_down = False
    drive.agents.health.suspect()
    await settled(drive)
    assert await drive.names() == ["a", "new"]
    assert await drive.read("a") == b"theirs"
    assert await drive.read("new") == b"theirs, in our new file"


async def test_deferred_update_survives_a_restart(
    starting: Starting, other: Remote, network: Network
) -> None:
    async with starting() as drive:
        number = await known(drive, other)
        carried_out, _ = network.gate(*version_of(number))
        await drive.write("f", b"ours")
        await reached(carried_out)
        await other.client.items.update("file", number, name="theirs")
        await drive.poll()
    async with starting() as drive:
        assert local_work.count_deferred(drive.db) == 1
        await settled(drive)
        assert await drive.names() == ["theirs"]
        assert await drive.read("theirs") == await other.read("theirs") == b"ours"


async def test_deferred_updates_back_off(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = await other.file("f", b"x")
    await drive.names()
    now = 0.0
    agent = drive.agents.deferred_updates
    monkeypatch.setattr(agent, "_now", lambda: now)
    doubt = DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW)
    monkeypatch.setattr(
        local_work, "end_deferral", lambda conn, found: None
    )  # as if it were left aside at once again
    await drive.db.write(lambda conn: local_work.defer(conn, doubt))
    asked = []
    for second in range(64):
        now = float(second)
        before = network.count("GET", f"/files/{number}")
        with trio.fail_after(5):
            await agent.settle()
        asked.append(network.count("GET", f"/files/{number}") - before)
    assert asked[0] == 2
    assert sum(asked) <= 7


async def test_deferred_updates_retry_despite_others(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    number, another = await other.file("f", b"x"), await other.file("g", b"x")
    await drive.names()
    now = 0.0
    agent = drive.agents.deferred_updates
    monkeypatch.setattr(agent, "_now", lambda: now)
    drop = local_work.end_deferral

    def drop_others(conn: Connection, found: Any) -> None:
        drop(conn, [one for one in found if one.id != number])

    monkeypatch.setattr(local_work, "end_deferral", drop_others)
    await drive.db.write(
        lambda conn: local_work.defer(conn, DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW))
    )
    asked = []
    # An item at each moment to ask, longer than a number can be doubled.
    for second in range(0, 1100, 4):
        now = float(second)
        before = network.count("GET", f"/files/{number}")
        await drive.db.write(
            lambda conn: local_work.defer(conn, DeferredUpdate(NodeKind.FILE, another, local_work.ANYHOW))
        )
        with trio.fail_after(5):
            await agent.settle()
        if network.count("GET", f"/files/{number}") > before:
            asked.append(second)
    assert asked == [0, 4, 12, 28, 60, 124, 252, 508, 1020]


async def test_item_that_was_away_with_its_folder_for_a_moment_is_back(drive: Drive, other: Remote) -> None:
    """It comes back unchanged, which is no news; whoever opens its folder finds it."""
    folder = await other.folder("d")
    number = await other.file("f", b"first", folder)
    assert await drive.names("d") == ["f"]
    await other.client.items.delete("folder", folder, recursive=True)
    update = DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW, await drive.ino("d/f"))
    await drive.db.write(lambda conn: local_work.defer(conn, update))
    await drive.agents.deferred_updates.settle()
    with trio.fail_after(10):
        while drive.agents.hydrator.is_listing:  # which may still meet it in the trash
            await trio.lowlevel.checkpoint()
    await other.client.items.restore("folder", folder)
    assert await drive.names("d") == ["f"]
    assert await drive.read("d/f") == b"first"
    await settled(drive)
    assert await drive.names("d") == ["f"]


async def test_late_answer_that_an_item_is_gone_is_older_than_what_showed_it(
    drive: Drive, other: Remote, network: Network
) -> None:
    number = await other.file("f", b"first")
    ino = await drive.ino("f")
    await other.client.items.delete("file", number)
    answered, release = network.gate("GET", f"/files/{number}")
    update = DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW, ino)
    await drive.db.write(lambda conn: local_work.defer(conn, update))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.deferred_updates.settle)
        with trio.fail_after(10):
            await answered.wait()
        await other.client.items.restore("file", number)
        await drive.agents.remote_updates.apply([await other.client.items.get("file", number)])
        release.set()
    assert ChangeKind.GONE not in {change.what for change in drive.changes}
    assert await drive.names() == await other.paths() == ["f"]
    assert await drive.ino("f") == ino
    assert not local_work.has_deferred(drive.db)


async def test_folder_of_an_item_that_is_gone_is_listed_again(drive: Drive, other: Remote) -> None:
    """Before somebody opens it: without the network, nobody could."""
    number = await other.file("f", b"first")
    assert await drive.names() == ["f"]
    await other.client.items.delete("file", number)
    update = DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW, await drive.ino("f"))
    await drive.db.write(lambda conn: local_work.defer(conn, update))
    await drive.agents.deferred_updates.settle()
    with trio.fail_after(10):
        while not tree.is_listed(drive.db, ROOT):
            await drive.db.written.wait()
    assert await drive.names() == []


async def test_late_answers_about_others_do_not_make_this_one_newer(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Several items are asked for at once: one was gone, and is shown again before the last answer."""
    gone, slow = await other.file("f", b"first"), await other.file("g", b"x")
    ino = await drive.ino("f")
    await other.client.items.delete("file", gone)
    answered, release = network.gate("GET", f"/files/{slow}")
    for number in (gone, slow):
        update = DeferredUpdate(NodeKind.FILE, number, local_work.ANYHOW)
        await drive.db.write(partial(local_work.defer, doubt=update))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.deferred_updates.settle)
        with trio.fail_after(10):
            await answered.wait()
            while not network.count("GET", f"/files/{gone}"):
                await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked(0.01)
        await other.client.items.restore("file", gone)
        await drive.agents.remote_updates.apply([await other.client.items.get("file", gone)])
        release.set()
    assert ChangeKind.GONE not in {change.what for change in drive.changes}
    assert await drive.names() == await other.paths() == ["f", "g"]
    assert await drive.ino("f") == ino


async def test_folder_follows_into_one_that_was_below_it_though_the_move_of_that_was_missed(
    drive: Drive, other: Remote
) -> None:
    above = await other.folder("above")
    below = await other.folder("below", above)
    assert await drive.names("above") == ["below"]
    await other.client.items.update("folder", below, parent_id="0")
    await other.client.items.update("folder", above, parent_id=below)
    await drive.agents.remote_updates.apply([await other.find("above")])
    await drive.agents.deferred_updates.settle()
    assert await drive.names() == ["below"]
    assert await drive.names("below") == ["above"]
