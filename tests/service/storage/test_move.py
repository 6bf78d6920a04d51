"""A store moved to another engine and back: rows, numbers, contents, and what is refused."""

import sqlite3
from contextlib import closing

import pytest
import trio

from cmsfs import errors
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import blob_check, blobs, renumber, store
from cmsfs.service.storage.move import contents, postgres_load, rows, sqlite_load, tables
from tests.support import s3_server

# Each says itself which engine a store has.
pytestmark = pytest.mark.embedded

FILES = 30


def quiet(*_):
    pass


@pytest.fixture
def side_of():
    return lambda url: sqlite_load if url is None else postgres_load


async def filled(root):
    """A store that has been worked with; its rows, by table."""
    async with store.open_store(root) as opened:
        await demo.ensure_sample(opened)
        user = opened.read("SELECT id FROM account WHERE login = 'ada@example.com'")[0]["id"]
        await opened.write(
            lambda conn: conn.execute("UPDATE account SET name = ? WHERE id = ?", ("Ada \U0001f6a2", user))
        )
        for number in range(FILES):
            await trio.to_thread.run_sync(opened.blobs.keep_bytes, b"%d" % number * 1000)
        return await opened.query(all_rows)


def all_rows(read):
    return {one.name: [tuple(row) for row in read(one.first_page, 10**9)] for one in tables.all_tables()}


async def moved(source, target, side_of, source_url=None, target_url=None, *, blobs_url=None, to_blobs=None):
    async with (
        store.open_store(source, blobs_url, database_url=source_url, sweep=False, exclusive=True) as old,
        store.open_store(target, to_blobs, database_url=target_url, sweep=False, exclusive=True) as new,
    ):
        report = await contents.move(old, new, quiet)
        counts = await rows.move(old, side_of(source_url), new, side_of(target_url), quiet)
        return report, counts


async def test_there_and_back(tmp_path, postgres, side_of):
    before = await filled(tmp_path / "first")
    with closing(sqlite3.connect(tmp_path / "first" / "service.db")) as conn:
        last = dict(conn.execute("SELECT name, seq FROM sqlite_sequence").fetchall())
    url = postgres.empty()
    report, counts = await moved(tmp_path / "first", tmp_path / "second", side_of, None, url)
    assert report.moved > 10
    assert report.broken == []
    assert counts == {name: len(found) for name, found in before.items()}
    async with store.open_store(tmp_path / "second", database_url=url) as opened:
        assert await opened.query(all_rows) == before
        assert opened.read("SELECT rowid FROM word(?) LIMIT 1", '"footbridge"')
        # Triggers and keys are in force again.
        used = opened.read("SELECT sum(space_used) AS n FROM account")[0]["n"]
        with pytest.raises(sqlite3.IntegrityError):
            await opened.write(lambda conn: conn.execute("UPDATE item SET owner = 999999 WHERE kind = 1"))
    again, _ = await moved(tmp_path / "second", tmp_path / "third", side_of, url, None)
    assert (again.moved, again.broken) == (report.moved, [])
    async with store.open_store(tmp_path / "third") as opened:
        assert await opened.query(all_rows) == before
        assert opened.read("SELECT sum(space_used) AS n FROM account")[0]["n"] == used
        # No id is given twice, search finds what is there, and a new file counts.
        found = dict(tuple(row) for row in opened.read("SELECT name, seq FROM sqlite_sequence"))
        moved_tables = {one.name for one in tables.all_tables() if one.autoincrement}
        assert {name: found[name] for name in last if name in moved_tables} == {
            name: number for name, number in last.items() if name in moved_tables
        }
        assert opened.read("SELECT 1 FROM word WHERE word MATCH 'footbridge' LIMIT 1")
        assert {one.name for one in (tmp_path / "third" / "blobs").rglob("*") if one.is_file()} == {
            one[0] for one in opened.read("SELECT DISTINCT sha1 FROM version")
        }


@pytest.mark.parametrize("to_postgres", [False, True])
async def test_positions_that_a_restore_has_undone_stay_refused(tmp_path, postgres, side_of, to_postgres):
    await filled(tmp_path / "first")
    await renumber.renumber(tmp_path / "first", database_url=None)
    async with store.open_store(tmp_path / "first") as opened:
        first = opened.first_position
    assert first > 0
    url = postgres.empty() if to_postgres else None
    await moved(tmp_path / "first", tmp_path / "second", side_of, None, url)
    async with store.open_store(tmp_path / "second", database_url=url) as opened:
        assert opened.first_position == first


