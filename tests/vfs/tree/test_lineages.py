"""An inode is one lineage of bytes: what becomes of open files when the service has something else."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs.journal import recovery
from cmsfs.replica import inodes, tree
from cmsfs.replica.naming import CONFLICT_MARK
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive

VERSIONS = [b"new", b"NEW BYTES", b"new bytes and more"]


async def fresh(drive: Drive, name: str = "f") -> int:
    return int((await drive.fs.lookup(ROOT, name)).ino)


def copies(drive: Drive) -> list[str]:
    return [name for name in drive.names() if CONFLICT_MARK in name]


@pytest.mark.parametrize("new", VERSIONS)
async def test_open_file_keeps_its_version(drive: Drive, new: bytes) -> None:
    ino = await drive.remote_file(1, "f", b"old bytes")
    old = await drive.fs.open(ino, os.O_RDONLY)
    await drive.remote_file(1, "f", new)
    assert await fresh(drive) != ino
    for _ in range(2):
        assert await drive.read_file("f") == new
        assert await drive.fs.read(old.fh, 0, 100) == b"old bytes"
    assert drive.fs.getattr(ino).size == 9
    assert drive.fs.getattr(await fresh(drive)).size == len(new)
    await drive.fs.release(old.fh)


async def test_closed_file_keeps_its_inode(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"old")
    await drive.fs.release((await drive.fs.open(ino, os.O_RDONLY)).fh)
    assert await drive.remote_file(1, "f", b"new") == ino


async def test_write_to_older_version_makes_copy(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "f", b"two, longer")
    await drive.fs.write(opened.fh, drive.fs.getattr(ino).size, b" more")
    await drive.fs.flush(opened.fh)
    assert await drive.read_file("f") == b"two, longer"
    (copy,) = copies(drive)
    assert await drive.read_file(copy) == b"one more"
    assert drive.ops() == [("upload", f"/{copy}")]
    await drive.fs.release(opened.fh)


async def test_a_copy_goes_on_as_that_copy(drive: Drive) -> None:
    ino = await drive.remote_file(1, "log", b"0")
    opened = await drive.fs.open(ino, os.O_RDWR)
    for number in range(1, 5):
        await drive.remote_file(1, "log", b"theirs %d" % number)
        await drive.fs.write(opened.fh, number, b"%d" % number)
        await drive.fs.flush(opened.fh)
    (copy,) = copies(drive)
    assert await drive.read_file(copy) == b"01234"
    await drive.fs.release(opened.fh)


@pytest.mark.parametrize("size", [3, 0])
async def test_cutting_an_older_version_cuts_that_one(drive: Drive, size: int) -> None:
    ino = await drive.remote_file(1, "f", b"one and more")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "f", b"two")
    await drive.fs.setattr(ino, SetAttr(size=size), opened.fh)
    (copy,) = copies(drive)
    assert drive.ops() == [("upload", f"/{copy}")]
    await drive.fs.release(opened.fh)
    assert await drive.read_file("f") == b"two"
    assert await drive.read_file(copy) == b"one"[:size]


@pytest.mark.parametrize("flags", [os.O_RDWR, os.O_WRONLY])
async def test_local_file_is_based_on_its_upload(drive: Drive, flags: int) -> None:
    ino = await drive.write_file("note", b"mine")
    reader, writer = await drive.fs.open(ino, os.O_RDONLY), await drive.fs.open(ino, flags)
    await drive.fs.release(reader.fh)
    reader = await drive.fs.open(ino, os.O_RDONLY)
    await drive.fs.release(writer.fh)
    await drive.seal(ino)
    await drive.uploaded(ino, 1, b"mine")
    writer = await drive.fs.open(ino, flags)
    await drive.remote_file(1, "note", b"theirs, the second")
    await drive.fs.write(writer.fh, 4, b"+")
    await drive.fs.release(writer.fh)
    await drive.fs.release(reader.fh)
    assert await drive.read_file("note") == b"theirs, the second"
    assert tree.find(drive.db, await fresh(drive, "note")).etag is not None
    assert await drive.read_file(*copies(drive)) == b"mine+"


@pytest.mark.parametrize("cut", [None, 2, 0])
async def test_write_after_remote_deletion_restores_file(drive: Drive, cut: int | None) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.read(opened.fh, 0, 3)
    await drive.gone(ino)
    assert drive.names() == []
    if cut is not None:
        await drive.fs.setattr(ino, SetAttr(size=cut), opened.fh)
    else:
        await drive.fs.write(opened.fh, 3, b" more")
    await drive.fs.fsync(opened.fh)
    assert drive.ops() == [("upload", "/f")]
    assert drive.names() == ["f"]
    assert tree.find(drive.db, ino).remote_id is None
    await drive.fs.release(opened.fh)
    assert await drive.read_file("f") == (b"one more" if cut is None else b"one"[:cut])


async def test_a_folder_that_went_too_is_made_anew(drive: Drive) -> None:
    top = await drive.remote_folder(7, "top")
    await drive.remote_folder(8, "below", parent=7)
    ino = await drive.remote_file(1, "f", b"one", parent=8)
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.gone(top)
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.release(opened.fh)
    assert tree.path(drive.db, ino) == "/top/below/f"
    assert sorted(drive.ops()) == [("mkdir", "/top"), ("mkdir", "/top/below"), ("upload", "/top/below/f")]
    assert await drive.read_file("f", parent=tree.find(drive.db, ino).parent) == b"ONE"


async def test_name_taken_by_another_is_kept(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.gone(ino)
    await drive.remote_file(2, "f", b"another")
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.release(opened.fh)
    assert await drive.read_file("f") == b"another"
    assert await drive.read_file(*copies(drive)) == b"ONE"


@pytest.mark.parametrize("name", ["f", "g"])
async def test_restored_item_is_beside_new_file(drive: Drive, name: str) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.gone(ino)
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.remote_file(1, name, b"one")
    await drive.fs.release(opened.fh)
    assert await drive.read_file(name) == b"one"
    (copy,) = copies(drive)
    assert copy.startswith(f"{name} (")
    assert await drive.read_file(copy) == b"ONE"


async def test_conflict_copy_is_beside_the_winner(drive: Drive) -> None:
    folder = await drive.remote_folder(7, "folder")
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "f", b"two")
    await drive.remote_file(1, "g", b"two", parent=7)
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.release(opened.fh)
    names = drive.names(folder)
    assert len(names) == 2
    assert names[1].startswith("g (conflicted copy of ")


@pytest.mark.parametrize("how", ["unlink", "rename over", "unlink the newer"])
async def test_only_what_a_program_here_removes_goes(drive: Drive, how: str) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    if how == "unlink the newer":
        await drive.remote_file(1, "f", b"two")
    if how == "rename over":
        await drive.write_file("g", b"instead")
        await drive.fs.rename(ROOT, "g", ROOT, "f", 0)
    else:
        await drive.fs.unlink(ROOT, "f")
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.release(opened.fh)
    assert len(copies(drive)) == (how == "unlink the newer")


@pytest.mark.parametrize("changed", [True, False])
async def test_crash_before_naming_loses_nothing(drive: Drive, tmp_path: Path, changed: bool) -> None:
    """A truncation has its row before the file is cut; the process may die between that and the name."""
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "f", b"two")
    await drive.fs.write(opened.fh, 0, b"")
    if changed:
        await drive.db.write(lambda conn: conn.execute("UPDATE draft SET size = 2, base_size = 2"))
    await recovery.recover(drive.db, drive.drafts, tmp_path)
    assert len(copies(drive)) == changed
    assert drive.ops() == [("upload", f"/{copy}") for copy in copies(drive)]
    assert drive.db.row("SELECT 1 FROM lineage") is None


async def test_what_was_only_read_leaves_nothing(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "f", b"two")
    await drive.fs.release(opened.fh)
    with trio.fail_after(10):
        while tree.find(drive.db, ino) is not None:
            await trio.lowlevel.checkpoint()
    assert drive.names() == ["f"]


async def test_open_of_moved_name_is_estale(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    reader = await drive.fs.open(ino, os.O_RDONLY)
    await drive.remote_file(1, "f", b"two")
    with pytest.raises(OSError, check=lambda error: error.errno == errno.ESTALE):
        await drive.fs.open(ino, os.O_RDONLY)
    # Who asks again means this one, as through /proc/self/fd.
    again = await drive.fs.open(ino, os.O_RDONLY)
    assert await drive.fs.read(again.fh, 0, 10) == b"one"
    for opened in (reader, again):
        await drive.fs.release(opened.fh)


async def test_item_data_follows_the_name(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    await drive.fs.setattr(ino, SetAttr(mode=0o600))
    await drive.fs.setxattr(ino, "user.mine", b"1")
    await drive.fs.setxattr(ino, "user.cms.description", b"ours")
    await drive.fs.rename(ROOT, "f", ROOT, "g", 0)
    reader = await drive.fs.open(ino, os.O_RDONLY)
    await drive.remote_file(1, "f", b"two")
    new = await fresh(drive, "g")
    assert new != ino
    assert sorted(drive.ops()) == [("describe", "/g"), ("move", "/g")]
    assert await drive.fs.getxattr(new, "user.mine") == b"1"
    assert await drive.fs.getxattr(new, "user.cms.description") == b"ours"
    assert drive.fs.getattr(new).mode & 0o7777 == 0o600
    await drive.fs.release(reader.fh)


async def test_opening_waits_for_news_of_the_same_file(drive: Drive) -> None:
    """A transaction that has found the file closed must not give other bytes to a handle that comes then."""
    ino = await drive.remote_file(1, "f", b"old")
    found, go_on = trio.Event(), trio.Event()

    def examine(number: int) -> bool:
        answer = bool(drive.fs.inodes._examine(number))
        trio.from_thread.run_sync(found.set)
        trio.from_thread.run(go_on.wait)
        return answer

    drive.db.create_function("is_open", examine, arguments=1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.remote_file, 1, "f", b"new bytes")
        await found.wait()
        opened: list[Any] = []

        async def open_it() -> None:
            opened.append(await drive.fs.open(ino, os.O_RDWR))

        nursery.start_soon(open_it)
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert opened == []
        go_on.set()
    fh = opened[0].fh
    assert await drive.fs.read(fh, 0, 20) == b"new bytes"
    await drive.fs.write(fh, 9, b"!")
    await drive.fs.release(fh)
    assert drive.names() == ["f"]
    assert await drive.read_file("f") == b"new bytes!"


async def replaced(drive: Drive, how: str, name: str) -> None:
    """What a program does that has not heard yet whose name this is."""
    if how == "removed":
        await drive.fs.unlink(ROOT, name)
    else:
        await drive.write_file("new", b"new")
        await drive.fs.rename(ROOT, "new", ROOT, name, 0)


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_freshly_given_name_is_not_meant(drive: Drive, how: str) -> None:
    """The kernel remembers for a moment more that there is no such name."""
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.gone(ino)
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.fsync(opened.fh)
    assert drive.names() == ["f"]
    await replaced(drive, how, "f")
    assert await drive.read_file(*copies(drive)) == b"ONE"
    await drive.fs.release(opened.fh)


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_write_behind_name_update_is_not_meant(drive: Drive, how: str) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "g", b"one")
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.fsync(opened.fh)
    await replaced(drive, how, "g")
    assert await drive.read_file(*copies(drive)) == b"ONE"
    await drive.fs.release(opened.fh)


@pytest.mark.parametrize("how", ["removed", "replaced"])
async def test_displaced_open_file_continues_as_copy(drive: Drive, how: str) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.remote_file(1, "g", b"one")
    await replaced(drive, how, "g")
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.fsync(opened.fh)
    node = tree.find(drive.db, ino)
    assert node.parent == ROOT
    assert ("upload", f"/{node.name}") in drive.ops()
    assert await drive.read_file(node.name) == b"ONE"
    if how == "replaced":
        assert await drive.read_file("g") == b"new"
    await drive.fs.release(opened.fh)


@pytest.mark.parametrize("how", ["removed", "replaced"])
@pytest.mark.parametrize("name", ["f", "g"])
async def test_file_opened_by_new_name_is_meant(drive: Drive, how: str, name: str) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    if name == "f":
        await drive.fs.lookup(ROOT, "f")
    await drive.remote_file(1, "g", b"one")
    if name == "g":
        await drive.fs.lookup(ROOT, "g")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"ONE")
    await drive.fs.release(opened.fh)
    await replaced(drive, how, "g")
    assert len(copies(drive)) == (name == "f")


async def test_fresh_names_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inodes, "MOMENT_SECONDS", 0.0)
    names = inodes.FreshNames()
    for number in range(10_000):
        names._note(number, ROOT, "f")
    assert len(names._places) < 2_000


async def test_open_of_replaced_bytes_is_estale(drive: Any) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    found = []
    for data in (b"one", b"one and more", b"one and more", b"two"):
        await drive.remote_file(1, "f", data)
        opened = await drive.fs.open(ino, os.O_RDONLY)
        found.append(opened.is_news)
        await drive.fs.release(opened.fh)
    assert found == [False, True, False, True]


async def test_nobody_keeps_pages_that_another_open_drops(drive: Any) -> None:
    ino = await drive.remote_file(1, "f", b"one")
    first = await drive.fs.open(ino, os.O_RDONLY)
    await drive.fs.release(first.fh)
    await drive.remote_file(1, "f", b"other")
    opened = [await drive.fs.open(ino, os.O_RDONLY) for _ in range(2)]
    assert [one.keep_cache for one in opened] == [False, False]
    for one in opened:
        await drive.fs.release(one.fh)
    again = await drive.fs.open(ino, os.O_RDONLY)
    assert again.keep_cache
    await drive.fs.release(again.fh)
