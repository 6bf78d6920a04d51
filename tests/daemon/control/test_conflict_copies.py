"""Conflicts: when both sides have changed, both are kept."""

import os

import pytest
import trio

from cmsfs.models.content import items
from cmsfs.replica import inodes, kv_store
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import remote_from_item
from tests.support.daemon_drive import Drive, Remote
from tests.support.network import Network


async def test_two_new_files_with_one_name_are_kept(drive: Drive, other: Remote) -> None:
    await drive.names()
    await other.file("a.txt", b"theirs")
    ino = await drive.write("a.txt", b"ours")
    await drive.sync()
    ours = [path for path in await other.paths() if path != "a.txt"]
    assert len(ours) == 1
    assert ours[0].startswith("a (conflicted copy of ")
    assert await other.read("a.txt") == b"theirs"
    assert await other.read(ours[0]) == b"ours"
    assert await drive.names() == sorted(["a.txt", ours[0]])
    assert drive.node(ino).name == ours[0]
    assert await drive.read("a.txt") == b"theirs"


async def test_identical_new_files_merge(drive: Drive, other: Remote) -> None:
    await drive.names()
    theirs = await other.file("a.txt", b"same")
    ino = await drive.write("a.txt", b"same")
    await drive.sync()
    assert await other.paths() == ["a.txt"]
    assert drive.node(ino).remote_id == theirs


async def test_names_that_differ_in_case_clash(drive: Drive, other: Remote) -> None:
    await drive.names()
    await other.file("README", b"theirs")
    await drive.write("readme", b"ours")
    await drive.sync()
    assert len(await other.paths()) == 2
    assert await other.read("README") == b"theirs"


async def test_two_new_folders_of_one_name_are_one(drive: Drive, other: Remote) -> None:
    await drive.names()
    docs = await other.folder("docs")
    await other.file("theirs", b"t", parent=docs)
    await drive.mkdir("docs")
    await drive.write("docs/ours", b"o")
    await drive.sync()
    assert await other.paths() == ["docs/", "docs/ours", "docs/theirs"]
    assert await drive.names("docs") == ["ours", "theirs"]


async def test_a_folder_where_theirs_is_a_file(drive: Drive, other: Remote) -> None:
    await drive.names()
    await other.file("x", b"file")
    await drive.mkdir("x")
    await drive.write("x/inside", b"i")
    await drive.sync()
    assert await other.read("x") == b"file"
    assert len([path for path in await other.paths() if path.endswith("/inside")]) == 1


async def test_both_changed_the_content(drive: Drive, other: Remote) -> None:
    ino = await drive.write("f.txt", b"base")
    await drive.sync()
    theirs = (await other.find("f.txt")).id
    await other.write(theirs, b"theirs")
    await drive.write("f.txt", b"ours")
    await drive.sync()
    assert await other.read("f.txt") == b"theirs"
    assert (await other.find("f.txt")).id == theirs
    ours = next(path for path in await other.paths() if path != "f.txt")
    assert await other.read(ours) == b"ours"
    assert drive.node(ino).name == ours
    assert await drive.read("f.txt") == b"theirs"
    assert await other.versions(theirs) == 2


