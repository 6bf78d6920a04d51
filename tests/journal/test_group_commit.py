"""Group commits: what was acknowledged is on the disk within a second."""

import errno
import gc
import itertools
import os
import threading
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from cmsfs.journal import recovery
from cmsfs.journal.draft import ROW_BYTES
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from tests.journal.conftest import Desk
from tests.support.log_watch import ExpectLog

# More than a row has room for.
LARGE = bytes(ROW_BYTES + 1)


async def test_bytes_are_durable_before_rows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of the fsyncs of a group commit: draft files, their folder, then the log."""
    synced: list[str] = []
    real = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    draft = await desk.new("f", LARGE)
    commit = desk.commit
    commit.note(draft)
    monkeypatch.setattr(os, "fsync", watch)
    await commit.commit()
    assert synced == [draft.path.name, "drafts", "replica.db-wal"]


async def test_group_commits_follow_within_a_second(
    desk: Desk, autojump_clock: MockClock, nursery: trio.Nursery
) -> None:
    import trio

    draft = await desk.new("f", b"x")
    commit = GroupCommit(desk.db, desk.root)
    synced = trio.Event()

    async def to_disk() -> None:
        synced.set()

    commit.commit = to_disk  # type: ignore[method-assign]
    nursery.start_soon(commit.run)
    commit.note(draft)
    with trio.fail_after(1):
        await synced.wait()


async def test_failing_disk_does_not_slow_groups(
    desk: Desk, autojump_clock: MockClock, nursery: trio.Nursery, expect_log: ExpectLog
) -> None:
    import trio

    expect_log("writing to disk fails")
    draft = await desk.new("f", b"x")
    commit = GroupCommit(desk.db, desk.root)
    synced, tries = trio.Event(), []

    async def to_disk() -> None:
        tries.append(trio.current_time())
        commit.note(draft)
        if len(tries) < 10:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        synced.set()

    commit.commit = to_disk  # type: ignore[method-assign]
    nursery.start_soon(commit.run)
    commit.note(draft)
    with trio.fail_after(10):
        await synced.wait()
    assert max(after - before for before, after in itertools.pairwise(tries)) <= 1


async def test_failed_group_commit_is_retried(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = await desk.new("f", LARGE)
    left = desk.root / "left.draft"
    left.touch()
    synced: list[str] = []
    real = os.fsync

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    desk.commit.note(draft)
    desk.commit.unlink(left)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError):
        await desk.commit.commit()
    assert left.exists()
    monkeypatch.setattr(os, "fsync", watch)
    await desk.commit.commit()
    assert synced == [draft.path.name, "drafts", "replica.db-wal"]
    assert not left.exists()


async def test_a_group_needs_no_descriptors_of_the_pool(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many files were closed in half a second; all of them are on the disk before the log is."""
    drafts = [await desk.new(f"f{number}", LARGE) for number in range(40)]
    synced: list[str] = []
    real = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    for draft in drafts:
        desk.commit.note(draft)
    monkeypatch.setattr(os, "fsync", watch)
    await desk.commit.commit()
    assert sorted(synced[:-2]) == sorted(draft.path.name for draft in drafts)
    assert synced[-2:] == ["drafts", "replica.db-wal"]


