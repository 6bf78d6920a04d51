"""News that something newer has overtaken, and answers that are less than they say, change nothing."""

from typing import Any

import httpx
import pytest
import trio

from cmsfs import config
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import listing_diff, local_work
from cmsfs.replica.merge.local_work import DeferredUpdate
from cmsfs.replica.nodes import ROOT, NodeKind
from cmsfs.replica.rows import deleted_items
from cmsfs.sqlite import Connection
from daemon.core.remote_updates import RemovedItem
from daemon.listing.folder_lister import FolderItems
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


async def test_an_older_page_changes_nothing(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"one")
    await drive.names()
    old = await other.client.items.get("file", number)
    await other.write(number, b"two")
    await other.client.items.update("file", number, name="g")
    await drive.poll()
    await drive.agents.remote_updates.apply([old])
    assert await drive.names() == ["g"]
    assert await drive.read("g") == b"two"


async def test_a_page_from_before_a_deletion_does_not_bring_the_file_back(
    drive: Drive, other: Remote
) -> None:
    """Nor does it take the name from the file that was moved there meanwhile."""
    number = await other.file("f", b"one")
    await drive.write("g", b"two")
    old = await other.client.items.get("file", number)
    ino = await drive.ino("f")
    await drive.unlink("f")
    await drive.sync()
    # As the reaper does when the kernel has forgotten it.
    assert await drive.db.write(lambda conn: tree.discard(conn, ino))
    await drive.rename("g", "f")
    await drive.agents.remote_updates.apply([old])
    assert await drive.names() == ["f"]
    assert await drive.read("f") == b"two"


async def test_a_page_from_before_a_reported_deletion_does_not_bring_the_file_back(
    drive: Drive, other: Remote
) -> None:
    number = await other.file("f", b"one")
    old = await other.client.items.get("file", number)
    ino = await drive.ino("f")
    await other.client.items.delete("file", number)
    deleted = int((await other.client.trash.page(None)).entries[0].sequence_id or 0)
    await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number, deleted)])
    assert await drive.db.write(lambda conn: tree.discard(conn, ino))
    await drive.agents.remote_updates.apply([old])
    assert await drive.names() == []
    await other.client.items.restore("file", number)
    await drive.poll()
    assert await drive.names() == ["f"]


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_page_from_before_a_deletion_does_not_bring_the_file_back_after_a_restart(
    starting: Starting, other: Remote, is_own: bool
) -> None:
    number = await other.file("f", b"one")
    old = await other.client.items.get("file", number)
    async with starting() as drive:
        assert await drive.names() == ["f"]
        if is_own:
            await drive.unlink("f")
            await drive.sync()
        else:
            await other.client.items.delete("file", number)
            await drive.poll()
    async with starting() as drive:
        assert tree.find_remote(drive.db, NodeKind.FILE, number) is None
        await drive.agents.remote_updates.apply([old])
        assert await drive.names() == []
        await other.client.items.restore("file", number)
        await drive.poll()
        assert await drive.names() == ["f"]


async def test_a_page_from_before_a_file_went_with_the_folder_it_was_moved_to_does_not_bring_it_back(
    drive: Drive, other: Remote
) -> None:
    """Only the deletion of the folder is reported; and the file comes back with it, unchanged."""
    number, folder = await other.file("f", b"one"), await other.folder("d")
    old = await other.client.items.get("file", number)
    ino = await drive.ino("f")
    assert await drive.names("d") == []
    await other.client.items.update("file", number, parent_id=folder)
    await drive.poll()
    await other.client.items.delete("folder", folder, recursive=True)
    await drive.poll()
    assert await drive.db.write(lambda conn: tree.discard(conn, ino))
    await drive.agents.remote_updates.apply([old])
    assert await drive.names() == []
    await other.client.items.restore("folder", folder)
    await drive.poll()
    assert await drive.names() == ["d"]
    assert await drive.names("d") == ["f"]


@pytest.mark.parametrize("is_row_left", [True, False])
async def test_a_listing_from_before_a_file_was_found_gone_does_not_bring_it_back(
    drive: Drive, other: Remote, *, is_row_left: bool
) -> None:
    """Nobody says when it went: its deletion was not reported, as of one that was purged."""
    number = await other.file("f", b"one")
    ino = await drive.ino("f")
    old = await other.client.items.get("file", number)
    updates = drive.agents.remote_updates
    generation = await drive.db.write(kv_store.next_generation)
    await updates.apply([], [RemovedItem(NodeKind.FILE, number)])
    if not is_row_left:
        await drive.db.write(lambda conn: tree.discard(conn, ino))
    await updates.apply([old], generation=generation)
    assert await drive.names() == []
    assert updates.disputed() == [(NodeKind.FILE, number)]
    await updates.apply([old], generation=await drive.db.write(kv_store.next_generation))
    assert await drive.names() == ["f"]


@pytest.mark.parametrize(
    "settings", [config.Settings(settle_seconds=0, network_seconds=5, feed="search")], ids=["search"]
)
async def test_a_poll_from_before_a_file_was_found_gone_does_not_bring_it_back(
    drive: Drive, other: Remote, network: Network
) -> None:
    number = await other.file("f", b"one")
    assert await drive.names() == ["f"]
    await other.client.items.update("file", number, name="g")
    answered, release = network.gate("GET", "/search")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.poll)
        with trio.fail_after(10):
            await answered.wait()
        await other.client.items.delete("file", number)
        await other.client.items.purge("file", number)
        await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number)])
        release.set()
    assert await drive.names() == []


