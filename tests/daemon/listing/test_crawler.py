"""The crawl: everything becomes known by itself, over restarts, and an opened folder does not wait for it."""

from typing import Any

import pytest
import trio
import trio.testing

from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.service.content import items
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon.listing import search_lister, search_windows
from tests.daemon.listing.conftest import EMPTY, FILES, FOLDERS, counted, search_only
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network
from tests.support.patience import crowding

single_folders = pytest.mark.parametrize("settings", ["box"], indirect=True)
both = pytest.mark.parametrize("settings", ["specification", "box"], indirect=True)


async def unknown(drive: Drive) -> list[int]:
    found: list[int] = await drive.db.query(lambda conn: tree.unlisted(conn))
    return found


@both
async def test_everything_becomes_known_and_then_nothing_is_asked(
    large: None, drive: Drive, network: Network
) -> None:
    await drive.agents.crawler.once()
    assert counted(drive) == FOLDERS * (FILES + 1)
    assert await unknown(drive) == []
    asked = len(network.requests)
    assert len(await drive.names()) == FOLDERS
    for folder in range(FOLDERS):
        assert len(await drive.names(f"folder {folder:02}")) == FILES
    await drive.agents.crawler.once()
    assert len(network.requests) == asked


@search_only
async def test_crawl_resumes_after_a_restart(large: None, starting: Starting, network: Network) -> None:
    async with starting() as drive, trio.open_nursery() as nursery:
        arrived, _ = network.gate("GET", "offset=600", before=True)
        nursery.start_soon(drive.agents.crawler.once)
        await arrived.wait()
        assert (await drive.agents.status()).listing.state == "running"
        nursery.cancel_scope.cancel()
    async with starting() as drive:
        before = kv_store.get(drive.db, kv_store.CRAWL)
        assert before is not None and '"folder"' not in before
        asked = network.count("GET", "/search")
        await drive.agents.crawler.once()
        # The folders, and the window that was done, are not asked for again.
        assert network.count("GET", "type=folder") == 1
        assert network.count("GET", "/search") - asked < FOLDERS * FILES / 200 + 8
        assert counted(drive) == FOLDERS * (FILES + 1)
        assert await unknown(drive) == []
        assert kv_store.get(drive.db, kv_store.CRAWL) is None


