"""What no feed tells is found by comparing; and comparing costs little when there is nothing to find."""

from typing import Any

import pytest

from cmsfs import config
from cmsfs.replica import cursor
from daemon import sweep


@pytest.fixture(params=["search", "events"])
def settings(request: Any) -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=5, feed=request.param)


async def _purge(other: Any, kind: str, number: str) -> None:
    """Remove for good, so fast that no poll sees the trash."""
    await getattr(other.client, f"{kind}s").delete(number)
    await other.client.trash.purge(kind, number)


def _forget_events(drive: Any) -> None:
    """What is in the stream now is lost on the way."""
    drive.agents.pull._feed._position = None


async def test_what_was_purged_goes_with_the_quick_sweep(drive: Any, other: Any) -> None:
    docs = await other.folder("docs")
    gone = await other.file("gone", b"x", parent=docs)
    await other.file("kept", b"y", parent=docs)
    assert await drive.names("docs") == ["gone", "kept"]
    await drive.poll()
    await other.store.write(lambda conn: conn.execute("DELETE FROM version WHERE file = ?", (int(gone),)))
    await other.store.write(lambda conn: conn.execute("DELETE FROM item WHERE id = ?", (int(gone),)))
    await drive.poll()
    assert await drive.names("docs") == ["gone", "kept"]
    assert await drive.agents.sweep.once(full=False) == 1
    assert await drive.names("docs") == ["kept"]


async def test_a_quick_sweep_of_what_is_the_same_takes_one_request(drive: Any, other: Any) -> None:
    for number in range(5):
        await other.file(f"f{number}", b"x")
    await drive.names()
    await drive.mkdir("ours")
    await drive.sync()
    before = drive.agents.health.requests["sweep"]
    assert await drive.agents.sweep.once(full=False) == 0
    assert drive.agents.health.requests["sweep"] == before + 1


async def test_a_move_that_leaves_no_trace_is_found_by_the_full_sweep(drive: Any, other: Any) -> None:
    one, two = await other.folder("one"), await other.folder("two")
    moved = await other.file("f", b"x", parent=one)
    assert await drive.names("one") == ["f"]
    await drive.poll()

    def silently(conn: Any) -> None:
        path = conn.execute("SELECT path FROM item WHERE parent = ?", (int(two),)).fetchone()
        assert path is None
        row = conn.execute("SELECT path FROM item WHERE id = ?", (int(moved),)).fetchone()
        new = row["path"].replace(_step(conn, one), _step(conn, two))
        conn.execute("UPDATE item SET parent = ?, path = ? WHERE id = ?", (int(two), new, int(moved)))

    await other.store.write(silently)
    await drive.poll()
    assert await drive.agents.sweep.once(full=False) == 0
    assert await drive.names("one") == ["f"]
    assert await drive.agents.sweep.once(full=True) > 0
    assert (await drive.names("one"), await drive.names("two")) == ([], ["f"])


def _step(conn: Any, number: str) -> str:
    row = conn.execute("SELECT path FROM item WHERE id = ?", (int(number),)).fetchone()
    from cmsfs.service import items

    found = conn.execute("SELECT * FROM item WHERE id = ?", (int(number),)).fetchone()
    assert row is not None
    return str(items.below(found)[0])


async def test_local_work_survives_the_sweep(drive: Any, other: Any, network: Any) -> None:
    docs = await other.folder("docs")
    await other.file("f", b"x", parent=docs)
    assert await drive.names("docs") == ["f"]
    network.is_down = True
    await drive.write("docs/f", b"ours")
    await drive.write("docs/new", b"new")
    network.is_down = False
    await other.client.folders.delete(docs, recursive=True)
    await other.client.trash.purge("folder", docs)
    await drive.agents.sweep.once(full=True)
    await drive.sync()
    assert await drive.read("docs/f") == b"ours"
    assert await other.read("f") == b"ours"
    assert await other.read("new") == b"new"


async def test_nothing_goes_away_while_things_move(drive: Any, other: Any, network: Any) -> None:
    """A count that does not hold through a listing is no proof that anything is gone."""
    for number in range(450):
        await other.file(f"f{number:03}", b"x")
    assert len(await drive.names()) == 450
    known = sweep.Known()
    known.sort()
    search = drive.agents.sweep._windows
    pages = 0
    inner = search.page

    async def restless(*args: Any, **kwargs: Any) -> Any:
        nonlocal pages
        found = await inner(*args, **kwargs)
        pages += 1
        # Each page was read at another moment: nothing it lacks is known to be gone.
        return found.model_copy(update={"entries": found.entries[1:], "total_count": found.total_count + pages})

    search.page = restless
    await drive.agents.sweep.once(full=True)
    assert pages > 1
    assert len(await drive.names()) == 450


async def test_a_sweep_that_is_due_is_due_after_a_restart(starting: Any, other: Any) -> None:
    await other.file("f", b"x")
    async with starting() as drive:
        await drive.names()
        await drive.db.write(lambda conn: sweep.note_due(conn, sweep.FULL))
        await drive.db.write(lambda conn: sweep.note_due(conn, sweep.QUICK))
    async with starting() as drive:
        assert drive.agents.sweep._is_full_due()
        await drive.agents.sweep.once(full=True)
        assert cursor.get(drive.db, cursor.SWEEP_DUE) is None
        assert not drive.agents.sweep._is_full_due()