async def test_an_interrupted_move_goes_on(tmp_path, side_of, monkeypatch):
    await filled(tmp_path / "first")
    kept = blobs.IncomingBlob.keep_now
    calls = []

    def dies(self, data=b""):
        calls.append(1)
        if len(calls) == 5:
            raise blobs.BlobsUnavailable("gone")
        return kept(self, data)

    monkeypatch.setattr(blobs.IncomingBlob, "keep_now", dies)
    with pytest.raises(BaseExceptionGroup):
        await moved(tmp_path / "first", tmp_path / "second", side_of)
    report, _ = await moved(tmp_path / "first", tmp_path / "second", side_of)
    assert report.already_there >= 4
    async with store.open_store(tmp_path / "second") as opened:
        assert await opened.query(lambda read: rows.is_used(read))


async def test_rows_that_arrive_changed_leave_the_target_as_it_was(tmp_path, side_of, monkeypatch):
    await filled(tmp_path / "first")
    put = rows.put_page

    def loses_one(conn, table, page):
        put(conn, table, page[1:] if table.name == "event" else page)

    monkeypatch.setattr(rows, "put_page", loses_one)
    with pytest.raises(errors.UserError, match="of event were sent, and"):
        await moved(tmp_path / "first", tmp_path / "second", side_of)
    async with store.open_store(tmp_path / "second") as opened:
        assert not await opened.query(lambda read: rows.is_used(read))
        triggers = opened.read("SELECT count(*) AS n FROM sqlite_master WHERE type = 'trigger'")[0]["n"]
        assert triggers > 10


async def test_damaged_and_missing_contents_are_told(tmp_path, side_of):
    await filled(tmp_path / "first")
    found = sorted(one for one in (tmp_path / "first" / "blobs").rglob("*") if one.is_file())
    with closing(sqlite3.connect(tmp_path / "first" / "service.db")) as conn:
        named = {row[0] for row in conn.execute("SELECT sha1 FROM version WHERE size > 10")}
    one, two, three = [path for path in found if path.name in named][:3]
    one.unlink()
    two.write_bytes(two.read_bytes()[:-1])
    data = bytearray(three.read_bytes())
    data[0] ^= 1
    three.write_bytes(data)
    report, _ = await moved(tmp_path / "first", tmp_path / "second", side_of)
    assert sorted(report.broken) == sorted([one.name, two.name, three.name])
    there = {path.name for path in (tmp_path / "second" / "blobs").rglob("*")}
    assert not there & set(report.broken)


async def test_a_served_store_is_not_moved(tmp_path):
    async with store.open_store(tmp_path / "first"):
        with pytest.raises(errors.UserError, match="stop it first"):
            async with store.open_store(tmp_path / "first", sweep=False, exclusive=True):
                raise AssertionError


def test_every_table_is_moved_or_left():
    names = {one.name for one in tables.all_tables()}
    assert not names & tables.SKIPPED
    assert {"account", "item", "version", "event", "usage", "document"} <= names
    assert not any(name.startswith("word") for name in names)
    assert all(one.key for one in tables.all_tables())


@pytest.mark.long
@pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing")
async def test_to_a_company_and_back(tmp_path, postgres, side_of, monkeypatch):
    pytest.importorskip("obstore")
    before = await filled(tmp_path / "first")
    url = postgres.empty()
    with s3_server.running(tmp_path / "s3") as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        bucket = f"s3://{s3_server.BUCKET}/moved"
        await moved(tmp_path / "first", tmp_path / "second", side_of, None, url, to_blobs=bucket)
        async with store.open_store(tmp_path / "second", bucket, database_url=url) as opened:
            assert await opened.query(all_rows) == before
            report = await blob_check.BlobCheck(opened, read_all=True, repair=False).run(quiet)
            assert (report.missing, report.damaged) == ([], [])
        await moved(tmp_path / "second", tmp_path / "third", side_of, url, None, blobs_url=bucket)
    async with store.open_store(tmp_path / "third") as opened:
        assert await opened.query(all_rows) == before