@search_only
async def test_the_next_window_is_prepared_while_one_is_read(
    large: None, drive: Drive, network: Network
) -> None:
    reading, go = network.gate("GET", "offset=400", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        await reading.wait()
        with trio.fail_after(5):
            # The older window, from the beginning of time.
            while not network.count("GET", "created_at_range=%2C"):
                await trio.testing.wait_all_tasks_blocked(0.01)
        go.set()
    # It is not asked for again.
    first = [path for _, path in network.requests if "created_at_range=%2C" in path and "offset=0" in path]
    assert len(first) == 1
    assert counted(drive) == FOLDERS * (FILES + 1)


async def test_opened_folder_precedes_the_crawl(large: None, drive: Drive, network: Network) -> None:
    arrived, go = network.gate("GET", "type=file", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        await arrived.wait()
        with trio.fail_after(5):
            assert len(await drive.names("folder 07")) == FILES
            assert len(await drive.names()) == FOLDERS
        go.set()
    assert counted(drive) == FOLDERS * (FILES + 1)


@search_only
async def test_opened_folders_overtake_the_crawl(large: None, drive: Drive, network: Network) -> None:
    arrived, go = network.gate("GET", "type=file", before=True)
    names: list[list[str]] = []

    async def root() -> None:
        names.append(await drive.names())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(root)
        await arrived.wait()
        nursery.start_soon(drive.agents.crawler.once)
        with trio.fail_after(5):
            assert len(await drive.agents.state.db.query(lambda conn: tree.subtree(conn, ROOT))) > FOLDERS
            assert len(await drive.names("folder 07")) == FILES
        assert names == []
        go.set()
    assert len(names[0]) == FOLDERS
    # One enumeration was enough for both: the root's first page, and a few looks for where to cut.
    assert network.count("GET", "/search") < FOLDERS * FILES / 200 + FILES / 200 + 15


async def test_partial_crawl_resumes_after_restart(large: None, starting: Starting, network: Network) -> None:
    async with starting() as drive:
        assert len(await drive.names()) == FOLDERS
        # Only the root is known: nothing can be compared with the service yet.
        asked = network.count("GET", "/search")
        assert await drive.agents.reconciler.once(full=True) is None
        assert "still being listed" in await drive.agents.reconciler.compare()
        assert await drive.agents.reconciler.is_full_due()
        assert network.count("GET", "/search") == asked
    async with starting() as drive:
        asked = len(network.requests)
        await drive.agents.crawler.once()
        # In windows of everything, and not folder by folder.
        assert network.count("GET", "/folders/") == 1
        assert len(network.requests) - asked < FOLDERS * FILES / 200 + 15
        assert counted(drive) == FOLDERS * (FILES + 1)
        assert await unknown(drive) == []
        # It was compared with everything thereby.
        assert kv_store.get(drive.db, kv_store.SWEPT_AT) is not None


async def test_opened_subfolder_overtakes_root_listing(
    large: None, drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_windows, "MOST", 100)
    arrived, _ = network.gate("GET", "type=file", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.follow)
        await drive.names()
        await arrived.wait()
        # Its tree is too large to be waited for as well, though there are no folders in it: nothing is left.
        drive.agents.crawler.opened(await drive.ino("folder 03"))
        # The rest of everything was given up for it, and is taken up again.
        with trio.fail_after(10 * crowding()):
            while await unknown(drive):
                await drive.changed.wait()
                await trio.testing.wait_all_tasks_blocked(0.01)
        asked = len(network.requests)
        drive.agents.crawler.opened(await drive.ino("folder 03"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert len(network.requests) == asked  # all below is known
        nursery.cancel_scope.cancel()
    assert counted(drive) == FOLDERS * (FILES + 1)
    urls = [path for _, path in network.requests]
    below = f"ancestor_folder_ids={drive.node(await drive.ino('folder 03')).remote_id}&"
    first_below = next(number for number, url in enumerate(urls) if below in f"{url}&")
    assert any("type=file" in url and "ancestor_folder_ids=0" in url for url in urls[first_below:])


async def test_the_crawl_stands_aside_while_somebody_waits_for_a_folder(
    large: None, drive: Drive, network: Network
) -> None:
    """Of its pages none is asked for meanwhile, and then it goes on."""
    crawling, go_on = network.gate("GET", "type=file")
    listing, answer = network.gate("GET", "/search", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        # The gate for any search is met by the crawl's first one: let it pass.
        await listing.wait()
        answer.set()
        await crawling.wait()
        waiting, answer = network.gate("GET", "/search", before=True)
        nursery.start_soon(drive.agents.hydrator.listing, ROOT)
        await waiting.wait()
        go_on.set()
        asked = len(network.requests)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(network.requests) == asked
        answer.set()
    assert counted(drive) == FOLDERS * (FILES + 1)


@pytest.mark.parametrize("opened", [True, False], ids=["root opened", "root not opened"])
async def test_crawl_asks_for_what_programs_did_not_list(
    large: None, drive: Drive, network: Network, opened: bool
) -> None:
    """And no second time for all the rest."""
    crawling, go_on = network.gate("GET", "type=file")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        await crawling.wait()
        if opened:
            assert len(await drive.names()) == FOLDERS
        for folder in range(FOLDERS - 1):
            await drive.agents.hydrator.listing(await drive.ino(f"folder {folder:02}"))
        asked = len(network.requests)
        go_on.set()
    assert counted(drive) == FOLDERS * (FILES + 1)
    assert await unknown(drive) == []
    assert len(network.requests) - asked <= 4
    assert kv_store.get(drive.db, kv_store.SWEPT_AT) is not None
    assert kv_store.get(drive.db, kv_store.CRAWL) is None
    assert len(await drive.names()) == FOLDERS


async def test_huge_subtree_is_not_enumerated_alone(
    large: None, drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_windows, "MOST", 100)
    monkeypatch.setattr(search_lister, "MOST_BELOW", FILES - 1)
    assert len(await drive.names()) == FOLDERS
    asked = len(network.requests)
    await drive.agents.crawler._below(await drive.ino("folder 03"))
    assert len(network.requests) == asked + 1
    monkeypatch.setattr(search_lister, "MOST_BELOW", FILES)
    await drive.agents.crawler._below(await drive.ino("folder 03"))
    assert counted(drive) == FOLDERS + FILES


@both
async def test_what_is_not_there_any_more_goes_away(drive: Drive, other: Remote) -> None:
    docs = await other.folder("docs")
    inner = await other.folder("inner", docs)
    await other.file("deep", b"d", parent=inner)
    await other.file("stays", b"s", parent=docs)
    await drive.agents.crawler.once()
    await other.client.items.delete("folder", inner, recursive=True)
    await drive.write("docs/ours", b"not sent yet")
    await drive.db.write(_forget_all)
    await drive.agents.crawler.once()
    assert await drive.names("docs") == ["ours", "stays"]


@search_only
async def test_what_a_restless_window_did_not_show_stays(
    drive: Drive, other: Remote, network: Network
) -> None:
    for number in range(3):
        await other.file(f"file {number}", b"x")
    await drive.agents.crawler.once()
    await drive.db.write(_forget_all)
    await other.client.items.delete("file", (await other.find("file 1")).id)
    whole = drive.agents.crawler._whole
    plan = await whole._begun()
    plan.restless.append((None, None))
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.CRAWL, plan.model_dump_json()))
    await drive.agents.crawler.once()
    assert await drive.names() == ["file 0", "file 1", "file 2"]
    await drive.db.write(_forget_all)
    await drive.agents.crawler.once()
    assert await drive.names() == ["file 0", "file 2"]


@search_only
async def test_items_unseen_in_a_moved_window_stay(
    large: None, drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_windows, "ATTEMPTS", 1)
    await drive.agents.crawler.once()
    await drive.db.write(_forget_all)
    gates = [network.gate("GET", f"offset={offset}", before=True) for offset in (200, 400, 600)]
    gone = drive.node(await drive.ino("folder 06/file 005"))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.once)
        for arrived, _ in gates:
            await arrived.wait()
        await other.client.items.delete("file", gone.remote_id)
        for _, go in gates:
            go.set()
    assert tree.find(drive.db, gone.ino).parent is not None
    await drive.db.write(_forget_all)
    await drive.agents.crawler.once()
    node = tree.find(drive.db, gone.ino)
    assert node is None or node.parent is None


@both
async def test_crawl_resumes_with_the_network(
    starting: Starting, other: Remote, network: Network, nursery: trio.Nursery
) -> None:
    await other.file("f", b"x", parent=await other.folder("docs"))
    async with starting() as drive:
        network.is_down = True
        drive.agents.health.suspect()
        with trio.fail_after(5):
            while drive.agents.health.can_ask:
                await drive.agents.health.changed()
        async with trio.open_nursery() as own:
            own.start_soon(drive.agents.crawler.run)
            await trio.testing.wait_all_tasks_blocked(0.01)
            network.is_down = False
            with trio.fail_after(10):
                while not tree.is_listed(drive.db, ROOT) or await unknown(drive):
                    await drive.changed.wait()
                    await trio.testing.wait_all_tasks_blocked(0.01)
            own.cancel_scope.cancel()
        assert await drive.names("docs") == ["f"]


@single_folders
async def test_a_very_large_folder_is_read_by_marker(
    drive: Drive, service: Store, user: int, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daemon.listing.folder_lister.MOST_BY_OFFSET", 1500)
    await _fill(service, user, 2300)
    assert len(await drive.names()) == 2300
    assert network.count("GET", "usemarker=true") == 3


@single_folders
async def test_unstable_listing_is_repeated(
    drive: Drive, other: Remote, service: Store, user: int, network: Network
) -> None:
    await _fill(service, user, 2300)
    arrived, go = network.gate("GET", "offset=2000", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.names)
        await arrived.wait()
        await other.client.items.delete("file", (await _named(other, "file 0001")).id)
        go.set()
    found = await drive.names()
    assert len(found) == 2299
    assert "file 0001" not in found


async def _named(other: Remote, name: str) -> Any:
    page = await other.client.folders.page("0")
    return next(item for item in page.entries if item.name == name)


async def _fill(service: Store, user: int, count: int) -> None:
    def txn(conn: Connection) -> None:
        owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        root = items.find(conn, owner["root"])
        for number in range(count):
            new = items.New(ItemKind.FILE, f"file {number:04}", 0, EMPTY)
            items.insert(conn, root, new, by=user, now=10**15 + number)

    await service.write(txn)


def _forget_all(conn: Connection) -> None:
    conn.execute("DELETE FROM listing")
