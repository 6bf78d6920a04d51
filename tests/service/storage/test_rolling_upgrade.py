"""A database that is upgraded under processes of the version before: they go on beside the new ones."""

import re
from contextlib import closing
from importlib import resources

import pytest
import trio

from cmsfs import errors
from cmsfs.service.storage import engine, store, upgrade
from cmsfs.service.storage.postgres import connection, format, schema

# What a next version might add.
STEP = [
    "CREATE TABLE added (id bigint PRIMARY KEY)",
    "ALTER TABLE item ADD COLUMN colour text NOT NULL DEFAULT 'red'",
]


@pytest.fixture
def next_version(monkeypatch):
    """Bring a database to the version after this one, as its first process would."""

    def bring(url, *, oldest):
        with monkeypatch.context() as later:
            later.setattr(upgrade, "VERSION", upgrade.VERSION + 1)
            later.setattr(upgrade, "OLDEST_COMPATIBLE", oldest)
            later.setattr(schema, "upgrade_statements", lambda number: iter(STEP))
            format.prepare(url)

    return bring


async def asked(service):
    """What a request does, as a client that comes again when it is asked to."""
    for _ in range(100):
        try:
            found = service.read("SELECT * FROM item WHERE id >= ? ORDER BY id", 0)
            await service.query(lambda read: read("SELECT * FROM item WHERE kind >= ?", 0))
            await service.write(lambda conn: conn.execute("SELECT * FROM item WHERE id = ?", (1,)).fetchall())
            return found
        except engine.DatabaseUnavailable:
            await trio.testing.wait_all_tasks_blocked(0.05)
    raise AssertionError("the database was not there again")


@pytest.mark.filterwarnings("ignore")
async def test_processes_of_both_versions_work_side_by_side(postgres, tmp_path, next_version, expect_log):
    expect_log("the connection to the database was lost")
    expect_log("the database is reachable again")
    url = postgres.database()
    async with store.open_store(tmp_path / "old", database_url=url) as old:
        for _ in range(10):  # so often that statements are planned beforehand
            await asked(old)
        await trio.to_thread.run_sync(lambda: next_version(url, oldest=upgrade.VERSION))
        with closing(connection.connect(url)) as conn:
            conn.execute("INSERT INTO added VALUES (1)")
        await asked(old)
        # One that is started again meanwhile, by a supervisor say.
        async with store.open_store(tmp_path / "old", database_url=url) as another:
            await asked(another)


async def test_a_version_that_is_too_old_is_refused(postgres, tmp_path, next_version):
    url = postgres.database()
    await trio.to_thread.run_sync(lambda: next_version(url, oldest=upgrade.VERSION + 1))
    with pytest.raises(errors.UserError, match="newer version"):
        async with store.open_store(tmp_path / "old", database_url=url):
            raise AssertionError


def test_steps_only_add_where_older_processes_go_on():
    assert upgrade.OLDEST_COMPATIBLE <= upgrade.VERSION
    for number in range(upgrade.OLDEST_COMPATIBLE, upgrade.VERSION):
        text = (resources.files("cmsfs.service.storage") / f"upgrade_{number}.sql").read_text()
        assert not re.search(r"\b(RENAME|DROP (TABLE|COLUMN))\b", text), number
