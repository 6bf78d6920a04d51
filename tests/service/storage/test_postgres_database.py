"""The database on PostgreSQL: what it answers as SQLite does, and what holds over several processes."""

import sqlite3
import threading
from contextlib import AsyncExitStack, closing
from typing import Any

import pytest
import trio

from cmsfs import errors
from cmsfs.service.storage import database_url, engine, store
from cmsfs.service.storage.postgres import connection, database, format, prepared, statements
from cmsfs.service.storage.shared import moments
from cmsfs.service.storage.shared.attempt_limits import FREE_GUESSES

EVENT = (
    "INSERT INTO event (account, type, created_at, created_by, source) VALUES (1, ?, 0, 0, '') RETURNING id"
)


@pytest.fixture
def url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


@pytest.fixture
def conn(url):
    with closing(connection.connect(url)) as opened:
        yield opened


@pytest.fixture
async def stores(url, tmp_path):
    """Two stores of one database, as two processes have it."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(store.open_store(tmp_path, database_url=url)) for _ in range(2)
        ]


@pytest.mark.parametrize(
    ("sql", "translated", "keys"),
    [
        ("SELECT ?, ?", "SELECT $1, $2", (0, 1)),
        ("SELECT ?2, ?1, ?2", "SELECT $1, $2, $1", (1, 0)),
        ("SELECT ?2, ?", "SELECT $1, $2", (1, 2)),
        ("SELECT :new, :old, :new", "SELECT $1, $2, $1", ("new", "old")),
        ("SELECT '?', ':a', 'it''s ?', \"?\" -- ?", "SELECT '?', ':a', 'it''s ?', \"?\" -- ?", ()),
        (
            "SELECT * FROM a INDEXED BY b CROSS JOIN c ON 1 WHERE x IS ? OR y IS NOT :z",
            "SELECT * FROM a JOIN c ON 1 WHERE x IS NOT DISTINCT FROM $1 OR y IS DISTINCT FROM $2",
            (0, "z"),
        ),
        ("SELECT a, b FROM a CROSS JOIN b", "SELECT a, b FROM a CROSS JOIN b", ()),
        (
            "SELECT lower(?), lower(?1), lower(:x), lower(a), '?'",
            """SELECT lower($1 COLLATE "C"), lower($1 COLLATE "C"), lower($2 COLLATE "C"), lower(a), '?'""",
            (0, "x"),
        ),
        ("SELECT a::text, '10:30', ? % 5", "SELECT a::text, '10:30', $1 % 5", (0,)),
    ],
)
def test_parameters(sql, translated, keys):
    assert statements.translate(sql) == (translated, keys)


def test_a_silent_server_is_given_up(url, conn):
    assert conn.raw.info.get_parameters()["tcp_user_timeout"] == "10000"
    with closing(connection.connect(f"{url}&tcp_user_timeout=2000")) as other:
        assert other.raw.info.get_parameters()["tcp_user_timeout"] == "2000"


def test_of_several_servers_the_one_that_can_be_written_to_is_taken(url):
    several = f"{url.replace('host=', 'host=/nowhere,')}&target_session_attrs=read-write"
    with closing(connection.connect(database_url.checked_url(several))) as conn:
        assert conn.execute("SELECT 1 AS n").fetchone()["n"] == 1


def test_values_are_as_sqlites(conn):
    sql = "SELECT true AS yes, 1 = 2 AS no, sum(n) AS total, avg(n) AS mean FROM (VALUES (1), (2)) AS t (n)"
    row = conn.execute(sql).fetchone()
    assert (row["yes"], row["no"], row["total"], row["mean"]) == (1, 0, 3, 1.5)
    assert [type(value) for value in row] == [int, int, int, float]
    assert row.keys() == ["yes", "no", "total", "mean"]
    assert dict(row)["total"] == row[2] == 3
    with pytest.raises(IndexError):
        row["other"]
    assert conn.execute("SELECT 1 AS a WHERE false").fetchone() is None
    # A truth and a number, a number as text, what no text can hold.
    assert conn.execute("SELECT 1 WHERE ? AND 1 = ?", (True, True)).fetchall() == [(1,)]
    assert conn.execute("SELECT length(?) AS n", ("a\0b",)).fetchone()["n"] == 3


def test_functions_are_sqlites(conn):
    """Each with what SQLite answers."""
    with closing(sqlite3.connect(":memory:")) as here:
        for sql in (
            """SELECT CAST(value AS BIGINT) AS v FROM json_each('[3, 1, 2]') ORDER BY 1""",
            """SELECT value FROM json_each('["a", "b\\"c"]') ORDER BY key""",
            """SELECT key, value FROM json_each('{"x": "1", "y": "z"}') ORDER BY key""",
            """SELECT value FROM json_each('{"a b": ["p", "q"], "c": 1}', '$."a b"')""",
            """SELECT json_extract('{"a": {"b": "c"}}', '$.a.b'), json_extract('{"a.b": "c"}', '$."a.b"')""",
            """SELECT '{"a": "x"}' ->> 'a', '["x", "y"]' ->> 1, '{"a": null}' ->> 'a', '{}' ->> 'b'""",
            """SELECT instr('/1/20/', '/20/'), instr('/1/20/', '/2/')""",
            """SELECT unixepoch('2024-02-29T12:00:00Z'), unixepoch('2024-02-29T12:00:00.000Z')""",
            """SELECT max(1, 2), min(1, 2), max(1, NULL), min(NULL, 2)""",
        ):
            found = [tuple(row) for row in conn.execute(sql.replace("NULL", "NULL::bigint")).fetchall()]
            assert found == here.execute(sql).fetchall(), sql


def test_errors_are_sqlites(conn):
    values = ("same", "x", 1)
    made = "INSERT INTO webhook_delivery (app, address, body, due_at, created_at) VALUES (?, ?, '', ?, 0)"
    with pytest.raises(sqlite3.IntegrityError):
        conn.execute(made, values)
    with pytest.raises(sqlite3.DatabaseError):
        conn.execute("SELECT nothing")
    conn.execute("SELECT 1")


def test_only_a_stale_plan_is_worth_another_connection(conn, url):
    """What the server does not offer at all is a mistake of ours, and no reason to ask again."""
    with pytest.raises(sqlite3.DatabaseError, match="FOR UPDATE") as refused:
        conn.execute("SELECT count(*) FROM item FOR UPDATE")
    assert not isinstance(refused.value, engine.DatabaseUnavailable)
    assert not conn.is_lost
    for _ in range(10):  # so often that it is planned beforehand
        conn.execute("SELECT * FROM terms_of_service WHERE id = ?", (0,))
    with closing(connection.connect(url)) as newer:
        newer.command("ALTER TABLE terms_of_service ADD COLUMN colour text")
    with pytest.raises(engine.DatabaseUnavailable, match="upgraded"):
        conn.execute("SELECT * FROM terms_of_service WHERE id = ?", (0,))
    assert conn.is_lost


async def test_a_failed_change_leaves_those_beside_it(stores):
    one, _ = stores

    def fails(conn):
        conn.execute(EVENT, ("lost",))
        conn.execute("INSERT INTO event DEFAULT VALUES")

    async def refused():
        with pytest.raises(sqlite3.IntegrityError):
            await one.write(fails)

    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(one.write, lambda conn, kind=f"kept {number}": conn.execute(EVENT, (kind,)))
            nursery.start_soon(refused)
    assert {row["type"] for row in one.read("SELECT type FROM event")} == {f"kept {n}" for n in range(5)}


async def test_a_long_read_sees_one_moment(stores):
    one, two = stores
    token = trio.lowlevel.current_trio_token()

    def counted(read):
        read("BEGIN")
        found = [read("SELECT count(*) FROM event")[0][0]]
        trio.from_thread.run(two.write, lambda conn: conn.execute(EVENT, ("new",)), trio_token=token)
        found.append(read("SELECT count(*) FROM event")[0][0])
        read("ROLLBACK")
        return [*found, read("SELECT count(*) FROM event")[0][0]]

    assert await one.query(counted) == [0, 0, 1]


async def test_positions_grow_in_the_order_of_commits(stores):
    """Whoever has seen a position has seen all before it: none is committed behind a reader's back."""
    seen: list[Any] = []
    done = trio.Event()

    async def write(opened, name):
        for number in range(25):
            await opened.write(lambda conn, kind=f"{name} {number}": conn.execute(EVENT, (kind,)))

    async def read():
        top = 0
        while True:
            is_last = done.is_set()
            rows = stores[1].read("SELECT id, type FROM event WHERE id > ? ORDER BY id", top)
            seen.extend(row["type"] for row in rows)
            top = rows[-1]["id"] if rows else top
            if is_last:
                return
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as reader:
        reader.start_soon(read)
        async with trio.open_nursery() as nursery:
            for number in range(8):
                nursery.start_soon(write, stores[number % 2], f"writer {number}")
        done.set()
    assert len(seen) == 8 * 25
    assert seen == [row["type"] for row in stores[0].read("SELECT type FROM event ORDER BY id")]
    assert len(set(seen)) == len(seen)


