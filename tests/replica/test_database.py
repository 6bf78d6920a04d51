"""The database of the replica: an older format is brought forward with all that it holds."""

import re
import sqlite3
from importlib import resources
from pathlib import Path

from cmsfs.replica import database, nodes, tree

# What format 1 did not have.
NEW_IN_2 = ["upload", "unheard", "symlink", "xattr", "past", "pin", "shortcut"]


def old_schema() -> str:
    schema = (resources.files("cmsfs.replica") / "schema.sql").read_text(encoding="utf-8")
    for table in NEW_IN_2:
        schema, found = re.subn(rf"CREATE TABLE {table} \(.*?\n\)[^;]*;", "", schema, flags=re.DOTALL)
        assert found == 1
        schema = re.sub(rf"CREATE INDEX {table}_.*?;", "", schema)
    schema, found = re.subn(r",([^,\n]*\n) *--[^\n]*\n  local +INTEGER NOT NULL DEFAULT 0\n", r"\1", schema)
    assert found == 1
    schema = re.sub(r"CREATE INDEX node_local.*?;", "", schema)
    return schema.replace(", 'symlink'))", "))")


def shape(conn: sqlite3.Connection) -> set[tuple[str, str]]:
    """Tables and their columns."""
    names = [row[0] for row in conn.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {(name, row[1]) for name in names for row in conn.execute(f"PRAGMA table_info({name})")}


async def test_changes_recorded_by_an_older_version_are_still_there(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    old = sqlite3.connect(path)
    old.executescript(old_schema())
    old.execute("PRAGMA user_version = 1")
    cursor = old.execute(
        "INSERT INTO node(parent, name, name_key, kind, mtime_ns, ctime_ns, mode)"
        " VALUES (1, 'unsent', 'unsent', 'file', 1, 1, 420)"
    )
    ino = cursor.lastrowid
    assert ino is not None
    old.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, 'upload', 0)", (ino,))
    old.commit()
    old.close()
    async with database.open_replica(path) as db:
        node = tree.find(db, ino)
        assert node is not None
        assert node.name == "unsent"
        assert [row["kind"] for row in db.rows("SELECT kind FROM op WHERE ino = ?", ino)] == ["upload"]
        upgraded = await db.query(shape)
        # What an older version did not know can be kept now.
        await db.write(
            lambda conn: tree.insert(conn, nodes.ROOT, "link", nodes.Kind.SYMLINK, now_ns=1, local=True)
        )
    async with database.open_replica(tmp_path / "new.db") as db:
        assert await db.query(shape) == upgraded
