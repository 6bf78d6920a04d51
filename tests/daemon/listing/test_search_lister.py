"""Listing: everything below a folder becomes known, and only what is known goes away."""

import errno
from collections.abc import Callable
from functools import partial

import httpx
import pytest
import trio
import trio.testing

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from cmsfs.service.content import items
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon.listing import folder_lister, search_lister, search_windows
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network


async def fill(
    service: Store,
    user: int,
    count: int,
    *,
    created: Callable[[int], int],
    size: Callable[[int], int] = lambda number: 0,
    first: int = 0,
) -> None:
    """`count` files without bytes at the root, made by the service's own hand, for speed."""

    def txn(conn: Connection) -> None:
        owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        root = items.find(conn, owner["root"])
        sha1 = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        for number in range(first, first + count):
            new = items.New(ItemKind.FILE, f"file {number:06}", size(number), sha1)
            items.insert(conn, root, new, by=user, now=created(number))

    await service.write(txn)


async def test_what_hears_of_a_listing_looks_nothing_up_for_each_item(
    drive: Drive, service: Store, user: int
) -> None:
    count = 900
    await fill(service, user, count, created=lambda number: 10**15 + number)
    said: list[str] = []
    await drive.db.write(lambda conn: conn.set_trace_callback(said.append))
    assert len(await drive.names()) == count
    await drive.db.write(lambda conn: conn.set_trace_callback(None))
    assert len([one for one in said if one.startswith("SELECT 1 FROM listing")]) < count / 10


@pytest.mark.parametrize("settings", ["specification"], indirect=True)
async def test_small_folder_listing_is_one_request(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    deep = await other.folder("deep", docs)
    await other.file("f", b"x", parent=deep)
    assert await drive.names() == ["docs"]
    assert await drive.names("docs/deep") == ["f"]
    assert drive.agents.health.requests["listing"] == 1


async def test_the_root_is_asked_for_by_search_and_by_itself_at_once(
    drive: Drive, other: Remote, network: Network
) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    gates = [network.gate("GET", part, before=True) for part in ("/search", "/folders/0/items")]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.names)
        with trio.fail_after(5):
            for arrived, _ in gates:
                await arrived.wait()
        for _, go in gates:
            go.set()
    assert await drive.names() == ["docs"]
    # The search has shown everything below.
    assert await drive.names("docs") == ["f"]
    assert drive.agents.health.requests["listing"] == 2
    assert await drive.read("docs/f") == b"x"


async def test_a_root_whose_own_listing_fails_is_listed_by_search(
    drive: Drive, other: Remote, network: Network
) -> None:
    await other.folder("docs")
    network.instead = lambda request: httpx.Response(400) if "/items" in request.url.path else None
    assert await drive.names() == ["docs"]
    assert tree.is_listed(drive.db, ROOT)


async def test_one_of_few_folders_in_a_large_account_costs_one_round_trip(
    drive: Drive, other: Remote, service: Store, user: int, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_windows, "MOST", 500)
    monkeypatch.setattr(search_lister, "PAGE", 300)
    docs = await other.folder("docs")
    await fill(service, user, 600, created=lambda number: 10**15 + number)
    assert len(await drive.names()) == 601
    asked = len(network.requests)
    assert await drive.names("docs") == []
    new = sorted(path.partition("/2.0/")[2].partition("?")[0] for _, path in network.requests[asked:])
    assert new == [f"folders/{docs}/items", "search"]


@pytest.mark.parametrize("settings", ["specification"], indirect=True)
async def test_ten_thousand_items_and_more_come_in_windows(
    drive: Drive, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 12_345, created=lambda number: 10**15 + number * 1000)
    assert len(await drive.names()) == 12_345
    offsets = [path for method, path in network.requests if method == "GET" and "/search" in path]
    assert all(int(path.partition("&offset=")[2].partition("&")[0] or 0) <= 10_000 for path in offsets)
    assert any("created_at_range" in path for path in offsets)
    assert tree.is_listed(drive.db, ROOT)