async def test_what_another_process_writes_wakes_whoever_waits(stores):
    one, two = stores
    written, version = two.written, two.db.version()
    assert two.db.version() == version
    await one.write(lambda conn: conn.execute(EVENT, ("x",)))
    with trio.fail_after(30):
        await written.wait()
    assert two.db.version() != version
    # What that process gave as its last moment lies behind this one's.
    last = one.now()
    await one.write(lambda conn: conn.execute(EVENT, ("y",)))
    with trio.fail_after(30):
        while two.read("SELECT count(*) AS n FROM event")[0]["n"] < 2:
            await two.written.wait()
    assert two.now() > last


async def test_wrong_secrets_are_counted_over_all_processes(stores):
    for number in range(FREE_GUESSES):
        assert stores[number % 2].attempts.take("192.0.2.1", "user:1") == 0
    for opened in stores:
        assert 0 < opened.attempts.take("192.0.2.1", "user:1") <= 1
    assert stores[1].attempts.take("192.0.2.2", "user:1") == 0
    stores[0].attempts.forgive("192.0.2.1", "user:1")
    assert stores[1].attempts.take("192.0.2.1", "user:1") == 0


async def test_addresses_of_one_process_are_good_at_the_other(stores):
    one, two = (opened.url_signer for opened in stores)
    assert two.verify("file", one.sign("file", 7, expires=10), now=5) == [7]


