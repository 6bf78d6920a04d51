"""Deletions carried out at the service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
import trio
import trio.testing

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, NodeKind
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import LogWatch
from tests.support.network import Network
from tests.support.patience import crowding


@asynccontextmanager
async def deleted_and_reported(drive: Drive, network: Network) -> AsyncIterator[None]:
    """Delete the file, and hear of that before the answer, which arrives at the end of the context."""
    held, release = network.gate("DELETE", "/files/")
    await drive.fs.unlink(ROOT, "file")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await held.wait()
        await drive.poll()
        yield
        release.set()


async def test_deletion_is_heard_of_before_its_own_answer(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The event comes first, and the node is forgotten: nothing is left to record."""
    await other.file("file", b"x")
    ino = await drive.ino("file")
    async with deleted_and_reported(drive, network):
        # As the reaper does when the kernel has forgotten it.
        assert await drive.db.write(lambda conn: tree.discard(conn, ino))
    assert drive.ops() == [] and await drive.names() == await other.paths() == []


async def test_restore_after_a_deletion_that_is_heard_of_before_its_own_answer(
    drive: Drive, other: Remote, network: Network, log_watch: LogWatch
) -> None:
    """The item was deleted once, so its restore is news, until an answer about it is readable."""
    file = await other.file("file", b"x")
    await drive.ino("file")
    async with deleted_and_reported(drive, network):
        pass
    await other.client.items.restore(NodeKind.FILE, file)
    bad = [httpx.Response(200, content=b'{"type": "fi')]  # a body that ends early
    network.instead = lambda one: bad.pop() if bad and one.url.path.endswith(f"/files/{file}") else None
    log_watch.expected.append("skipping the file")
    await drive.poll()
    await drive.agents.deferred_updates.settle()
    assert not bad
    assert await drive.names() == await other.paths() == ["file"]


async def test_name_that_our_deletion_frees_while_its_holder_is_asked_for_is_no_conflict(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file whose upload had no answer is replaced: that upload is found and deleted, and its name free."""
    # The upload itself is not repeated meanwhile, however long the test takes.
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 3600.0)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 3600.0)
    network.lose_answer("POST", "/content")
    await drive.write("a", b"one")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        with trio.fail_after(10 * crowding()):
            while not drive.db.rows("SELECT 1 FROM op WHERE kind = 'upload' AND attempts > 0"):
                await trio.lowlevel.checkpoint()
            deletion, delete = network.gate("OPTIONS", "/content", before=True)
            asked, answer = network.gate("GET", "/files/")
            await drive.write("new", b"two")
            await drive.rename("new", "a")
            await deletion.wait()
            await asked.wait()
            delete.set()
            while "trash" in {kind for kind, _, _ in drive.ops()}:
                await trio.lowlevel.checkpoint()
            answer.set()
    await drive.poll()
    assert await drive.names() == await other.paths() == ["a"]
    assert await other.read("a") == b"two"


async def test_folder_deleted_here_comes_back_with_the_folder_that_it_was_deleted_with(
    drive: Drive, other: Remote
) -> None:
    """The service did not know it because the folder above was in the trash: nobody deleted it there."""
    docs = await other.folder("docs")
    await other.folder("sub", docs)
    await other.folder("rest", docs)
    await drive.names("docs")
    await drive.rmdir("docs/sub")
    await other.client.items.delete("folder", docs, recursive=True)
    await drive.sync()
    await other.client.items.restore("folder", docs)
    await drive.poll()
    assert await drive.names("docs") == ["rest", "sub"]
    assert await other.paths() == ["docs/", "docs/rest/", "docs/sub/"]


async def test_file_that_is_away_while_it_is_looked_at_is_deleted_only_as_it_was_known(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Somebody changed it, and it went and came back: what nobody has seen here is not deleted."""
    number = await other.file("file", b"seen")
    assert await drive.read("file") == b"seen"
    await other.write(number, b"not seen")
    refused, ask = network.gate("GET", f"/files/{number}", before=True)
    await drive.unlink("file")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await refused.wait()
        await other.client.items.delete("file", number)
        told, tell = network.gate("GET", f"/files/{number}")
        ask.set()
        await told.wait()
        await other.client.items.restore("file", number)
        tell.set()
    assert await other.paths() == await drive.names() == ["file"]
    assert await drive.read("file") == b"not seen"


@pytest.mark.parametrize("is_carried_out", [False, True])
async def test_file_that_is_restored_during_our_deletion_stays(
    drive: Drive, other: Remote, network: Network, is_carried_out: bool
) -> None:
    """Before the request somebody else deletes it, too; after it, it was our deletion that is undone."""
    number = await other.file("file", b"content")
    await drive.ino("file")
    held, release = network.gate("DELETE", "/files/", before=not is_carried_out)
    await drive.unlink("file")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.sync)
        await held.wait()
        if not is_carried_out:
            await other.client.items.delete("file", number)
        await drive.poll()
        await other.client.items.restore("file", number)
        await drive.poll()
        assert await drive.names() == ["file"]
        release.set()
    await drive.agents.deferred_updates.settle()
    assert drive.ops() == []
    assert await other.paths() == await drive.names() == ["file"]
    assert not drive.node(await drive.ino("file")).is_lost
    await drive.write("file", b"changed")
    await drive.sync()
    assert await other.read("file") == b"changed"
    assert (await other.find("file")).id == number


