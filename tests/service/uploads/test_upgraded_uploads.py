"""Uploads in parts that are under way while a newer version brings the store to its format: they go on."""

import hashlib
import sqlite3
from contextlib import closing

import pytest
import trio

from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import sweeper
from cmsfs.service.storage import store, upgrade
from tests.service.conftest import CONTENT, PART, ServiceClient
from tests.service.storage.test_postgres_schema import TO_FORMAT_13
from tests.service.storage.test_rolling_upgrade import next_version as next_version
from tests.service.storage.test_upgrade import STORES

# Each says itself which engine a store has.
pytestmark = [pytest.mark.embedded, pytest.mark.usefixtures("small")]

# Before that, a large file had to come in one request.
FIRST_WITH_SESSIONS = 2
OFFSETS = range(0, len(CONTENT), PART)
_LATER = 4_000_000_000_000_000


@pytest.fixture(params=[path for path in STORES if int(path.stem.partition("-")[0]) >= FIRST_WITH_SESSIONS])
def old(request, root):
    """The folder of a store of an older format."""
    root.mkdir(mode=0o700)
    with closing(sqlite3.connect(root / "service.db")) as conn:
        conn.executescript(request.param.read_text(encoding="utf-8"))
    return root


def _begun(root, session, count, *, folder=None, file=None):
    """Make an upload of which so many parts have arrived, as each version since the first has kept it."""
    at = root / "sessions" / session
    at.mkdir(parents=True, mode=0o700)
    name = "begun.bin" if file is None else None
    with closing(sqlite3.connect(root / "service.db")) as conn, conn:
        columns = len(conn.execute("PRAGMA table_info(upload_session)").fetchall())
        tables = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        users = "account" if "account" in tables else "user"
        (owner,) = conn.execute(f"SELECT id FROM {users} WHERE login = 'ada@example.com'").fetchone()
        values = (session, owner, folder, file, name, len(CONTENT), PART, 1, _LATER, 0)[:columns]
        conn.execute(f"INSERT INTO upload_session VALUES ({', '.join('?' * columns)})", values)
        for offset in OFFSETS[:count]:
            data, number = CONTENT[offset : offset + PART], f"{offset:016X}"
            (at / number).write_bytes(data)
            sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
            part = (session, offset, number, len(data), sha1, number)
            conn.execute("INSERT INTO upload_part VALUES (?, ?, ?, ?, ?, ?)", part)


async def _ada(opened):
    owner = opened.read("SELECT id FROM account WHERE login = 'ada@example.com'")[0]["id"]
    client = opened.read("SELECT client_id FROM app")[0]["client_id"]

    def txn(conn):
        return access_tokens.access_token(conn, client, owner, now=opened.now())["access_token"]

    api = ServiceClient(opened, owner)
    api.http.headers["authorization"] = f"Bearer {await opened.write(txn)}"
    return api


async def test_parts_of_an_older_version_are_parts_of_the_file(old):
    with closing(sqlite3.connect(old / "service.db")) as conn:
        (file,) = conn.execute("SELECT id FROM item WHERE name = 'Welcome.md'").fetchone()
    _begun(old, "A" * 32, 1, folder=0)
    _begun(old, "B" * 32, 2, file=file)
    _begun(old, "C" * 32, 3, folder=0)
    async with store.open_store(old) as opened:
        api = await _ada(opened)
        try:
            for session, name, count in (("A" * 32, "begun.bin", 1), ("B" * 32, "Welcome.md", 2)):
                await _went_on(api, session, name, count)
            # One that only lacked its commit, and whose name is taken by now.
            last = {"id": "C" * 32}
            parts = (await api.ask("GET", f"/files/upload_sessions/{last['id']}/parts"))["entries"]
            await api.commit(last, parts, expect=409)
            made = await api.commit(last, parts, attributes={"name": "third.bin"})
            assert await api.bytes(made["entries"][0]["id"]) == CONTENT
            await sweeper.sweep(opened, opened.now() + 2 * 3_600_000_000)
            assert list((old / "sessions").iterdir()) == []
        finally:
            await api.http.aclose()


async def _went_on(api, session, name, count):
    """So many parts are there; with the others it becomes a file of this name."""
    url = f"/files/upload_sessions/{session}"
    assert (await api.ask("GET", url))["num_parts_processed"] == count
    there = (await api.ask("GET", f"{url}/parts"))["entries"]
    assert [one["offset"] for one in there] == list(OFFSETS[:count])
    await api.put({"id": session}, 0, expect=409)
    there += [(await api.put({"id": session}, offset))["part"] for offset in OFFSETS[count:]]
    made = (await api.commit({"id": session}, there))["entries"][0]
    assert (made["name"], made["size"]) == (name, len(CONTENT))
    assert await api.bytes(made["id"]) == CONTENT


@pytest.fixture
def url(postgres):
    made = postgres.database()
    yield made
    postgres.drop(made)


async def test_parts_in_a_servers_database_of_the_first_format(root, url, fill, as_user):
    from cmsfs.service.storage.postgres import connection

    async with store.open_store(root, database_url=url) as opened:
        await fill(opened)
        api = await as_user(opened, "ann@example.com")
        session = (await api.begin())["id"]
        await api.put({"id": session}, 0)
    with closing(connection.connect(url)) as conn:
        conn.command(TO_FORMAT_13)
    async with store.open_store(root, database_url=url) as opened:
        assert opened.read("SELECT value FROM shared_value WHERE name = 'format'")[0]["value"] == b"14"
        await _went_on(await as_user(opened, "ann@example.com"), session, "big.bin", 1)


@pytest.mark.filterwarnings("ignore")
async def test_an_upload_that_is_upgraded_under_goes_on_at_old_and_new_processes(
    root, url, fill, as_user, next_version, expect_log
):
    """The part after the upgrade comes to a process of the version before, the commits to either."""
    expect_log("the connection to the database was lost")
    expect_log("the database is reachable again")
    expect_log("the database was just upgraded")
    async with store.open_store(root, database_url=url) as old:
        await fill(old)
        one = await as_user(old, "ann@example.com")
        for number in range(4):  # so often that statements are planned beforehand
            session = await one.begin(f"before {number}")
            await one.commit(session, await one.put_all(session))
        sessions = [await one.begin(f"{number}.bin") for number in range(2)]
        parts = [[(await one.put(session, 0))["part"]] for session in sessions]
        await trio.to_thread.run_sync(lambda: next_version(url, oldest=upgrade.VERSION))
        async with store.open_store(root, database_url=url) as new:
            other = await as_user(new, "ann@example.com")
            for session, found in zip(sessions, parts, strict=True):
                found.append((await _again(one.put, session, OFFSETS[1]))["part"])
                found.append((await other.put(session, OFFSETS[2]))["part"])
            for api, session, found in zip((one, other), sessions, parts, strict=True):
                made = (await _again(api.commit, session, found))["entries"][0]
                for reader in (one, other):
                    assert await reader.bytes(made["id"]) == CONTENT


async def _again(call, *arguments):
    """Do as a client that comes again when it is asked to."""
    for _ in range(100):
        try:
            return await call(*arguments)
        except AssertionError as error:
            assert "unavailable" in str(error)
            await trio.testing.wait_all_tasks_blocked(0.05)
    raise AssertionError("the database was not there again")