async def test_one_leads_and_another_takes_over(stores, autojump_clock):
    leads: list[str] = []

    async def lead(name):
        leads.append(name)
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with trio.open_nursery() as first:
            first.start_soon(stores[0].shared.run_as_leader, "sweeper", lambda: lead("first"))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(stores[1].shared.run_as_leader, "sweeper", lambda: lead("second"))
            await trio.sleep(60)
            assert leads == ["first"]
            first.cancel_scope.cancel()
        await trio.sleep(60)
        assert leads == ["first", "second"]
        nursery.cancel_scope.cancel()


async def test_a_lost_server_is_said_and_found_again(postgres, stores, expect_log):
    expect_log("the connection to the database was lost")
    expect_log("the database is out of reach")
    expect_log("the database is reachable again")
    one, _ = stores
    await one.write(lambda conn: conn.execute(EVENT, ("before",)))
    await one.query(lambda read: read("SELECT 1"))
    written = one.written
    postgres.stop()
    try:
        with pytest.raises(engine.DatabaseUnavailable):
            one.read("SELECT 1")
        with pytest.raises(engine.DatabaseUnavailable):
            await one.write(lambda conn: conn.execute(EVENT, ("meanwhile",)))
        with pytest.raises(engine.DatabaseUnavailable):
            await one.query(lambda read: read("SELECT 1"))
    finally:
        postgres.start()
    with trio.fail_after(60):
        await written.wait()  # who waits looks again
        await one.write(lambda conn: conn.execute(EVENT, ("after",)))
        assert len(await one.query(lambda read: read("SELECT * FROM event"))) == 2
        while True:
            try:
                assert len(one.read("SELECT * FROM event")) == 2
                break
            except engine.DatabaseUnavailable:
                await trio.sleep(0.1)


