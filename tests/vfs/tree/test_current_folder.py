"""What is remembered of the folder in which programs change things, and of the file, is what its row says."""

import os
import threading
from collections import Counter
from collections.abc import Callable
from sqlite3 import Connection

import pytest
import trio
import trio.testing

from cmsfs.replica import numbers, tree
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.tree.renaming import EXCHANGE
from tests.support.log_watch import ExpectLog
from tests.vfs.conftest import Drive


def check(drive: Drive, *folders: Ino) -> None:
    for folder in folders:
        # The second time it is remembered in any case.
        for _ in range(2):
            shown, row = drive.fs.getattr(folder), tree.find(drive.db, folder)
            assert row is not None
            assert (shown.mtime_ns, shown.ctime_ns, shown.mode & 0o777) == (
                row.mtime_ns,
                row.ctime_ns,
                row.mode,
            )


async def test_folder_has_the_times_of_its_row_after_every_call(drive: Drive) -> None:
    fs = drive.fs
    folder, other = (await fs.mkdir(ROOT, "d", 0o755)).ino, (await fs.mkdir(ROOT, "e", 0o755)).ino
    check(drive, folder)
    opened, made = await fs.create(folder, "f", 0o644, os.O_WRONLY)
    check(drive, folder)
    await fs.write(opened.fh, 0, b"some")
    await fs.flush(opened.fh)
    check(drive, folder)
    await fs.setattr(made.ino, SetAttr(mtime_ns=5))
    check(drive, folder)
    await fs.release(opened.fh)
    await fs.rename(folder, "f", folder, "g", 0)
    check(drive, folder)
    await fs.rename(folder, "g", other, "h", 0)
    check(drive, folder, other)
    await fs.rename(other, "h", folder, "i", 0)
    check(drive, folder, other)
    await drive.write_file("j", b"more", parent=folder)
    await fs.rename(folder, "j", folder, "i", 0)
    check(drive, folder)
    await drive.write_file("k", b"more", parent=folder)
    await fs.rename(folder, "k", folder, "i", EXCHANGE)
    check(drive, folder)
    await fs.unlink(folder, "k")
    check(drive, folder)
    await fs.symlink(folder, "l", b"i")
    check(drive, folder)
    await fs.mkdir(folder, "m", 0o755)
    check(drive, folder)
    await fs.rmdir(folder, "m")
    check(drive, folder)
    await fs.setattr(folder, SetAttr(mode=0o700, mtime_ns=7))
    check(drive, folder)
    await drive.write_file("n", b"more", parent=folder)
    check(drive, folder)


async def test_what_others_change_of_the_folder_shows(drive: Drive) -> None:
    folder = await drive.remote_folder(5, "d")
    await drive.write_file("f", b"some", parent=folder)
    check(drive, folder)
    await drive.db.write(lambda conn: tree.touch(conn, folder, 9))
    check(drive, folder)
    await drive.db.write_short(lambda conn: tree.touch(conn, folder, 10))
    check(drive, folder)
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, folder))
    with pytest.raises(FileNotFoundError):
        await drive.fs.lookup(folder, "g")
    assert drive.shelf.listed == [folder]


async def test_folder_that_is_removed_while_it_is_remembered_takes_no_file(drive: Drive) -> None:
    folder = await drive.remote_folder(5, "d")
    await drive.write_file("f", b"some", parent=folder)
    check(drive, folder)
    await drive.fs.unlink(folder, "f")
    await drive.fs.rmdir(ROOT, "d")
    with pytest.raises(FileNotFoundError):
        await drive.fs.create(folder, "g", 0o644, os.O_WRONLY)


