"""The bytes of a deleted file go after its deletion is on the disk."""

import gc
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.tree.reaper import GATHER_SECONDS
from tests.vfs.conftest import Drive


async def delete(drive: Drive, name: str, ino: int) -> None:
    await drive.fs.unlink(1, name)
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino))])
    with trio.fail_after(10):
        while tree.find(drive.db, ino) is not None:
            await trio.lowlevel.checkpoint()


async def test_a_draft_goes_with_the_next_group(drive: Drive) -> None:
    precious = b"precious" * 10_000  # more than the row has
    ino = await drive.write_file("f", precious)
    path = drive.draft_of(ino).path
    await delete(drive, "f", ino)
    await trio.testing.wait_all_tasks_blocked(2 * GATHER_SECONDS)
    # The power may fail here, and the file be back with the last state of the database.
    assert path.read_bytes() == precious
    with trio.fail_after(10):
        while path.exists():
            await drive.commit.commit()


async def test_deleted_draft_is_closed(drive: Drive) -> None:
    """An open descriptor would keep the room that it takes up."""
    ino = await drive.write_file("f", b"precious")
    path = drive.draft_of(ino).path
    gc.collect()
    await delete(drive, "f", ino)
    with trio.fail_after(10):
        while path.exists():
            await drive.commit.commit()
    opened = [os.readlink(fd) for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]  # noqa: PTH115
    assert not [one for one in opened if one.startswith(str(path))]


async def test_sealed_bytes_go_after_the_log(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    ino = await drive.write_file("f", b"precious")
    await drive.seal(ino)
    await drive.commit.commit()
    path = drive.blocks.path(tree.find(drive.db, ino).sha1)
    synced: list[bool] = []
    fsync = os.fsync

    def watch(fd: int) -> None:
        if Path(f"/proc/self/fd/{fd}").readlink().name.endswith("-wal"):
            synced.append(path.exists() and tree.find(drive.db, ino) is None)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watch)
    await delete(drive, "f", ino)
    with trio.fail_after(10):
        while path.exists():
            await trio.lowlevel.checkpoint()
    assert synced == [True]


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("theirs", [b"one, the first", b"theirs"])
async def test_deleted_unsent_file_returns_as_remote(drive: Drive, sealed: bool, theirs: bytes) -> None:
    ino = await drive.remote_file(1, "f", b"one, the first")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.setattr(ino, SetAttr(size=0), opened.fh)
    await drive.fs.write(opened.fh, 0, b"ours")
    await drive.fs.release(opened.fh)
    if sealed:
        await drive.seal(ino)
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
    await drive.fs.unlink(ROOT, "f")
    await trio.testing.wait_all_tasks_blocked(2 * GATHER_SECONDS)
    # The upload has failed and is tried again later; the deletion was refused.
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET state = 'ready' WHERE kind = 'upload'"))
    await drive.db.write(lambda conn: conn.execute("DELETE FROM op WHERE kind = 'trash'"))
    await drive.remote_file(1, "f", theirs)
    assert await drive.read_file("f") == theirs
    assert drive.fs.getattr(ino).size == len(theirs)
    assert drive.ops() == []


async def test_files_removed_one_after_another_go_together(drive: Drive) -> None:
    inos = [await drive.write_file(f"f{number}", b"x") for number in range(20)]
    for number in range(20):
        await drive.fs.unlink(ROOT, f"f{number}")
    ended, transactions = drive.db.on_transaction_end, 0

    def counted() -> None:
        nonlocal transactions
        transactions += 1
        ended()

    drive.db.on_transaction_end = counted
    drive.fs.forget([(ino, drive.fs.inodes.lookups(ino)) for ino in inos])
    with trio.fail_after(10):
        while any(tree.find(drive.db, ino) is not None for ino in inos):
            await trio.lowlevel.checkpoint()
    assert transactions == 1