@pytest.mark.parametrize("settings", ["specification"], indirect=True)
async def test_same_second_items_split_by_size(
    drive: Drive, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 10_500, created=lambda number: 10**15, size=lambda number: number % 7)
    await fill(service, user, 300, created=lambda number: 10**15 + 1, first=20_000)
    assert len(await drive.names()) == 10_800
    assert network.count("GET", "size_range") > 0


@pytest.mark.parametrize("settings", ["specification"], indirect=True)
async def test_indistinguishable_items_are_partly_listed(
    drive: Drive, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 10_500, created=lambda number: 10**15)
    # Pages of 200 up to the offset of 10,000, which itself is refused here and there.
    assert len(await drive.names()) == 10_000
    assert network.count("GET", "&offset=10000") == 0


async def test_many_pages_come_folders_first(drive: Drive, other: Remote, service: Store, user: int) -> None:
    await fill(service, user, 450, created=lambda number: 10**15 + number)
    docs = await other.folder("docs")
    await other.file("inside", b"i", parent=docs)
    assert len(await drive.names()) == 451
    assert await drive.names("docs") == ["inside"]


async def test_what_a_listing_does_not_show_goes_away(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    gone = await other.file("gone", b"g", parent=docs)
    await other.file("stays", b"s", parent=docs)
    assert await drive.names("docs") == ["gone", "stays"]
    await other.client.items.delete("file", gone)
    ino = await drive.ino("docs")
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ino))
    assert await drive.names("docs") == ["stays"]


async def test_our_unsent_files_survive_a_listing(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    network.is_down = True
    await drive.write("ours", b"o")
    network.is_down = False
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    await drive.agents.health.reachable()
    assert "ours" in await drive.names()


async def test_file_uploaded_during_listing_stays(drive: Drive, other: Remote, network: Network) -> None:
    await other.folder("docs")
    await drive.names()
    docs = await drive.ino("docs")
    sent, send = network.gate("POST", "/content", before=True)
    await drive.write("docs/ours", b"o")
    await sent.wait()
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, docs))
    arrived, go = network.gate("GET", "/search")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrator.listing, docs)
        await arrived.wait()
        # The page that is on its way was made before the service had the file.
        send.set()
        await drive.sync()
        go.set()
    assert await drive.names("docs") == ["ours"]
    await drive.poll()
    assert (await drive.names("docs"), await other.paths()) == (["ours"], ["docs/", "docs/ours"])


async def test_file_moving_in_survives_listing(drive: Drive, other: Remote, network: Network) -> None:
    await other.folder("docs")
    await other.folder("box")
    await other.file("inside", b"i", await other.folder("deep", (await other.find("box")).id))
    await other.file("f", b"f")
    await drive.names()
    docs = await drive.ino("docs")
    network.is_down = True
    await drive.rename("f", "docs/f")
    await drive.rename("box", "docs/box")
    network.is_down = False
    held, go = network.gate("PUT", "/", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await held.wait()
        await drive.db.write(lambda conn: tree.mark_unlisted(conn, docs))
        assert await drive.names("docs") == ["box", "f"]
        go.set()
    await drive.poll()
    assert await drive.names("docs/box/deep") == ["inside"]
    assert await other.paths() == ["docs/", "docs/box/", "docs/box/deep/", "docs/box/deep/inside", "docs/f"]


async def test_concurrent_listings_are_shared(drive: Drive, other: Remote, network: Network) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    await drive.names()
    ino = await drive.ino("docs")

    def unlist(conn: Connection) -> None:
        tree.mark_unlisted(conn, ROOT)
        tree.mark_unlisted(conn, ino)

    await drive.db.write(unlist)
    before = drive.agents.health.requests["listing"]
    arrived, go = network.gate("GET", "/search")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrator.listing, ROOT)
        await arrived.wait()
        nursery.start_soon(drive.agents.hydrator.listing, ROOT)
        nursery.start_soon(drive.agents.hydrator.listing, ino)
        await trio.testing.wait_all_tasks_blocked(0.05)
        go.set()
    assert drive.agents.health.requests["listing"] == before + 1


