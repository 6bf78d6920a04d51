"""The database under trio: transactions, their failures, and who sees what."""

import contextlib
import errno
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from cmsfs import database_files, errors, sqlite
from cmsfs.runtime import threads

SCHEMA = """
CREATE TABLE t(a, b);
CREATE TRIGGER grow AFTER INSERT ON t BEGIN
  UPDATE t SET b = 1;
END;
"""


def used_bytes(db: sqlite.Database) -> int:
    """The length of the log."""
    with contextlib.closing(database_files.WriteAheadLog(db.path)) as log:
        return log.length()


async def test_a_write_is_seen_when_it_returns(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        assert await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (1, 2)").rowcount) == 1
        row = db.row("SELECT * FROM t")
        assert row is not None
        assert tuple(row) == (1, 1)
        assert await db.query(lambda conn: conn.execute("SELECT count(*) FROM t").fetchone()[0]) == 1
        assert (tmp_path / "a.db").stat().st_mode & 0o077 == 0


async def test_each_commit_changes_the_version(tmp_path: Path) -> None:
    async with (
        sqlite.open_database(tmp_path / "a.db", SCHEMA) as db,
        sqlite.open_database(db.path, "") as other,
    ):
        before = db.version()
        assert db.version() == before
        await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (1, 2)"))
        between = db.version()
        assert between != before
        await db.write_short(lambda conn: conn.execute("INSERT INTO t VALUES (3, 4)"))
        last = db.version()
        assert last not in (before, between)
        await other.write(lambda conn: conn.execute("INSERT INTO t VALUES (5, 6)"))
        assert db.version() not in (before, between, last)


async def test_exception_rolls_back(tmp_path: Path) -> None:
    def fail(conn: sqlite.Connection) -> None:
        conn.execute("INSERT INTO t VALUES (1, 2)")
        raise KeyError("x")

    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        with pytest.raises(KeyError):
            await db.write(fail)
        await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (3, 4)"), durable=True)
        assert [row["a"] for row in db.rows("SELECT a FROM t")] == [3]


async def test_a_full_disk_is_enospc_and_passes(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:

        def fill(conn: sqlite.Connection) -> None:
            pages = conn.execute("PRAGMA page_count").fetchone()[0]
            conn.execute(f"PRAGMA max_page_count = {pages}")
            conn.execute("INSERT INTO t VALUES (zeroblob(1000000), 0)")

        with pytest.raises(OSError) as caught:
            await db.write(fill)
        assert caught.value.errno == errno.ENOSPC
        await db.write(lambda conn: conn.execute("PRAGMA max_page_count = 1000000"))
        await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (1, 2)"))
        assert len(db.rows("SELECT * FROM t")) == 1


async def test_concurrent_first_open_creates_once(tmp_path: Path) -> None:
    async def use() -> None:
        async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
            await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (1, 2)"))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(use)


async def test_a_short_write_runs_on_the_loop_and_reads_see_it(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        await db.write(lambda conn: conn.execute("INSERT INTO t VALUES (1, 2)"))
        here = threading.get_ident()
        assert (
            await db.write_short(lambda conn: (conn.execute("DELETE FROM t"), threading.get_ident())[1])
            == here
        )
        assert db.rows("SELECT * FROM t") == []
        assert await db.query(lambda conn: conn.execute("SELECT count(*) FROM t").fetchone()[0]) == 0


async def test_long_write_does_not_stall_the_loop(tmp_path: Path) -> None:
    """A short write stands behind it and is suspended; a read sees the last commit."""
    began, order = trio.Event(), list[str]()
    end = threading.Event()

    def long(conn: sqlite.Connection) -> None:
        conn.execute("INSERT INTO t VALUES (1, 2)")
        trio.from_thread.run_sync(began.set)
        end.wait()
        order.append("long")

    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db, trio.open_nursery() as nursery:
        nursery.start_soon(db.write, long)
        await began.wait()
        nursery.start_soon(db.write_short, lambda conn: order.append("short"))
        await trio.testing.wait_all_tasks_blocked()
        assert db.rows("SELECT * FROM t") == []
        assert order == []
        end.set()
    assert order == ["long", "short"]


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done on the loop that waits for the disk."""
    here, slow = threading.get_ident(), list[str]()

    def watch(text: str) -> None:
        if threading.get_ident() == here and text.startswith("PRAGMA"):
            slow.append(text)

    connect = sqlite3.connect

    def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        conn = connect(*args, **kwargs)
        conn.set_trace_callback(watch)
        return conn

    monkeypatch.setattr(sqlite3, "connect", traced)
    return slow


class Inserts:
    """Short transactions, and the lengths that the log has after each."""

    def __init__(self, db: sqlite.Database) -> None:
        self._db = db
        self._log = Path(f"{db.path}-wal")
        self.lengths: list[int] = []
        self.on_loop = 0

    async def insert(self) -> None:
        here, before = threading.get_ident(), list[bytes]()

        def txn(conn: sqlite.Connection) -> None:
            conn.execute("INSERT INTO t VALUES (1, 0)")
            if threading.get_ident() == here:
                before.append(self._log.read_bytes()[:32])

        await self._db.write_short(txn)
        if before:
            self.on_loop += 1
            # To begin the log anew is to fsync its beginning.
            assert before == [self._log.read_bytes()[:32]]
        self.lengths.append(used_bytes(self._db))


async def test_the_log_is_written_back_in_a_thread(tmp_path: Path, slow: list[str]) -> None:
    """And begun anew there: the loop never does what SQLite waits for the disk in."""
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.limit_log_size(40 * 4096)
        inserts = Inserts(db)
        for _ in range(400):
            await inserts.insert()
        assert slow == []
        assert 0 < min(inserts.lengths) < max(inserts.lengths) < 3 * 40 * 4096
        assert inserts.on_loop > 300
        assert len(db.rows("SELECT * FROM t")) == 400
    assert not (tmp_path / "a.db-wal").exists()


async def test_the_log_is_written_back_beside_transactions(tmp_path: Path, slow: list[str]) -> None:
    """Whoever writes meanwhile neither waits for the disk nor begins the log anew, and it stays bounded."""
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.limit_log_size(16 * 4096)
        db.has_much_room = lambda: True
        inserts = Inserts(db)
        for _ in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(db.write_back)
                for _ in range(20):
                    await inserts.insert()
                    await trio.lowlevel.checkpoint()
        assert slow == []
        least = 16 * 4096
        assert least < max(inserts.lengths) < (sqlite.MOST_LOGS + 1) * least
        assert inserts.lengths != sorted(inserts.lengths)
        assert inserts.on_loop > 200
        assert len(db.rows("SELECT * FROM t")) == 400
    assert not (tmp_path / "a.db-wal").exists()


async def test_who_writes_when_all_is_written_back_does_not_begin_the_log_on_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, done, run_sync = threading.Event(), threading.Event(), threads.run_sync

    async def told(work: Callable[[], Any], *arguments: Any) -> Any:
        def and_tell() -> Any:
            begun.set()
            found = work(*arguments)
            done.set()
            return found

        return await run_sync(and_tell)

    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db, trio.open_nursery() as nursery:
        db.limit_log_size(16 * 4096)
        db.has_much_room = lambda: True
        inserts = Inserts(db)
        for _ in range(40):
            await inserts.insert()
        on_loop = inserts.on_loop
        monkeypatch.setattr(threads, "run_sync", told)
        nursery.start_soon(db.write_back)
        while not begun.is_set():
            await trio.lowlevel.checkpoint()
        # No await: this task goes on before the one that waits for the thread.
        done.wait()
        monkeypatch.setattr(threads, "run_sync", run_sync)
        await inserts.insert()
        assert inserts.on_loop == on_loop


async def test_the_log_does_not_grow_where_room_is_short(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.limit_log_size(16 * 4096)
        inserts = Inserts(db)
        db.has_much_room = lambda: len(inserts.lengths) < 200
        for _ in range(400):
            await inserts.insert()
        assert max(inserts.lengths[:200]) > 10 * 16 * 4096
        assert max(inserts.lengths[-150:]) < 3 * 16 * 4096


async def test_log_keeps_its_room_on_a_full_disk(tmp_path: Path) -> None:
    """It is not cut, since it may not grow again, and hardly grows: it is written back all the time."""
    asked, lengths = 0, list[int]()

    def make_room() -> bool:
        nonlocal asked
        asked += 1
        return True

    def insert(conn: sqlite.Connection) -> None:
        conn.execute("INSERT INTO t VALUES (zeroblob(3000), 0)")

    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.make_room = make_room
        for write in (db.write_short, db.write) * 30:
            await write(insert)
            lengths.append((tmp_path / "a.db-wal").stat().st_size)
        assert asked == len(lengths)
        assert lengths == sorted(lengths)
        assert lengths[-1] < len(lengths) * 4096


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be read as one" * 20])
async def test_non_database_file_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.db").write_bytes(content)
    with pytest.raises(errors.UserError, match="cannot be used as a database"):
        async with sqlite.open_database(tmp_path / "a.db", SCHEMA):
            pass


async def test_another_format_is_not_touched(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA, version=7):
        pass
    with pytest.raises(errors.UserError, match="format 7, this one reads 8"):
        async with sqlite.open_database(tmp_path / "a.db", SCHEMA, version=8):
            pass


async def test_old_format_is_upgraded_stepwise(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA, version=1):
        pass
    upgrades = {
        1: "CREATE TABLE one (x);\nINSERT INTO one VALUES (1);",
        2: "CREATE TABLE two AS SELECT x FROM one;",
    }
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA, version=3, upgrades=upgrades) as db:
        assert [row["x"] for row in db.rows("SELECT x FROM two")] == [1]
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA, version=3, upgrades=upgrades) as db:
        assert [row["x"] for row in db.rows("SELECT x FROM one")] == [1]


async def test_cancellation_finishes_the_transaction(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        started: Any = trio.Event()

        def slow(conn: sqlite.Connection) -> None:
            trio.from_thread.run_sync(started.set)
            conn.execute(
                "INSERT INTO t SELECT value, 0 FROM json_each('[' || substr(?, 2) || ']')", (",1" * 5000,)
            )

        async with trio.open_nursery() as nursery:
            nursery.start_soon(db.write, slow)
            await started.wait()
            nursery.cancel_scope.cancel()
        assert len(db.rows("SELECT * FROM t")) == 5000


async def test_who_waits_for_the_next_transaction_hears_of_it(tmp_path: Path) -> None:
    async with sqlite.open_database(tmp_path / "db", "CREATE TABLE t(x);") as db:
        for write in (db.write, db.write_short):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(db.written.wait)
                await trio.testing.wait_all_tasks_blocked()
                await write(lambda conn: conn.execute("INSERT INTO t VALUES (1)"))
