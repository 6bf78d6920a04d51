"""Large drafts are hashed while they rest, and only for the bytes that they had then."""

import errno
import gc
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trio.testing

from cmsfs.journal import early_hashes, entropy
from cmsfs.journal.draft import THREAD_FROM, Draft
from cmsfs.journal.drafts import Drafts
from tests.journal.conftest import Desk

PIECE = 64 * 1024
DATA = bytes(range(256)) * (4 * PIECE // 256)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(early_hashes, "LARGE", PIECE)
    monkeypatch.setattr(early_hashes, "PIECE", PIECE)


def name_of(fd: int) -> Path:
    return Path(f"/proc/self/fd/{fd}").readlink()


class Reads:
    """The reads of drafts' files, the first of which may wait."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.begun = trio.Event()
        self.go_on = trio.Event()
        self.go_on.set()
        self._pread = os.pread
        monkeypatch.setattr(os, "pread", self._read)

    def _read(self, fd: int, size: int, offset: int) -> bytes:
        if name_of(fd).suffix != ".draft":
            return self._pread(fd, size, offset)
        self.sizes.append(size)
        if not self.begun.is_set():
            trio.from_thread.run_sync(self.begun.set)
            trio.from_thread.run(self._wait)
        return self._pread(fd, size, offset)

    async def _wait(self) -> None:
        with trio.CancelScope(shield=True):
            await self.go_on.wait()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return Reads(monkeypatch)


async def rest(desk: Desk, draft: Draft) -> None:
    """Let the draft rest until it is hashed, or is not."""
    desk.drafts.hashes.rests(draft)
    await trio.testing.wait_all_tasks_blocked()
    await desk.drafts.hashes.of(draft, draft.generation)


def sha1(data: bytes | bytearray) -> str:
    return hashlib.sha1(data).hexdigest()


def is_open(draft: Draft) -> bool:
    # What lists them has one itself, which is closed by then.
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return any(str(link.readlink()).startswith(str(draft.path)) for link in links)


async def test_resting_draft_is_not_read_again_when_it_is_sealed(
    desk: Desk, nursery: trio.Nursery, reads: Reads
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    await rest(desk, draft)
    assert reads.sizes == [PIECE] * 4
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert (sealed.sha1, sealed.size) == (sha1(DATA), len(DATA))
    assert reads.sizes[4:] == [entropy.HEAD]
    assert await desk.bytes_of("f") == DATA


async def test_hash_of_closed_draft_is_kept_with_it(desk: Desk, nursery: trio.Nursery, reads: Reads) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    await rest(desk, draft)
    draft_id = draft.id
    del draft
    gc.collect()
    found = desk.drafts.find(draft_id)
    assert found is not None
    assert await desk.drafts.hashes.of(found, found.generation) == sha1(DATA)


@pytest.mark.parametrize("change", ["write", "truncate", "both"])
async def test_what_is_written_after_the_hash_is_sealed(
    desk: Desk, nursery: trio.Nursery, change: str
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft, data = await desk.new("f", DATA), bytearray(DATA)
    await rest(desk, draft)
    if change != "write":
        await draft.truncate(len(DATA) - 5)
        del data[-5:]
    if change != "truncate":
        await draft.write(len(data) - 3, b"new")
        data[-3:] = b"new"
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert sealed.sha1 == sha1(data)


async def test_write_ends_the_hash(desk: Desk, nursery: trio.Nursery, reads: Reads) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    reads.go_on = trio.Event()
    desk.drafts.hashes.rests(draft)
    await reads.begun.wait()
    # This piece has been read already when it changes again.
    await draft.write(0, b"new")
    reads.go_on.set()
    assert await desk.drafts.hashes.of(draft, draft.generation - 1) is None
    assert reads.sizes == [PIECE]
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert sealed.sha1 == sha1(b"new" + DATA[3:])


async def test_sealing_waits_for_a_hash_under_way(desk: Desk, nursery: trio.Nursery, reads: Reads) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    reads.go_on = trio.Event()
    desk.drafts.hashes.rests(draft)
    await reads.begun.wait()
    found: list[str] = []

    async def seal() -> None:
        sealed = await desk.sealer.seal(draft)
        assert sealed is not None
        found.append(sealed.sha1)

    async with trio.open_nursery() as inner:
        inner.start_soon(seal)
        await trio.testing.wait_all_tasks_blocked()
        assert reads.sizes == [PIECE]
        reads.go_on.set()
    assert found == [sha1(DATA)]
    assert reads.sizes == [*[PIECE] * 4, entropy.HEAD]


async def test_sealing_does_not_wait_for_the_hash_of_another_draft(
    desk: Desk, nursery: trio.Nursery, reads: Reads
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    one, two = await desk.new("one", DATA), await desk.new("two", DATA + b"2")
    reads.go_on = trio.Event()
    for draft in (one, two):
        desk.drafts.hashes.rests(draft)
    await reads.begun.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert reads.sizes == [PIECE]
    sealed = await desk.sealer.seal(two)
    assert sealed is not None
    assert sealed.sha1 == sha1(DATA + b"2")
    reads.go_on.set()
    assert await desk.drafts.hashes.of(one, one.generation) == sha1(DATA)


async def test_hashed_bytes_are_on_the_disk_before_they_are_content(
    desk: Desk, nursery: trio.Nursery, steps: list[str]
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    await rest(desk, draft)
    steps.clear()
    assert await desk.sealer.seal(draft) is not None
    assert steps == [f"fsync {draft.path.name}", "link", f"fsync {draft.path.parent.name}"]


async def test_removed_draft_ends_the_hash(desk: Desk, nursery: trio.Nursery, reads: Reads) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    reads.go_on = trio.Event()
    desk.drafts.hashes.rests(draft)
    await reads.begun.wait()
    await desk.db.write(lambda conn: Drafts.delete(conn, draft.id))
    desk.drafts.gone(draft.id).unlink()
    reads.go_on.set()
    assert await desk.drafts.hashes.of(draft, draft.generation) is None
    assert reads.sizes == [PIECE]
    assert not is_open(draft)


async def test_end_of_the_drive_ends_the_hash(desk: Desk, reads: Reads) -> None:
    draft = await desk.new("f", DATA)
    reads.go_on = trio.Event()
    async with trio.open_nursery() as inner:
        inner.start_soon(desk.drafts.hashes.run)
        desk.drafts.hashes.rests(draft)
        await reads.begun.wait()
        inner.cancel_scope.cancel()
        reads.go_on.set()
    assert reads.sizes == [PIECE]
    desk.drafts.close()
    assert not is_open(draft)


async def test_growing_file_is_hashed_again_when_it_has_doubled(
    desk: Desk, nursery: trio.Nursery, reads: Reads
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await desk.new("f", DATA)
    for _ in range(60):
        await draft.write(draft.size, bytes(PIECE))
        await rest(desk, draft)
    assert sum(reads.sizes) < 3 * draft.size
    # Changed in place: once more at most.
    before = len(reads.sizes)
    for _ in range(9):
        await draft.write(0, b"x")
        await rest(desk, draft)
    assert len(reads.sizes) - before <= 64


async def test_failed_write_may_have_changed_bytes(
    desk: Desk, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    pwrite = os.pwrite

    def break_down(fd: int, data: bytes, offset: int) -> int:
        pwrite(fd, data[:2], offset)
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    for name, size in (("small", 4), ("large", THREAD_FROM)):
        draft = await desk.new(name, DATA)
        await rest(desk, draft)
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", break_down)
            with pytest.raises(OSError, match="Input/output"):
                await draft.write(0, b"x" * size)
        sealed = await desk.sealer.seal(draft)
        assert sealed is not None
        assert sealed.sha1 == sha1(draft_bytes := (desk.root / sealed.sha1).read_bytes())
        assert draft_bytes == b"xx" + DATA[2:]
        await desk.commit.commit()


async def _with_holes(desk: Desk) -> Draft:
    draft = await desk.new("f", DATA, base=("0" * 40, 2 * len(DATA)))
    await draft.write(2 * len(DATA) - 1, b"x")
    return draft


async def _with_zeros(desk: Desk) -> Draft:
    draft = await desk.new("f", DATA)
    await draft.truncate(len(DATA) + 5)
    return draft


async def _small(desk: Desk) -> Draft:
    return await desk.new("f", DATA[: PIECE - 1])


@pytest.mark.parametrize("made", [_with_holes, _with_zeros, _small])
async def test_incomplete_and_small_drafts_are_not_hashed_early(
    desk: Desk, nursery: trio.Nursery, reads: Reads, made: Callable[[Desk], object]
) -> None:
    nursery.start_soon(desk.drafts.hashes.run)
    draft = await made(desk)  # type: ignore[misc]
    await rest(desk, draft)
    assert reads.sizes == []