async def test_item_leaving_hides_no_other(
    drive: Drive, other: Remote, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 450, created=lambda number: 10**15 + number)
    assert len(await drive.names()) == 450
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    arrived, go = network.gate("GET", "offset=400", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrator.listing, ROOT)
        await arrived.wait()
        # What stands behind it moves up by one, onto a page that has been read.
        await other.client.items.delete("file", (await other.find("file 000449")).id)
        await other.client.items.delete("file", (await other.find("file 000448")).id)
        go.set()
    assert await drive.names() == [f"file {number:06}" for number in range(448)]


async def test_a_listing_that_was_never_still_removes_nothing(
    drive: Drive, other: Remote, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 450, created=lambda number: 10**15 + number)
    assert len(await drive.names()) == 450
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    gates = [network.gate("GET", "offset=400", before=True) for _ in range(search_windows.ATTEMPTS)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrator.listing, ROOT)
        for number, (arrived, go) in enumerate(gates):
            await arrived.wait()
            await other.client.items.delete("file", (await other.find(f"file {449 - number:06}")).id)
            go.set()
    # Each time another one moved onto a page that had been read, and was not shown.
    assert len(await drive.names()) == 450
    await drive.poll()
    assert await drive.names() == [f"file {number:06}" for number in range(450 - search_windows.ATTEMPTS)]


async def test_offline_fails_fast_for_unknown_folders(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("f", b"x")
    await drive.names()
    network.is_down = True
    drive.agents.health.suspect()
    with trio.fail_after(5):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    assert await drive.names() == ["f"]
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    with pytest.raises(OSError, match="Network is down") as caught:
        await drive.names()
    assert caught.value.errno == errno.ENETDOWN
    network.is_down = False
    with trio.fail_after(10):
        await drive.agents.health.reachable()
    assert await drive.names() == ["f"]


async def test_a_restart_asks_for_no_listing(starting: Starting, other: Remote) -> None:
    await other.file("f", b"x")
    async with starting() as drive:
        assert await drive.names() == ["f"]
    async with starting(agents=("health", "pull", "fs")) as drive:
        assert await drive.names() == ["f"]
        await drive.poll()
        assert drive.agents.health.requests["listing"] == 0
        assert drive.agents.health.requests["poll"] <= 4


async def test_a_flat_folder_comes_in_large_pages_all_at_once(
    drive: Drive, service: Store, user: int, network: Network
) -> None:
    await fill(service, user, 2_500, created=lambda number: 10**15 + number)
    assert len(await drive.names()) == 2_500
    # One page of a search says how much there is; 2,500 items are three pages of 1,000.
    assert network.count("GET", "/search") == 1
    assert network.count("GET", "/folders/0/items") == 3
    assert tree.is_listed(drive.db, ROOT)


async def test_smaller_pages_than_were_asked_for_leave_no_gaps(
    drive: Drive, service: Store, user: int, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_lister, "PAGE", 2_000)  # the service gives 1,000
    await fill(service, user, 2_500, created=lambda number: 10**15 + number)
    assert len(await drive.names()) == 2_500
    # The first, with the search; the next by the number that the search gave; then the others of all three.
    assert network.count("GET", "/folders/0/items") == 4


async def test_folder_deleted_during_its_listing_is_no_error(
    drive: Drive, other: Remote, network: Network
) -> None:
    docs = await other.folder("docs")
    await drive.names()
    ino = await drive.ino("docs")
    agents = drive.agents
    lister = folder_lister.FolderItems(
        drive.db, agents.client, agents.remote_updates, agents.health, agents.deletion_check
    )
    arrived, go = network.gate("GET", f"/folders/{docs}/items")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(lister.fill, ino, progress=lambda: None))
        await arrived.wait()
        await drive.rmdir("docs")
        await drive.sync()
        drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
        with trio.fail_after(5):
            while tree.find(drive.db, ino) is not None:
                await trio.testing.wait_all_tasks_blocked()
        go.set()
