"""Drafts, their sealing and what a crash at any point leaves."""

import errno
import hashlib
import itertools
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.cache.blocks import BLOCK, Blocks
from cmsfs.journal import ops, recovery
from cmsfs.journal.drafts import Draft, Drafts
from cmsfs.journal.durability import GroupCommit
from cmsfs.journal.extents import Extents
from cmsfs.journal.sealing import Sealer, is_unsent, release_content
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Content, Ino, Kind
from cmsfs.sqlite import Connection, Database


class Nowhere:
    """A service that cannot be reached."""

    async def blocks(self, content: Content, first: int, last: int) -> None:
        raise OSError(errno.ENETDOWN, os.strerror(errno.ENETDOWN))


class Desk:
    """Drafts with what is below them."""

    def __init__(self, db: Database, root: Path) -> None:
        self.db = db
        self.root = root / "drafts"
        self.recovered = root / "recovered"
        for folder in (self.root, self.recovered):
            folder.mkdir(exist_ok=True)
        self.blocks = Blocks(db, root / "blocks", self.root, limit_bytes=1 << 30, keep_free_bytes=1 << 20)
        self.drafts = Drafts(db, self.root)
        self.commit = GroupCommit(db, self.root)
        self.sealer = Sealer(db, self.drafts, self.blocks, Nowhere(), self.commit)

    async def new(self, name: str, data: bytes, *, base: tuple[str, int] | None = None) -> Draft:
        def txn(conn: Connection) -> tuple[Ino, int]:
            ino = tree.insert(conn, ROOT, name, Kind.FILE, now_ns=0)
            ops.record(conn, ino, ops.OpKind.UPLOAD, due_ns=0)
            return ino, Drafts.insert(conn, ino, base)

        ino, draft_id = await self.db.write(txn)
        draft = self.drafts.started(draft_id, ino, base)
        await draft.write(0, data)
        draft.recorded(await self.db.write(draft.record))
        return draft

    async def restarted(self) -> "Desk":
        """The same folders as another process finds them, recovered."""
        self.drafts.close()
        await self.blocks.aclose()
        desk = Desk(self.db, self.root.parent)
        await recovery.recover(desk.db, desk.drafts, desk.recovered)
        await desk.blocks.recover(clean_shutdown=False, same_boot=True)
        return desk

    async def bytes_of(self, name: str) -> bytes:
        node = tree.find_child(self.db, ROOT, name)
        assert node is not None
        if node.draft is not None:
            draft = self.drafts.find(node.draft)
            assert draft is not None
            return b"".join(
                draft.read_held(start, end) if where == "draft" else bytes(end - start)
                for start, end, where in draft.pieces(0, draft.size)
            )
        assert node.sha1 is not None
        return bytes(await self.blocks.read(node.sha1, node.size, 0, node.size))


@pytest.fixture
async def desk(db: Database, tmp_path: Path) -> AsyncIterator[Desk]:
    made = Desk(db, tmp_path)
    await made.blocks.recover(clean_shutdown=True, same_boot=True)
    yield made
    made.drafts.close()
    await made.blocks.aclose()


WRITE = st.tuples(st.just("write"), st.integers(0, 40), st.binary(min_size=1, max_size=20))
CUT = st.tuples(st.just("cut"), st.integers(0, 60), st.just(b""))


@given(steps=st.lists(st.one_of(WRITE, CUT), max_size=12), base=st.binary(max_size=30))
def test_a_draft_shows_what_a_file_would(steps: list[tuple[str, int, bytes]], base: bytes) -> None:
    """Pure arithmetic of the overlay: pieces over a base against a byte string."""
    model = bytearray(base)
    draft = Draft(1, 3, Path("/nonexistent"), ("0" * 40, len(base)))
    held = bytearray(100)
    for kind, at, data in steps:
        if kind == "write":
            model.extend(bytes(max(0, at - len(model))))
            model[at : at + len(data)] = data
            held[at : at + len(data)] = data
            draft.extents.add(at, at + len(data))
            draft.size = max(draft.size, at + len(data))
        else:
            if at < draft.size:
                draft.extents.clip(at)
                draft.base_size = min(draft.base_size, at)
            del model[at:]
            model.extend(bytes(at - len(model)))
            draft.size = at
    source = {"draft": bytes(held), "base": base, "zero": bytes(100)}
    shown = b"".join(source[where][start:end] for start, end, where in draft.pieces(0, 1000))
    assert shown == bytes(model)


