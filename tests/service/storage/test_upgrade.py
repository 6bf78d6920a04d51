"""Stores of every format that there was are opened, with all that is in them.

`stores/N-name.sql` is what a version of the service that wrote format N made of the sample enterprise;
several shapes had the same number.
"""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import sweeper
from cmsfs.service.storage import app_users, store, upgrade
from tests.service.conftest import ServiceClient

# Servers' databases are younger than these formats.
pytestmark = pytest.mark.embedded

STORES = sorted(Path(__file__).with_name("stores").glob("*.sql"))
DAY = 86_400 * 1_000_000
# Tables and columns whose names SQL keeps for itself.
_RENAMED = {"user": "account", "offset": "start"}


@pytest.fixture(params=STORES, ids=lambda path: path.stem)
def old(request, root):
    """The folder of a store of an older format."""
    root.mkdir(mode=0o700)
    with closing(sqlite3.connect(root / "service.db")) as conn:
        conn.executescript(request.param.read_text(encoding="utf-8"))
    return root


def _shape(conn):
    """What a database can hold, whatever the order in which it was made."""
    found: dict[tuple[str, str], Any] = {}
    sql = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"
    for kind, name, text in conn.execute(sql).fetchall():
        if kind != "table" or "VIRTUAL" in text:
            found[kind, name] = " ".join(text.split())
            continue
        columns = {tuple(row)[1:] for row in conn.execute(f"PRAGMA table_info('{name}')")}
        keys = {tuple(row)[2:] for row in conn.execute(f"PRAGMA foreign_key_list('{name}')")}
        unique = sorted(
            tuple(one[2] for one in conn.execute(f"PRAGMA index_info('{row[1]}')"))
            for row in conn.execute(f"PRAGMA index_list('{name}')").fetchall()
            if row[2] and row[3] != "c"
        )
        found[kind, name] = (columns, keys, unique, "AUTOINCREMENT" in text, "WITHOUT ROWID" in text)
    return found


def _rows(conn):
    """Everything in the ordinary tables, by table."""
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'word%'"
    found = {}
    for (name,) in conn.execute(sql).fetchall():
        cursor = conn.execute(f"SELECT * FROM '{name}'")
        columns = [one[0] for one in cursor.description]
        found[name] = [dict(zip(columns, row, strict=True)) for row in cursor]
    return found


async def test_upgraded_store_equals_new_one(old):
    with closing(sqlite3.connect(old / "service.db")) as conn:
        before = _rows(conn)
    async with store.open_store(old):
        pass
    with closing(sqlite3.connect(old / "service.db")) as conn, closing(sqlite3.connect(":memory:")) as new:
        new.executescript(upgrade.schema())
        assert conn.execute("PRAGMA user_version").fetchone()[0] == store.VERSION
        assert conn.execute("PRAGMA foreign_key_check").fetchall() == []
        assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        made, wanted = _shape(conn), _shape(new)
        assert made.keys() == wanted.keys()
        assert {name: shape for name, shape in made.items() if shape != wanted[name]} == {}
        after = _rows(conn)
        # No id is given twice.
        seeds = {row["name"] for row in _rows(new)["sqlite_sequence"]}
        assert seeds <= {row["name"] for row in after["sqlite_sequence"]}
    for table, rows in before.items():
        if table in ("orphan", "sqlite_sequence"):  # the start drops what no version has
            continue
        table = _RENAMED.get(table, table)
        if table == "metadata_template":
            # Programs' cards came as a template that everybody has.
            had = {one["key"] for one in rows}
            assert {one["key"] for one in after[table]} == had | {"boxSkillsCards"}
            after[table] = [one for one in after[table] if one["key"] in had]
        assert len(after[table]) == len(rows)
        for row, found in zip(rows, after[table], strict=True):
            row = {_RENAMED.get(name, name): value for name, value in row.items()}
            if table == "item":
                row.pop("purge_at", None)
            if table == "account" and row["login"] is None:
                # App users had no login.
                assert app_users.is_app_user_login(found["login"])
                row["login"] = found["login"]
            gone = {"failures", "locked_until"} if table == "password" else set()
            assert found.items() >= {name: row[name] for name in row.keys() - gone}.items()


async def test_it_works(old):
    async with store.open_store(old) as opened:
        owner = opened.read("SELECT id FROM account WHERE login = 'ada@example.com'")[0]["id"]
        client = opened.read("SELECT client_id FROM app")[0]["client_id"]

        def txn(conn):
            return access_tokens.access_token(conn, client, owner, now=opened.now())["access_token"]

        api = ServiceClient(opened, owner)
        api.http.headers["authorization"] = f"Bearer {await opened.write(txn)}"
        try:
            top = (await api.ask("GET", "/folders/0/items"))["entries"]
            assert {one["name"] for one in top} >= {"Projects", "Reports", "Welcome.md", "Links"}
            assert await api.names("bridge") >= {"Harbour Bridge", "Plan.md"}
            trash = (await api.ask("GET", "/folders/trash/items?fields=name,purged_at"))["entries"]
            assert [one["name"] for one in trash] == ["First idea.md"]
            assert trash[0]["purged_at"] is not None
            used = (await api.ask("GET", "/users/me"))["space_used"]
            made = await api.upload("new.txt", b"heron")
            assert int(made["id"]) > max(int(one["id"]) for one in [*top, *trash])
            assert (await api.ask("GET", "/users/me"))["space_used"] == used + 5
            await api.ask("PUT", f"/files/{made['id']}", json={"shared_link": {"access": "open"}})
            await api.ask("DELETE", f"/files/{made['id']}", expect=204)
            await api.ask("DELETE", f"/files/{made['id']}/trash", expect=204)
            assert (await api.ask("GET", "/users/me"))["space_used"] == used
            # Time does its part there, too.
            await sweeper.sweep(opened, opened.now() + 31 * DAY)
            assert opened.read("SELECT 1 FROM item WHERE name = 'First idea.md'") == []
        finally:
            await api.http.aclose()


def test_there_is_one_of_each_number():
    numbers = {
        path: re.findall(r"^PRAGMA user_version=(\d+);$", path.read_text("utf-8"), re.M) for path in STORES
    }
    for path, found in numbers.items():
        assert found == [path.stem.partition("-")[0]]
    assert {found[0] for found in numbers.values()} == {str(one) for one in range(1, store.VERSION)}