async def test_page_from_before_our_deletion_brings_no_item_back_that_had_changed_before(
    drive: Drive, other: Remote
) -> None:
    """The change was seen here only when the deletion was refused for it."""
    number = await other.file("file", b"x")
    assert await drive.read("file") == b"x"
    await other.client.items.describe("file", number, description="new")
    before = await other.find("file")
    await drive.unlink("file")
    await drive.sync()
    assert await other.paths() == []
    await drive.agents.remote_updates.apply([before])
    assert await drive.names() == []


async def test_deletion_that_was_answered_while_its_folder_was_away_is_sent_again(
    drive: Drive, other: Remote, network: Network
) -> None:
    docs = await other.folder("docs")
    number = await other.file("file", b"x", docs)
    assert await drive.names("docs") == ["file"]
    await other.client.items.delete("folder", docs, recursive=True)
    deleting, deleted = network.gate("DELETE", f"/files/{number}")
    await drive.unlink("docs/file")
    await deleting.wait()
    await other.client.items.restore("folder", docs)
    # The folder is listed while the deletion is under way.
    await drive.poll()
    deleted.set()
    await drive.sync()
    assert await drive.names("docs") == []
    assert await other.paths() == ["docs/"]


async def test_deletion_of_an_item_that_is_gone_ends_though_its_folder_may_not_be_seen(
    drive: Drive, other: Remote, network: Network
) -> None:
    docs = await other.folder("docs")
    number = await other.file("file", b"x", docs)
    assert await drive.names("docs") == ["file"]
    await other.client.items.delete("file", number)

    def refuse(request: httpx.Request) -> httpx.Response | None:
        is_asked = request.method == "GET" and request.url.path.endswith(f"/folders/{docs}")
        error = {"type": "error", "status": 403, "code": "access_denied_insufficient_permissions"}
        return httpx.Response(403, json=error) if is_asked else None

    network.instead = refuse
    await drive.unlink("docs/file")
    await drive.sync()
    assert drive.ops() == []


async def test_failed_upload_of_a_file_that_was_removed_meanwhile_is_not_waited_for(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left to be tried again, whatever its backoff is."""
    monkeypatch.setattr("daemon.push.context.FIRST_WAIT_SECONDS", 3600.0)
    monkeypatch.setattr("daemon.push.context.LONGEST_WAIT_SECONDS", 3600.0)
    network.lose_answer("POST", "/content")
    sent, send = network.gate("POST", "/content", before=True)
    await drive.write("a", b"one")
    with trio.fail_after(10 * crowding()):
        await sent.wait()
    await drive.unlink("a")
    send.set()
    await drive.sync()
    assert drive.ops() == [] and await other.paths() == []


async def test_folder_is_deleted_after_a_file_that_may_have_been_made_in_it(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Otherwise it would be refused as not empty, and shown again."""
    await drive.mkdir("docs")
    await drive.sync()
    network.lose_answer("POST", "/content")
    sent, send = network.gate("POST", "/content", before=True)
    await drive.write("docs/a", b"one")
    with trio.fail_after(10 * crowding()):
        await sent.wait()
    looking, look = network.gate("OPTIONS", "/files/content", before=True)
    await drive.unlink("docs/a")
    await drive.rmdir("docs")
    send.set()
    with trio.fail_after(10 * crowding()):
        await looking.wait()
    before = network.count("DELETE", "/folders/")
    for _ in range(20):
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert network.count("DELETE", "/folders/") == before
    look.set()
    await drive.sync()
    assert await drive.names() == [] and await other.paths() == []


@pytest.mark.parametrize("name", ["other", "folder"])
async def test_folder_into_which_a_move_without_an_answer_went_is_deleted(
    drive: Drive, other: Remote, network: Network, name: str
) -> None:
    """The service has an item in it that is elsewhere here: its next move is about to take it out."""
    await drive.write("file", b"x")
    await drive.mkdir("folder")
    await drive.sync()
    network.lose_answer("PUT", "/files/")
    moving, move = network.gate("PUT", "/files/", before=True)
    await drive.rename("file", "folder/file")
    await moving.wait()
    await drive.rename("folder/file", "other")
    asked, answer = network.gate("DELETE", "/folders/")
    again, move_again = network.gate("PUT", "/files/", before=True)
    await drive.rmdir("folder")
    if name != "other":
        await drive.rename("other", name)
    move.set()
    with trio.fail_after(10):
        await asked.wait()
        answer.set()
        await again.wait()
        move_again.set()
    await drive.sync()
    assert await drive.names() == await other.paths() == [name]


async def test_item_made_before_its_file_took_over_another_that_is_gone_is_deleted(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is deleted here, too: nothing is left of either."""
    for name in ("FIRST_WAIT_SECONDS", "LONGEST_WAIT_SECONDS"):
        monkeypatch.setattr(f"daemon.push.context.{name}", 3600.0)
    number = await other.file("b", b"one")
    assert await drive.names() == ["b"]
    network.lose_answer("POST", "/files/content")
    await drive.write("a", b"two")
    with trio.fail_after(20):
        while not drive.db.rows("SELECT 1 FROM op WHERE kind = 'upload' AND attempts > 0"):
            await drive.db.written.wait()
    await drive.rename("a", "b")
    await drive.unlink("b")
    await other.client.items.delete("file", number)
    await drive.poll()
    await drive.agents.retry(None)
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == []
    assert drive.db.rows("SELECT * FROM unheard") == []
