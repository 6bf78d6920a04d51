"""Unsent changes of files that somebody moves to a folder whose deletion is pending here."""

import os
from sqlite3 import Connection

import pytest
import trio
import trio.testing

from cmsfs.replica import tree
from cmsfs.replica.merge import local_work
from cmsfs.replica.nodes import ROOT
from tests.support.daemon_drive import Drive, Remote, Starting


async def empty_folder(drive: Drive, other: Remote) -> str:
    folder = await other.folder("d")
    await drive.poll()
    assert await drive.names("d") == []
    return folder


@pytest.mark.parametrize("then", ["stays", "is deleted"])
async def test_unsent_change_stays_visible_in_its_old_place(drive: Drive, other: Remote, then: str) -> None:
    number = await other.file("f", b"one")
    folder = await empty_folder(drive, other)
    drive.agents.health.pause("the test")
    await drive.write("f", b"two")
    await drive.rmdir("d")
    await other.client.items.update("file", number, parent_id=folder)
    await drive.poll()
    assert await drive.names() == ["f"]
    if then == "is deleted":
        await other.client.items.delete("folder", folder, recursive=True)
    drive.agents.health.resume()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    assert not local_work.has_deferred(drive.db)
    if then == "is deleted":
        assert await other.paths() == await drive.names() == ["f"]
        assert await other.read("f") == await drive.read("f") == b"two"
    else:
        # It is not empty any more, so it comes back.
        assert await other.paths() == ["d/", "d/f"]
        assert await drive.names() == ["d"]
        assert await other.read("f") == await drive.read("d/f") == b"two"


@pytest.mark.parametrize("news", ["event", "answer"])
@pytest.mark.parametrize("depth", [1, 2])
async def test_change_that_begins_after_the_move_is_shown_in_a_folder_above(
    drive: Drive, other: Remote, news: str, depth: int
) -> None:
    """Nobody sees the file in the deleted folder, but a program has it open."""
    number = await other.file("f", b"one")
    folder = await empty_folder(drive, other)
    ino = await drive.ino("f")
    opened = await drive.fs.open(ino, os.O_RDWR)
    drive.agents.health.pause("the test")
    await drive.rmdir("d")
    target = folder if depth == 1 else await other.folder("e", parent=folder)
    await other.client.items.update("file", number, parent_id=target)
    await drive.poll()
    assert await drive.names() == []
    await drive.fs.write(opened.fh, 0, b"two")
    await drive.fs.flush(opened.fh)
    # Something else of that name is there meanwhile.
    await drive.write("f" if depth == 1 else "e", b"another")
    await other.client.items.delete("folder", folder, recursive=True)
    if news == "event":
        await drive.poll()
    drive.agents.health.resume()
    with trio.fail_after(10):
        while any(kind == "trash" for kind, *_ in drive.ops()):
            await drive.db.written.wait()
    # Open for writing, it is not sent yet.
    assert len(await drive.names()) == 2
    await drive.fs.release(opened.fh)
    await drive.sync()
    found = await other.paths()
    assert len(found) == depth + 1
    files = [path.rpartition("/")[2] for path in found if not path.endswith("/")]
    assert {await other.read(name) for name in files} == {b"two", b"another"}
    assert await drive.names() == [path.rstrip("/") for path in found if "/" not in path[:-1]]


async def test_change_left_in_a_folder_that_is_not_made_again_is_shown_at_start(
    starting: Starting, other: Remote
) -> None:
    async with starting() as drive:
        folder = await empty_folder(drive, other)
        ino = await drive.ino("d")
        drive.agents.health.pause("the test")
        file = await drive.write("d/f", b"one")

        def txn(conn: Connection) -> None:
            tree.detach(conn, ino)
            local_work.forget(conn, ino)

        await drive.db.write(txn)
    await other.client.items.delete("folder", folder, recursive=True)
    async with starting() as drive:
        assert drive.node(file).parent == ROOT
        await drive.sync()
        assert await other.paths() == ["f"]
        assert await other.read("f") == b"one"


async def test_folder_that_comes_back_is_made_at_once(drive: Drive, other: Remote) -> None:
    """Files of programs that are never sent keep it here."""
    folder = await empty_folder(drive, other)
    await drive.write("d/f~", b"local")
    await drive.sync()
    await trio.testing.wait_all_tasks_blocked(0.5)
    await other.client.items.delete("folder", folder)
    await drive.poll()
    with trio.fail_after(20):
        while drive.ops():
            await drive.db.written.wait()
    assert await other.paths() == ["d/"]
    assert await drive.names("d") == ["f~"]
