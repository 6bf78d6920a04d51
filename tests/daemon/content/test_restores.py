"""Restoring items from the trash, when an answer of the service is missing."""

import errno
import os

import httpx
import pytest
import trio

from cmsfs.replica.changes import ChangeKind
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import LogWatch
from tests.support.network import Network
from tests.support.patience import crowding


async def _deleted(drive: Drive, other: Remote) -> tuple[str, Ino]:
    """Create a file `a` that is in the trash, where a program has seen it; return its ID, and the trash."""
    number = await other.file("a", b"one")
    await other.client.items.delete("file", number)
    trash = (await drive.agents.shown.lookup(ROOT, ".trash")).ino
    await drive.agents.shown.lookup(trash, "a")
    return number, trash


async def test_item_that_was_restored_without_an_answer_is_shown(
    drive: Drive, other: Remote, network: Network
) -> None:
    """A program gives up waiting, and writes to the name: it is the item's, so that there is no conflict."""
    number, trash = await _deleted(drive, other)
    shown = drive.agents.shown
    restored, _ = network.gate("POST", f"/files/{number}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.rename, trash, "a", ROOT, "a", 0)
        with trio.fail_after(5 * crowding()):
            await restored.wait()
        nursery.cancel_scope.cancel()
    await drive.write("a", b"two")
    await drive.sync()
    await drive.poll()
    assert await drive.names() == await other.paths() == ["a"]
    assert drive.node(await drive.ino("a")).remote_id == number
    assert await other.read("a") == b"two"


async def test_item_that_was_not_restored_is_not_shown(drive: Drive, other: Remote, network: Network) -> None:
    number, trash = await _deleted(drive, other)
    shown = drive.agents.shown
    asked, _ = network.gate("POST", f"/files/{number}", before=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.rename, trash, "a", ROOT, "a", 0)
        with trio.fail_after(5 * crowding()):
            await asked.wait()
        nursery.cancel_scope.cancel()
    assert await drive.names() == []


async def test_item_that_was_moved_without_an_answer_is_shown_where_it_is(
    drive: Drive, other: Remote, network: Network
) -> None:
    """A program gives up waiting; what it does next with the folder knows of the item in it."""
    await other.folder("elsewhere")
    number, trash = await _deleted(drive, other)
    assert await drive.names("elsewhere") == []
    shown = drive.agents.shown
    moved, _ = network.gate("PUT", f"/files/{number}")
    into = await drive.ino("elsewhere")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.rename, trash, "a", into, "a", 0)
        with trio.fail_after(5):
            await moved.wait()
        nursery.cancel_scope.cancel()
    assert await drive.names("elsewhere") == ["a"]
    assert drive.node(await drive.ino("elsewhere/a")).remote_id == number


async def test_item_that_was_moved_without_an_answer_is_not_shown_where_it_was_before(
    drive: Drive, other: Remote, network: Network, log_watch: LogWatch
) -> None:
    """The move is reported, but nothing tells yet that it is ours."""
    await other.folder("elsewhere")
    number, trash = await _deleted(drive, other)
    assert await drive.names() == ["elsewhere"]
    assert await drive.names("elsewhere") == []
    shown = drive.agents.shown
    moved, _ = network.gate("PUT", f"/files/{number}")
    into = await drive.ino("elsewhere")
    log_watch.expected.append("whether it was moved is not known yet")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(shown.rename, trash, "a", into, "a", 0)
        with trio.fail_after(5 * crowding()):
            await moved.wait()
        await drive.poll()
        network.instead = lambda request: httpx.Response(503) if request.method == "GET" else None
        nursery.cancel_scope.cancel()
    assert await drive.names() == ["elsewhere"]
    network.instead = None
    await drive.sync()
    await drive.poll()
    assert await drive.names("elsewhere") == ["a"]
    assert drive.node(await drive.ino("elsewhere/a")).remote_id == number


async def test_item_that_stays_in_its_old_folder_leaves_its_name_to_the_file_that_has_it_here(
    drive: Drive, other: Remote, network: Network, log_watch: LogWatch
) -> None:
    """The rename of that file has not reached the service, so that the name is still free there."""
    await other.folder("elsewhere")
    await other.file("b", b"two")
    number, trash = await _deleted(drive, other)
    assert await drive.names() == ["b", "elsewhere"]
    assert await drive.names("elsewhere") == []
    shown = drive.agents.shown
    renaming, go = network.gate("PUT", "/files/", before=True)
    await drive.rename("b", "a")
    with trio.fail_after(5 * crowding()):
        await renaming.wait()
    network.instead = lambda request: httpx.Response(403) if request.method == "PUT" else None
    log_watch.expected.append("it was restored to its original folder, and could not be moved from there")
    with pytest.raises(OSError):
        await shown.rename(trash, "a", await drive.ino("elsewhere"), "a", 0)
    network.instead = None
    go.set()
    await drive.sync()
    await drive.poll()
    restored = f"a (restored {number})"
    assert await drive.names() == ["a", restored, "elsewhere"]
    assert await other.paths() == ["a", restored, "elsewhere/"]
    assert await drive.read("a") == b"two"


async def test_item_that_was_moved_to_the_tree_is_written_under_its_number_there(
    drive: Drive, other: Remote
) -> None:
    """The kernel has it under the number that it had in the trash, and under the new one once it looks it up:
    neither would know of changes through the other."""
    _, trash = await _deleted(drive, other)
    shown = drive.agents.shown
    old = (await shown.lookup(trash, "a")).ino
    await shown.rename(trash, "a", ROOT, "a", 0)
    with pytest.raises(OSError) as caught:
        await shown.open(old, os.O_RDWR)
    assert caught.value.errno == errno.ESTALE
    reading = await shown.open(old, os.O_RDONLY)
    assert bytes(await shown.read(reading.fh, 0, 10)) == b"one"
    await shown.release(reading.fh)
    new = (await shown.lookup(ROOT, "a")).ino
    assert new != old
    drive.changes.clear()
    await shown.setattr(old, SetAttr(size=2))
    assert (ChangeKind.CONTENT, new) in {(one.what, one.ino) for one in drive.changes}
