"""Push: answers to uploads that arrive late, when the file's item belongs to another file by then."""

import os
from functools import partial

import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_of_a_file_that_took_over_an_item_whose_own_upload_is_not_answered(
    drive: Drive, other: Remote, network: Network
) -> None:
    """What was sent of the item that it took over stays known; otherwise its next version seems to meet
    somebody else's, and becomes a conflict copy."""
    await drive.write("a", b"one")
    await drive.write("b", b"two")
    await drive.sync()
    ids = {name: (await other.find(name)).id for name in ("a", "b")}
    held = {}
    for name, data in (("a", b"three"), ("b", b"four")):
        held[name] = network.gate("POST", f"/files/{ids[name]}/content")
        await drive.write(name, data)
        with trio.fail_after(20):
            await held[name][0].wait()
    await drive.rename("a", "b")
    held["a"][1].set()

    async def is_sent() -> bool:
        return network.count("POST", f"/files/{ids['b']}/content") >= 2

    assert await drive.agents.push.until(is_sent, seconds=5)
    held["b"][1].set()
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["b"]
    assert await other.read("b") == await drive.read("b") == b"three"
    assert (await other.find("b")).id == ids["b"]
    assert drive.db.rows("SELECT * FROM unheard") == []


async def test_of_a_new_file_that_took_over_an_item_whose_own_upload_is_not_answered(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("b", b"two")
    await drive.sync()
    kept = (await other.find("b")).id
    late, late_go = network.gate("POST", f"/files/{kept}/content")
    await drive.write("b", b"four")
    new, new_go = network.gate("POST", "/files/content")
    await drive.write("a", b"three")
    with trio.fail_after(20):
        await late.wait()
        await new.wait()
    await drive.rename("a", "b")
    new_go.set()

    async def is_sent() -> bool:
        return network.count("POST", f"/files/{kept}/content") >= 2

    assert await drive.agents.push.until(is_sent, seconds=5)
    late_go.set()
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["b"]
    assert await other.read("b") == b"three"
    assert (await other.find("b")).id == kept
    assert drive.db.rows("SELECT * FROM unheard") == []


@pytest.mark.parametrize("change", ["time", "name", "description"])
async def test_of_an_item_that_was_deleted_meanwhile(
    drive: Drive, other: Remote, network: Network, change: str
) -> None:
    """It does not come back."""
    ino = await drive.write("f", b"one")
    await drive.sync()
    kept = (await other.find("f")).id
    late, go_on = network.gate("PUT", f"/files/{kept}")
    match change:
        case "time":
            await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922 * 10**9))
        case "name":
            await drive.rename("f", "g")
        case "description":
            await drive.fs.setxattr(ino, "user.cms.description", b"told")
    with trio.fail_after(20):
        await late.wait()
    await other.client.items.delete("file", kept)
    await drive.poll()
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
    with trio.fail_after(20):
        while drive.db.rows("SELECT 1 FROM node WHERE ino = ?", ino):
            await trio.lowlevel.checkpoint()
    go_on.set()
    await drive.write("next", b"two")
    await drive.sync()
    assert await drive.names() == await other.paths() == ["next"]
    assert drive.ops() == []


@pytest.mark.parametrize("backup", ["doc.bak", "doc~"])
async def test_of_a_backup_whose_former_item_is_deleted_by_then(
    drive: Drive, other: Remote, network: Network, backup: str
) -> None:
    """The file that took its item over was removed: the backup does not get the item back, nor its name."""
    await drive.write("doc", b"one")
    await drive.sync()
    kept = (await other.find("doc")).id
    late, go_on = network.gate("POST", f"/files/{kept}/content")
    await drive.write("doc", b"two")
    with trio.fail_after(20):
        await late.wait()
    await drive.rename("doc", backup)
    saved = await drive.write("doc", b"three")
    assert drive.node(saved).remote_id == kept
    await drive.unlink("doc")
    with trio.fail_after(20):
        while await other.paths():
            await trio.lowlevel.checkpoint()
        drive.fs.forget([(saved, drive.fs.inodes.lookups(saved))])
        while drive.db.rows("SELECT 1 FROM node WHERE ino = ?", saved):
            await trio.lowlevel.checkpoint()
    await drive.write("doc", b"four")
    go_on.set()
    await drive.sync()
    await drive.poll()
    assert await drive.names() == ["doc", backup]
    # The other one stays on this machine.
    assert await other.paths() == (["doc", "doc.bak"] if backup == "doc.bak" else ["doc"])
    assert [await drive.read(name) for name in ("doc", backup)] == [b"four", b"two"]
    assert drive.db.rows("SELECT * FROM unheard") == []


