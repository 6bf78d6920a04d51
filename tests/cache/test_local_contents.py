"""Contents that the service does not have yet."""

import errno
import os
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs import errors, sqlite
from cmsfs.cache import content_files, content_table
from cmsfs.cache.blocks import BLOCK
from cmsfs.cache.local_contents import LocalFile
from tests.cache.conftest import Cache, MakeSample, OpenCache, recording, started


def refuse(_: sqlite.Connection) -> None:
    raise OSError(errno.ENOSPC, "the disk is full")


async def uploaded(cache: Cache, db: sqlite.Database, sha1: str) -> None:
    await db.write(lambda conn: content_table.mark_clean(conn, sha1))
    await cache.settle_clean(sha1)


async def test_uploaded_local_content_becomes_cache(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(BLOCK + 3)
    await cache.adopt(db, content, tmp_path / "draft")
    assert cache.path(content.sha1) == folders[1] / content.sha1
    assert await cache.get(content) == content.data
    assert cache.usage() == 0
    await uploaded(cache, db, content.sha1)
    assert cache.path(content.sha1) == folders[0] / content.sha1[:2] / content.sha1
    assert list(folders[1].iterdir()) == []
    assert await cache.get(content) == content.data
    assert cache.usage() == content.size


async def test_name_of_local_content_is_durable_before_its_row(
    cache: Cache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit or checkpoint of others may bring the row to the disk at any moment."""
    durable: set[str] = set()
    fsync = os.fsync

    def watched(fd: int) -> None:
        fsync(fd)
        if Path(f"/proc/self/fd/{fd}").readlink() == folders[1].resolve():
            durable.update(path.name for path in folders[1].iterdir())

    monkeypatch.setattr(os, "fsync", watched)
    content = sample(BLOCK + 3)
    (tmp_path / "draft").write_bytes(content.data)

    def record(conn: sqlite.Connection) -> None:
        assert durable == {content.sha1}
        recording(content)(conn)

    await cache.adopt_dirty([LocalFile(content.sha1, content.size, tmp_path / "draft")], record)
    assert durable == {content.sha1}


async def test_rewritten_cached_content_is_protected(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    whole, part = sample(BLOCK), sample(3 * BLOCK)
    await cache.put(whole)
    await cache.put(part, 1)
    for content in (whole, part):
        await cache.adopt(db, content, tmp_path / "draft")
        assert cache.absent(content) == []
        assert await cache.get(content) == content.data
    await cache.flush()
    assert cache.usage() == 0
    assert [path for path in folders[0].rglob("*") if path.is_file()] == []
    found = db.rows("SELECT dirty, bitmap FROM content")
    assert [tuple(row) for row in found] == [(1, None), (1, None)]


async def test_content_adopted_twice_settles_once(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    content = sample(100)
    await cache.adopt(db, content, tmp_path / "one")
    await cache.adopt(db, content, tmp_path / "two")
    await uploaded(cache, db, content.sha1)
    assert await cache.get(content) == content.data


async def test_resaved_content_stays_protected_after_upload(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(100)
    await cache.adopt(db, content, tmp_path / "one")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    await cache.adopt(db, content, tmp_path / "two")
    await cache.settle_clean(content.sha1)
    assert cache.path(content.sha1) == folders[1] / content.sha1


async def test_adoption_during_settling_keeps_draft(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(100)
    await cache.adopt(db, content, tmp_path / "one")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    (tmp_path / "two").write_bytes(content.data)
    busy = threading.Event()
    local = LocalFile(content.sha1, content.size, tmp_path / "two")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write, lambda conn: busy.wait(10))
        await trio.testing.wait_all_tasks_blocked()
        # Its row has to wait.
        nursery.start_soon(cache.adopt_dirty, [local], recording(content))
        while not (tmp_path / "two").stat().st_nlink > 1:
            await trio.lowlevel.checkpoint()
        await trio.testing.wait_all_tasks_blocked()
        await cache.settle_clean(content.sha1)
        await cache.drop_clean(content.sha1)
        busy.set()
    assert cache.path(content.sha1) == folders[1] / content.sha1
    assert await cache.get(content) == content.data


async def test_earlier_drop_keeps_local_content_row(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(100)
    with pytest.raises(errors.IntegrityError):
        await cache.write_blocks(content.sha1, content.size, 0, bytes(100))
    await cache.adopt(db, content, tmp_path / "draft")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    await cache.flush()
    await cache.settle_clean(content.sha1)
    assert cache.path(content.sha1) == folders[0] / content.sha1[:2] / content.sha1


async def test_the_cache_never_ends_being_dirty(db: sqlite.Database, sample: MakeSample) -> None:
    content = sample(100)
    stale = content_table.ContentRow(
        content.sha1, 100, b"\0", verified=False, dirty=False, pinned=False, used_at=1
    )

    def txn(conn: sqlite.Connection) -> None:
        content_table.record_dirty(conn, content.sha1, content.size)
        content_table.save(conn, [stale])
        content_table.remove(conn, [content.sha1])

    await db.write(txn)
    found = content_table.find(db, content.sha1)
    assert found is not None
    assert (found.bits, found.verified, found.dirty) == (None, True, True)


async def test_adopting_may_be_repeated(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    content = sample(100)
    (tmp_path / "draft").write_bytes(content.data)
    for _ in range(2):
        local = LocalFile(content.sha1, content.size, tmp_path / "draft")
        await cache.adopt_dirty([local], recording(content))
    assert await cache.get(content) == content.data


async def test_a_file_of_another_size_is_not_adopted(
    cache: Cache, sample: MakeSample, tmp_path: Path
) -> None:
    content = sample(100)
    (tmp_path / "draft").write_bytes(content.data[:-1])
    with pytest.raises(ValueError, match="99 bytes"):
        await cache.adopt_dirty(
            [LocalFile(content.sha1, content.size, tmp_path / "draft")], recording(content)
        )
    assert (tmp_path / "draft").exists()


async def test_failed_transaction_drops_only_its_content(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(100)
    (tmp_path / "draft").write_bytes(content.data)
    local = LocalFile(content.sha1, content.size, tmp_path / "draft")
    with pytest.raises(OSError, match="full"):
        await cache.adopt_dirty([local], refuse)
    assert cache.absent(content) == [(0, 0)]
    assert not (folders[1] / content.sha1).exists()
    assert (tmp_path / "draft").read_bytes() == content.data

    await cache.adopt(db, content, tmp_path / "other")
    with pytest.raises(OSError, match="full"):
        await cache.adopt_dirty([local], refuse)
    with (tmp_path / "draft").open("r+b") as draft:
        draft.write(b"written again")
    assert await cache.get(content) == content.data


async def test_failed_transaction_spares_another_file_of_these_bytes(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    """Two files of equal bytes become content at once, and the transaction of one of them is refused."""
    content = sample(100)
    files = [LocalFile(content.sha1, content.size, tmp_path / name) for name in ("one", "two")]
    for file in files:
        file.path.write_bytes(content.data)
    busy = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(db.write, lambda conn: busy.wait(10))
        await trio.testing.wait_all_tasks_blocked()

        async def refused() -> None:
            with pytest.raises(OSError, match="full"):
                await cache.adopt_dirty(files[:1], refuse)

        async def recorded() -> None:
            await cache.adopt_dirty(files[1:], recording(content))

        for file, adopt in zip(files, (refused, recorded), strict=True):
            nursery.start_soon(adopt)
            while file.path.stat().st_nlink < 2:
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
        busy.set()
    assert (folders[1] / content.sha1).read_bytes() == content.data
    assert await cache.get(content) == content.data


async def test_damaged_only_copy_is_never_removed(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    cut, gone = sample(2 * BLOCK), sample(100)
    async with started(open_cache()) as first:
        for content in (cut, gone):
            await first.adopt(db, content, tmp_path / "draft")
    async with started(open_cache()) as cache:
        os.truncate(folders[1] / cut.sha1, 5)
        (folders[1] / gone.sha1).unlink()
        for content in (cut, gone):
            with pytest.raises(OSError) as caught:
                await cache.get(content)
            assert caught.value.errno == errno.EIO
        assert (folders[1] / cut.sha1).exists()
        assert cache.path(gone.sha1) is None


async def test_flipped_bit_is_reported_after_power_cut(
    open_cache: OpenCache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
    expect_log: object,
) -> None:
    assert callable(expect_log)
    expect_log("is corrupt and was never uploaded")
    content = sample(100)
    async with started(open_cache()) as first:
        await first.adopt(db, content, tmp_path / "draft")
    (folders[1] / content.sha1).write_bytes(bytes(100))
    cache = open_cache()
    await cache.recover(clean_shutdown=False, same_boot=False)
    with pytest.raises(errors.IntegrityError):
        await cache.get(content)
    await cache.verify_all()
    assert (folders[1] / content.sha1).exists()
    await cache.aclose()


async def test_adopted_content_without_row_is_kept(cache: Cache, sample: MakeSample, tmp_path: Path) -> None:
    cache._contents._max_live = 4
    content = sample(100)
    (tmp_path / "draft").write_bytes(content.data)
    await cache.adopt_unrecorded(content, tmp_path / "draft")
    for _ in range(20):
        await cache.put(sample(10))
    assert await cache.get(content) == content.data


async def test_an_empty_local_file_goes_the_same_way(
    cache: Cache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    empty = sample(0)
    await cache.adopt(db, empty, tmp_path / "draft")
    assert cache.path(empty.sha1) is not None
    await uploaded(cache, db, empty.sha1)
    assert await cache.get(empty) == b""
    assert not content_files.is_left_over(empty.sha1)


@pytest.mark.parametrize("is_known", [False, True], ids=["no row", "a row"])
async def test_what_nobody_needs_when_it_would_be_held_stays_evictable(
    cache: Cache, sample: MakeSample, folders: tuple[Path, Path], is_known: bool
) -> None:
    content = sample(3)
    await cache.put(content)
    if is_known:
        await cache.flush()
    assert not await cache.hold(content.sha1, is_wanted=lambda conn, sha1: False)
    assert list(folders[1].iterdir()) == []
    assert await cache.get(content) == content.data
    assert cache.evict(content.sha1) is not None


async def test_what_is_held_stays_evictable_where_the_disk_is_full(
    cache: Cache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    content = sample(3)
    await cache.put(content)
    with pytest.raises(OSError, match="full"):
        await cache.hold(content.sha1, is_wanted=lambda conn, sha1: refuse(conn))
    assert list(folders[1].iterdir()) == []
    assert await cache.get(content) == content.data
