"""What is remembered of the folder in which programs change things is what its row says."""

import os
from collections import Counter

import pytest

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.tree.attributes import SetAttr
from cmsfs.vfs.tree.renaming import EXCHANGE
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
