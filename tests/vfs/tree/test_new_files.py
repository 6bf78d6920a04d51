"""What a killed process leaves of a new file: all of it once it was closed; perhaps nothing before that."""

import contextlib
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs.journal.draft import ROW_BYTES
from cmsfs.replica.nodes import ROOT
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive


def left(drive: Drive) -> dict[str, tuple[int, int, int]]:
    """Size, mode and time of each file that a process that is killed now leaves."""
    sql = "SELECT name, size, mode, mtime_ns FROM node WHERE parent = ? AND kind = 'file'"
    with contextlib.closing(sqlite3.connect(drive.db.path)) as conn:
        return {name: (size, mode, mtime) for name, size, mode, mtime in conn.execute(sql, (ROOT,))}


async def test_a_new_file_costs_one_commit(drive: Drive) -> None:
    opened, made = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"some")
    await drive.fs.setattr(made.ino, SetAttr(mtime_ns=5, atime_ns=5), opened.fh)
    await drive.fs.setattr(made.ino, SetAttr(mode=0o600), opened.fh)
    assert drive.names() == ["f"]
    assert drive.ops() == [("upload", "/f")]
    assert left(drive) == {}
    await drive.fs.flush(opened.fh)
    assert left(drive) == {"f": (4, 0o600, 5)}
    await drive.fs.setattr(made.ino, SetAttr(mode=0o640))
    assert left(drive) == {"f": (4, 0o640, 5)}


@pytest.mark.parametrize("how", ["flush", "release", "fsync", "fsyncdir", "rename"])
async def test_an_empty_file_is_there_when_it_is_closed(drive: Drive, how: str) -> None:
    opened, _ = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    assert left(drive) == {}
    match how:
        case "flush" | "release" | "fsync":
            await getattr(drive.fs, how)(opened.fh)
        case "fsyncdir":
            await drive.fs.fsyncdir(await drive.fs.opendir(ROOT))
        case "rename":
            await drive.fs.rename(ROOT, "f", ROOT, "g", 0)
    assert list(left(drive)) == ["g" if how == "rename" else "f"]


async def test_a_file_that_is_made_for_reading_is_there_when_it_is_closed(drive: Drive) -> None:
    opened, _ = await drive.fs.create(ROOT, "f", 0o644, os.O_RDONLY)
    await drive.fs.flush(opened.fh)
    assert list(left(drive)) == ["f"]


async def test_attributes_of_other_files_are_set_at_once(drive: Drive) -> None:
    old = await drive.write_file("old", b"")
    await drive.fs.create(ROOT, "new", 0o644, os.O_WRONLY)
    await drive.fs.setattr(old, SetAttr(mode=0o600))
    assert left(drive)["old"][1] == 0o600


async def test_the_number_of_a_draft_with_a_file_is_not_given_again(drive: Drive) -> None:
    opened, made = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, bytes(ROW_BYTES))
    assert not drive.draft_of(made.ino).path.exists()
    assert left(drive) == {}
    await drive.fs.write(opened.fh, ROW_BYTES, b"x")
    assert drive.draft_of(made.ino).path.exists()
    assert list(left(drive)) == ["f"]


@contextlib.contextmanager
def full_log(drive: Drive) -> Iterator[None]:
    """Inside, no commit fits into the log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{drive.db.path}-wal").stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("data", [b"", b"some"])
async def test_a_new_file_outlives_a_commit_that_fails(drive: Drive, data: bytes) -> None:
    """Whoever made that commit is told; the file's own program only if it is its close."""
    opened, made = await drive.fs.create(ROOT, "f", 0o644, os.O_WRONLY)
    if data:
        await drive.fs.write(opened.fh, 0, data)
    await drive.fs.setattr(made.ino, SetAttr(mode=0o600), opened.fh)
    with full_log(drive):
        with pytest.raises(sqlite3.OperationalError):
            await drive.db.query(lambda conn: None)
        with pytest.raises(sqlite3.OperationalError):
            await drive.fs.flush(opened.fh)
    assert drive.names() == ["f"]
    assert left(drive) == {}
    _, other = await drive.fs.create(ROOT, "g", 0o644, os.O_WRONLY)
    assert other.ino != made.ino
    await drive.fs.flush(opened.fh)
    assert left(drive)["f"][:2] == (len(data), 0o600)
    assert drive.draft_of(made.ino).size == len(data)
    assert await drive.read_file("f") == data