async def test_the_loop_does_not_write_to_a_log_that_is_being_fsynced(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There it would wait for the disk."""
    await desk.new("f", b"x")  # so that there is a log
    begun, end = trio.Event(), threading.Event()
    real, threads = os.fsync, list[int]()

    def wait(fd: int) -> None:
        trio.from_thread.run_sync(begun.set)
        end.wait()
        real(fd)

    monkeypatch.setattr(os, "fsync", wait)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.db.sync_log)
        await begun.wait()
        await desk.db.write_short(lambda conn: threads.append(threading.get_ident()))
        end.set()
    await desk.db.write_short(lambda conn: threads.append(threading.get_ident()))
    assert threads[0] != threading.get_ident()
    assert threads[1] == threading.get_ident()


async def test_few_bytes_are_durable_by_the_log_alone(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their row has them; the file is made from it where the power took it."""
    synced: list[str] = []
    real = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    lost, torn = await desk.new("lost", b"precious"), await desk.new("torn", b"precious")
    monkeypatch.setattr(os, "fsync", watch)
    desk.commit.note(lost)
    await desk.commit.commit()
    await desk.commit.sync(torn)
    assert synced == ["replica.db-wal"] * 2
    monkeypatch.undo()
    assert not lost.path.exists()
    torn.path.write_bytes(b"pre\0\0\0\0\0, and what nobody has recorded")
    again = await desk.restarted()
    assert await again.bytes_of("lost") == b"precious"
    assert await again.bytes_of("torn") == b"precious"
    await again.blocks.aclose()


async def test_bytes_that_outgrow_their_row_are_in_the_file_before_it_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or else a power cut behind the row would take what was durable long before."""
    synced: list[str] = []
    real = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    draft = await desk.new("f", b"precious")
    await desk.commit.sync(draft)
    await draft.write(8, LARGE)
    before = desk.db.row("SELECT extents, data FROM draft")
    draft.recorded(await desk.db.write(draft.record))
    assert tuple(desk.db.row("SELECT extents, data FROM draft")) == tuple(before) == ("[[0,8]]", b"precious")
    assert not draft.is_recorded
    monkeypatch.setattr(os, "fsync", watch)
    await desk.commit.sync_file(draft)
    assert synced == [draft.path.name, "drafts"]
    draft.recorded(await desk.db.write(draft.record))
    assert draft.is_recorded
    assert desk.db.row("SELECT data FROM draft")["data"] is None
    await desk.commit.sync(draft)
    assert synced[2:] == [draft.path.name, "drafts", "replica.db-wal"]


async def test_a_small_file_is_made_when_it_has_stayed_for_a_while(desk: Desk) -> None:
    kept, gone, synced = [await desk.new(name, name.encode()) for name in ("kept", "gone", "synced")]
    for draft in (kept, gone, synced):
        desk.commit.note(draft)
    await desk.commit.sync(synced)
    await desk.commit.commit()
    assert [path for path in desk.root.iterdir() if path.suffix == ".draft"] == []
    await desk.db.write(lambda conn: Drafts.delete(conn, gone.id))
    desk.drafts.gone(gone.id)
    del kept, draft
    gc.collect()
    await desk.drafts.make_files()
    assert {path.read_bytes() for path in desk.root.iterdir()} == {b"kept", b"synced"}
    await desk.drafts.make_files()


async def test_a_small_file_that_was_not_made_is_in_its_row(desk: Desk) -> None:
    draft = await desk.new("f", b"in the row")
    number, path = draft.id, draft.path
    del draft
    gc.collect()
    assert not path.exists()
    found = desk.drafts.find(number)
    assert found is not None
    assert found.read_held(0, 10) == b"in the row"
    assert await found.write(10, b", and more") == 10
    assert await desk.sealer.seal(found) is not None
    assert await desk.bytes_of("f") == b"in the row, and more"


async def test_a_small_file_is_made_at_once_where_room_is_short(desk: Desk) -> None:
    """When the disk is full, there is no room for it any more, and no file to seal."""
    desk.drafts.has_much_room = lambda: False
    draft = await desk.new("f", b"in its file")
    assert draft.path.read_bytes() == b"in its file"
    killed = Desk(desk.db, desk.root.parent)
    assert await recovery.recover(desk.db, killed.drafts, desk.recovered) == 1
    assert draft.path.read_bytes() == b"in its file"
    killed.drafts.close()


async def test_a_kill_leaves_a_small_file_in_its_row(desk: Desk) -> None:
    """Recovery needs no disk space for it, which there may not be before something is uploaded."""
    draft = await desk.new("f", b"in the row")
    killed = Desk(desk.db, desk.root.parent)
    assert await recovery.recover(desk.db, killed.drafts, desk.recovered) == 1
    assert not draft.path.exists()
    assert await killed.bytes_of("f") == b"in the row"
    await killed.drafts.make_files()
    assert draft.path.read_bytes() == b"in the row"
    killed.drafts.close()
