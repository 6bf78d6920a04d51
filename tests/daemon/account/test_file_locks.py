"""Locks: what others have locked here, and what programs lock here at the service."""

import json
import os
import stat
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from cmsfs import mounts
from cmsfs.models.content import items
from cmsfs.replica import kv_store
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.virtual import lock_owners
from daemon.content import program_locks
from tests.daemon.account.test_permissions import bits, opened
from tests.support.daemon_drive import Drive, Remote
from tests.support.errno_probe import attempt, shared_file
from tests.support.log_watch import ExpectLog


@pytest.fixture
async def shared(ben: Remote, user: int, drive: Drive, nursery: trio.Nursery) -> AsyncIterator[items.File]:
    """Ben's file `s/f`, which we may change, on our drive, whose locks are followed."""
    file_id = await shared_file(drive, ben, "f", "editor", user)
    nursery.start_soon(drive.agents.file_locks.run)
    yield await ben.client.items.get("file", file_id)


async def becomes(drive: Drive, path: str, wanted: str) -> None:
    """Wait until a file's bits are these."""
    with trio.fail_after(20):
        while await bits(drive, path) != wanted:
            await drive.changed.wait()


async def test_file_locked_by_others_is_read_only(
    drive: Drive, ben: Remote, shared: items.File, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("INFO")
    ends = datetime.now(UTC) + timedelta(hours=2)
    await ben.client.locks.lock(shared.id, expires_at=ends)
    await drive.poll()
    await becomes(drive, "s/f", "-r--r--r--")
    assert await drive.read("s/f") == b"one"
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        assert await attempt(opened(drive, "s/f", flags)) == "EACCES"
    assert await attempt(drive.rename("s/f", "s/g")) == "EACCES"
    assert await attempt(drive.unlink("s/f")) == "EACCES"
    ino = await drive.ino("s/f")
    assert await attempt(drive.fs.setattr(ino, SetAttr(mtime_ns=10**18))) == "EACCES"
    for name in ("user.cms.description", "user.cms.tags", "user.xdg.comment", "user.xdg.tags"):
        assert await attempt(drive.fs.setxattr(ino, name, b"x")) == "EACCES"
    said = f"f cannot be changed: it is locked by Ben Tester until {ends.astimezone():%Y-%m-%d %H:%M}"
    assert said in [record.getMessage() for record in caplog.records]
    assert drive.ops() == []

    await ben.client.locks.unlock(shared.id)
    await drive.poll()
    await becomes(drive, "s/f", "-rw-r--r--")
    await drive.write("s/f", b"two")
    await drive.sync()
    assert await ben.read("f") == b"two"


async def test_a_lock_against_downloads_takes_reading_away(drive: Drive, ben: Remote, shared: items.File):
    await ben.client.locks.lock(shared.id, prevent_download=True)
    await drive.poll()
    await becomes(drive, "s/f", "----------")
    assert await attempt(opened(drive, "s/f", os.O_RDONLY)) == "EACCES"


async def _look(drive: Drive, folder: str, name: str) -> bytes | None:
    """What a program reads under a name; None: there is nothing."""
    shown = drive.agents.shown
    try:
        ino = (await shown.lookup(await drive.ino(folder), name)).ino
    except errno_map.TransientEnoent:
        return None  # and the kernel asks again
    opened = await shown.open(ino, os.O_RDONLY)
    try:
        return bytes(await shown.read(opened.fh, 0, 1000))
    finally:
        await shown.release(opened.fh)


async def test_lock_files_name_who_else_has_locked(drive: Drive, ben: Remote, shared: items.File):
    before = await _look(drive, "s", ".~lock.f#")
    locked = await ben.client.locks.lock(shared.id)
    await drive.poll()
    await becomes(drive, "s/f", "-r--r--r--")
    assert locked.lock is not None
    assert locked.lock.created_at is not None
    time = locked.lock.created_at.astimezone()
    told = await _look(drive, "s", ".~lock.f#")
    assert (before, told) == (None, f"Ben Tester,ben@example.com,,{time:%d.%m.%Y %H:%M},;".encode())
    owner = await _look(drive, "s", "~$f")
    assert owner is not None
    assert (len(owner), owner[:11], owner[55:59]) == (165, b"\x0aBen Tester", b"\x0a\0B\0")
    assert await _look(drive, "s", ".~lock.g#") is None
    # Nobody can take it away, or have one of their own beside it.
    folder = await drive.ino("s")
    assert await attempt(drive.agents.shown.unlink(folder, ".~lock.f#")) == "EPERM"
    ino = (await drive.agents.shown.lookup(folder, ".~lock.f#")).ino
    assert await attempt(drive.agents.shown.open(ino, os.O_RDWR)) == "EACCES"
    await ben.client.locks.unlock(shared.id)
    await drive.poll()
    await becomes(drive, "s/f", "-rw-r--r--")
    assert await _look(drive, "s", ".~lock.f#") is None


def test_names_in_lock_files_are_of_one_line() -> None:
    holder = lock_owners.LockHolder("Tester, Ben; \\\n", "ben", 0.0)
    assert lock_owners.libreoffice(holder).startswith(rb"Tester\, Ben\; \\,ben,,")
    assert len(lock_owners.office(holder, "a.docx")) == 162
    assert len(lock_owners.office(lock_owners.LockHolder("ü" * 80, "", 0.0), "a.xlsx")) == 165


async def test_a_lock_ends_by_itself(drive: Drive, ben: Remote, shared: items.File):
    await ben.client.locks.lock(shared.id, expires_at=datetime.now(UTC) + timedelta(seconds=3))
    await drive.poll()
    await becomes(drive, "s/f", "-r--r--r--")
    # Nothing is heard of it: the drive knows the time.
    await becomes(drive, "s/f", "-rw-r--r--")


async def test_our_own_lock_is_none(drive: Drive, other: Remote, nursery: trio.Nursery):
    file_id = await other.file("mine", b"x")
    await other.client.locks.lock(file_id)
    await drive.names()
    await drive.poll()
    drive.agents.file_locks._read()
    assert stat.filemode(drive.fs.getattr(await drive.ino("mine")).mode) == "-rw-r--r--"


async def test_operation_refused_by_lock_retries_after(
    drive: Drive, ben: Remote, shared: items.File, nursery: trio.Nursery, expect_log: ExpectLog
):
    nursery.start_soon(drive.agents._retry_when_possible)
    # We have not heard of the lock when we write.
    await ben.client.locks.lock(shared.id)
    expect_log("locked")
    await drive.write("s/f", b"ours")
    await drive.sync()
    assert [(kind, state) for kind, state, _ in drive.ops()] == [("upload", "held")]
    await drive.poll()
    await becomes(drive, "s/f", "-r--r--r--")
    await ben.client.locks.unlock(shared.id)
    await drive.poll()
    await becomes(drive, "s/f", "-rw-r--r--")
    with trio.fail_after(20):
        while drive.ops():
            await trio.lowlevel.checkpoint()
    assert await ben.read("f") == b"ours"


class TestProgramsThatLock:
    @pytest.fixture
    async def table(
        self, drive: Drive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Callable[..., None]:
        """`table(1, 7)`: programs have these inodes of the drive locked, and others something else."""
        path = tmp_path / "locks"
        monkeypatch.setattr(program_locks, "TABLE", path)
        mount = mounts.Mount(str(drive.agents.mountpoint), "fuse.cmsfs", 0x135, None)
        monkeypatch.setattr(mounts, "listing", lambda: [mount])

        def write(*inodes: int) -> None:
            lines = [
                "1: POSIX  ADVISORY  READ 12 00:135:5 0 EOF",
                "1: -> FLOCK  ADVISORY  WRITE 12 00:135:6 0 EOF",
            ]
            lines += [
                "2: POSIX  ADVISORY  WRITE 12 08:01:7 128 128",
                "3: LEASE  ACTIVE    READ 9 00:2d:8 0 EOF",
            ]
            lines += [f"4: FLOCK  ADVISORY  WRITE 4123 00:135:{ino} 0 EOF" for ino in inodes]
            path.write_text("\n".join(lines) + "\n")

        write()
        return write

    async def test_a_lock_that_lasts_is_mirrored_until_it_ends(
        self, drive: Drive, other: Remote, table: Callable[..., None]
    ):
        file_id = await other.file("f", b"x")
        await drive.names()
        locks = drive.agents.program_locks
        # As programs see it.
        ino = (await drive.fs.lookup(ROOT, "f")).number
        assert ino is not None
        table(5, 6, 7, ino)
        await locks.look()
        assert (await other.client.items.get("file", file_id)).lock is None
        await locks.look()
        lock = (await other.client.items.get("file", file_id)).lock
        assert lock is not None
        assert lock.expired_at is not None
        assert json.loads(kv_store.get(drive.db, kv_store.PROGRAM_LOCKS) or "") == [file_id]
        await locks.look()
        await drive.write("f", b"still ours")
        table()
        await locks.look()
        assert (await other.client.items.get("file", file_id)).lock is None
        assert kv_store.get(drive.db, kv_store.PROGRAM_LOCKS) == "[]"

    async def test_a_lock_of_somebody_is_left_alone(
        self, drive: Drive, other: Remote, ben: Remote, shared: items.File, table: Callable[..., None]
    ):
        mine = await other.file("mine", b"x")
        await other.client.locks.lock(mine)
        await ben.client.locks.lock(shared.id)
        await drive.poll()
        await becomes(drive, "s/f", "-r--r--r--")
        await drive.names()
        table(*[drive.node(await drive.ino(path)).number or 0 for path in ("mine", "s/f")])
        for _ in range(2):
            await drive.agents.program_locks.look()
        table()
        await drive.agents.program_locks.look()
        assert (await other.client.items.get("file", mine)).lock is not None
        lock = (await ben.client.items.get("file", shared.id)).lock
        assert lock is not None
        assert lock.created_by is not None
        assert lock.created_by.name == "Ben Tester"

    async def test_what_nobody_holds_after_a_crash_is_unlocked(
        self, drive: Drive, other: Remote, nursery: trio.Nursery, table: Callable[..., None]
    ):
        file_id = await other.file("f", b"x")
        await drive.names()
        await other.client.locks.lock(file_id)
        text = json.dumps([file_id])
        await drive.db.write(lambda conn: kv_store.put(conn, kv_store.PROGRAM_LOCKS, text))
        nursery.start_soon(drive.agents.program_locks.run)
        with trio.fail_after(60):
            while (await other.client.items.get("file", file_id)).lock is not None:
                await trio.lowlevel.checkpoint()