async def test_a_page_from_before_a_second_deletion_does_not_bring_the_file_back(
    drive: Drive, other: Remote
) -> None:
    """Between the two it was restored, which nobody heard of in time."""
    number = await other.file("f", b"one")
    await drive.names()
    deleted = []
    for _ in range(2):
        old = await other.client.items.get("file", number)
        await other.client.items.delete("file", number)
        deleted.append(int((await other.client.trash.page(None)).entries[0].sequence_id or 0))
        await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number, deleted[-1])])
        await other.client.items.restore("file", number)
    assert deleted[0] < int(old.sequence_id or 0) < deleted[1]
    await drive.agents.remote_updates.apply([old])
    assert await drive.names() == []
    await drive.poll()
    assert await drive.names() == ["f"]


async def test_stale_deletion_changes_nothing(drive: Drive, other: Remote) -> None:
    number = await other.file("f", b"one")
    await drive.names()
    await other.client.items.delete("file", number)
    deleted = int((await other.client.trash.page(None)).entries[0].sequence_id or 0)
    await other.client.items.restore("file", number)
    await drive.poll()
    assert await drive.names() == ["f"]
    await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number, deleted)])
    assert await drive.names() == ["f"]


async def test_local_creation_survives_running_listing(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    sent, send = network.gate("POST", "/folders", before=True)
    await drive.mkdir("ours")
    await sent.wait()
    # The listing is asked for before the service has the folder, and ends when it has it.
    generation = await drive.db.write(kv_store.next_generation)
    send.set()
    await drive.sync()

    def ended(conn: Connection) -> list[Change]:
        return listing_diff.remove(conn, listing_diff.unseen_below(conn, ROOT, generation), generation)

    assert await drive.db.write(ended) == []
    assert await drive.names() == ["ours"]


async def test_a_folder_that_goes_while_it_is_listed_keeps_what_is_moved_into_it(
    starting: Starting, other: Remote
) -> None:
    folder = await other.folder("d")
    await other.file("f", b"one")
    async with starting(agents=("health", "fs")) as drive:
        await drive.names()
        await drive.rename("f", "d/f")
        listed = await drive.ino("d")
        generation = await drive.db.write(kv_store.next_generation)
        await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FOLDER, folder)])
        assert tree.find_remote(drive.db, NodeKind.FOLDER, folder) is None
        assert await drive.db.query(lambda conn: listing_diff.unseen_below(conn, listed, generation)) == []
        assert await drive.names("d") == ["f"]


@pytest.mark.parametrize(
    ("first", "then"), [(3, 5), (local_work.ANYHOW, 5), (local_work.ANYHOW, local_work.ANYHOW)]
)
@pytest.mark.parametrize("is_ours", [True, False])
async def test_newer_update_stays_deferred(db: Any, first: int, then: int, is_ours: bool) -> None:
    older = DeferredUpdate(NodeKind.FILE, "7", first, folder="1", name_key="a")

    def settle(conn: Connection) -> None:
        local_work.defer(conn, older)
        # While the service is asked about the older ones.
        if is_ours:
            assert local_work.defer_longer(conn, NodeKind.FILE, "7", then)
        else:
            local_work.defer(conn, DeferredUpdate(NodeKind.FILE, "7", then))
        local_work.end_deferral(conn, [older])

    await db.write(settle)
    left = local_work.ready_updates(db)
    assert [(one.kind, one.id) for one in left] == [(NodeKind.FILE, "7")]
    assert left[0].sequence >= then
    await db.write(lambda conn: local_work.end_deferral(conn, left))
    assert local_work.ready_updates(db) == []


async def test_short_listing_is_incomplete(drive: Drive, other: Remote, network: Network) -> None:
    """Even where the service does not find the one that it leaves out, either."""
    made = [await other.file(name, b"x") for name in ("a", "b", "c")]
    assert await drive.names() == ["a", "b", "c"]
    entries = [(await other.client.items.get("file", number)).model_dump(mode="json") for number in made[:2]]

    def sick(request: httpx.Request) -> httpx.Response | None:
        if request.url.path.endswith("/folders/0/items"):
            page = {"entries": entries, "total_count": 3, "limit": 1000, "offset": 0}
            return httpx.Response(200, json=page)
        if request.url.path.endswith(f"/files/{made[2]}"):
            body = {"type": "error", "status": 404, "code": "not_found", "message": "none"}
            return httpx.Response(404, json=body)
        return None

    network.instead = sick
    agents = drive.agents
    lister = FolderItems(drive.db, agents.client, agents.remote_updates, agents.health, agents.deletion_check)
    await lister.fill(ROOT, progress=lambda: None, grown=lambda: None)
    assert await drive.names() == ["a", "b", "c"]


async def test_remotely_changed_file_is_not_trashed(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("it was just changed at the service")
    number = await other.file("f", b"one")
    await drive.names()
    await other.write(number, b"what a colleague wrote")
    bin_ = (await drive.agents.shown.lookup(ROOT, ".trash")).ino
    with pytest.raises(OSError):
        await drive.agents.shown.rename(ROOT, "f", bin_, "f", 0)
    assert await other.read("f") == b"what a colleague wrote"
    await drive.poll()
    assert await drive.read("f") == b"what a colleague wrote"
    # Renamed there only, with the bytes that are known here: it goes.
    await other.client.items.update("file", number, name="g")
    await drive.agents.shown.rename(ROOT, "f", bin_, "f", 0)
    assert await other.paths() == []


async def test_a_comparison_believes_the_service_that_has_what_was_deleted(
    drive: Drive, other: Remote
) -> None:
    """As after an old backup of the service was put back."""
    number = await other.file("f", b"x")
    await drive.agents.remote_updates.apply([], [RemovedItem(NodeKind.FILE, number, 10**6)])
    await drive.poll()
    assert await drive.names() == []
    await drive.agents.reconciler.once(full=True)
    assert await drive.names() == ["f"]
    assert deleted_items.all_of(drive.db) == {}
