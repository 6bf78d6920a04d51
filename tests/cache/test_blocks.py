"""Reading and writing blocks."""

import itertools
import os
import threading
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs import errors, sqlite
from cmsfs.cache import blocks, content_files, content_table
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica.nodes import Content
from tests.cache.conftest import Cache, MakeSample, OpenCache, no_threads, started


@pytest.mark.parametrize("size", [1, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17])
async def test_what_was_written_is_read(cache: Cache, sample: MakeSample, size: int) -> None:
    content = sample(size)
    await cache.put(content)
    assert await cache.get(content) == content.data
    assert await cache.get(content, size - 1, 500) == content.data[-1:]
    assert await cache.get(content, size, 500) == b""
    assert cache.is_complete(content.sha1)
    assert cache.usage() == size
    place = cache.path(content.sha1)
    assert place is not None
    assert place.read_bytes() == content.data


async def test_a_read_over_absent_blocks_names_them(cache: Cache, sample: MakeSample) -> None:
    content = sample(5 * BLOCK)
    await cache.put(content, 0, 3)
    assert await cache.get(content, 3 * BLOCK + 5, 10) == content.data[3 * BLOCK + 5 : 3 * BLOCK + 15]
    with pytest.raises(errors.MissingBlocks) as caught:
        await cache.get(content)
    assert (caught.value.first, caught.value.last) == (1, 4)
    assert cache.absent(content) == [(1, 2), (4, 4)]
    assert cache.missing(content.sha1, content.size, 2, 2) == [(2, 2)]
    assert cache.path(content.sha1) is None
    assert not cache.is_complete(content.sha1)


async def test_an_empty_content_needs_nothing(cache: Cache, sample: MakeSample) -> None:
    empty = sample(0)
    assert cache.absent(empty) == []
    assert await cache.get(empty, 0, 100) == b""
    assert cache.is_complete(empty.sha1)
    place = cache.path(empty.sha1)
    assert place is not None
    assert place.read_bytes() == b""


async def test_wrong_block_is_found_at_last_block(cache: Cache, sample: MakeSample) -> None:
    content = sample(3 * BLOCK)
    await cache.put(content, 0)
    await cache.write_blocks(content.sha1, content.size, 2, bytes(BLOCK))
    with pytest.raises(errors.IntegrityError) as caught:
        await cache.put(content, 1)
    assert caught.value.expected == content.sha1
    assert cache.absent(content) == [(0, 2)]
    assert cache.usage() == 0
    await cache.put(content)
    assert await cache.get(content) == content.data


async def test_wrong_block_is_found_in_any_order(cache: Cache, sample: MakeSample) -> None:
    """What is here without a gap is hashed as it comes, and nothing else."""
    for number, order in enumerate(itertools.permutations(range(4))):
        content = sample(3 * BLOCK + 5 + number)
        for index in order:
            await cache.put(content, index)
        assert await cache.get(content) == content.data
        damaged = sample(3 * BLOCK + 100 + number)
        wrong = bytes(min(BLOCK, damaged.size - order[0] * BLOCK))
        await cache.write_blocks(damaged.sha1, damaged.size, order[0], wrong)
        for index in order[1:3]:
            await cache.put(damaged, index)
        with pytest.raises(errors.IntegrityError):
            await cache.put(damaged, order[3])


async def test_single_block_is_verified_before_read(cache: Cache, sample: MakeSample) -> None:
    content = sample(BLOCK)
    with pytest.raises(errors.IntegrityError):
        await cache.write_blocks(content.sha1, content.size, 0, bytes(BLOCK))
    with pytest.raises(errors.MissingBlocks):
        await cache.get(content, 0, 1)


async def test_running_reader_never_gets_damaged_content(cache: Cache, sample: MakeSample) -> None:
    content = sample(80 * BLOCK + 5)
    await cache.write_blocks(content.sha1, content.size, 0, bytes(BLOCK))
    await cache.put(content, *range(1, 80))
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    threads = trio.to_thread.current_default_thread_limiter()
    heard = []

    async def write_last() -> None:
        with pytest.raises(errors.IntegrityError):
            await cache.put(content, 80)
        heard.append("writer")

    async def read_long() -> None:
        with pytest.raises(errors.MissingBlocks):
            await cache.get(content, 0, 80 * BLOCK)
        heard.append("reader")

    # One thread for all: the reader has its descriptor and waits until the file is hashed.
    many, threads.total_tokens = threads.total_tokens, 1
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(write_last)
            while not threads.borrowed_tokens:
                await trio.lowlevel.checkpoint()
            nursery.start_soon(read_long)
    finally:
        threads.total_tokens = many
    assert sorted(heard) == ["reader", "writer"]
    assert len(os.listdir("/proc/self/fd")) == before - 1  # noqa: PTH208


