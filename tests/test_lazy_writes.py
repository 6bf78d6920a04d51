"""Transactions that are left open, to be committed with the next one."""

import contextlib
import resource
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cmsfs import sqlite

SCHEMA = "CREATE TABLE t(a, b);"


def _add(number: int) -> Callable[[sqlite.Connection], int | None]:
    return lambda conn: conn.execute("INSERT INTO t VALUES (?, 0)", (number,)).lastrowid


def _committed(db: sqlite.Database) -> list[int]:
    """What a process that is killed now leaves."""
    with contextlib.closing(sqlite3.connect(db.path)) as conn:
        return [row[0] for row in conn.execute("SELECT a FROM t ORDER BY a")]


async def test_a_lazy_write_is_committed_with_the_next_one(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "db", SCHEMA) as db:
        db.has_much_room = lambda: True
        await db.write_short(_add(1))
        await db.write_short(_add(2), lazily=True)
        await db.write_short(_add(3), lazily=True)
        assert [row["a"] for row in db.rows("SELECT a FROM t ORDER BY a")] == [1, 2, 3]
        assert _committed(db) == [1]
        await db.write_short(_add(4))
        assert _committed(db) == [1, 2, 3, 4]


async def test_a_failure_undoes_its_own_transaction_only(tmp_path: Path) -> None:
    def fail(conn: sqlite.Connection) -> None:
        _add(9)(conn)
        raise KeyError("x")

    async with sqlite.open_database(tmp_path / "db", SCHEMA) as db:
        db.has_much_room = lambda: True
        await db.write_short(_add(1))
        for lazily in (True, False):
            await db.write_short(_add(2), lazily=True)
            with pytest.raises(KeyError):
                await db.write_short(fail, lazily=lazily)
        db.settle()
        assert _committed(db) == [1, 2, 2]


@pytest.mark.parametrize("how", ["settle", "query", "write", "durable", "sync", "write_back", "close"])
async def test_what_needs_a_commit_makes_it(tmp_path: Path, how: str) -> None:
    async with sqlite.open_database(tmp_path / "db", SCHEMA) as db:
        db.has_much_room = lambda: True
        await db.write_short(_add(1))
        await db.write_short(_add(2), lazily=True)
        match how:
            case "settle":
                db.settle()
            case "query":
                assert await db.query(lambda conn: conn.execute("SELECT count(*) FROM t").fetchone()[0]) == 2
            case "write" | "durable":
                await db.write(_add(3), durable=how == "durable")
                assert _committed(db) == [1, 2, 3]
            case "sync":
                with db.log_syncing():
                    assert _committed(db) == [1, 2]
                    await db.write_short(_add(3), lazily=True)  # in a thread, which leaves nothing open
                    assert _committed(db) == [1, 2, 3]
            case "write_back":
                db.limit_log_size(1)
                await db.write_back()
                await db.checkpoint_log()
        if how != "close":
            assert _committed(db)[:2] == [1, 2]
    assert _committed(db)[:2] == [1, 2]


@contextlib.contextmanager
def full_log(db: sqlite.Database) -> Iterator[None]:
    """Inside, no commit fits into the log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (Path(f"{db.path}-wal").stat().st_size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("how", ["settle", "write"])
async def test_what_was_left_open_outlives_a_commit_that_fails(tmp_path: Path, how: str) -> None:
    """Only what could not be committed then is undone: who wrote the rest was told that it is done."""
    async with sqlite.open_database(tmp_path / "db", SCHEMA) as db:
        db.has_much_room = lambda: True
        await db.write_short(_add(1))
        await db.write_short(_add(2), lazily=True)
        await db.write_short(_add(3), lazily=True)
        for _ in range(2):
            with full_log(db), pytest.raises(sqlite3.OperationalError):
                if how == "settle":
                    db.settle()
                else:
                    await db.write_short(_add(4))
            assert [row["a"] for row in db.rows("SELECT a FROM t ORDER BY a")] == [1, 2, 3]
            assert _committed(db) == [1]
        await db.write_short(_add(5))
        assert _committed(db) == [1, 2, 3, 5]


async def test_nothing_is_left_open_where_room_is_short(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "db", SCHEMA) as db:
        await db.write_short(_add(1))
        await db.write_short(_add(2), lazily=True)
        assert _committed(db) == [1, 2]
