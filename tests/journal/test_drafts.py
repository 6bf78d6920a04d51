"""Drafts: what they show, and what a truncation leaves that is killed."""

import errno
import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.journal.draft import ROW_BYTES, Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.extents import Extents
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino, NodeKind
from cmsfs.sqlite import Connection
from tests.journal.conftest import Desk

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


async def test_draft_survives_a_restart(desk: Desk) -> None:
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
async def test_killed_truncation_is_atomic(
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


async def test_truncation_is_durable_before_the_cut(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
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


async def test_unrecorded_bytes_do_not_fill_gaps(desk: Desk) -> None:
    draft = await desk.new("f", b"begin")
    await draft.truncate(200_000)
    await draft.write(199_998, b"en")
    await desk.commit.sync_file(draft)
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


async def test_short_write_counts_what_was_written(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = await desk.new("f", b"begin")
    draft.make_file()
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


async def test_a_write_between_a_look_at_a_small_draft_and_its_fsync_is_kept(desk: Desk) -> None:
    draft = await desk.new("f", b"begin")
    seen = draft.in_memory()
    assert seen == b"begin"
    await draft.write(5, b" and end")
    draft.fsync(size=len(seen))
    assert await desk.sealer.seal(draft) is not None
    assert await desk.bytes_of("f") == b"begin and end"


@pytest.mark.parametrize("seed", range(4))
async def test_row_has_the_bytes_of_the_file(desk: Desk, seed: int) -> None:
    chance = random.Random(seed)
    draft = await desk.new("f", b"")
    for _ in range(60):
        at = chance.choice([0, 10, draft.extents.end, ROW_BYTES - 5, chance.randrange(ROW_BYTES)])
        if chance.random() < 0.6:
            await draft.write(at, chance.randbytes(chance.choice([1, 8, 100])))
        else:
            await draft.truncate(at)
        if not draft.is_recorded:
            draft.recorded(await desk.db.write(lambda conn: draft.record(conn, is_synced=True)))
        row = desk.db.row("SELECT data FROM draft WHERE id = ?", draft.id)
        assert row is not None
        shown = draft.read_held(0, draft.extents.end)
        if chance.random() < 0.2:
            draft.make_file()
        held = draft.path.read_bytes()[: draft.extents.end] if draft.path.exists() else shown
        assert held == shown
        assert row["data"] == (held if len(held) <= ROW_BYTES else None)


async def test_draft_is_shared_by_its_finders(desk: Desk) -> None:
    def txn(conn: Connection) -> tuple[Ino, int]:
        ino = tree.insert(conn, ROOT, "f", NodeKind.FILE, now_ns=0)
        return ino, Drafts.insert(conn, ino, None)

    ino, draft_id = await desk.db.write(txn)
    found = desk.drafts.find(draft_id)
    assert desk.drafts.started(draft_id, ino, None) is found


def test_extents_of_a_draft_survive_as_text() -> None:
    assert Extents.from_json(Extents([(3, 5), (5, 9), (20, 21)]).to_json()) == Extents([(3, 9), (20, 21)])
