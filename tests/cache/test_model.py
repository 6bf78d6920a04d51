"""The whole cache against plain bytes: a read gives the right bytes or says what is missing.

Blocks land in any order, are evicted, files are cut, bits flip, the process is killed, the power goes.
Local contents must stay readable through all of it.
"""

import contextlib
import hashlib
import os
import random
import tempfile
from importlib import resources
from pathlib import Path

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmsfs import errors, sqlite
from cmsfs.cache import bitmap, content_table
from cmsfs.cache.blocks import BLOCK
from tests.cache.conftest import Cache, Sample

_bytes = random.Random(7).randbytes
SAMPLES = [
    Sample(_bytes(size)) for size in (0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 17, 9 * BLOCK)
]
LIMIT = 10 * BLOCK

which = st.integers(0, len(SAMPLES) - 1)
step = st.one_of(
    st.tuples(st.just("put"), which, st.integers(0, 8)),
    st.tuples(st.just("put_all"), which),
    st.tuples(st.just("put_run"), which, st.integers(0, 8), st.integers(1, 9)),
    st.tuples(st.just("put_whole_wrong"), which, st.integers(0, 9 * BLOCK)),
    st.tuples(st.just("put_together"), which),
    st.tuples(st.just("put_with_room"), which, st.integers(0, 8), st.booleans()),
    st.tuples(st.just("put_wrong_last"), which),
    st.tuples(st.just("read"), which, st.integers(-3, 3), st.integers(0, 9), st.integers(0, 3 * BLOCK)),
    st.tuples(st.just("read_together"), which),
    st.tuples(st.just("make_room"), st.integers(0, 8)),
    st.tuples(st.just("open"), which),
    st.tuples(st.just("close"), which),
    st.tuples(st.just("cut"), which, st.integers(0, 9 * BLOCK)),
    st.tuples(st.just("remove"), which),
    st.tuples(st.just("pin"), which, st.booleans()),
    st.tuples(st.just("adopt"), which),
    st.tuples(st.just("settle"), which),
    st.tuples(st.just("flush")),
    st.tuples(st.just("stop")),
    st.tuples(st.just("kill"), st.sampled_from(["", "adopt", "mark_clean"]), which),
    st.tuples(st.just("power_cut"), st.sets(which), st.integers(0, 9 * BLOCK)),
)


