"""What goes away here: only what the service itself says is gone."""

import errno

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import mass_deletions
from cmsfs.replica.nodes import ROOT, NodeKind
from cmsfs.sqlite import Connection
from cmsfs.vfs.tree.attributes import SetAttr
from daemon.listing import deletion_check
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

PAGE = b"<html><h1>404 Not Found</h1><hr>gateway</html>"


def gateway(request: httpx.Request) -> httpx.Response:
    """What a gateway says of everything while it does not find the service."""
    return httpx.Response(404, content=PAGE, headers={"content-type": "text/html"})


async def tried(drive: Drive) -> None:
    """Until a change has been sent, and failed."""
    with trio.fail_after(20):
        while drive.db.row("SELECT 1 FROM op WHERE attempts > 0") is None:
            await drive.agents.push._moved.wait()


async def test_a_gateways_404_makes_nothing_gone(drive: Drive, other: Remote, network: Network) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"theirs", parent=docs)
    assert await drive.names("docs") == ["f"]
    network.instead = gateway
    await drive.write("docs/ours", b"ours")
    with pytest.raises(OSError) as caught:
        await drive.read("docs/f")
    assert caught.value.errno == errno.EIO
    await tried(drive)
    assert await drive.names() == ["docs"]
    assert await drive.names("docs") == ["f", "ours"]
    network.instead = None
    await drive.agents.push.retry_all()
    await drive.sync()
    assert await other.paths() == ["docs/", "docs/f", "docs/ours"]


async def test_gateway_404_is_no_deletion(drive: Drive, other: Remote, network: Network) -> None:
    await other.file("f", b"x")
    assert await drive.names() == ["f"]
    network.instead = gateway
    await drive.unlink("f")
    await tried(drive)
    network.instead = None
    await drive.agents.push.retry_all()
    await drive.sync()
    assert await other.paths() == []


def empty(request: httpx.Request) -> httpx.Response | None:
    """A service that has lost its index, or its mind: every listing is complete, and empty."""
    if request.url.path.endswith("/search") or request.url.path.endswith("/items"):
        return httpx.Response(200, json={"entries": [], "total_count": 0, "limit": 200, "offset": 0})
    return None


@pytest.fixture(params=["embedded", "specification", "box"])
def settings(request: pytest.FixtureRequest) -> config.Settings:
    made = config.Settings(settle_seconds=0, network_seconds=5)
    if request.param != "embedded":
        addresses = dict.fromkeys(("base_url", "upload_url", "auth_url"), "http://service.test")
        made = made.model_copy(update={"profile": request.param} | addresses)
    return made


async def purge(other: Remote, number: str) -> None:
    """Nobody is told."""

    def txn(conn: Connection) -> None:
        conn.execute("DELETE FROM version WHERE file = ?", (int(number),))
        conn.execute("DELETE FROM item WHERE id = ?", (int(number),))

    await other.store.write(txn)


async def test_an_empty_listing_takes_nothing_away(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a listing omitted 21 items that the service still has")
    for number in range(21):
        await other.file(f"f{number:02}", b"x")
    assert len(await drive.names()) == 21
    await drive.poll()
    network.instead = empty
    assert await drive.agents.reconciler.once(full=True) == 0
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, ROOT))
    assert len(await drive.names()) == 21
    assert mass_deletions.pending_question(drive.db) is None


async def test_what_a_short_listing_leaves_out_stays(drive: Drive, other: Remote, network: Network) -> None:
    for name in ("a", "b", "c"):
        await other.file(name, b"x")
    assert await drive.names() == ["a", "b", "c"]
    await drive.poll()
    network.instead = empty
    await drive.agents.reconciler.once(full=True)
    assert await drive.names() == ["a", "b", "c"]


