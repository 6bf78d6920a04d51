"""Drafts that become content, and what a crash at any point leaves."""

import errno
import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs.cache.blocks import BLOCK
from cmsfs.journal import recovery
from cmsfs.journal.draft import ROW_BYTES
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.sealing import SMALL, is_unsent, release_content
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT
from cmsfs.sqlite import Connection, Database
from tests.journal.conftest import Desk
from tests.support.log_watch import ExpectLog


async def test_sealed_content_is_found_after_a_restart(desk: Desk) -> None:
    draft = await desk.new("f", b"x" * (BLOCK + 1))
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert sealed.sha1 == hashlib.sha1(b"x" * (BLOCK + 1)).hexdigest()
    assert await desk.db.query(lambda conn: is_unsent(conn, sealed.sha1))
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"x" * (BLOCK + 1)
    await again.blocks.aclose()


@pytest.mark.parametrize("point", ["hashed", "adopted", "committed"])
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
    if point == "hashed":
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


@pytest.mark.parametrize("point", ["linked", "committed"])
async def test_a_crash_within_the_seal_of_many_loses_nothing(
    desk: Desk, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException):
        pass

    def die(*args: Any, **kwargs: Any) -> Any:
        raise Died

    drafts = [await desk.new(name, name.encode() * 9) for name in ("one", "two")]
    monkeypatch.setattr(Path, "unlink", lambda *args, **kwargs: None)
    if point == "linked":
        monkeypatch.setattr(desk.db, "write", die)
    else:
        monkeypatch.setattr(desk.drafts, "gone", die)
    with pytest.raises(Died):
        await desk.sealer.seal_small(drafts, lambda *_: None)
    monkeypatch.undo()
    again = await desk.restarted()
    assert [await again.bytes_of(name) for name in ("one", "two")] == [b"one" * 9, b"two" * 9]
    assert list(again.recovered.iterdir()) == []
    kinds = {path.suffix for path in again.root.iterdir()}
    assert kinds == ({".draft"} if point == "linked" else {""})
    await again.blocks.aclose()


async def test_small_files_are_on_the_disk_before_they_become_content(desk: Desk, steps: list[str]) -> None:
    drafts = [await desk.new(name, name.encode()) for name in ("one", "two", "three")]
    drafts[1].fsync()
    steps.clear()
    assert len(await desk.sealer.seal_small(drafts, lambda *_: steps.append("row"))) == 3
    files = [f"fsync {draft.path.name}" for draft in (drafts[0], drafts[2])]
    assert steps == [*files, "link", "link", "link", f"fsync {desk.root.name}", "row"]


async def test_small_files_without_a_file_become_content(desk: Desk) -> None:
    drafts = [await desk.new(name, name.encode()) for name in ("longer", "shorter")]
    drafts.append(await desk.new("empty", b""))
    for draft, size in zip(drafts, (9, 5, 0), strict=True):
        await draft.truncate(size)
        draft.recorded(await desk.db.write(draft.record))
    assert list(desk.root.iterdir()) == []
    found = await desk.sealer.seal_small(drafts, lambda *_: None)
    assert [(one.size, one.data) for one in found] == [(9, b"longer\0\0\0"), (5, b"short"), (0, b"")]
    assert [await desk.bytes_of(name) for name in ("longer", "shorter")] == [b"longer\0\0\0", b"short"]


