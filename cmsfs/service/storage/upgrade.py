"""Upgrades a store of an older format.

Formats 1 to 9 each had several variants that only their tables and columns tell apart; each lacks some of the
next format's, and nothing in them has another meaning in format 10.  So such a store is compared with the
schema of format 10: missing tables and columns are added, obsolete ones dropped, indexes and triggers
recreated.  From format 10 on, `upgrade_N.sql` upgrades format N to the next.

Rule: an upgrade runs in the transaction that sets the new format; no row is lost, and no id is reused.
"""

import functools
import sqlite3
from contextlib import closing
from importlib import resources
from sqlite3 import Connection

from cmsfs import database_files
from cmsfs.service.storage import app_users

# Before items in the trash were purged, this was the documented retention.
_TRASH = """
  UPDATE item SET purge_at = trashed_at + (
    SELECT trash_days * 86400000000 FROM user JOIN enterprise ON enterprise.id = user.enterprise
      WHERE user.id = item.owner)
    WHERE status = 1 AND purge_at IS NULL
"""
# App users had no login before.
_APP_USERS = "SELECT id FROM user WHERE login IS NULL AND enterprise != 0"
# The second global template, added in a later version.
_SKILL_CARDS = """
  INSERT INTO metadata_template (uuid, enterprise, key, display_name)
    VALUES ('00000000-0000-4000-8000-000000000002', NULL, 'boxSkillsCards', 'Skill cards')
"""


VERSION = 14

# The oldest version whose processes may keep using a PostgreSQL database in this format, for rolling
# upgrades. So an upgrade only adds; what becomes obsolete is dropped by a later version.
OLDEST_COMPATIBLE = 13


def schema() -> str:
    """The text of the current schema."""
    return _text("schema.sql")


@functools.cache
def _text(name: str) -> str:
    return (resources.files("cmsfs.service.storage") / name).read_text(encoding="utf-8")


def upgrade_to_10(conn: Connection) -> None:
    """Upgrade a store of format 1 to 9 to format 10."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(_text("schema_10.sql"))
        wanted = _Shape(model)
        found = _Shape(conn)
        for kind, name in found.objects("trigger", "index"):
            conn.execute(f'DROP {kind.upper()} "{name}"')
        new = [name for _, name in wanted.objects("table") if name not in found.sql]
        for name in new:
            conn.execute(wanted.sql[name])
        for _, name in wanted.objects("table"):
            if name not in new and not wanted.is_virtual(name):
                _alter_columns(conn, name, found, wanted)
        _fill_new_columns(conn, new)
        for _, name in wanted.objects("index", "trigger"):
            conn.execute(wanted.sql[name])
        for name, first in model.execute("SELECT name, seq FROM sqlite_sequence"):
            known = conn.execute("SELECT 1 FROM sqlite_sequence WHERE name = ?", (name,)).fetchone()
            if known is None:
                conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, first))


class _Shape:
    """The schema of a database: its CREATE statements by name, in order."""

    def __init__(self, conn: Connection) -> None:
        self.conn = conn
        rows = conn.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
        self._all = [(row[0], row[1], row[2]) for row in rows if not row[1].startswith("sqlite_")]
        self.sql: dict[str, str] = {name: sql for _, name, sql in self._all}

    def objects(self, *kinds: str) -> list[tuple[str, str]]:
        return [(kind, name) for kind, name, _ in self._all if kind in kinds and not self._is_shadow(name)]

    def is_virtual(self, name: str) -> bool:
        return str(self.sql[name]).upper().startswith("CREATE VIRTUAL")

    def _is_shadow(self, name: str) -> bool:
        """Whether a table is a shadow table of the full-text index."""
        above = name.rpartition("_")[0]
        return above in self.sql and self.is_virtual(above)

    def columns(self, table: str) -> dict[str, str]:
        """The columns of a table, each with its definition."""
        found = {}
        for row in self.conn.execute(f'PRAGMA table_info("{table}")').fetchall():
            text = f'"{row[1]}" {row[2]}'
            if row[3]:
                text += " NOT NULL"
            if row[4] is not None:
                text += f" DEFAULT {row[4]}"
            found[row[1]] = text
        for row in self.conn.execute(f'PRAGMA foreign_key_list("{table}")').fetchall():
            if row[1] == 0:
                found[row[3]] += f" REFERENCES {row[2]} ON DELETE {row[6]}"
        return found


def _alter_columns(conn: Connection, table: str, found: _Shape, wanted: _Shape) -> None:
    """Add the columns that a table lacks, and drop obsolete ones."""
    existing_columns, wanted_columns = found.columns(table), wanted.columns(table)
    if any(
        existing_columns[name] != wanted_columns[name]
        for name in existing_columns.keys() & wanted_columns.keys()
    ):
        _recreate_table(
            conn, wanted.sql[table], table, [name for name in existing_columns if name in wanted_columns]
        )
        return
    for name in wanted_columns.keys() - existing_columns.keys():
        conn.execute(f'ALTER TABLE "{table}" ADD COLUMN {wanted_columns[name]}')
    for name in existing_columns.keys() - wanted_columns.keys():
        conn.execute(f'ALTER TABLE "{table}" DROP COLUMN "{name}"')


def _recreate_table(conn: Connection, sql: str, table: str, kept: list[str]) -> None:
    """Recreate a table whose column definitions have changed; no other table may refer to it.

    Only `token` needs this: its rows did not use to be deleted together with their application.
    """
    assert table == "token"
    columns = ", ".join(f'"{name}"' for name in kept)
    conn.execute(f'CREATE TEMP TABLE "kept" AS SELECT {columns} FROM main."{table}"')
    conn.execute(f'DROP TABLE main."{table}"')
    conn.execute(sql)
    conn.execute(f'INSERT INTO main."{table}" ({columns}) SELECT {columns} FROM temp."kept"')
    conn.execute('DROP TABLE temp."kept"')


def _fill_new_columns(conn: Connection, new: list[str]) -> None:
    """Fill new tables and columns from the existing rows."""
    conn.execute(_TRASH)
    for (number,) in conn.execute(_APP_USERS).fetchall():
        conn.execute("UPDATE user SET login = ? WHERE id = ?", (app_users.new_login(number), number))
    if "storage_policy" in new:
        conn.execute(_SKILL_CARDS)
    if "unindexed" in new:
        # Documents were indexed by name only before.
        conn.execute("INSERT INTO unindexed (item) SELECT id FROM item WHERE kind = 1 AND sha1 IS NOT NULL")


def upgrades() -> dict[int, database_files.Upgrade]:
    """The upgrade to the next format, for each older format."""
    steps = {number: _text(f"upgrade_{number}.sql") for number in range(10, VERSION)}
    return {**dict.fromkeys(range(1, 9), ""), 9: upgrade_to_10, **steps}