async def test_a_block_of_the_wrong_length_is_refused(cache: Cache, sample: MakeSample) -> None:
    content = sample(BLOCK + 5)
    for index, length in ((0, BLOCK - 1), (1, 6), (1, BLOCK)):
        with pytest.raises(ValueError, match="cannot have"):
            await cache.write_blocks(content.sha1, content.size, index, bytes(length))


async def test_concurrent_writers_of_one_block(cache: Cache, sample: MakeSample) -> None:
    content = sample(4 * BLOCK + 3)
    async with trio.open_nursery() as nursery:
        for index in (*range(5), *reversed(range(5)), *range(5)):
            nursery.start_soon(cache.put, content, index)
    assert await cache.get(content) == content.data
    assert cache.usage() == content.size


async def test_a_late_wrong_writer_changes_nothing(cache: Cache, sample: MakeSample) -> None:
    content = sample(BLOCK + 1)
    await cache.put(content)
    await cache.write_blocks(content.sha1, content.size, 0, bytes(BLOCK))
    assert await cache.get(content) == content.data


async def test_second_writer_takes_over_after_cancel(cache: Cache, sample: MakeSample) -> None:
    content = sample(8 * BLOCK)
    with trio.CancelScope() as scope:
        scope.cancel()
        # Enough that it is written in a thread.
        await cache.write_blocks(content.sha1, content.size, 0, content.data[: 4 * BLOCK])
    assert cache.absent(content) == [(0, 7)]
    await cache.put(content)
    assert await cache.get(content) == content.data


async def test_block_is_rewritten_after_file_dropped(cache: Cache, sample: MakeSample) -> None:
    content = sample(12 * BLOCK)
    async with trio.open_nursery() as nursery, no_threads():
        # Enough that it is written in a thread.
        nursery.start_soon(cache.write_blocks, content.sha1, content.size, 0, content.data[: 4 * BLOCK])
        await trio.testing.wait_all_tasks_blocked()
        cache.missing(content.sha1, 20 * BLOCK, 0, 9)  # another size: begins anew
    assert cache.absent(content) == [(4, 11)]
    assert cache.usage() == 4 * BLOCK
    await cache.put(content)
    assert await cache.get(content) == content.data


