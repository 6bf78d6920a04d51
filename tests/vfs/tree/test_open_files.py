"""Thousands of open files, and no more descriptors than there are."""

import errno
import gc
import hashlib
import os
import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from cmsfs import durability
from cmsfs.cache import content_table
from cmsfs.cache.local_contents import LocalFile
from cmsfs.journal.draft import ROW_BYTES, Draft
from tests.vfs.conftest import Drive

FILES = 300
ROOM = 80


@pytest.fixture
def few() -> Iterator[int]:
    """This process may have only some more files open than it has; how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + ROOM, hard))
    yield highest + ROOM
    durability.drop_spare()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def exhausted(few: int) -> Iterator[list[int]]:
    """Takes every descriptor that is left when it is called upon."""
    taken: list[int] = []
    yield taken
    for fd in taken:
        os.close(fd)


def take_all(taken: list[int]) -> None:
    with pytest.raises(OSError, match="Too many open files"):
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))


async def test_more_files_are_open_than_there_are_descriptors(drive: Drive, few: int) -> None:
    opened = []
    for number in range(FILES):
        handle, made = await drive.fs.create(1, f"f{number}", 0o644, os.O_RDWR)
        await drive.fs.write(handle.fh, 0, b"first %d" % number)
        opened.append((handle.fh, made.ino))
    for number, (fh, _) in enumerate(opened):
        assert await drive.fs.read(fh, 0, 100) == b"first %d" % number
        await drive.fs.write(fh, 3, b"***")
        await drive.fs.flush(fh)
    await drive.commit.commit()
    assert (
        sum(1 for _ in Path("/proc/self/fd").iterdir()) < few - ROOM // 4
    )  # what else needs some finds some
    for number, (fh, ino) in enumerate(opened):
        if number % 2:
            await drive.seal_open(ino)
        assert await drive.fs.read(fh, 0, 100) == b"fir***%d" % number
        await drive.fs.write(fh, 0, b"X")
        await drive.fs.release(fh)
        assert await drive.read_file(f"f{number}") == b"Xir***%d" % number


async def test_commit_is_durable_without_a_descriptor_left(drive: Drive, exhausted: list[int]) -> None:
    await drive.write_file("f", bytes(ROW_BYTES + 1))
    durability.keep_spare()
    drive.drafts.close()
    take_all(exhausted)
    synced: list[str] = []
    fsync = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().suffix)
        fsync(fd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", watch)
        await drive.commit.commit()
    assert synced == [".draft", "", ".db-wal"]
    # And the reserve is there again for the next time.
    os.close(exhausted.pop())
    durability.keep_spare()


async def test_sealing_is_durable_without_a_descriptor_left(
    drive: Drive, exhausted: list[int], tmp_path: Path
) -> None:
    data = b"precious"
    sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    (tmp_path / "sealed").write_bytes(data)
    durability.keep_spare()
    take_all(exhausted)
    local = LocalFile(sha1, len(data), tmp_path / "sealed")
    await drive.blocks.adopt_dirty([local], partial(content_table.record_dirty, sha1=sha1, size=len(data)))
    assert drive.blocks.path(sha1).read_bytes() == data
    os.close(exhausted.pop())
    durability.keep_spare()


async def test_draft_reader_follows_its_bytes(drive: Drive) -> None:
    """The draft becomes content, and its file is removed, while somebody reads it."""
    handle, made = await drive.fs.create(1, "f", 0o644, os.O_RDWR)
    await drive.fs.write(handle.fh, 0, b"precious")
    draft = drive.draft_of(made.ino)
    await drive.seal_open(made.ino)
    await drive.commit.commit()
    assert not draft.path.exists()
    with pytest.raises(FileNotFoundError):
        draft.read_held(0, 8)
    assert await drive.fs.read(handle.fh, 0, 100) == b"precious"
    assert not draft.path.exists()
    await drive.fs.release(handle.fh)


async def test_lost_bytes_are_an_error_and_not_zeros(drive: Drive) -> None:
    ino = await drive.write_file("f", b"precious" * 10_000)
    drive.drafts.close()
    drive.draft_of(ino).path.unlink()
    opened = await drive.fs.open(ino, os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as lost:
        await drive.fs.read(opened.fh, 0, 100)
    assert lost.value.errno == errno.EIO
    await drive.fs.release(opened.fh)


def test_descriptor_limit_is_raised() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, hard), hard))
        assert durability.pool_share() == min(512, hard) // 4
        assert durability.raise_open_file_limit() == min(hard, durability.ENOUGH)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_closed_file_takes_no_memory_and_its_pages_stay_cached(drive: Drive) -> None:
    ino = await drive.write_file("f", b"x" * 1000)
    await drive.commit.commit()
    gc.collect()
    assert not [one for one in gc.get_objects() if isinstance(one, Draft)]
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert opened.keep_cache
    await drive.fs.release(opened.fh)
    await drive.seal(ino)
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert opened.keep_cache