async def test_a_small_file_that_is_written_to_while_it_is_sealed_stays_a_draft(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = await desk.new("f", b"old bytes")
    fsync = os.fsync

    def write_first(fd: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        trio.from_thread.run(draft.write, 0, b"new")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", write_first)
    assert await desk.sealer.seal_small([draft], lambda *_: None) == []
    assert len(await desk.sealer.seal_small([draft], lambda *_: None)) == 1
    assert await desk.bytes_of("f") == b"new bytes"


async def test_what_was_filled_in_is_on_the_disk_before_it_is_content(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes of the base came into the draft after its own were fsynced, and its upload was put off then."""
    draft = await desk.new("f", b"x", base=("0" * 40, 9))
    draft.fsync()
    await draft.fill(0, b"123456789")
    synced: list[str] = []
    fsync = os.fsync

    def watch(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink().name)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", watch)
    assert len(await desk.sealer.seal_small([draft], lambda *_: None)) == 1
    assert synced == [draft.path.name, desk.root.name]
    assert await desk.bytes_of("f") == b"x23456789"


async def test_failed_batch_seal_leaves_drafts(desk: Desk) -> None:
    small, same = await desk.new("small", b"bytes"), await desk.new("same", b"bytes")
    large = await desk.new("large", bytes(SMALL + 1))
    based = await desk.new("based", b"x", base=("0" * 40, 9))
    dropped, written = await desk.new("dropped", b"gone"), await desk.new("written", b"more")
    await desk.db.write(lambda conn: Drafts.delete(conn, dropped.id))
    written.count_writers(1)
    found = await desk.sealer.seal_small([small, same, large, based, dropped, written], lambda *_: None)
    assert [one.ino for one in found] == [small.ino]
    await desk.commit.commit()
    # Nobody has wanted the file of `written` yet.
    drafts = {draft.path.name for draft in (same, large, based, dropped)}
    assert {path.name for path in desk.root.iterdir()} == {found[0].sha1, *drafts}
    assert await written.write(4, b" and more") == 9
    assert await desk.sealer.seal(same) is not None
    assert [await desk.bytes_of(name) for name in ("small", "same")] == [b"bytes", b"bytes"]


async def test_small_files_are_drafts_still_where_their_rows_were_refused(desk: Desk) -> None:
    """As by a full disk: they are written on, and sealed another time."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    draft = await desk.new("f", b"bytes")
    with pytest.raises(OSError, match="No space"):
        await desk.sealer.seal_small([draft], refuse)
    assert [path.name for path in desk.root.iterdir()] == [draft.path.name]
    assert await draft.write(5, b", more") == 6
    assert len(await desk.sealer.seal_small([draft], lambda *_: None)) == 1
    assert await desk.bytes_of("f") == b"bytes, more"


async def test_truncation_by_power_cut_is_bounded(desk: Desk, expect_log: ExpectLog) -> None:
    draft = await desk.new("f", b"0123456789" * ROW_BYTES)
    os.truncate(draft.path, 4)
    expect_log("after the power failed")
    again = await desk.restarted()
    assert await again.bytes_of("f") == b"0123"
    await again.blocks.aclose()


async def test_orphaned_draft_is_recovered(desk: Desk) -> None:
    (desk.root / "99.draft").write_bytes(b"whose?")
    again = await desk.restarted()
    assert (again.recovered / "99.draft").read_bytes() == b"whose?"
    await again.blocks.aclose()


async def test_draft_without_a_row_is_recovered_though_its_sealing_had_begun(desk: Desk) -> None:
    """The file was deleted while its draft was being sealed, and the process was killed."""
    draft = await desk.new("f", b"whose?" * ROW_BYTES)
    (desk.root / hashlib.sha1(b"whose?" * ROW_BYTES).hexdigest()).hardlink_to(draft.path)
    await desk.db.write(lambda conn: Drafts.delete(conn, draft.id))
    again = await desk.restarted()
    assert (again.recovered / draft.path.name).read_bytes() == b"whose?" * ROW_BYTES
    assert list(again.root.iterdir()) == []
    await again.blocks.aclose()


async def test_draft_that_became_content_is_not_recovered(desk: Desk) -> None:
    draft = await desk.new("f", b"bytes" * ROW_BYTES)
    sealed = await desk.sealer.seal(draft)
    assert sealed is not None
    assert {path.name for path in desk.root.iterdir()} == {sealed.sha1, draft.path.name}
    again = await desk.restarted()
    assert list(again.recovered.iterdir()) == []
    assert list(again.root.iterdir()) == [again.root / sealed.sha1]
    assert await again.bytes_of("f") == b"bytes" * ROW_BYTES
    await again.blocks.aclose()


async def test_running_operations_are_ready_after_a_restart(desk: Desk) -> None:
    await desk.new("f", b"x")
    await desk.db.write(lambda conn: conn.execute("UPDATE op SET state = 'running'"))
    again = await desk.restarted()
    assert [row["state"] for row in desk.db.rows("SELECT state FROM op")] == ["ready"]
    await again.blocks.aclose()


async def test_clean_shutdown_mark_and_boot_id(db: Database) -> None:
    assert await recovery.begin(db) == recovery.LastRun(clean=True, same_boot=True)
    await recovery.note_recovered(db)
    assert await recovery.begin(db) == recovery.LastRun(clean=False, same_boot=True)
    await recovery.end(db)
    await db.write(lambda conn: conn.execute("UPDATE cursor SET value = 'other' WHERE key = 'boot_id'"))
    assert await recovery.begin(db) == recovery.LastRun(clean=True, same_boot=False)
    # A start that dies before all is checked leaves that to the next one.
    assert await recovery.begin(db) == recovery.LastRun(clean=False, same_boot=False)
    await recovery.note_recovered(db)
    assert await recovery.begin(db) == recovery.LastRun(clean=False, same_boot=True)


async def test_draft_dropped_during_sealing_is_gone(desk: Desk) -> None:
    draft = await desk.new("f", b"on its way")
    await desk.db.write(lambda conn: Drafts.delete(conn, draft.id))
    assert await desk.sealer.seal(draft) is None
    assert [path.name for path in desk.root.iterdir()] == [draft.path.name]


async def test_seal_syncs_bytes_and_name_before_row(desk: Desk, steps: list[str]) -> None:
    draft = await desk.new("f", b"precious")
    steps.clear()
    assert await desk.sealer.seal(draft) is not None
    assert steps == [f"fsync {draft.path.name}", "link", f"fsync {draft.path.parent.name}"]


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
