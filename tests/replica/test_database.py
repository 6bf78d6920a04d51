"""The database of the replica: an older format is brought forward with all that it holds."""

import re
import sqlite3
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import pytest

from cmsfs.replica import database, nodes, tree

# What a format did not have that the next one has.
NEW_IN_2 = ["upload", "unheard", "symlink", "xattr", "past", "pin"]
NEW_IN_3 = ["doubt", "fact", "assignment", "described", "shortcut"]
NEW_IN_4 = ["lineage"]
NEW_IN_5 = ["wished"]
NEW_IN_6 = ["kept"]
NEW_IN_11 = ["deleted"]


def without(schema: str, tables: list[str]) -> str:
    for table in tables:
        schema, found = re.subn(rf"CREATE TABLE {table} \(.*?\n\)[^;]*;", "", schema, flags=re.DOTALL)
        assert found == 1
        schema = re.sub(rf"CREATE INDEX {table}_.*?;", "", schema)
    return schema


def tenth_schema() -> str:
    schema = (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")
    return without(schema, NEW_IN_11)


def ninth_schema() -> str:
    schema = tenth_schema()
    schema, found = re.subn(r",\n  number +INTEGER +--[^\n]*\n", "\n", schema)
    assert found == 1
    return re.sub(r"CREATE UNIQUE INDEX node_number.*?;", "", schema)


def seventh_schema() -> str:
    schema = ninth_schema()
    schema, found = re.subn(r",( *--[^\n]*\n)(?: *--[^\n]*\n)+  data +BLOB\n", r"\1", schema)
    assert found == 1
    return schema


def sixth_schema() -> str:
    schema = seventh_schema()
    lost = r"INTEGER,( *--[^\n]*\n) *--[^\n]*\n  lost +INTEGER NOT NULL DEFAULT 0\n"
    schema, found = re.subn(lost, r"INTEGER \1", schema)
    assert found == 1
    return schema


def fifth_schema() -> str:
    return without(sixth_schema(), NEW_IN_6)


def fourth_schema() -> str:
    schema, found = re.subn(r"  --[^\n]*\n  atime_ns +INTEGER,\n", "", without(fifth_schema(), NEW_IN_5))
    assert found == 1
    return schema


def third_schema() -> str:
    return without(fourth_schema(), NEW_IN_4)


def second_schema() -> str:
    schema = without(third_schema(), NEW_IN_3)
    schema = re.sub(r"CREATE INDEX node_(locked|conflict).*?;", "", schema, flags=re.DOTALL)
    assert "'touch', 'describe', 'trash'" in schema
    return schema.replace("'touch', 'describe', 'trash'", "'touch', 'trash'")


def old_schema() -> str:
    schema = without(second_schema(), NEW_IN_2)
    schema, found = re.subn(r",([^,\n]*\n) *--[^\n]*\n  local +INTEGER NOT NULL DEFAULT 0\n", r"\1", schema)
    assert found == 1
    schema = re.sub(r"CREATE INDEX node_local.*?;", "", schema)
    return schema.replace(", 'symlink'))", "))")


def shape(conn: sqlite3.Connection) -> set[tuple[str, str]]:
    """Tables and their columns, and the indexes."""
    names = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    indexes = {
        (row[0], "index") for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'index'")
    }
    return indexes | {(name, row[1]) for name in names for row in conn.execute(f"PRAGMA table_info({name})")}


def page_bytes(conn: sqlite3.Connection) -> int:
    found: int = conn.execute("PRAGMA page_size").fetchone()[0]
    return found


@pytest.mark.parametrize(
    ("version", "old"),
    [
        (1, old_schema),
        (2, second_schema),
        (3, third_schema),
        (4, fourth_schema),
        (5, fifth_schema),
        (6, sixth_schema),
        (7, seventh_schema),
        (8, ninth_schema),
        (9, ninth_schema),
        (10, tenth_schema),
    ],
)
async def test_upgrade_keeps_pending_changes(tmp_path: Path, version: int, old: Callable[[], str]) -> None:
    path = tmp_path / "old.db"
    before = sqlite3.connect(path)
    before.executescript(old())
    before.execute(f"PRAGMA user_version = {version}")
    cursor = before.execute(
        "INSERT INTO node(parent, name, name_key, kind, mtime_ns, ctime_ns, mode)"
        " VALUES (1, 'unsent', 'unsent', 'file', 1, 1, 420)"
    )
    ino = cursor.lastrowid
    assert ino is not None
    before.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (ino,))
    before.commit()
    before.close()
    async with database.open_replica(path) as db:
        # What is there keeps its pages, of which SQLite changes the size only where it writes them all anew.
        assert await db.query(page_bytes) == 4096
        node = tree.find(db, ino)
        assert node is not None
        assert node.name == "unsent"
        assert [row["kind"] for row in db.rows("SELECT kind FROM op WHERE ino = ?", ino)] == ["upload"]
        upgraded = await db.query(shape)
        # What an older version did not know can be kept now.
        await db.write(
            lambda conn: tree.insert(conn, nodes.ROOT, "link", nodes.NodeKind.SYMLINK, now_ns=1, local=True)
        )
        # And be sent.
        insert = "INSERT INTO op(ino, kind, not_before) VALUES (?, 'describe', 0)"
        await db.write(lambda conn: conn.execute(insert, (ino,)))
    async with database.open_replica(tmp_path / "new.db") as db:
        assert await db.query(shape) == upgraded
        assert await db.query(page_bytes) == database.PAGE_BYTES