@pytest.mark.parametrize("is_sent", [True, False])
async def test_of_a_renaming_of_an_item_that_another_file_takes_over(
    drive: Drive, other: Remote, network: Network, is_sent: bool
) -> None:
    """It keeps its place here, and a new file has the name that the item had for a moment."""
    await drive.write("b", b"one")
    await drive.sync()
    kept = (await other.find("b")).id
    late, go_on = network.gate("PUT", f"/files/{kept}")
    await drive.rename("b", "a")
    with trio.fail_after(20):
        await late.wait()
    sending, send = network.gate("POST", f"/files/{kept}/content", before=True)
    await drive.rename("a", "b")
    await drive.write("new", b"two")
    await drive.rename("new", "b")
    with trio.fail_after(20):
        await sending.wait()
    await drive.write("a", b"three")
    if is_sent:
        send.set()

    async def is_refused() -> bool:
        versions = network.count("POST", f"/files/{kept}/content")
        return network.count("POST", "/files/content") >= 2 and (not is_sent or versions >= 2)

    assert await drive.agents.push.until(is_refused, seconds=5)
    await drive.poll()
    assert await drive.names() == ["a", "b"]
    go_on.set()
    send.set()
    await drive.sync()
    await drive.poll()
    assert await drive.names() == await other.paths() == ["a", "b"]
    assert [await other.read(name) for name in ("a", "b")] == [b"three", b"two"]
    assert (await other.find("b")).id == kept


async def test_of_a_version_of_an_item_that_another_file_took_over_and_renamed(
    drive: Drive, other: Remote, network: Network
) -> None:
    """It tells the name that the item had then, which a new file has by now, and is no conflict."""
    await drive.write("a", b"one")
    await drive.sync()
    kept = (await other.find("a")).id
    late, go_on = network.gate("POST", f"/files/{kept}/content")
    await drive.write("a", b"two")
    with trio.fail_after(20):
        await late.wait()
    await drive.rename("a", "b")
    opened, new = await drive.fs.create(ROOT, "new", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"three")
    await drive.rename("new", "b")
    assert drive.node(new.ino).remote_id == kept
    with trio.fail_after(20):
        while await other.paths() != ["b"]:
            await trio.lowlevel.checkpoint()
    sending, send = network.gate("POST", f"/files/{kept}/content", before=True)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    with trio.fail_after(20):
        await sending.wait()
    making, make = network.gate("POST", "/files/content", before=True)
    await drive.write("a", b"four")
    with trio.fail_after(20):
        await making.wait()
    answered = drive.ops()
    go_on.set()
    with trio.fail_after(20):
        while drive.ops() == answered:
            await trio.lowlevel.checkpoint()
    assert await drive.names() == ["a", "b"]
    make.set()
    send.set()
    await drive.sync()
    await drive.poll()
    assert await drive.names() == await other.paths() == ["a", "b"]
    assert [await other.read(name) for name in ("a", "b")] == [b"four", b"three"]
    assert (await other.find("b")).id == kept


