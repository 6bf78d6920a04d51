"""What programs have just listed is not read again by the search that follows, which misses nothing."""

import pytest
import trio
import trio.testing

from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.service.content import items
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.service.storage.store import Store
from cmsfs.sqlite import Connection
from daemon.listing import search_windows
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

EMPTY = "da39a3ee5e6b4b0d3255bfef95601890afd80709"
MANY = 300
COUNTED = "SELECT count(*) AS n FROM node WHERE parent IS NOT NULL"


@pytest.fixture(params=["", "top/"], ids=["root", "subfolder"])
async def place(
    request: pytest.FixtureRequest, service: Store, user: int, monkeypatch: pytest.MonkeyPatch
) -> str:
    """A place with more folders than a page of a search has, and more files than a search can reach."""
    monkeypatch.setattr(search_windows, "MOST", 999)
    monkeypatch.setattr(search_windows, "_SAMPLE_AT", 800)

    def txn(conn: Connection) -> None:
        owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
        above = items.find(conn, owner["root"])
        if place:
            above = items.insert(conn, above, items.New(ItemKind.FOLDER, "top"), by=user, now=10**15)
        for number in range(MANY):
            new = items.New(ItemKind.FOLDER, f"folder {number:03}")
            row = items.insert(conn, above, new, by=user, now=10**15 + number)
            for file in range(3):
                one = items.New(ItemKind.FILE, f"file {file}", 0, EMPTY)
                items.insert(conn, row, one, by=user, now=10**15 + 10 * number + file)

    place: str = request.param
    await service.write(txn)
    return place


async def listed(drive: Drive, place: str) -> list[str]:
    """List what is at the place, as a program does that will go on below."""
    await drive.names()
    return await drive.names(place.rstrip("/")) if place else await drive.names()


async def below(drive: Drive, place: str) -> None:
    """List everything below the place, as the crawl does after that."""
    if not place:
        await drive.agents.crawler.once()
        return
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.crawler.follow)
        with trio.fail_after(10):
            while await unknown(drive):
                await trio.testing.wait_all_tasks_blocked(0.01)
        nursery.cancel_scope.cancel()


async def unknown(drive: Drive) -> list[int]:
    return [ino for ino in await drive.db.query(lambda conn: tree.unlisted(conn)) if ino != ROOT]


async def test_folders_that_were_listed_are_not_read_again(
    place: str, drive: Drive, network: Network
) -> None:
    assert len(await listed(drive, place)) == MANY
    await below(drive, place)
    assert network.count("GET", "type=folder") == 1
    assert int(drive.db.row(COUNTED)["n"]) == 4 * MANY + bool(place)
    assert await unknown(drive) == []
    if not place:
        assert kv_store.get(drive.db, kv_store.SWEPT_AT) is not None


@pytest.mark.parametrize("case", ["one more", "another one", "not searchable yet"])
async def test_folders_are_read_unless_each_was_listed(
    place: str, drive: Drive, other: Remote, service: Store, network: Network, case: str
) -> None:
    """One that the listing did not show, though the search may count as many, is found."""
    newest = await other.folder("newest", (await other.find("top")).id if place else "0")
    assert len(await listed(drive, place)) == MANY + 1

    def deeper(conn: Connection) -> None:
        above = items.find(conn, int(shown))
        # The oldest of all is not on the first page.
        now = 2 * 10**15 if case == "another one" else 10**15 - 1
        items.insert(conn, above, items.New(ItemKind.FOLDER, "deep"), by=above["owner"], now=now)

    shown = drive.node(await drive.ino(f"{place}folder 007")).remote_id
    gone = drive.node(await drive.ino(f"{place}folder 003")).remote_id
    await service.write(deeper)
    # The drive has not been told of these deletions.
    if case == "another one":
        await other.client.items.delete("folder", gone, recursive=True)
    if case == "not searchable yet":
        await other.client.items.delete("folder", newest)
    await below(drive, place)
    assert network.count("GET", "type=folder") > 1
    assert await drive.names(f"{place}folder 007") == ["deep", "file 0", "file 1", "file 2"]
