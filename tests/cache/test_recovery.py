"""After a stop of any kind: rows and files agree again."""

import contextlib
import errno
import os
import sqlite3
from functools import partial
from pathlib import Path

import pytest

from cmsfs import errors, sqlite
from cmsfs.cache import content_files, content_table
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica import database
from cmsfs.replica.nodes import Content
from tests.cache.conftest import Cache, MakeSample, OpenCache, started
from tests.support.log_watch import ExpectLog


async def test_power_cut_drops_partial_contents(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    part, sound, flipped = sample(3 * BLOCK), sample(2 * BLOCK), sample(BLOCK)
    async with started(open_cache()) as first:
        await first.put(part, 1)
        await first.put(sound)
        await first.put(flipped)
    place = folders[0] / flipped.sha1[:2] / flipped.sha1
    place.write_bytes(bytes(BLOCK))
    cache = open_cache()
    found = await cache.recover(clean_shutdown=False, same_boot=False)
    assert found.dropped == [part.sha1]
    assert sorted(found.unverified) == sorted([sound.sha1, flipped.sha1])
    assert cache.path(sound.sha1) is None
    assert cache.absent(part) == [(0, 2)]
    assert await cache.get(sound) == sound.data
    assert cache.path(sound.sha1) is not None
    with pytest.raises(errors.MissingBlocks):
        await cache.get(flipped)
    await cache.verify_all()
    assert db.row("SELECT 1 FROM content WHERE verified = 0") is None
    assert cache.usage() == sound.size
    await cache.aclose()


async def test_background_check_drops_damaged_blocks(
    open_cache: OpenCache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    contents = [sample(1000 + n) for n in range(5)]
    async with started(open_cache()) as first:
        for content in contents:
            await first.put(content)
    (folders[0] / contents[2].sha1[:2] / contents[2].sha1).write_bytes(bytes(1002))
    cache = open_cache()
    await cache.recover(clean_shutdown=False, same_boot=False)
    await cache.verify_all()
    assert [cache.is_complete(content.sha1) for content in contents] == [True, True, False, True, True]
    assert await cache.complete_path(contents[2].sha1) is None
    await cache.aclose()


async def test_rows_without_files_and_files_without_rows_go(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    gone, cut, stray = sample(1000), sample(2000), sample(3000)
    async with started(open_cache()) as first:
        for content in (gone, cut, stray):
            await first.put(content)
    (folders[0] / gone.sha1[:2] / gone.sha1).unlink()
    os.truncate(folders[0] / cut.sha1[:2] / cut.sha1, 10)
    await db.write(lambda conn: conn.execute("DELETE FROM content WHERE sha1 = ?", (stray.sha1,)))
    (folders[0] / ".gone-1-1").write_bytes(b"x")
    (folders[0] / ".copy-1-1").write_bytes(b"x")
    async with started(open_cache()) as cache:
        assert cache.usage() == 0
        assert [path for path in folders[0].rglob("*") if path.is_file()] == []
        assert db.rows("SELECT 1 FROM content") == []


async def test_local_contents_are_searched_never_deleted(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    fine, moved, lost, cut = sample(10), sample(20), sample(30), sample(40)
    async with started(open_cache()) as first:
        for content in (fine, moved, lost, cut):
            await first.adopt(db, content, tmp_path / "draft")
    (folders[0] / moved.sha1[:2]).mkdir()
    (folders[1] / moved.sha1).rename(folders[0] / moved.sha1[:2] / moved.sha1)
    (folders[1] / lost.sha1).unlink()
    os.truncate(folders[1] / cut.sha1, 3)
    orphan = sample(50)
    (folders[1] / orphan.sha1).write_bytes(orphan.data)
    (folders[1] / "17").write_bytes(b"a draft of the journal's")
    cache = open_cache()
    found = await cache.recover(clean_shutdown=False, same_boot=True)
    assert (found.lost, found.damaged) == ([lost.sha1], [cut.sha1])
    assert found.orphans == [folders[1] / orphan.sha1]
    assert found.dropped == found.settled == found.unverified == []
    assert await cache.get(moved) == moved.data
    assert cache.path(moved.sha1) == folders[1] / moved.sha1
    assert {path.name for path in folders[1].iterdir()} == {
        fine.sha1, moved.sha1, cut.sha1, orphan.sha1, "17",
    }  # fmt: skip
    await cache.aclose()


async def test_interrupted_upload_settles_before_file_move(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(BLOCK + 1)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    await first.adopt(db, content, tmp_path / "draft")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    first.abandon()
    cache = open_cache()
    found = await cache.recover(clean_shutdown=False, same_boot=True)
    assert found.settled == [content.sha1]
    assert cache.path(content.sha1) == folders[0] / content.sha1[:2] / content.sha1
    assert await cache.get(content) == content.data
    assert cache.usage() == content.size
    cache.abandon()


async def test_unrecorded_file_belongs_to_cache(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content, never = sample(100), sample(200)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    for one in (content, never):
        await db.write(partial(content_table.expect, sha1=one.sha1, size=one.size))
    (tmp_path / "joined").write_bytes(content.data)
    await first.adopt_unrecorded(content, tmp_path / "joined")
    (tmp_path / "joined").unlink()  # as the start of the journal does
    first.abandon()
    cache = open_cache()
    found = await cache.recover(clean_shutdown=False, same_boot=True)
    assert (found.orphans, found.settled, found.lost) == ([], [content.sha1], [])
    assert list(folders[1].iterdir()) == []
    assert await cache.read(Content(content.sha1, content.size, None, None), 0, content.size) == content.data
    assert not cache.is_complete(never.sha1)


async def test_hard_linked_draft_stays_out_of_cache(
    open_cache: OpenCache, sample: MakeSample, tmp_path: Path, folders: tuple[Path, Path]
) -> None:
    content = sample(100)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    await first.put(content)
    draft = folders[1] / "17"
    draft.write_bytes(content.data)
    await first.adopt_unrecorded(content, draft)
    first.abandon()
    cache = open_cache()
    found = await cache.recover(clean_shutdown=False, same_boot=True)
    assert found.orphans == [folders[1] / content.sha1]
    assert found.settled == []
    found.orphans[0].unlink()
    draft.write_bytes(bytes(100))
    with pytest.raises(errors.MissingBlocks):
        await cache.get(content)
    cache.abandon()


async def test_a_pin_outlives_the_loss_of_the_bytes(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    waiting, lost = sample(BLOCK), sample(2 * BLOCK)
    async with started(open_cache()) as first:
        for content in (waiting, lost):
            await db.write(lambda conn, c=content: content_table.pin(conn, c.sha1, c.size))  # type: ignore[misc]
        await first.put(lost)
    (folders[0] / lost.sha1[:2] / lost.sha1).unlink()
    async with started(open_cache()) as cache:
        assert cache.absent(waiting) == [(0, 0)]
        assert cache.absent(lost) == [(0, 1)]
        assert db.rows(
            "SELECT 1 FROM content WHERE pinned = 1 AND bitmap IS NOT NULL AND verified = 0 LIMIT 3"
        )
        await cache.put(lost)
    found = db.rows("SELECT sha1, pinned, verified FROM content ORDER BY size")
    assert [tuple(row) for row in found] == [(waiting.sha1, 1, 0), (lost.sha1, 1, 1)]


async def test_closed_cache_reopens_unchanged(open_cache: OpenCache, sample: MakeSample) -> None:
    contents = [sample(size) for size in (1, BLOCK, 4 * BLOCK, 5 * BLOCK)]
    async with started(open_cache()) as first:
        for content in contents[:-1]:
            await first.put(content)
        await first.put(contents[-1], 0, 4)
    cache: Cache = open_cache()
    found = await cache.recover(clean_shutdown=True, same_boot=False)
    assert (found.dropped, found.unverified) == ([], [])
    for content in contents[:-1]:
        assert await cache.get(content) == content.data
    assert cache.absent(contents[-1]) == [(1, 3)]
    cache.abandon()


@pytest.mark.parametrize("flushed", [False, True], ids=["no row", "a row of the first block"])
async def test_base_of_a_draft_is_found_without_its_row(
    open_cache: OpenCache, sample: MakeSample, flushed: bool
) -> None:
    """Killed before the cache's next flush; the service may have that content no more."""
    base, other, torn = sample(3 * BLOCK), sample(200), sample(2 * BLOCK)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    for one in (base, torn):
        first.open(one.sha1, one.size)
        await first.put(one, 0)
    if flushed:
        await first.flush()
    await first.put(base, 1, 2)
    await first.put(other)
    first.abandon()
    cache = open_cache()
    bases = {base.sha1: base.size, torn.sha1: torn.size, sample(50).sha1: 50}
    await cache.recover(bases, clean_shutdown=False, same_boot=True)
    assert await cache.get(base) == base.data
    assert not cache.is_complete(torn.sha1)
    assert not cache.is_complete(other.sha1)
    assert cache.usage() == base.size + (BLOCK if flushed else 0)
    cache.abandon()


async def test_unreadable_base_of_a_draft_is_missing_and_no_error(
    open_cache: OpenCache, sample: MakeSample, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    """A bad block on the disk: the drive starts, and downloads the base again."""
    base = sample(2 * BLOCK)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    first.open(base.sha1, base.size)
    await first.put(base, 0, 1)
    first.abandon()

    def unreadable(*_: object) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    cache = open_cache()
    expect_log("a cached content cannot be read from the disk")
    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", unreadable)
        await cache.recover({base.sha1: base.size}, clean_shutdown=False, same_boot=True)
    assert not cache.is_complete(base.sha1)
    cache.abandon()


async def test_an_older_format_keeps_whole_contents_and_drops_parts(
    tmp_path: Path, folders: tuple[Path, Path], sample: MakeSample
) -> None:
    whole, part, pinned, unsent = sample(9 * BLOCK), sample(9 * BLOCK + 1), sample(70 * BLOCK), sample(100)

    def opened(db: sqlite.Database) -> Cache:
        return Cache(db, *folders, limit_bytes=1024**3, keep_free_bytes=0)

    def age(conn: sqlite.Connection) -> None:
        """As it was when a bit was a block of 128 KiB: the first of each is here."""
        for one in (part, pinned):
            bits = b"\x01" + bytes((one.size - 1) // (8 * 128 * 1024))
            conn.execute("UPDATE content SET bitmap = ? WHERE sha1 = ?", (bits, one.sha1))

    path = tmp_path / "old.db"
    async with database.open_replica(path) as db:
        async with started(opened(db)) as first:
            for one in (part, pinned):
                await first.put(one, 0, 1, 2, 3)
            await first.put(whole)
            await first.adopt(db, unsent, tmp_path / "f")
        await db.write(lambda conn: content_table.pin(conn, pinned.sha1, pinned.size))
        await db.write(age)
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.executescript("""
            DROP INDEX node_number;
            ALTER TABLE node DROP COLUMN number;
            DROP TABLE deleted;
            PRAGMA user_version = 8;
        """)
    async with database.open_replica(path) as db, started(opened(db)) as cache:
        assert await cache.get(whole) == whole.data
        assert await cache.get(unsent) == unsent.data
        # What a bit meant has changed: nothing may be read that never came.
        for one in (part, pinned):
            assert cache.absent(one) == [(0, one.blocks - 1)]
            assert not cache.place(one.sha1, dirty=False).exists()
        assert cache.usage() == whole.size
        assert db.row("SELECT 1 FROM content WHERE pinned AND sha1 = ?", pinned.sha1) is not None
        await cache.put(pinned)
        assert await cache.get(pinned) == pinned.data


@pytest.mark.parametrize("is_prepared", [False, True])
async def test_file_begun_anew_after_damage_is_not_taken_for_the_former_one(
    open_cache: OpenCache,
    sample: MakeSample,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_prepared: bool,
) -> None:
    """The process is killed after the file was made and before its bytes are in it."""
    content = sample(2 * BLOCK)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    await first.put(content)
    await first.flush()
    os.truncate(folders[0] / content.sha1[:2] / content.sha1, 5)
    with pytest.raises(errors.MissingBlocks):
        await first.get(content)
    if is_prepared:
        first.prepare(content.sha1, content.size)
    else:

        def fail(*_: object) -> str:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        with monkeypatch.context() as patched:
            patched.setattr(content_files, "write", fail)
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                await first.put(content, 0)
    first.abandon()
    cache = open_cache()
    await cache.recover(clean_shutdown=False, same_boot=True)
    with pytest.raises(errors.MissingBlocks):
        await cache.get(content)
    await cache.aclose()


async def test_flush_that_fails_still_disowns_a_file_that_was_dropped(
    open_cache: OpenCache,
    db: sqlite.Database,
    sample: MakeSample,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = sample(2 * BLOCK)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    await first.put(content)
    await first.flush()
    os.truncate(folders[0] / content.sha1[:2] / content.sha1, 5)
    with pytest.raises(errors.MissingBlocks):
        await first.get(content)

    async def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(db, "write", full)
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
            await first.put(content, 0)
    first.prepare(content.sha1, content.size)
    first.abandon()
    cache = open_cache()
    await cache.recover(clean_shutdown=False, same_boot=True)
    with pytest.raises(errors.MissingBlocks):
        await cache.get(content)
    await cache.aclose()