class World:
    """One cache, and what must be true of it."""

    def __init__(self, db: sqlite.Database, folder: Path) -> None:
        self.db = db
        self.folder = folder
        self.dirty: set[str] = set()
        self.opens: dict[str, int] = {}
        self.start()

    def start(self) -> None:
        blocks, drafts = self.folder / "blocks", self.folder / "drafts"
        self.cache = Cache(self.db, blocks, drafts, limit_bytes=LIMIT, keep_free_bytes=0)
        self.opens.clear()

    async def recover(self, *, clean: bool, same_boot: bool) -> None:
        self.start()
        found = await self.cache.recover(clean_shutdown=clean, same_boot=same_boot)
        assert found.lost == found.damaged == []
        for path in found.orphans:
            path.unlink()

    def file(self, sample: Sample) -> Path | None:
        """The file of a clean content: what may be damaged without loss."""
        found = self.folder / "blocks" / sample.sha1[:2] / sample.sha1
        return found if found.exists() and sample.sha1 not in self.dirty else None

    async def do(self, name: str, *args: object) -> None:
        if args and name not in ("make_room", "kill", "power_cut"):
            index, *rest = args
            assert isinstance(index, int)
            args = (SAMPLES[index], *rest)
        await getattr(self, name)(*args)

    async def put(self, sample: Sample, index: int) -> None:
        if index < sample.blocks:
            await self.cache.put(sample, index)
            assert self.cache.missing(sample.sha1, sample.size, index, index) == []

    async def put_all(self, sample: Sample) -> None:
        for attempt in range(3):  # a file that was damaged is found out on the way
            async with trio.open_nursery() as nursery:
                for index in range(sample.blocks):
                    nursery.start_soon(self.cache.put, sample, index)
            try:
                assert await self.cache.get(sample) == sample.data
                return
            except errors.MissingBlocks:
                assert attempt < 2

    async def put_run(self, sample: Sample, first: int, count: int) -> None:
        """Blocks in one piece, as a download brings them."""
        last = min(first + count, sample.blocks) - 1
        if first <= last:
            data = sample.data[first * BLOCK : (last + 1) * BLOCK]
            await self.cache.write_blocks(sample.sha1, sample.size, first, data)
            assert self.cache.missing(sample.sha1, sample.size, first, last) == []

    async def put_whole_wrong(self, sample: Sample, at: int) -> None:
        """All of a content in one piece, in which one bit is wrong."""
        if not sample.size or self.cache.absent(sample) != [(0, sample.blocks - 1)]:
            return
        wrong = bytearray(sample.data)
        wrong[at % sample.size] ^= 1
        with pytest.raises(errors.IntegrityError):
            await self.cache.write_blocks(sample.sha1, sample.size, 0, wrong)
        assert self.cache.absent(sample) == [(0, sample.blocks - 1)]

    async def put_together(self, sample: Sample) -> None:
        """Pieces that overlap, from several connections at once."""
        async with trio.open_nursery() as nursery:
            for first, count in ((0, 9), (2, 3), (1, 5), (4, 9), (0, 1)):
                nursery.start_soon(self.put_run, sample, first, count)
                nursery.start_soon(self.read, sample, 1, first, 2 * BLOCK)

    async def put_with_room(self, sample: Sample, first: int, spare: bool) -> None:
        """A download as it goes: room, a piece, and the connection breaks."""
        with contextlib.suppress(OSError):
            async with self.cache.reserved(2 * BLOCK, spare=spare) as room:
                await self.put_run(sample, first, 2)
                room.left -= 2 * BLOCK
        assert not self.cache._evictor._reservations

    async def put_wrong_last(self, sample: Sample) -> None:
        """Fill up to the last missing block, which is wrong."""
        runs = self.cache.absent(sample)
        if not runs:
            return
        last = runs[-1][1]
        for index in range(last):
            await self.cache.put(sample, index)
        if self.cache.absent(sample) != [(last, last)]:
            return
        wrong = bytes(byte ^ 1 for byte in sample.block(last)[:1]) + sample.block(last)[1:]
        try:
            await self.cache.write_blocks(sample.sha1, sample.size, last, wrong)
        except errors.IntegrityError:
            assert self.cache.absent(sample) == [(0, sample.blocks - 1)]
        else:
            # The file had been cut: the cache began anew, and this block is one of several.
            assert self.cache.absent(sample) != []
            await self.forget(sample)

    async def forget(self, sample: Sample) -> None:
        """Make the cache begin anew with a content that holds what we know to be wrong."""
        os.truncate(self.folder / "blocks" / sample.sha1[:2] / sample.sha1, 0)
        with pytest.raises(errors.MissingBlocks):
            await self.cache.get(sample)
        for index in range(sample.blocks):
            if not self.cache.missing(sample.sha1, sample.size, index, index):
                with pytest.raises(errors.MissingBlocks):
                    await self.cache.get(sample, index * BLOCK, 1)

    async def read(self, sample: Sample, edge: int, block: int, length: int) -> None:
        offset = max(0, block * BLOCK + edge)
        expected = sample.data[offset : offset + length]
        try:
            found = await self.cache.get(sample, offset, length)
        except errors.MissingBlocks as error:
            assert sample.sha1 not in self.dirty
            assert self.cache.missing(sample.sha1, sample.size, error.first, error.last)
        else:
            assert found == expected

    async def read_together(self, sample: Sample) -> None:
        """Readers and writers at the same time."""
        async with trio.open_nursery() as nursery:
            for index in range(sample.blocks):
                nursery.start_soon(self.read, sample, 1, index, BLOCK)
                nursery.start_soon(self.cache.put, sample, index)
                nursery.start_soon(self.read, sample, -1, index, 2)

    async def make_room(self, count: int) -> None:
        await self.cache.make_room(count * BLOCK)

    async def open(self, sample: Sample) -> None:
        self.opens[sample.sha1] = self.opens.get(sample.sha1, 0) + 1
        self.cache.open(sample.sha1, sample.size)

    async def close(self, sample: Sample) -> None:
        if self.opens.get(sample.sha1):
            self.opens[sample.sha1] -= 1
            self.cache.close(sample.sha1)

    async def cut(self, sample: Sample, size: int) -> None:
        if (file := self.file(sample)) and size < sample.size:
            os.truncate(file, size)

    async def remove(self, sample: Sample) -> None:
        if file := self.file(sample):
            file.unlink()

    async def pin(self, sample: Sample, wanted: bool) -> None:
        def txn(conn: sqlite.Connection) -> None:
            if wanted:
                content_table.pin(conn, sample.sha1, sample.size)
            else:
                content_table.unpin(conn, sample.sha1)

        await self.db.write(txn)

    async def adopt(self, sample: Sample) -> None:
        await self.cache.adopt(self.db, sample, self.folder / "drafts" / "17")
        self.dirty.add(sample.sha1)

    async def settle(self, sample: Sample) -> None:
        await self.db.write(lambda conn: content_table.mark_clean(conn, sample.sha1))
        self.dirty.discard(sample.sha1)
        await self.cache.settle_clean(sample.sha1)

    async def flush(self) -> None:
        await self.cache.flush()

    async def stop(self) -> None:
        await self.cache.aclose()
        await self.recover(clean=True, same_boot=False)

    async def kill(self, at: str, index: int) -> None:
        sample = SAMPLES[index]
        if at == "adopt":
            (self.folder / "drafts" / "17").write_bytes(sample.data)
            await self.cache.adopt_unrecorded(sample, self.folder / "drafts" / "17")
        elif at == "mark_clean":
            await self.db.write(lambda conn: content_table.mark_clean(conn, sample.sha1))
            self.dirty.discard(sample.sha1)
        self.cache.abandon()
        await self.recover(clean=False, same_boot=True)

    async def power_cut(self, flipped: set[int], at: int) -> None:
        self.cache.abandon()
        for index in flipped:
            sample = SAMPLES[index]
            if (file := self.file(sample)) and sample.size:
                place = at % sample.size
                with file.open("r+b") as opened:
                    opened.seek(place)
                    opened.write(bytes([sample.data[place] ^ 0x10]))
        await self.recover(clean=False, same_boot=False)

    async def check(self) -> None:
        used = 0
        for sample in SAMPLES:
            if sample.sha1 in self.dirty:
                assert await self.cache.get(sample) == sample.data
                assert self.cache.path(sample.sha1) == self.folder / "drafts" / sample.sha1
            elif sample.size:
                absent = self.cache.absent(sample)
                used += sample.size - sum(
                    bitmap.block_length(sample.size, index)
                    for first, last in absent
                    for index in range(first, last + 1)
                )
        assert self.cache.usage() == used


async def run(steps: list[tuple[object, ...]]) -> None:
    schema = (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with tempfile.TemporaryDirectory() as folder:
        async with sqlite.open_database(Path(folder) / "replica.db", schema) as db:
            world = World(db, Path(folder))
            await world.recover(clean=True, same_boot=True)
            for name, *args in steps:
                assert isinstance(name, str)
                await world.do(name, *args)
                await world.check()
            await world.stop()
            await world.check()
            await world.cache.verify_all()
            for sample in SAMPLES:
                path = world.cache.path(sample.sha1)
                assert path is None or hashlib.sha1(path.read_bytes()).hexdigest() == sample.sha1
            await world.cache.aclose()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


unhurried = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)


@settings(unhurried, max_examples=60)
@given(st.lists(step, max_size=25))
def test_never_a_wrong_byte(steps: list[tuple[object, ...]]) -> None:
    trio.run(run, steps)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(unhurried, max_examples=1500)
@given(st.lists(step, max_size=60))
def test_never_a_wrong_byte_at_length(steps: list[tuple[object, ...]]) -> None:
    trio.run(run, steps)