async def test_folder_is_read_once_for_many_new_files(drive: Drive, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = await drive.remote_folder(5, "d")
    reads, find = Counter[Ino](), tree.find
    monkeypatch.setattr(tree, "find", lambda db, ino: (reads.update([ino]), find(db, ino))[1])
    for number in range(20):
        await drive.write_file(f"f{number}", b"some", parent=folder)
        drive.fs.getattr(folder)
        await drive.fs.rename(folder, f"f{number}", folder, f"g{number}", 0)
        drive.fs.getattr(folder)
        await drive.fs.unlink(folder, f"g{number}")
        drive.fs.getattr(folder)
    assert reads[folder] <= 2


async def check_file(drive: Drive, ino: Ino) -> None:
    shown = drive.fs.getattr(ino)
    await drive.db.write_short(lambda conn: None)  # nothing is remembered any more
    assert drive.fs.getattr(ino) == shown


async def test_file_has_the_attributes_of_its_row_after_every_call(drive: Drive) -> None:
    fs = drive.fs
    opened, made = await fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    await check_file(drive, made.ino)
    await fs.write(opened.fh, 0, b"some")
    shown = await fs.setattr(made.ino, SetAttr(atime_ns=4, mtime_ns=5), opened.fh)
    assert (shown.atime_ns, shown.mtime_ns, shown.size) == (4, 5, 4)
    shown = await fs.setattr(made.ino, SetAttr(mode=0o600), opened.fh)
    assert (shown.atime_ns, shown.mtime_ns, shown.mode & 0o777) == (4, 5, 0o600)
    await check_file(drive, made.ino)
    shown = await fs.setattr(made.ino, SetAttr(size=2), opened.fh)
    assert shown.size == 2
    await check_file(drive, made.ino)
    await fs.flush(opened.fh)
    await check_file(drive, made.ino)
    await fs.release(opened.fh)
    await drive.seal(made.ino)
    await check_file(drive, made.ino)
    await fs.setattr(made.ino, SetAttr(mtime_ns=7))
    assert drive.fs.getattr(made.ino).mtime_ns == 7
    await check_file(drive, made.ino)
    await fs.rename(ROOT, "f", ROOT, "g", 0)
    await check_file(drive, made.ino)


async def test_what_others_change_of_the_file_shows(drive: Drive) -> None:
    ino = await drive.remote_file(5, "f", b"some")
    assert (await drive.fs.lookup(ROOT, "f")).size == 4
    await drive.remote_file(5, "f", b"some more")
    assert drive.fs.getattr(ino).size == 9
    await drive.fs.setattr(ino, SetAttr(mode=0o600))
    await drive.remote_file(5, "f", b"less")
    shown = await drive.fs.setattr(ino, SetAttr(mode=0o640))
    assert (shown.size, shown.mode & 0o777) == (4, 0o640)


async def test_name_that_was_not_there_is_found_once_it_is(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log("names are case-insensitive")

    async def is_there(name: str) -> bool:
        try:
            await drive.fs.lookup(ROOT, name)
        except FileNotFoundError:
            return False
        return True

    assert not await is_there("f")
    assert not await is_there("f")
    await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    assert await is_there("f")
    with pytest.raises(FileExistsError):
        await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    assert not await is_there("g")
    await drive.remote_file(5, "G", b"some")
    with pytest.raises(FileExistsError):
        await drive.fs.mkdir(ROOT, "g", 0o755)
    assert not await is_there("h")
    await drive.remote_file(6, "h", b"some")
    await drive.fs.rename(ROOT, "f", ROOT, "h", 0)
    assert drive.names() == ["G", "h"]
    assert not await is_there("g")  # a name in another case, which is no free one


async def before(
    drive: Drive, change: Callable[[Connection], object], call: Callable[[], object]
) -> BaseException | None:
    """Have a program's call wait for a transaction of others that is just running; return what it raises."""
    is_running, may_end = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    def txn(conn: Connection) -> None:
        is_running.set()
        assert may_end.wait(10)
        change(conn)

    async def run_call() -> None:
        try:
            await call()  # type: ignore[misc]
        except OSError as error:
            raised.append(error)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.db.write, txn)
        await trio.to_thread.run_sync(is_running.wait, 10)
        nursery.start_soon(run_call)
        await trio.testing.wait_all_tasks_blocked()
        may_end.set()
    return raised[0] if raised else None


async def test_name_that_appears_while_a_call_waits_is_not_made_again(drive: Drive) -> None:
    with pytest.raises(FileNotFoundError):
        await drive.fs.lookup(ROOT, "f")
    raised = await before(
        drive,
        lambda conn: tree.insert(conn, ROOT, "f", NodeKind.FOLDER, now_ns=1),
        lambda: drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY),
    )
    assert isinstance(raised, FileExistsError)


async def test_number_of_a_new_file_is_of_the_place_that_its_folder_has_by_then(drive: Drive) -> None:
    above = await drive.remote_folder(5, "a")
    folder = await drive.remote_folder(6, "b", parent=5)
    await drive.write_file("f", b"some", parent=folder)
    assert (await drive.fs.lookup(folder, "f")).number == numbers.of_place("a/b", "f")
    await drive.fs.rename(ROOT, "a", ROOT, "c", 0)
    await drive.write_file("g", b"some", parent=folder)
    assert (await drive.fs.lookup(folder, "g")).number == numbers.of_place("c/b", "g")
    drive.fs.getattr(folder)
    raised = await before(
        drive,
        lambda conn: tree.place(conn, above, ROOT, "d"),
        lambda: drive.fs.create(folder, "h", 0o644, os.O_WRONLY),
    )
    assert raised is None
    assert (await drive.fs.lookup(folder, "h")).number == numbers.of_place("d/b", "h")


async def test_time_of_a_file_that_is_removed_while_the_call_waits_is_not_sent(drive: Drive) -> None:
    ino = await drive.remote_file(5, "f", b"some")
    await drive.fs.lookup(ROOT, "f")
    raised = await before(
        drive,
        lambda conn: tree.detach(conn, ino),
        lambda: drive.fs.setattr(ino, SetAttr(mtime_ns=5)),
    )
    assert raised is None
    assert drive.ops() == []


async def test_a_new_file_is_read_once_until_it_is_closed(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the calls of `cp -a` and `tar`."""
    folder = await drive.remote_folder(5, "d")
    await drive.write_file("f", b"some", parent=folder)
    reads = Counter[str]()
    for name in ("find", "find_clash", "child_at", "get", "path"):
        read = getattr(tree, name)
        monkeypatch.setattr(
            tree, name, lambda *of, name=name, read=read: (reads.update([name]), read(*of))[1]
        )
    for number in range(20):
        with pytest.raises(FileNotFoundError):
            await drive.fs.lookup(folder, f"f{number}")
        opened, made = await drive.fs.create(folder, f"f{number}", 0o644, os.O_WRONLY)
        await drive.fs.write(opened.fh, 0, b"some")
        await drive.fs.setattr(made.ino, SetAttr(mtime_ns=5, atime_ns=5), opened.fh)
        await drive.fs.setattr(made.ino, SetAttr(mode=0o600), opened.fh)
        await drive.fs.flush(opened.fh)
        await drive.fs.release(opened.fh)
    assert reads.pop("path", 0) <= 1
    # The name, and what the database has made of the new row.
    assert reads == {"find_clash": 20, "find": 20}
