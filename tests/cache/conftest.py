"""A cache in its own folders, and contents to put into it."""

import functools
import hashlib
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs import sqlite
from cmsfs.cache import bitmap, blocks, content_table
from cmsfs.cache.local_contents import LocalFile
from cmsfs.replica.nodes import Content


@dataclass(frozen=True)
class Sample:
    """Bytes with their SHA-1 and size."""

    data: bytes

    @property
    def size(self) -> int:
        return len(self.data)

    @functools.cached_property
    def sha1(self) -> str:
        return hashlib.sha1(self.data).hexdigest()

    def block(self, index: int) -> bytes:
        return self.data[index * blocks.BLOCK : (index + 1) * blocks.BLOCK]

    @property
    def blocks(self) -> int:
        return bitmap.blocks(self.size)


def recording(sample: Sample) -> Callable[[sqlite.Connection], None]:
    """Return a transaction that records the content as dirty."""
    return lambda conn: content_table.record_dirty(conn, sample.sha1, sample.size)


class Cache(blocks.BlockCache):
    """The cache, with common operations of tests."""

    async def put(self, sample: Sample, *indices: int) -> None:
        """Write some blocks, or all of them."""
        for index in indices or range(sample.blocks):
            await self.write_blocks(sample.sha1, sample.size, index, sample.block(index))

    async def get(self, sample: Sample, offset: int = 0, length: int | None = None) -> bytes:
        count = sample.size if length is None else length
        return bytes(await self.read(Content(sample.sha1, sample.size, None, None), offset, count))

    async def adopt(self, db: sqlite.Database, sample: Sample, path: Path) -> None:
        """Import a local file as the journal does."""
        path.write_bytes(sample.data)
        await self.adopt_dirty([LocalFile(sample.sha1, sample.size, path)], recording(sample))
        path.unlink()

    async def adopt_unrecorded(self, sample: Sample, path: Path) -> None:
        """Do what a process does that is killed before the transaction."""
        await self._dirty.enter([LocalFile(sample.sha1, sample.size, path)])

    async def make_room(self, nbytes: int) -> None:
        """Evict as for a download that never starts."""
        async with self.reserved(nbytes):
            pass

    def absent(self, sample: Sample) -> list[tuple[int, int]]:
        return self.missing(sample.sha1, sample.size, 0, sample.blocks)

    def abandon(self) -> None:
        """Simulate a kill: close descriptors, write nothing."""
        self._files.close()


MakeSample = Callable[[int], Sample]
OpenCache = Callable[..., Cache]


@pytest.fixture
def sample() -> MakeSample:
    """`sample(size)`: unique bytes."""
    source = random.Random(20)
    return lambda size: Sample(source.randbytes(size))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """The folders of cached and dirty contents."""
    return tmp_path / "blocks", tmp_path / "drafts"


@pytest.fixture
def open_cache(db: sqlite.Database, folders: tuple[Path, Path]) -> OpenCache:
    """`open_cache(limit_bytes=…)`: a cache over the test's database and folders, not recovered yet."""

    def make(*, limit_bytes: int = 1024**3, keep_free_bytes: int = 0, **more: object) -> Cache:
        return Cache(db, *folders, limit_bytes=limit_bytes, keep_free_bytes=keep_free_bytes, **more)  # type: ignore[arg-type]

    return make


@pytest.fixture
async def cache(open_cache: OpenCache) -> AsyncIterator[Cache]:
    """An empty cache."""
    async with started(open_cache()) as found:
        yield found


@asynccontextmanager
async def started(found: Cache) -> AsyncIterator[Cache]:
    await found.recover(clean_shutdown=True, same_boot=True)
    try:
        yield found
    finally:
        await found.aclose()


@asynccontextmanager
async def no_threads() -> AsyncIterator[None]:
    """Delay all work for worker threads until the end of the block."""
    threads = trio.to_thread.current_default_thread_limiter()
    busy = threading.Event()
    many, threads.total_tokens = threads.total_tokens, 1
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, busy.wait, 10)
            await trio.testing.wait_all_tasks_blocked()
            try:
                yield
            finally:
                busy.set()
    finally:
        threads.total_tokens = many