@pytest.mark.parametrize("settings", [config.Settings(settle_seconds=0, feed="events")], ids=["events"])
async def test_of_a_new_file_that_went_with_another_folder_to_the_trash_meanwhile(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Nobody else tells of its deletion: the item is requested once it is known to be ours."""
    folder = await other.folder("d")
    assert await drive.names() == ["d"]
    sent, go_on = network.gate("POST", "/files/content")
    await drive.write("f", b"x")
    await sent.wait()
    await drive.poll()
    await other.client.items.update("file", (await other.find("f")).id, parent_id=folder)
    await drive.poll()
    await other.client.items.delete("folder", folder, recursive=True)
    await drive.poll()
    go_on.set()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    assert await drive.names() == await other.paths() == []


async def test_of_a_new_file_that_was_known_as_one_of_another_folder_and_went_with_it(
    drive: Drive, other: Remote, network: Network
) -> None:
    """Nobody tells of its deletion, but the drive knew the item in the folder that was deleted."""
    folder = await other.folder("d")
    assert await drive.names() == ["d"]
    sent, go_on = network.gate("POST", "/files/content")
    await drive.write("f", b"x")
    await sent.wait()
    item = (await other.find("f")).id
    await other.client.items.update("file", item, parent_id=folder)
    await drive.poll()
    known = tree.find_remote(drive.db, NodeKind.FILE, item)
    assert known is not None and known.parent is not None
    await other.client.items.delete("folder", folder, recursive=True)
    await drive.poll()
    # As the reaper does once no program has it open.
    assert await drive.db.write(lambda conn: tree.discard(conn, known.ino))
    go_on.set()
    await drive.sync()
    assert await drive.names() == await other.paths() == []


@pytest.mark.parametrize("is_folder", [True, False])
async def test_of_a_new_item_whose_deletion_nobody_told_of(
    drive: Drive, other: Remote, network: Network, is_folder: bool
) -> None:
    """A comparison cannot find it missing, since its ID is not known yet."""
    assert await drive.names() == []
    await drive.poll()
    sent, go_on = network.gate("POST", "/folders" if is_folder else "/files/content")
    if is_folder:
        await drive.mkdir("a")
    else:
        await drive.write("a", b"x")
    await sent.wait()
    await other.client.items.delete("folder" if is_folder else "file", (await other.find("a")).id)
    # Too long ago for the service, which no longer has the events since then.
    await drive.db.write(partial(kv_store.put, key=kv_store.EVENTS_READ_AT, value="0"))
    await drive.agents.reconciler.once(full=True)
    go_on.set()
    await drive.sync()
    await drive.agents.deferred_updates.settle()
    assert await drive.names() == await other.paths() == []


@pytest.mark.parametrize("is_closed", [True, False])
async def test_of_a_refused_rename_of_a_file_whose_item_another_inode_has_by_then(
    drive: Drive, other: Remote, network: Network, is_closed: bool
) -> None:
    """It was open when its next version arrived, and may have been closed since; the rename goes on with the
    item."""
    ino = await drive.write("a", b"one")
    await drive.sync()
    kept = (await other.find("a")).id
    opened = await drive.fs.open(ino, os.O_RDONLY)
    late, go_on = network.gate("PUT", f"/files/{kept}")
    await other.file("b", b"another")
    await drive.rename("a", "b")
    with trio.fail_after(20):
        await late.wait()
    await other.write(kept, b"one, and more")
    await drive.poll()
    if is_closed:
        await drive.fs.release(opened.fh)
        drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
        with trio.fail_after(20):
            while drive.db.rows("SELECT 1 FROM node WHERE ino = ?", ino):
                await trio.lowlevel.checkpoint()
    go_on.set()
    await drive.sync()
    await drive.poll()
    if not is_closed:
        await drive.fs.release(opened.fh)
    assert await drive.names() == await other.paths()
    assert await other.read("b") == b"another"
    (copy,) = [path for path in await other.paths() if path != "b"]
    assert copy.startswith("b (conflicted copy of ")
    assert (await other.find(copy)).id == kept
    assert await other.read(copy) == await drive.read(copy) == b"one, and more"
    assert drive.ops() == []


async def test_of_the_holder_of_a_name_that_our_move_frees_meanwhile(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The name is free by then: it is no conflict."""
    upload, uploaded = network.gate("POST", "/files/content")
    await drive.write("a", b"one")
    with trio.fail_after(20):
        await upload.wait()
        await drive.rename("a", "b")
        asked, answer = network.gate("GET", "/files/")
        await drive.write("a", b"two")
        await asked.wait()
        uploaded.set()
        while "move" in {kind for kind, _, _ in drive.ops()} or await other.paths() != ["b"]:
            await trio.lowlevel.checkpoint()
        answer.set()
    await drive.sync()
    await drive.poll()
    assert await drive.names() == await other.paths() == ["a", "b"]
    assert (await other.read("a"), await other.read("b")) == (b"two", b"one")


async def test_of_a_move_of_the_file_that_had_the_item_before(
    drive: Drive, other: Remote, network: Network
) -> None:
    """The move of the file that has it now waits: of two at once the first could be carried out last."""
    ino = await drive.write("a", b"one")
    await drive.sync()
    key = NodeKind.FILE, (await other.find("a")).id
    with drive.agents.remote_updates.moving(key, Ino(ino + 1)):
        await drive.rename("a", "b")
        with trio.fail_after(20):
            while ("move", "running") not in {(kind, state) for kind, state, _ in drive.ops()}:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
        assert network.count("PUT", "/files/") == 0
    await drive.sync()
    assert await drive.names() == await other.paths() == ["b"]
