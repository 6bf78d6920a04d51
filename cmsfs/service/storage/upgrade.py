"""Upgrades a store of an older format.

Formats 1 to 9 each had several shapes, told apart by nothing but what is in them; every one of them lacks
tables and columns of the next, and none has anything that means something else in format 10.  So such a store
is compared with the schema of that format: what is missing is made, what is gone is dropped, and indices and
triggers are made anew.  From there each step has a number: `upgrade_N.sql` leads from format N to the next.

Rule: runs inside the transaction that sets the new format; no row is lost, and no id is given again.
"""

import sqlite3
from contextlib import closing
from importlib import resources
from sqlite3 import Connection

from cmsfs import database_files
from cmsfs.service.storage import app_users

# For so long trash was said to be kept before it was purged at all.
_TRASH = """
  UPDATE item SET purge_at = trashed_at + (
    SELECT trash_days * 86400000000 FROM user JOIN enterprise ON enterprise.id = user.enterprise
      WHERE user.id = item.owner)
    WHERE status = 1 AND purge_at IS NULL
"""
# They had no login.
_APP_USERS = "SELECT id FROM user WHERE login IS NULL AND enterprise != 0"
# The other template that everybody has came later.
_SKILL_CARDS = """
  INSERT INTO metadata_template (uuid, enterprise, key, display_name)
    VALUES ('00000000-0000-4000-8000-000000000002', NULL, 'boxSkillsCards', 'Skill cards')
"""


VERSION = 14

# The oldest version whose processes may work on this format beside this one's: a server's database is
# upgraded under those that still run.  So a step adds; what it makes useless goes in a later version's.
OLDEST_BESIDE = 13


def schema() -> str:
    """The text of the schema as it is now."""
    return _text("schema.sql")


def _text(name: str) -> str:
    return (resources.files("cmsfs.service.storage") / name).read_text(encoding="utf-8")


def bring_forward(conn: Connection) -> None:
    """Make a store of format 1 to 9 one of format 10."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(_text("schema_10.sql"))
        made = _Shape(model)
        found = _Shape(conn)
        for kind, name in found.objects("trigger", "index"):
            conn.execute(f'DROP {kind.upper()} "{name}"')
        new = [name for _, name in made.objects("table") if name not in found.sql]
        for name in new:
            conn.execute(made.sql[name])
        for _, name in made.objects("table"):
            if name not in new and not made.is_virtual(name):
                _fit(conn, name, found, made)
        _fill(conn, new)
        for _, name in made.objects("index", "trigger"):
            conn.execute(made.sql[name])
        for name, first in model.execute("SELECT name, seq FROM sqlite_sequence"):
            known = conn.execute("SELECT 1 FROM sqlite_sequence WHERE name = ?", (name,)).fetchone()
            if known is None:
                conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, first))


class _Shape:
    """What is in a database: the statements that made it, by name, in order."""

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
        """Whether a table is the inside of the index of words."""
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


def _fit(conn: Connection, table: str, found: _Shape, made: _Shape) -> None:
    """Add the columns that a table lacks, and drop those that are no more."""
    has, wanted = found.columns(table), made.columns(table)
    if any(has[name] != wanted[name] for name in has.keys() & wanted.keys()):
        _make_anew(conn, made.sql[table], table, [name for name in has if name in wanted])
        return
    for name in wanted.keys() - has.keys():
        conn.execute(f'ALTER TABLE "{table}" ADD COLUMN {wanted[name]}')
    for name in has.keys() - wanted.keys():
        conn.execute(f'ALTER TABLE "{table}" DROP COLUMN "{name}"')


def _make_anew(conn: Connection, sql: str, table: str, kept: list[str]) -> None:
    """Give a table whose columns say something else now its new form; no other table refers to it.

    That was so of tokens alone, which did not go with their application.
    """
    assert table == "token"
    columns = ", ".join(f'"{name}"' for name in kept)
    conn.execute(f'CREATE TEMP TABLE "kept" AS SELECT {columns} FROM main."{table}"')
    conn.execute(f'DROP TABLE main."{table}"')
    conn.execute(sql)
    conn.execute(f'INSERT INTO main."{table}" ({columns}) SELECT {columns} FROM temp."kept"')
    conn.execute('DROP TABLE temp."kept"')


def _fill(conn: Connection, new: list[str]) -> None:
    """What the new tables and columns say of what was there before."""
    conn.execute(_TRASH)
    for (number,) in conn.execute(_APP_USERS).fetchall():
        conn.execute("UPDATE user SET login = ? WHERE id = ?", (app_users.new_login(number), number))
    if "storage_policy" in new:
        conn.execute(_SKILL_CARDS)
    if "unindexed" in new:
        # Documents were found by their names alone.
        conn.execute("INSERT INTO unindexed (item) SELECT id FROM item WHERE kind = 1 AND sha1 IS NOT NULL")


def upgrades() -> dict[int, database_files.Upgrade]:
    """What makes the next format, for each older one."""
    steps = {number: _text(f"upgrade_{number}.sql") for number in range(10, VERSION)}
    return {**dict.fromkeys(range(1, 9), ""), 9: bring_forward, **steps}
