"""Contents that have been uploaded, where drafts and cache are on different file systems."""

import errno
import itertools
import os
import shutil
import threading
from pathlib import Path

import pytest
import trio

from cmsfs import sqlite
from cmsfs.cache import content_table
from cmsfs.cache.blocks import BLOCK
from cmsfs.cache.local_contents import LocalFile
from tests.cache.conftest import Cache, MakeSample, recording


@pytest.fixture(autouse=True)
def other_file_system(folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have renames from the drafts to the cache fail as between file systems."""
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if folders[1] in path.parents and folders[0] in target.parents:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuse)


async def test_settling_to_another_file_system_copies(
    cache: Cache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
) -> None:
    content = sample(2 * BLOCK)
    await cache.adopt(db, content, tmp_path / "draft")
    assert await cache.get(content, 0, 5) == content.data[:5]

    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    await cache.settle_clean(content.sha1)
    assert cache.path(content.sha1) == folders[0] / content.sha1[:2] / content.sha1
    assert await cache.get(content) == content.data
    assert list(folders[1].iterdir()) == []
    assert cache.usage() == content.size


async def test_adoption_during_copy_keeps_draft(
    cache: Cache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = sample(100)
    await cache.adopt(db, content, tmp_path / "one")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    (tmp_path / "two").write_bytes(content.data)
    copyfile, copying, go_on = shutil.copyfile, threading.Event(), threading.Event()

    def slow(source: Path, target: Path) -> None:
        copyfile(source, target)
        copying.set()
        go_on.wait(10)

    monkeypatch.setattr(shutil, "copyfile", slow)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cache.settle_clean, content.sha1)
        await trio.to_thread.run_sync(copying.wait, 10)
        await cache.adopt_dirty([LocalFile(content.sha1, content.size, tmp_path / "two")], recording(content))
        go_on.set()
    assert cache.path(content.sha1) == folders[1] / content.sha1
    assert await cache.get(content) == content.data
    assert [path for path in folders[0].rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("is_early", [True, False])
async def test_content_is_copied_to_the_cache_by_two_callers(
    cache: Cache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_early: bool,
) -> None:
    """The second one copies it before the first has moved it, or comes too late for that."""
    content = sample(2 * BLOCK)
    await cache.adopt(db, content, tmp_path / "draft")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    copyfile, is_moved = shutil.copyfile, threading.Event()
    both, callers = threading.Barrier(2, timeout=10), itertools.count()

    def in_turn(source: Path, target: Path) -> None:
        is_first = next(callers) == 0
        both.wait()
        if is_first:
            copyfile(source, target)
            return
        if is_early:
            copyfile(source, target)
        is_moved.wait(10)
        if not is_early:
            copyfile(source, target)

    async def settle() -> None:
        await cache.settle_clean(content.sha1)
        is_moved.set()

    monkeypatch.setattr(shutil, "copyfile", in_turn)
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(settle)
    assert cache.usage() == content.size
    assert await cache.get(content) == content.data
    assert [path for folder in folders for path in folder.rglob("*") if path.is_file()] == [
        cache.path(content.sha1)
    ]
