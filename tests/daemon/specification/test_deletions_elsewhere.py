"""What others delete goes here too, on the word of searches; that an operation is missing says nothing."""

import httpx
import pytest

from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT
from cmsfs.sqlite import Connection
from daemon.core import item_search
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network

LONG_AGO = "2020-01-01T00:00:00+00:00"


@pytest.fixture
async def files(other: Remote, drive: Drive) -> list[str]:
    folder = await other.folder("docs")
    await other.file("inside", b"i", folder)
    await other.file("a", b"a")
    await other.file("b", b"b")
    await drive.names()
    return ["a", "b", "docs"]


def empty(request: httpx.Request) -> httpx.Response | None:
    """A service that has lost its index."""
    if request.url.path.endswith("/search"):
        return httpx.Response(200, json={"entries": [], "total_count": 0, "limit": 200, "offset": 0})
    return None


async def compare(drive: Drive) -> None:
    """What the daily comparison does."""
    await drive.agents.reconciler.once(full=True)


async def purge(other: Remote, number: str) -> None:
    def txn(conn: Connection) -> None:
        conn.execute("DELETE FROM version WHERE file = ?", (int(number),))
        conn.execute("DELETE FROM item WHERE id = ?", (int(number),))

    await other.store.write(txn)


async def age(drive: Drive, name: str) -> None:
    """The drive knows this item for years."""

    def txn(conn: Connection) -> None:
        conn.execute(
            "UPDATE node SET item = json_set(item, '$.created_at', ?1, '$.modified_at', ?1) WHERE name = ?2",
            (LONG_AGO, name),
        )

    await drive.db.write(txn)


async def test_an_empty_index_takes_nothing_away(drive: Drive, files: list[str], network: Network) -> None:
    network.instead = empty
    await compare(drive)
    assert await drive.names() == files
    assert await drive.names("docs") == ["inside"]


async def test_what_is_in_the_trash_goes(drive: Drive, other: Remote, files: list[str]) -> None:
    await other.client.items.delete("file", (await other.find("a")).id)
    await compare(drive)
    assert await drive.names() == ["b", "docs"]


async def test_a_folder_in_the_trash_goes_with_what_is_in_it(
    drive: Drive, other: Remote, files: list[str]
) -> None:
    await other.client.items.delete("folder", (await other.find("docs")).id, recursive=True)
    await compare(drive)
    assert await drive.names() == ["a", "b"]


async def test_what_no_search_shows_any_more_goes(drive: Drive, other: Remote, files: list[str]) -> None:
    await purge(other, (await other.find("a")).id)
    await age(drive, "a")
    await compare(drive)
    assert await drive.names() == ["b", "docs"]


async def test_what_may_not_be_in_the_index_yet_stays(drive: Drive, other: Remote, files: list[str]) -> None:
    await purge(other, (await other.find("a")).id)
    await compare(drive)
    assert await drive.names() == files


async def test_an_item_is_looked_at_wherever_it_is(drive: Drive, other: Remote, files: list[str]) -> None:
    item = await other.find("a")
    await other.client.items.update(
        "file", item.id, name="elsewhere", parent_id=(await other.find("docs")).id
    )
    node = tree.find_child(drive.db, ROOT, "a")
    assert node is not None
    found = await item_search.find(drive.db, drive.agents.client, node.kind, item.id)
    assert found.name == "elsewhere"


async def test_changes_arrive_by_search(drive: Drive, other: Remote, files: list[str]) -> None:
    await drive.poll()
    await other.write((await other.find("a")).id, b"changed")
    await other.file("c", b"c")
    await other.client.items.delete("file", (await other.find("b")).id)
    await drive.poll()
    assert await drive.names() == ["a", "c", "docs"]
    assert drive.fs.getattr(await drive.ino("a")).size == 7
    assert kv_store.get(drive.db, kv_store.MISSING) is None