async def test_both_made_the_same_change(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    theirs = (await other.find("f")).id
    await other.write(theirs, b"new")
    await drive.write("f", b"new")
    await drive.sync()
    assert await other.paths() == ["f"]
    assert await other.versions(theirs) == 2


async def test_renamed_there_and_written_here_is_both(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    theirs = (await other.find("f")).id
    await other.client.items.update("file", theirs, name="g")
    await drive.write("f", b"ours")
    await drive.sync()
    await drive.poll()
    assert await other.paths() == ["g"]
    assert await other.read("g") == b"ours"
    assert await drive.names() == ["g"]


async def test_moved_there_and_written_here_is_both(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    await drive.write("f", b"base")
    await drive.sync()
    await other.client.items.update("file", (await other.find("f")).id, parent_id=(await other.find("d")).id)
    await drive.write("f", b"ours")
    await drive.sync()
    assert await other.paths() == ["d/", "d/f"]
    assert await other.read("f") == b"ours"
    assert await drive.names() == ["d"]
    assert await drive.read("d/f") == b"ours"


async def test_written_there_and_renamed_here_is_both(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    theirs = (await other.find("f")).id
    await other.write(theirs, b"theirs")
    await drive.rename("f", "g")
    await drive.sync()
    assert await other.paths() == ["g"]
    assert await other.read("g") == b"theirs"
    assert await drive.read("g") == b"theirs"


async def test_moved_on_both_sides_is_where_ours_went(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"x")
    await drive.sync()
    theirs = (await other.find("f")).id
    await other.client.items.update("file", theirs, name="theirs")
    await drive.rename("f", "ours")
    await drive.sync()
    await drive.poll()
    assert await other.paths() == await drive.names() == ["ours"]


async def test_deleted_there_and_written_here_is_a_new_file(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    await other.client.items.delete("file", (await other.find("f")).id)
    await drive.write("f", b"ours")
    await drive.sync()
    assert await other.read("f") == b"ours"
    assert drive.ops() == []


async def test_deleted_here_and_written_there_comes_back(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    await other.write((await other.find("f")).id, b"theirs")
    await drive.unlink("f")
    await drive.sync()
    assert await other.paths() == await drive.names() == ["f"]
    assert await drive.read("f") == b"theirs"


async def test_deleted_open_file_returns_as_theirs(drive: Drive, other: Remote, network: Network) -> None:
    ino = await drive.write("f", b"base")
    await drive.sync()
    arrives, go = network.gate("DELETE", "/files/", before=True)
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"OURS")
    await drive.fs.flush(opened.fh)
    await drive.unlink("f")
    with trio.fail_after(10):
        await arrives.wait()
    await other.write((await other.find("f")).id, b"theirs")
    go.set()
    await drive.sync()
    assert await other.paths() == await drive.names() == ["f"]
    assert await drive.read("f") == b"theirs"
    assert await drive.fs.read(opened.fh, 0, 10) == b"OURS"
    await drive.fs.release(opened.fh)
    await other.write((await other.find("f")).id, b"theirs again")
    await drive.poll()
    assert await drive.read("f") == b"theirs again"


async def test_deleted_here_and_renamed_there_is_deleted(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"base")
    await drive.sync()
    await other.client.items.update("file", (await other.find("f")).id, name="g")
    await drive.unlink("f")
    await drive.sync()
    assert await other.paths() == []


async def test_deleted_nonempty_folder_returns(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    await drive.sync()
    await other.file("new", b"n", parent=(await other.find("d")).id)
    await drive.rmdir("d")
    await drive.sync()
    assert await other.paths() == ["d/", "d/new"]
    assert await drive.names() == ["d"]
    assert await drive.names("d") == ["new"]


async def test_remotely_deleted_folder_is_recreated_for_ours(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    await drive.write("d/known", b"k")
    await drive.sync()
    await other.client.items.delete("folder", (await other.find("d")).id, recursive=True)
    await drive.write("d/ours", b"o")
    await drive.sync()
    assert await other.paths() == ["d/", "d/ours"]
    assert await drive.names("d") == ["ours"]


async def test_a_name_taken_there_sends_our_rename_aside(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"ours")
    await drive.sync()
    await other.file("g", b"theirs")
    await drive.rename("f", "g")
    await drive.sync()
    assert await other.read("g") == b"theirs"
    ours = next(path for path in await other.paths() if path != "g")
    assert await other.read(ours) == b"ours"
    assert await drive.names() == sorted(["g", ours])


async def test_own_upload_in_poll_is_not_theirs(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    arrived, go = network.gate("POST", "/files/content")
    await drive.write("f", b"one")
    with trio.fail_after(5):
        await arrived.wait()
    await drive.write("f", b"two")
    await drive.poll()
    go.set()
    await drive.sync()
    assert await other.paths() == await drive.names() == ["f"]
    assert await other.read("f") == b"two"


async def test_trashed_item_is_not_revived_by_page(drive: Drive, other: Remote) -> None:
    await drive.write("f", b"x")
    await drive.sync()
    before = await other.find("f")
    assert isinstance(before, items.File)
    await drive.unlink("f")
    await drive.sync()
    await drive.agents.remote_updates.apply([before])
    assert await drive.names() == []


async def test_late_page_matches_running_upload(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    theirs = await other.file("f", b"same")
    arrived, go = network.gate("POST", "/files/content", before=True)
    ino = await drive.write("f", b"same")
    with trio.fail_after(5):
        await arrived.wait()
    found = remote_from_item(await other.find("f"))
    # As a page that was judged before the upload began, and written after that.
    await drive.db.write(lambda conn: apply_remote.apply(conn, [found], generation=kv_store.generation(conn)))
    go.set()
    await drive.sync()
    assert await other.paths() == await drive.names() == ["f"]
    assert drive.node(ino).remote_id == theirs


async def test_late_page_matches_folder_being_created(drive: Drive, other: Remote, network: Network) -> None:
    await drive.names()
    await other.folder("d")
    arrived, go = network.gate("POST", "/folders", before=True)
    await drive.mkdir("d")
    with trio.fail_after(5):
        await arrived.wait()
    found = remote_from_item(await other.find("d"))
    await drive.db.write(lambda conn: apply_remote.apply(conn, [found], generation=kv_store.generation(conn)))
    go.set()
    await drive.sync()
    assert await other.paths() == ["d/"]
    assert await drive.names() == ["d"]


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_update_at_name_keeps_unsent_bytes(
    drive: Drive, other: Remote, network: Network, how: str
) -> None:
    """The kernel tells a name, and by then it is another file's."""
    moved, gone = await other.file("a.txt", b"old"), await other.file("b.txt", b"seen")
    assert await drive.names() == ["a.txt", "b.txt"]
    await drive.write("new.txt", b"new")
    await drive.sync()
    held, go = network.gate("POST", "/content", before=True)
    await drive.write("a.txt", b"ours")
    await held.wait()
    await other.client.items.delete("file", gone)
    await other.client.items.update("file", moved, name="b.txt")
    await drive.poll()
    assert await drive.names() == ["b.txt", "new.txt"]
    if how == "removed":
        await drive.unlink("b.txt")
    else:
        await drive.rename("new.txt", "b.txt")
    (kept,) = [name for name in await drive.names() if name.startswith("b (conflicted copy of ")]
    go.set()
    await drive.sync()
    await drive.poll()
    assert await other.read(kept) == b"ours"
    assert await drive.names() == await other.paths()
    assert await other.paths() == sorted([kept, "new.txt" if how == "removed" else "b.txt"])


async def test_short_lived_item_is_removed(
    drive: Drive, other: Remote, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inodes, "MOMENT_SECONDS", 0.0)
    moved = await other.file("a.txt", b"old")
    await drive.names()
    held, go = network.gate("POST", "/content", before=True)
    await drive.write("a.txt", b"ours")
    await held.wait()
    await other.client.items.update("file", moved, name="b.txt")
    await drive.poll()
    await drive.unlink("b.txt")
    assert await drive.names() == []
    go.set()
    await drive.sync()
    assert await other.paths() == []
