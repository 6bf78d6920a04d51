"""Making room."""

import errno
import os
import sqlite3
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs import sqlite
from cmsfs.cache import content_table, eviction
from cmsfs.cache.blocks import BLOCK
from tests.cache.conftest import Cache, MakeSample, OpenCache, Sample, started


def _execute(conn: sqlite3.Connection, *, sql: str, values: tuple[object, ...]) -> None:
    conn.execute(sql, values)


class Clock:
    """Time that goes on by a minute with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 60
        return self.now


@given(*[st.integers(0, 10**9)] * 5)
def test_a_goal_reached_leaves_limit_and_floor_kept(
    used: int, limit: int, free: int, keep_free: int, nbytes: int
) -> None:
    goal = eviction.goal(used=used, limit=limit, free=free, keep_free=keep_free, nbytes=nbytes)
    freed = 0
    if goal is not None:
        assert 0 < goal.needed <= goal.wanted
        freed = goal.needed
    assert used - freed + nbytes <= limit or used - freed < 0
    assert free + freed - nbytes >= keep_free


async def fill(cache: Cache, sample: MakeSample, count: int) -> list[Sample]:
    contents = [sample(BLOCK) for _ in range(count)]
    for content in contents:
        await cache.put(content)
    return contents


def here(cache: Cache, contents: list[Sample]) -> list[bool]:
    return [cache.is_complete(content.sha1) for content in contents]


async def test_lru_eviction_stops_at_low_mark(
    open_cache: OpenCache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    async with started(open_cache(limit_bytes=20 * BLOCK, clock=Clock())) as cache:
        contents = await fill(cache, sample, 20)
        await cache.make_room(0)
        assert all(here(cache, contents))
        await cache.get(contents[0])
        await cache.make_room(BLOCK)
        assert here(cache, contents) == [True, False, False, False] + [True] * 16
        assert cache.usage() == 17 * BLOCK
        assert len([path for path in folders[0].rglob("*") if path.is_file()]) == 17


async def test_open_pinned_and_dirty_contents_stay(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    async with started(open_cache(limit_bytes=4 * BLOCK, clock=Clock())) as cache:
        opened, pinned, dirty = sample(BLOCK), sample(2 * BLOCK), sample(BLOCK)
        cache.open(opened.sha1, opened.size)
        await db.write(lambda conn: content_table.pin(conn, pinned.sha1, pinned.size))
        await cache.adopt(db, dirty, tmp_path / "draft")
        for content in (opened, pinned):
            await cache.put(content)
        rest = await fill(cache, sample, 4)
        await cache.make_room(8 * BLOCK)
        assert here(cache, [opened, pinned, dirty]) == [True] * 3
        assert here(cache, rest) == [False] * 4
        assert await cache.get(dirty) == dirty.data

        cache.close(opened.sha1)
        await db.write(lambda conn: content_table.unpin(conn, pinned.sha1))
        await cache.make_room(8 * BLOCK)
        assert here(cache, [opened, pinned, dirty]) == [False, False, True]


async def test_single_content_is_evicted_unless_needed(
    open_cache: OpenCache,
    db: sqlite.Database,
    sample: MakeSample,
    folders: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    async with started(open_cache()) as cache:
        opened, pinned, dirty, plain, half = (sample(3 * BLOCK) for _ in range(5))
        cache.open(opened.sha1, opened.size)
        await db.write(lambda conn: content_table.pin(conn, pinned.sha1, pinned.size))
        await cache.adopt(db, dirty, tmp_path / "draft")
        for content in (opened, pinned, plain):
            await cache.put(content)
        await cache.put(half, 1)
        stay = [opened, pinned, dirty]
        assert [cache.evict(content.sha1) for content in stay] == [None] * 3
        # Marked clean, but its file is still with the drafts.
        await db.write(lambda conn: content_table.mark_clean(conn, dirty.sha1))
        assert cache.evict(dirty.sha1) is None
        assert [cache.evict(content.sha1) for content in (plain, half, plain)] == [3 * BLOCK, BLOCK, 0]
        assert cache.usage() == 6 * BLOCK
        await cache.flush()
        assert here(cache, [*stay, plain]) == [True, True, True, False]
        assert cache.absent(half) == [(0, 2)]
        assert await cache.get(dirty) == dirty.data
        assert len([path for path in folders[0].rglob("*") if path.is_file()]) == 2
        await cache.put(plain)
        assert await cache.get(plain) == plain.data
        cache.close(opened.sha1)
        assert cache.evict(opened.sha1) == 3 * BLOCK


async def test_pinned_contents_leave_room_for_others(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample
) -> None:
    async with started(open_cache(limit_bytes=4 * BLOCK)) as cache:
        pinned = sample(8 * BLOCK)
        await db.write(lambda conn: content_table.pin(conn, pinned.sha1, pinned.size))
        await cache.put(pinned)
        others = await fill(cache, sample, 3)
        await cache.make_room(BLOCK)
        assert all(here(cache, [pinned, *others]))


async def test_content_larger_than_cache_is_readable(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache(limit_bytes=3 * BLOCK)) as cache:
        film = sample(10 * BLOCK)
        cache.open(film.sha1, film.size)
        for index in range(film.blocks):
            await cache.make_room(BLOCK)
            await cache.put(film, index)
            assert await cache.get(film, index * BLOCK, BLOCK) == film.block(index)
            assert cache.usage() <= 3 * BLOCK
        cache.close(film.sha1)


async def test_open_pinned_content_is_not_restarted(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample
) -> None:
    async with started(open_cache(limit_bytes=BLOCK, keep_free_bytes=10**18)) as cache:
        pinned, other = sample(3 * BLOCK), sample(3 * BLOCK)
        await db.write(lambda conn: content_table.pin(conn, pinned.sha1, pinned.size))
        for content in (pinned, other):
            cache.open(content.sha1, content.size)
            await cache.put(content, 1)
        with pytest.raises(OSError):
            await cache.make_room(BLOCK)
        assert cache.absent(pinned) == [(0, 0), (2, 2)]
        assert cache.absent(other) == [(0, 2)]
        for content in (pinned, other):
            cache.close(content.sha1)


async def test_what_lies_under_a_draft_stays(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample
) -> None:
    async with started(open_cache(limit_bytes=4 * BLOCK, clock=Clock())) as cache:
        whole, part, other = sample(2 * BLOCK), sample(9 * BLOCK), sample(2 * BLOCK)
        for base in (whole, part):
            add = "INSERT INTO draft(base_sha1, base_total) VALUES (?, ?)"
            await db.write(partial(_execute, sql=add, values=(base.sha1, base.size)))
        await cache.put(whole)
        cache.open(part.sha1, part.size)
        await cache.put(part, 0)
        await cache.put(other)
        await cache.make_room(3 * BLOCK)
        assert here(cache, [whole, other]) == [True, False]
        assert cache.absent(part) == [(1, 8)]
        assert cache.evict(whole.sha1) is None
        # It is outside the limit, as what is pinned.
        async with cache.reserved(8 * BLOCK, pinned=True):
            pass
        await cache.put(part, *range(1, 9))
        cache.close(part.sha1)
        await cache.make_room(4 * BLOCK)
        assert all(here(cache, [whole, part]))
        await db.write(lambda conn: conn.execute("DELETE FROM draft"))
        await cache.make_room(4 * BLOCK)
        assert not any(here(cache, [whole, part]))


async def test_unsettled_content_is_not_evicted(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    async with started(open_cache(limit_bytes=BLOCK)) as cache:
        content = sample(BLOCK)
        await cache.adopt(db, content, tmp_path / "draft")
        await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
        await cache.make_room(2 * BLOCK)
        assert await cache.get(content) == content.data
        await cache.settle_clean(content.sha1)
        await cache.make_room(2 * BLOCK)
        assert here(cache, [content]) == [False]


async def test_what_was_uploaded_is_evicted_without_a_download(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, tmp_path: Path
) -> None:
    async with started(open_cache(limit_bytes=10 * BLOCK, clock=Clock())) as cache:
        contents = [sample(BLOCK) for _ in range(20)]
        for content in contents:
            await cache.adopt(db, content, tmp_path / "draft")
        await cache.trim()
        assert all(here(cache, contents))
        for content in contents[:18]:
            await db.write(partial(content_table.mark_clean, sha1=content.sha1))
            await cache.settle_clean(content.sha1)
        assert cache.usage() == 18 * BLOCK
        cache.open(contents[0].sha1, BLOCK)
        await cache.trim()
        assert here(cache, contents) == [True] + [False] * 9 + [True] * 10
        assert cache.usage() == 9 * BLOCK
        await cache.trim()
        assert cache.usage() == 9 * BLOCK


async def test_nothing_is_cached_below_keep_free(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache(keep_free_bytes=10**18)) as cache:
        contents = await fill(cache, sample, 3)
        with pytest.raises(OSError) as caught:
            await cache.make_room(BLOCK)
        assert caught.value.errno == errno.ENOSPC
        assert here(cache, contents) == [False] * 3


async def test_evicted_content_is_missing_for_reader(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache(limit_bytes=BLOCK)) as cache:
        first, second = await fill(cache, sample, 2)
        await cache.make_room(BLOCK)
        assert here(cache, [first, second]) == [False, False]
        await cache.put(first)
        assert await cache.get(first) == first.data


async def test_parallel_downloads_reserve_space(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache(limit_bytes=10 * BLOCK)) as cache:
        contents = await fill(cache, sample, 6)
        async with cache.reserved(4 * BLOCK) as room:
            assert all(here(cache, contents))
            async with cache.reserved(3 * BLOCK):
                assert cache.usage() <= 3 * BLOCK
            landed = sample(2 * BLOCK)
            await cache.put(landed)
            room.left -= 2 * BLOCK
            async with cache.reserved(BLOCK):
                assert cache.is_complete(landed.sha1)
        async with cache.reserved(5 * BLOCK):
            assert cache.is_complete(landed.sha1)


async def test_parallel_downloads_respect_disk_reserve(
    open_cache: OpenCache, sample: MakeSample, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = 100 * BLOCK
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=free, f_frsize=1))
    async with started(open_cache(keep_free_bytes=95 * BLOCK)) as cache:
        async with cache.reserved(4 * BLOCK):
            with pytest.raises(OSError) as caught:
                async with cache.reserved(2 * BLOCK):
                    pytest.fail("the floor is broken")
            assert caught.value.errno == errno.ENOSPC
        async with cache.reserved(5 * BLOCK):
            pass


async def test_prefetch_respects_cache_limit(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache(limit_bytes=4 * BLOCK)) as cache:
        film = sample(9 * BLOCK)
        cache.open(film.sha1, film.size)
        await cache.put(film, 0, 1, 2)
        with pytest.raises(OSError) as caught:
            async with cache.reserved(2 * BLOCK, spare=True):
                pytest.fail("there is no such room")
        assert caught.value.errno == errno.ENOSPC
        assert cache.absent(film) == [(3, 8)]
        async with cache.reserved(BLOCK, spare=True):
            pass
        cache.close(film.sha1)


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_local_content_stays_until_its_upload_or_deletion_is_durable(
    cache: Cache,
    db: sqlite.Database,
    sample: MakeSample,
    tmp_path: Path,
    folders: tuple[Path, Path],
    monkeypatch: pytest.MonkeyPatch,
    is_deleted: bool,
) -> None:
    """After a power failure the row may call it unsent again."""
    content = sample(BLOCK + 3)
    await cache.adopt(db, content, tmp_path / "draft")
    await db.write(lambda conn: content_table.mark_clean(conn, content.sha1))
    logged = db.path.with_name(f"{db.path.name}-wal").read_bytes()
    durable: list[bytes] = []
    fsync = os.fsync

    def watched(fd: int) -> None:
        fsync(fd)
        path = Path(f"/proc/self/fd/{fd}").readlink()
        assert (folders[1] / content.sha1).exists()
        if path.name.endswith("-wal"):
            durable.append(path.read_bytes())

    monkeypatch.setattr(os, "fsync", watched)
    await (cache.drop_clean if is_deleted else cache.settle_clean)(content.sha1)
    assert durable == [logged]
    assert not (folders[1] / content.sha1).exists()
