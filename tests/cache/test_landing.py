"""Runs of blocks that the thread which receives them writes: as good as blocks that the loop writes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio

from cmsfs import errors
from cmsfs.cache import bitmap
from cmsfs.cache.landing import FIRST_BYTES, PIECE_BYTES, Landing
from tests.cache.conftest import Cache, MakeSample, Sample

BLOCK = bitmap.BLOCK
SIZE = 3 * PIECE_BYTES + 2 * BLOCK + 17


class Receiver:
    """What the thread that receives a run does with these bytes; and what was told of it."""

    def __init__(self, cache: Cache, sample: Sample, first: int, last: int, rest: bytes = b"") -> None:
        self.cache, self.sample, self.first, self.last, self.rest = cache, sample, first, last, rest
        self.told: list[tuple[int, int]] = []

    @contextmanager
    def begun(self) -> Iterator[Landing | None]:
        sha1, size = self.sample.sha1, self.sample.size
        with self.cache.landing(
            sha1, size, self.first, self.last, self.rest, lambda *what: self.told.append(what)
        ) as landing:
            yield landing

    @staticmethod
    def take(landing: Landing, data: bytes, at_once: int) -> bool:
        """Give these bytes, so many at a time at most."""
        goes_on = True
        while data:
            space = landing.space()[:at_once]
            count = min(len(space), len(data))
            space[:count], data = data[:count], data[count:]
            goes_on = landing.came(count)
        return goes_on

    async def receive(self, landing: Landing, data: bytes, at_once: int = PIECE_BYTES) -> bool:
        goes_on = await trio.to_thread.run_sync(self.take, landing, data, at_once)
        await landing.settle()
        return goes_on


def of(sample: Sample, first: int, last: int) -> bytes:
    return sample.data[first * BLOCK : (last + 1) * BLOCK]


@pytest.mark.parametrize("at_once", [1000, BLOCK, 3 * FIRST_BYTES // 2, PIECE_BYTES])
async def test_a_run_lands_whole(cache: Cache, sample: MakeSample, at_once: int) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, data.blocks - 1, rest=data.block(1)[:100])
    with run.begun() as landing:
        assert landing is not None
        assert landing.space().nbytes <= FIRST_BYTES
        assert not await run.receive(landing, of(data, 1, data.blocks - 1)[100:], at_once)
        assert (landing.is_done, landing.is_lost, landing.rest) == (True, False, b"")
    assert run.told[-1][0] == data.blocks
    assert sum(nbytes for _, nbytes in run.told) == SIZE - BLOCK
    assert cache.is_complete(data.sha1)
    assert await cache.get(data) == data.data
    assert cache.usage() == SIZE


async def test_what_came_behind_the_last_whole_block_is_given_back(cache: Cache, sample: MakeSample) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, data.blocks - 1)
    with run.begun() as landing:
        assert landing is not None
        assert await run.receive(landing, data.block(1) + data.block(2)[:77])
        assert (landing.is_done, landing.rest) == (False, data.block(2)[:77])
        assert run.told == [(2, BLOCK)]
    assert cache.absent(data) == [(2, data.blocks - 1)]
    await cache.put(data, *range(2, data.blocks))
    assert await cache.get(data) == data.data


async def test_the_last_blocks_are_read_only_if_the_whole_is_right(cache: Cache, sample: MakeSample) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, data.blocks - 1)
    wrong = bytearray(of(data, 1, data.blocks - 1))
    wrong[5] ^= 1
    with run.begun() as landing:
        assert landing is not None
        with pytest.raises(errors.IntegrityError):
            await run.receive(landing, bytes(wrong))
    assert run.told[-1][0] < data.blocks
    assert cache.doubts[data.sha1] == 1
    assert cache.absent(data) == [(0, data.blocks - 1)]
    await cache.put(data)
    assert await cache.get(data) == data.data


async def test_two_runs_land_side_by_side_in_any_order(cache: Cache, sample: MakeSample) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    middle = data.blocks // 2
    low, high = Receiver(cache, data, 1, middle), Receiver(cache, data, middle + 1, data.blocks - 1)
    with low.begun() as below, high.begun() as above:
        assert below is not None and above is not None
        await high.receive(above, of(data, middle + 1, data.blocks - 1))
        assert above.is_done and not cache.is_complete(data.sha1)
        await low.receive(below, of(data, 1, middle))
    assert cache.is_complete(data.sha1)
    assert await cache.get(data) == data.data


async def test_blocks_that_land_are_written_by_nobody_else(cache: Cache, sample: MakeSample) -> None:
    """Else a late writer could change bytes that have been checked."""
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, 9)
    async with trio.open_nursery() as nursery:
        with run.begun() as landing:
            assert landing is not None
            with Receiver(cache, data, 9, 20).begun() as other:
                assert other is None
            nursery.start_soon(cache.write_blocks, data.sha1, SIZE, 3, bytes(BLOCK))
            await run.receive(landing, of(data, 1, 9))
    assert await cache.get(data, BLOCK, 9 * BLOCK) == of(data, 1, 9)


async def test_nothing_lands_where_something_is_here_or_nothing_at_all(
    cache: Cache, sample: MakeSample
) -> None:
    data = sample(SIZE)
    with Receiver(cache, data, 0, 5).begun() as landing:
        assert landing is None
    await cache.put(data, 0, 4)
    with Receiver(cache, data, 1, 5).begun() as landing:
        assert landing is None


async def test_a_file_that_was_cut_meanwhile_is_fetched_again(cache: Cache, sample: MakeSample) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, data.blocks - 1)
    with run.begun() as landing:
        assert landing is not None
        os.truncate(cache.place(data.sha1, dirty=False), 100)
        assert not await run.receive(landing, data.block(1))
        assert landing.is_lost
    assert run.told == []
    await cache.put(data)
    assert await cache.get(data) == data.data


async def test_what_landed_before_a_cancellation_is_here(cache: Cache, sample: MakeSample) -> None:
    data = sample(SIZE)
    await cache.put(data, 0)
    run = Receiver(cache, data, 1, data.blocks - 1)
    with run.begun() as landing:
        assert landing is not None
        run.take(landing, data.block(1), BLOCK)
    assert run.told == [(2, BLOCK)]
    assert cache.absent(data) == [(2, data.blocks - 1)]