async def test_of_two_that_start_at_once_one_makes_the_tables(postgres):
    url = postgres.empty()
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(trio.to_thread.run_sync, format.prepare, url)
    with closing(connection.connect(url)) as conn:
        assert conn.execute("SELECT count(*) AS n FROM metadata_template").fetchone()["n"] == 2
    postgres.drop(url)


def test_what_is_not_ours_is_refused(postgres, conn, url):
    conn.execute("UPDATE shared_value SET value = '1000' WHERE name IN ('format', 'oldest_beside')")
    with pytest.raises(errors.UserError, match="newer version"):
        format.prepare(url)
    other = postgres.empty()
    with closing(connection.connect(other)) as foreign:
        foreign.command("CREATE TABLE item (id int)")
    with pytest.raises(errors.UserError, match="something else"):
        format.prepare(other)
    postgres.drop(other)
    with pytest.raises(errors.UserError, match="cannot be reached"):
        format.prepare(postgres.url("nothing"))


def test_the_server_remembers_what_comes_again_and_forgets_the_oldest(conn, monkeypatch):
    monkeypatch.setattr(prepared, "MAX_PREPARED", 5)
    count = "SELECT count(*) AS n FROM pg_prepared_statements"
    for number in range(12):
        for _ in range(4):
            assert conn.execute(f"SELECT ? + {number} AS n", (1,)).fetchone()["n"] == 1 + number
    assert 3 <= conn.execute(count).fetchone()["n"] <= 5
    conn.command("BEGIN")
    for number in range(12):
        with pytest.raises(sqlite3.Error):
            conn.execute(f"SELECT ? / 0 + {number} AS n", (1,))
    conn.rollback_open_transaction()
    assert conn.execute("SELECT ? + 11 AS n", (1,)).fetchone()["n"] == 12


def test_values_are_the_same_by_a_prepared_statement(conn):
    value = {"text": "über \0 all", "blob": b"\0\xff'\\", "none": None, "truth": True, "number": -(2**60)}
    sql = (
        "SELECT CAST(:text AS text) AS text, CAST(:blob AS bytea) AS blob, CAST(:none AS text) AS none,"
        " CAST(:truth AS bigint) AS truth, CAST(:number AS bigint) AS number, 1 = 1 AS yes, 1.5 AS half"
    )
    found = [tuple(conn.execute(sql, value).fetchone()) for _ in range(5)]
    assert found == [("über \ufffd all", b"\0\xff'\\", None, 1, -(2**60), 1, 1.5)] * 5


async def test_a_connection_that_is_used_at_the_end_is_closed_after_it(url, nursery):
    """Of a read and of a write whose threads outlast the database; then it opens no others."""
    used: list[Any] = []
    threads_are_up, may_end = trio.Event(), threading.Event()

    def hold(conn: Any) -> None:
        used.append(conn)
        if len(used) == 2:
            trio.from_thread.run_sync(threads_are_up.set)
        assert may_end.wait(30)

    async def write(db: database.PostgresDatabase) -> None:
        await db.write(hold)
        writing_ended.set()

    async def query(db: database.PostgresDatabase) -> None:
        await db.query(hold)
        reading_ended.set()

    writing_ended, reading_ended = trio.Event(), trio.Event()
    async with database.open_database(url, moments.StoreClock()) as db:
        nursery.start_soon(write, db)
        nursery.start_soon(query, db)
        await threads_are_up.wait()
    assert not any(conn.is_lost for conn in used)
    may_end.set()
    await writing_ended.wait()
    await reading_ended.wait()
    assert all(conn.is_lost for conn in used)
    with pytest.raises(engine.DatabaseUnavailable, match="closed"):
        await db.query(lambda conn: None)