async def test_queued_removal_already_counts(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    content, freed = sample(BLOCK), threading.Event()

    def keep_the_table_busy(conn: sqlite.Connection) -> None:
        assert freed.wait(10), "the eviction waited for the table"

    async with started(open_cache(limit_bytes=BLOCK)) as cache:
        await cache.make_room(2 * BLOCK)  # asks the table what is pinned, which is then known for a minute
        await cache.put(content)
        await cache.flush()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(db.write, keep_the_table_busy)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(cache.make_room, BLOCK)
            while any(path.is_file() for path in folders[0].rglob("*")):  # removed before the row
                await trio.lowlevel.checkpoint()
            await trio.testing.wait_all_tasks_blocked()
            assert content_table.find(db, content.sha1) is not None
            assert cache.absent(content) == [(0, 0)]
            assert cache.usage() == 0
            freed.set()
        assert cache.absent(content) == [(0, 0)]


@pytest.mark.parametrize("complete", [False, True])
@pytest.mark.parametrize("is_open", [False, True])
async def test_truncated_cache_file_is_refetched(
    cache: Cache, sample: MakeSample, folders: tuple[Path, Path], complete: bool, is_open: bool
) -> None:
    content = sample(3 * BLOCK)
    if is_open:
        cache.open(content.sha1, content.size)
    await cache.put(content, *(range(3) if complete else (0, 2)))
    os.truncate(folders[0] / content.sha1[:2] / content.sha1, 2 * BLOCK + 7)
    with pytest.raises(errors.MissingBlocks):
        await cache.get(content, 2 * BLOCK, BLOCK)
    assert cache.absent(content) == [(0, 2)]
    assert cache.usage() == 0
    await cache.put(content)
    assert await cache.get(content) == content.data
    if is_open:
        cache.close(content.sha1)


async def test_truncated_cache_file_is_not_zero_filled(
    cache: Cache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    content = sample(3 * BLOCK)
    await cache.put(content, 0)
    os.truncate(folders[0] / content.sha1[:2] / content.sha1, 5)
    await cache.put(content, 2)
    assert cache.absent(content) == [(0, 1)]
    await cache.put(content)
    assert await cache.get(content) == content.data


async def test_wrong_file_size_is_found_at_open(
    open_cache: OpenCache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    content = sample(2 * BLOCK)
    async with started(open_cache()) as first:
        await first.put(content)
    async with started(open_cache()) as cache:
        with (folders[0] / content.sha1[:2] / content.sha1).open("ab") as opened:
            opened.write(b"more")
        with pytest.raises(errors.MissingBlocks):
            await cache.get(content, 0, 10)


async def test_a_cleared_folder_is_filled_again(
    open_cache: OpenCache, sample: MakeSample, folders: tuple[Path, Path]
) -> None:
    content = sample(BLOCK + 1)
    async with started(open_cache()) as first:
        await first.put(content)
    async with started(open_cache()) as cache:
        (folders[0] / content.sha1[:2] / content.sha1).unlink()
        (folders[0] / content.sha1[:2]).rmdir()
        with pytest.raises(errors.MissingBlocks):
            await cache.get(content)
        assert cache.usage() == 0
        await cache.put(content)
        assert await cache.get(content) == content.data


async def test_sha1_decides_between_two_sizes(cache: Cache, sample: MakeSample) -> None:
    content = sample(BLOCK + 10)
    await cache.put(content, 0)
    assert cache.missing(content.sha1, 3 * BLOCK, 0, 9) == [(0, 2)]  # another size: begins anew
    await cache.put(content)
    assert cache.missing(content.sha1, 3 * BLOCK, 0, 9) == []
    assert (
        await cache.read(Content(content.sha1, 3 * BLOCK, None, None), BLOCK, BLOCK) == content.data[BLOCK:]
    )


async def test_partial_contents_survive_a_restart(open_cache: OpenCache, sample: MakeSample) -> None:
    content = sample(10 * BLOCK)
    first = open_cache()
    await first.recover(clean_shutdown=True, same_boot=True)
    await first.put(content, 1, 2, 9)
    await first.flush()
    await first.put(content, 4)
    first.abandon()
    second = open_cache()
    await second.recover(clean_shutdown=False, same_boot=True)
    assert second.absent(content) == [(0, 0), (3, 8)]
    assert second.usage() == 3 * BLOCK
    assert await second.get(content, BLOCK, 2 * BLOCK) == content.data[BLOCK : 3 * BLOCK]
    second.abandon()


async def test_descriptors_are_bounded_and_none_is_left(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample
) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    await db.query(lambda conn: conn.execute("SELECT 1"))  # the database keeps a connection for this
    before = descriptors()
    async with started(open_cache()) as cache:
        cache._files._max_open = 8
        contents = [sample(1000 + n) for n in range(40)]
        for content in contents:
            cache.open(content.sha1, content.size)
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                for content in contents:
                    nursery.start_soon(cache.put, content)
            for content in contents:
                assert await cache.get(content) == content.data
        assert descriptors() - before <= 8
        for content in contents:
            cache.close(content.sha1)
    assert descriptors() == before


async def test_memory_of_unused_contents_is_bounded(open_cache: OpenCache, sample: MakeSample) -> None:
    async with started(open_cache()) as cache:
        cache._contents._max_live = 16
        contents = [sample(100 + n) for n in range(100)]
        for content in contents:
            await cache.put(content)
            await cache.flush()  # what has a row to write stays until it is written
        assert len(cache._contents._live) <= 32
        for content in contents:
            assert await cache.get(content) == content.data


async def test_a_long_download_is_saved_now_and_then(
    cache: Cache, db: sqlite.Database, sample: MakeSample
) -> None:
    content = sample(4098 * BLOCK)
    await cache.put(content, *range(4097))
    row = db.row("SELECT bitmap FROM content WHERE sha1 = ?", content.sha1)
    assert row is not None
    assert int.from_bytes(row[0], "little").bit_count() == 4096


async def test_the_time_of_use_is_coarse(
    open_cache: OpenCache, db: sqlite.Database, sample: MakeSample
) -> None:
    now = 1000.0
    async with started(open_cache(clock=lambda: now)) as cache:
        content = sample(10)
        await cache.put(content)

        async def used_at() -> int:
            await cache.get(content)
            await cache.flush()
            row = db.row("SELECT used_at FROM content WHERE sha1 = ?", content.sha1)
            assert row is not None
            return int(row[0])

        now += 59
        assert await used_at() == 1000
        now += 1
        assert await used_at() == 1060


async def test_the_sha1_of_any_file(cache: Cache, sample: MakeSample, tmp_path: Path) -> None:
    content = sample(2 * BLOCK + 5)
    (tmp_path / "any").write_bytes(content.data)
    assert await cache.hash_of(tmp_path / "any") == content.sha1
    assert sample(0).sha1 == blocks.EMPTY_SHA1


def test_uncached_pages_are_not_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(os.urandom(4 * BLOCK))
    fd = os.open(place, os.O_RDONLY)
    try:
        assert content_files.read_now(fd, 0, 4096) in (None, place.read_bytes()[:4096])
        assert content_files.read_now(fd, 4 * BLOCK - 5, 10) is None
        with pytest.raises(OSError, match="ends too early"):
            content_files.read(fd, 4 * BLOCK - 5, 10)
    finally:
        os.close(fd)