async def test_a_person_is_asked_about_what_is_gone_though_something_else_is_there_again(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    """It had been moved while its folder was listed."""
    expect_log("13 items are missing at the service")
    kept = await other.file("kept", b"x")
    folder = await other.folder("d")
    made = [await other.file(f"f{number:02}", b"x", parent=folder) for number in range(12)]
    assert await drive.names() == ["d", "kept"]
    assert len(await drive.names("d")) == 12
    await drive.poll()
    unseen = [await drive.ino(path) for path in ("kept", "d", *(f"d/f{number:02}" for number in range(12)))]
    for number in (*made, folder):
        await purge(other, number)
    generation = await drive.db.write(kv_store.next_generation)
    await drive.agents.deletion_check.remove(unseen, generation)
    question = mass_deletions.pending_question(drive.db)
    assert question is not None
    assert (question.tops, question.count) == ([unseen[1]], 13)
    await drive.agents.decide_missing(True)
    assert await drive.names() == ["kept"]
    assert await other.paths() == ["kept"]
    assert (await other.find("kept")).id == kept


async def test_a_folder_that_was_moved_meanwhile_was_not_omitted(drive: Drive, other: Remote) -> None:
    """With all that is in it."""
    target = await other.folder("e")
    folder = await other.folder("d")
    for number in range(12):
        await other.file(f"f{number:02}", b"x", parent=folder)
    assert await drive.names() == ["d", "e"]
    assert len(await drive.names("d")) == 12
    unseen = [await drive.ino(path) for path in ("d", *(f"d/f{number:02}" for number in range(12)))]
    await other.client.items.update("folder", folder, parent_id=target)
    generation = await drive.db.write(kv_store.next_generation)
    await drive.agents.deletion_check.remove(unseen, generation)
    assert mass_deletions.pending_question(drive.db) is None
    assert await drive.names() == ["e"]
    assert len(await drive.names("e/d")) == 12


async def test_where_much_is_gone_a_person_is_asked(
    drive: Drive, other: Remote, expect_log: ExpectLog
) -> None:
    expect_log("2[01] items are missing at the service")
    made = [await other.file(f"f{number:02}", b"x") for number in range(21)]
    assert len(await drive.names()) == 21
    await drive.poll()
    for number in made[1:]:
        await purge(other, number)
    assert await drive.agents.reconciler.once(full=True) == 0
    assert len(await drive.names()) == 21
    assert (await drive.agents.status()).missing == 20
    told = (await drive.agents.conflicts()).missing
    assert (told.items, told.paths[0]) == (20, "/f01")
    assert "20 items" in drive.agents.notifications._find_missing().body
    # No: it stays, and the next comparison does not ask again.
    assert (await drive.agents.decide_missing(False)).message == ""
    assert await drive.agents.reconciler.once(full=True) == 0
    assert (await drive.agents.status()).missing == 0
    assert len(await drive.names()) == 21
    # More is gone: that is another question.  Yes: it goes.
    await purge(other, made[0])
    assert await drive.agents.reconciler.once(full=True) == 0
    assert (await drive.agents.status()).missing == 21
    assert (await drive.agents.decide_missing(True)).message == "21 items were removed."
    assert await drive.names() == []
    assert (await drive.agents.status()).missing == 0


@pytest.mark.parametrize("settings", ["embedded"], indirect=True)
async def test_question_ends_when_items_are_back(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("16 items are missing at the service")
    docs = await other.folder("docs")
    for number in range(15):
        await other.file(f"f{number:02}", b"x", parent=docs)
    assert len(await drive.names("docs")) == 15
    await drive.poll()
    hide = "UPDATE item SET status = 1, trash = id WHERE id = ?"
    await other.store.write(lambda conn: conn.execute(hide, (int(docs),)))
    below = "UPDATE item SET status = 2, trash = ? WHERE parent = ?"
    await other.store.write(lambda conn: conn.execute(below, (int(docs), int(docs))))
    await drive.agents.reconciler.once(full=True)
    assert (await drive.agents.status()).missing == 16
    await other.store.write(
        lambda conn: conn.execute("UPDATE item SET status = 0, trash = 0 WHERE status IN (1, 2)")
    )
    await drive.agents.reconciler.once(full=True)
    assert (await drive.agents.status()).missing == 0
    assert len(await drive.names("docs")) == 15


async def test_unknown_root_deletes_nothing(drive: Drive, other: Remote, network: Network) -> None:
    docs = await other.folder("docs")
    for number in range(12):
        await other.file(f"f{number:02}", b"x", parent=docs)
    assert len(await drive.names("docs")) == 12

    def lost(request: httpx.Request) -> httpx.Response | None:
        if "/folders/" in request.url.path:
            body = {"type": "error", "status": 404, "code": "not_found", "message": "none"}
            return httpx.Response(404, json=body)
        return None

    network.instead = lost
    agents = drive.agents
    with pytest.raises(errors.ServerError):
        await deletion_check.fetch_item(agents.client, agents.health, NodeKind.FOLDER, docs, db=drive.db)
    # Of the root it says nothing when little is at stake.
    assert await deletion_check.fetch_item(agents.client, agents.health, NodeKind.FOLDER, docs) is None


async def test_file_changed_in_a_folder_that_comes_back_and_goes_again(drive: Drive, other: Remote) -> None:
    """The file is reported in a folder below the one that goes, whose return was not reported by itself."""
    docs = await other.folder("docs")
    inner = await other.folder("inner", parent=docs)
    number = await other.file("f", b"x", parent=await other.folder("inmost", parent=inner))
    assert await drive.names("docs/inner/inmost") == ["f"]
    await drive.poll()
    await other.client.items.delete("folder", docs, recursive=True)
    await drive.poll()
    await other.client.items.restore("folder", docs)
    await other.write(number, b"xy")
    await other.client.items.delete("folder", inner, recursive=True)
    await drive.poll()
    await drive.agents.reconciler.once(full=True)
    lost = (
        "SELECT node.name FROM node JOIN node AS folder ON node.parent = folder.ino AND folder.parent IS NULL"
    )
    assert drive.agents.state.db.rows(f"{lost} WHERE folder.ino > 2") == []
    assert await drive.names("docs") == []


async def test_a_folder_goes_once_what_was_moved_out_of_it_has_left_it_here(
    drive: Drive, other: Remote
) -> None:
    """A program's new version is asked for before it is applied: until then it keeps its place."""
    folder = await other.folder("d", parent=(inner := await other.folder("c")))
    program = await other.file("program", b"old", parent=folder)
    assert await drive.names("c/d") == ["program"]
    await drive.fs.setattr(await drive.ino("c/d/program"), SetAttr(mode=0o755), None)
    await drive.sync()
    await drive.poll()
    await other.write(program, b"new")
    await other.client.items.update("file", program, parent_id="0")
    await other.client.items.delete("folder", inner, recursive=True)
    # The events are not kept for as long as this machine slept.
    await drive.db.write(lambda conn: kv_store.put(conn, kv_store.EVENTS_READ_AT, "1000"))
    await drive.agents.reconciler.once(full=True)
    await drive.poll()
    assert await drive.names() == ["program"]
    assert await drive.read("program") == b"new"
