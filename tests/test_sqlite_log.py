"""The write-ahead log's file, which is written over: what is in use of it, and what a power cut leaves."""

import contextlib
import itertools
import sqlite3
from functools import partial
from pathlib import Path

from cmsfs import database_files, sqlite

SCHEMA = "CREATE TABLE t(a, b);"


async def test_the_log_is_written_over_and_not_cut(tmp_path: Path) -> None:
    """What is in use of its file is known all the same."""
    file, used = tmp_path / "a.db-wal", list[int]()
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.limit_log_size(16 * 4096)
        db.has_much_room = lambda: True
        log = database_files.WriteAheadLog(db.path)
        for number in range(2000):
            await db.write_short(lambda conn: conn.execute("INSERT INTO t VALUES (1, 0)"))
            before = file.stat().st_size
            if not number % 10:
                await db.write_back()
            assert file.stat().st_size >= before
            # Asked often, it goes on from what it has found before.
            used.append(log.length())
            with contextlib.closing(database_files.WriteAheadLog(db.path)) as anew:
                assert used[-1] == anew.length()
            if number % 701 == 700:
                with contextlib.closing(sqlite3.connect(db.path)) as conn:
                    frames = conn.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1]
                assert used[-1] == 32 + frames * (4096 + 24)
        assert len([1 for before, after in itertools.pairwise(used) if after < before]) > 5
        assert file.stat().st_size < 3 * 16 * 4096
        log.close()
    assert not file.exists()


def test_where_there_is_no_log_it_is_empty(tmp_path: Path) -> None:
    with contextlib.closing(database_files.WriteAheadLog(tmp_path / "a.db")) as log:
        log.sync()
        assert log.length() == 0


async def test_a_log_that_appears_later_is_found(tmp_path: Path) -> None:
    log = database_files.WriteAheadLog(tmp_path / "a.db")
    assert log.length() == 0
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        await db.write_short(lambda conn: conn.execute("INSERT INTO t VALUES (1, 0)"))
        assert log.length() > 0
    log.close()


async def test_the_log_is_cut_when_room_gets_short(tmp_path: Path) -> None:
    file, much = tmp_path / "a.db-wal", True
    async with sqlite.open_database(tmp_path / "a.db", SCHEMA) as db:
        db.limit_log_size(16 * 4096)
        db.has_much_room = lambda: much
        for _ in range(200):
            await db.write_short(lambda conn: conn.execute("INSERT INTO t VALUES (1, 0)"))
        assert file.stat().st_size > 10 * 16 * 4096
        much = False
        for _ in range(100):
            await db.write_short(lambda conn: conn.execute("INSERT INTO t VALUES (1, 0)"))
        assert file.stat().st_size < 3 * 16 * 4096


async def test_a_power_cut_may_bring_back_what_the_log_was_written_over(tmp_path: Path) -> None:
    """Then everything up to there is known, and nothing of the earlier run of the log."""

    def insert(conn: sqlite.Connection, number: int) -> None:
        conn.execute("INSERT INTO t VALUES (?, 0)", (number,))

    source, earlier, now = tmp_path / "a.db", b"", b""
    async with sqlite.open_database(source, SCHEMA) as db:
        db.limit_log_size(40 * 4096)
        db.has_much_room = lambda: True
        for number in range(400):
            await db.write_short(partial(insert, number=number))
            if number == 300:
                earlier = Path(f"{source}-wal").read_bytes()
                await db.checkpoint_log()
        now, image = Path(f"{source}-wal").read_bytes(), source.read_bytes()
        with contextlib.closing(database_files.WriteAheadLog(source)) as log:
            used = log.length()
    assert now[used:] == earlier[used:]
    for cut in range(0, used, 4096):
        target = tmp_path / f"cut {cut}" / "a.db"
        target.parent.mkdir()
        target.write_bytes(image)
        Path(f"{target}-wal").write_bytes(now[:cut] + earlier[cut:])
        with contextlib.closing(sqlite3.connect(target)) as conn:
            found = [row[0] for row in conn.execute("SELECT a FROM t ORDER BY rowid")]
        assert found == list(range(len(found)))
        assert len(found) >= 301
    assert len(found) > 390