async def test_a_restart_finds_the_draft_as_it_was_recorded(desk: Desk) -> None:
    draft = await desk.new("f", b"recorded")
    await draft.write(8, b" and not")
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"recorded"
    await again.blocks.aclose()


OLD, NEW = b"o" * 5000, b"n" * 5000


async def over_old(desk: Desk) -> Draft:
    """A file whose new version is written over all of its old one, and recorded."""
    old = await desk.new("f", OLD)
    sealed = await desk.sealer.seal(old)
    assert sealed is not None

    def txn(conn: Connection) -> int:
        return Drafts.insert(conn, old.ino, (sealed.sha1, sealed.size))

    base = (sealed.sha1, sealed.size)
    draft = desk.drafts.started(await desk.db.write(txn), old.ino, base)
    await draft.write(0, NEW)
    draft.recorded(await desk.db.write(draft.record))
    return draft


@pytest.mark.parametrize("size", [0, 2000])
@pytest.mark.parametrize("moment", ["before the row", "after the row", "after the cut"])
async def test_a_killed_truncation_leaves_the_file_whole_or_cut(
    desk: Desk, size: int, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> Any:
        raise Died

    draft = await over_old(desk)
    if moment == "before the row":
        monkeypatch.setattr(draft, "_commit", die)
    elif moment == "after the row":
        monkeypatch.setattr(os, "ftruncate", die)
    else:
        monkeypatch.setattr(draft, "release", die)
    with pytest.raises(Died):
        await draft.truncate(size)
    monkeypatch.undo()
    again = await desk.restarted()
    node = tree.find_child(again.db, ROOT, "f")
    assert node is not None
    assert node.draft is not None
    found = again.drafts.find(node.draft)
    assert found is not None
    assert await again.sealer.seal(found) is not None
    assert await again.bytes_of("f") == (NEW if moment == "before the row" else NEW[:size])
    await again.blocks.aclose()


async def test_a_truncation_is_on_the_disk_before_bytes_go(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await over_old(desk)
    steps: list[str] = []
    commit, cut = draft._commit, os.ftruncate

    async def committed(txn: Any) -> int:
        assert commit is not None
        number = await commit(txn)
        steps.append("row")
        return number

    def watch(fd: int, size: int) -> None:
        steps.append("file")
        cut(fd, size)

    monkeypatch.setattr(draft, "_commit", committed)
    monkeypatch.setattr(os, "ftruncate", watch)
    await draft.truncate(2000)
    assert steps == ["row", "file"]


async def test_a_truncation_that_cannot_be_recorded_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await over_old(desk)

    async def full(txn: Any) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(draft, "_commit", full)
    with pytest.raises(OSError, match="No space"):
        await draft.truncate(100)
    assert await desk.bytes_of("f") == NEW
    assert draft.size == len(NEW)


async def test_bytes_that_were_never_recorded_do_not_show_in_a_gap(desk: Desk) -> None:
    draft = await desk.new("f", b"begin")
    await draft.truncate(200_000)
    await draft.write(199_998, b"en")
    draft.recorded(await desk.db.write(draft.record))
    await draft.write(100_000, b"unrecorded")
    await draft.write(300_000, b"unrecorded")
    again = await desk.restarted()
    found = again.drafts.find(draft.id)
    assert found is not None
    await found.truncate(400_000)
    assert await again.sealer.seal(found) is not None
    expected = (b"begin" + bytes(199_993) + b"en").ljust(400_000, b"\0")
    assert await again.bytes_of("f") == expected
    await again.blocks.aclose()


async def test_a_write_that_the_disk_cuts_short_counts_as_far_as_it_went(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await desk.new("f", b"begin")
    real = os.pwrite

    def full(fd: int, data: Any, offset: int) -> int:
        if offset >= 1000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, data[: 1000 - offset], offset)

    monkeypatch.setattr(os, "pwrite", full)
    assert await draft.write(500, b"x" * 1000) == 500
    with pytest.raises(OSError, match="No space"):
        await draft.write(1000, b"x")
    monkeypatch.undo()
    await draft.truncate(2000)
    assert await desk.sealer.seal(draft) is not None
    assert await desk.bytes_of("f") == (b"begin" + bytes(495) + b"x" * 500).ljust(2000, b"\0")


async def test_sealed_content_is_found_after_a_restart(desk: Desk) -> None:
    draft = await desk.new("f", b"x" * (BLOCK + 1))
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert sealed.sha1 == hashlib.sha1(b"x" * (BLOCK + 1)).hexdigest()
    assert await desk.db.query(lambda conn: is_unsent(conn, sealed.sha1))
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"x" * (BLOCK + 1)
    await again.blocks.aclose()


@pytest.mark.parametrize("point", ["linked", "adopted", "committed"])
async def test_a_crash_within_the_seal_loses_nothing(
    desk: Desk, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder as it is when the process dies after this step; another process then recovers it."""

    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> Any:
        raise Died

    draft = await desk.new("f", b"precious")
    # What would be cleaned up by a process that lives on stays, as after a kill.
    monkeypatch.setattr(Path, "unlink", lambda *args, **kwargs: None)
    if point == "linked":
        monkeypatch.setattr(desk.blocks, "adopt_dirty", die)
    elif point == "adopted":
        monkeypatch.setattr(desk.db, "write", die)
    else:
        monkeypatch.setattr(desk.drafts, "gone", die)
    with pytest.raises(Died):
        await desk.sealer.seal(draft)
    monkeypatch.undo()
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"precious"
    assert list(again.recovered.iterdir()) == []
    # And what was recovered can be sealed and written as ever.
    node = tree.find_child(again.db, ROOT, "f")
    assert node is not None
    if node.draft is not None:
        found = again.drafts.find(node.draft)
        assert found is not None
        assert await again.sealer.seal(found) is not None
    assert await again.bytes_of("f") == b"precious"
    await again.commit.commit()
    assert [path.name for path in again.root.iterdir()] == [hashlib.sha1(b"precious").hexdigest()]
    await again.blocks.aclose()


async def test_a_power_cut_that_took_the_end_of_a_file_takes_no_more(desk: Desk, expect_log: Any) -> None:
    draft = await desk.new("f", b"0123456789")
    os.truncate(draft.path, 4)
    expect_log("after the power failed")
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"0123"
    await again.blocks.aclose()


async def test_a_draft_file_without_a_row_is_kept_aside(desk: Desk) -> None:
    (desk.root / "99.draft").write_bytes(b"whose?")
    again = await desk.restarted()
    assert (again.recovered / "99.draft").read_bytes() == b"whose?"
    await again.blocks.aclose()


async def test_running_operations_are_ready_after_a_restart(desk: Desk) -> None:
    await desk.new("f", b"x")
    await desk.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
    again = await desk.restarted()
    assert [row["state"] for row in desk.db.rows("SELECT state FROM op")] == ["ready"]
    await again.blocks.aclose()


async def test_the_last_run_is_judged_by_its_mark_and_its_boot(db: Database) -> None:
    assert await recovery.begin(db) == recovery.LastRun(clean=True, same_boot=True)
    assert await recovery.begin(db) == recovery.LastRun(clean=False, same_boot=True)
    await recovery.end(db)
    await db.write(lambda conn: conn.execute("UPDATE cursor SET value = 'other' WHERE key = 'boot_id'"))
    assert await recovery.begin(db) == recovery.LastRun(clean=True, same_boot=False)


async def test_bytes_reach_the_disk_before_the_row_that_speaks_of_them(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The order of the fsyncs of a group commit: draft files, their folder, then the log."""
    synced: list[str] = []
    real = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        real(fd)

    draft = await desk.new("f", b"x")
    commit = desk.commit
    commit.note(draft)
    monkeypatch.setattr(os, "fsync", watch)
    await commit.commit()
    assert synced == [draft.path.name, "drafts", "replica.db-wal"]


async def test_group_commits_follow_within_a_second(desk: Desk, autojump_clock: Any, nursery: Any) -> None:
    import trio

    draft = await desk.new("f", b"x")
    commit = GroupCommit(desk.db, desk.root)
    synced = trio.Event()

    async def fsync() -> None:
        synced.set()

    draft.fsync = fsync  # type: ignore[method-assign]
    nursery.start_soon(commit.run)
    commit.note(draft)
    with trio.fail_after(1):
        await synced.wait()


async def test_a_failing_disk_does_not_slow_down_the_groups(
    desk: Desk, autojump_clock: Any, nursery: Any, expect_log: Any
) -> None:
    import trio

    expect_log("tried again and again")
    draft = await desk.new("f", b"x")
    commit = GroupCommit(desk.db, desk.root)
    synced, tries = trio.Event(), []

    async def fsync() -> None:
        tries.append(trio.current_time())
        if len(tries) < 10:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        synced.set()

    draft.fsync = fsync  # type: ignore[method-assign]
    nursery.start_soon(commit.run)
    commit.note(draft)
    with trio.fail_after(10):
        await synced.wait()
    assert max(after - before for before, after in itertools.pairwise(tries)) <= 1


async def test_a_group_that_could_not_be_made_durable_is_not_forgotten(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await desk.new("f", b"x")
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
    with pytest.raises(ExceptionGroup):
        await desk.commit.commit()
    assert left.exists()
    monkeypatch.setattr(os, "fsync", watch)
    await desk.commit.commit()
    assert synced == [draft.path.name, "drafts", "replica.db-wal"]
    assert not left.exists()


async def test_a_draft_is_one_for_all_who_find_it(desk: Desk) -> None:
    def txn(conn: Connection) -> tuple[Ino, int]:
        ino = tree.insert(conn, ROOT, "f", Kind.FILE, now_ns=0)
        return ino, Drafts.insert(conn, ino, None)

    ino, draft_id = await desk.db.write(txn)
    found = desk.drafts.find(draft_id)
    assert desk.drafts.started(draft_id, ino, None) is found


def test_extents_of_a_draft_survive_as_text() -> None:
    assert Extents.from_json(Extents([(3, 5), (5, 9), (20, 21)]).to_json()) == Extents([(3, 9), (20, 21)])


async def test_a_draft_that_is_dropped_while_it_is_sealed_becomes_nothing(desk: Desk) -> None:
    draft = await desk.new("f", b"on its way")
    await desk.db.write(lambda conn: Drafts.delete(conn, draft.id))
    assert await desk.sealer.seal(draft) is None
    assert [path.name for path in desk.root.iterdir()] == [draft.path.name]


async def test_bytes_are_on_the_disk_before_they_become_content(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await desk.new("f", b"precious")
    steps: list[str] = []
    fsync, link = os.fsync, os.link

    def watch_fsync(fd: int) -> None:
        steps.append(f"fsync {Path(f'/proc/self/fd/{fd}').readlink().name}")
        fsync(fd)

    def watch_link(source: Any, target: Any) -> None:
        steps.append("link")
        link(source, target)

    monkeypatch.setattr(os, "fsync", watch_fsync)
    monkeypatch.setattr(os, "link", watch_link)
    assert await desk.sealer.seal(draft) is not None
    assert steps == [f"fsync {draft.path.name}", "link"]


@pytest.mark.parametrize("holder", ["content", "base of a draft"])
async def test_content_stays_while_another_file_has_to_send_it(desk: Desk, holder: str) -> None:
    one, two = await desk.new("one", b"the same"), await desk.new("two", b"the same")
    sealed = await desk.sealer.seal(one)
    assert sealed is not None
    assert await desk.sealer.seal(two) is not None

    def txn(conn: Connection) -> bool:
        # The service has it as `one`.
        conn.execute("UPDATE node SET base_sha1 = sha1, remote_id = '1' WHERE ino = ?", (one.ino,))
        if holder == "base of a draft":
            Drafts.insert(conn, two.ino, (sealed.sha1, sealed.size))
            conn.execute("UPDATE node SET sha1 = NULL WHERE ino = ?", (two.ino,))
        return release_content(conn, sealed.sha1)

    assert not await desk.db.write(txn)
    await desk.blocks.settle_clean(sealed.sha1)
    assert (desk.root / sealed.sha1).read_bytes() == b"the same"

    def sent(conn: Connection) -> bool:
        conn.execute("UPDATE node SET base_sha1 = ?, remote_id = '2' WHERE ino = ?", (sealed.sha1, two.ino))
        return release_content(conn, sealed.sha1)

    assert await desk.db.write(sent)
    await desk.blocks.settle_clean(sealed.sha1)
    assert not (desk.root / sealed.sha1).exists()
