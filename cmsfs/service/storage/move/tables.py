"""The tables that a move copies, with their columns, keys and id sequences."""

import sqlite3
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from cmsfs.service.storage import engine, upgrade

# Not copied: unfinished chunked uploads (their clients start over), derived data that is rebuilt, and
# unreferenced contents.
SKIPPED = frozenset({"upload_session", "upload_part", "rendition", "orphan", "aside"})


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `autoincrement`: the database assigns ids and never reuses one."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    autoincrement: bool

    @property
    def page(self) -> str:
        """The query for a page of rows in key order, after a given key."""
        names, key = _quoted_list(self.columns), _quoted_list(self.key)
        after = ", ".join("?" * len(self.key))
        return f'SELECT {names} FROM "{self.name}" WHERE ({key}) > ({after}) ORDER BY {key} LIMIT ?'

    @property
    def first_page(self) -> str:
        names, key = _quoted_list(self.columns), _quoted_list(self.key)
        return f'SELECT {names} FROM "{self.name}" ORDER BY {key} LIMIT ?'

    @property
    def insert(self) -> str:
        values = ", ".join("?" * len(self.columns))
        return f'INSERT INTO "{self.name}" ({_quoted_list(self.columns)}) VALUES ({values})'


def _quoted_list(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


class BulkLoad(Protocol):
    """What a bulk load needs from an engine; all of it inside one transaction."""

    def loading(self, conn: engine.Connection) -> AbstractContextManager[None]:
        """Suspend triggers and foreign keys; at the end, check the keys and rebuild the full-text index."""

    def last_ids(self, conn: engine.Connection) -> dict[str, int]:
        """The last assigned id of each table with `autoincrement`."""

    def set_last_ids(self, conn: engine.Connection, last: dict[str, int]) -> None: ...


@cache
def all_tables() -> tuple[Table, ...]:
    """The tables to copy, in schema order."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(upgrade.schema())
        rows = model.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        virtual = [name for name, sql in rows if sql.upper().startswith("CREATE VIRTUAL")]
        found = []
        for name, sql in rows:
            inside = any(name == one or name.startswith(f"{one}_") for one in virtual)
            if not inside and name not in SKIPPED and not name.startswith("sqlite_"):
                found.append(_table(model, name, sql))
        return tuple(found)


def _table(model: sqlite3.Connection, name: str, sql: str) -> Table:
    columns = model.execute(f'PRAGMA table_info("{name}")').fetchall()
    key = tuple(row[1] for row in sorted(columns, key=lambda row: int(row[5])) if row[5])
    return Table(name, tuple(row[1] for row in columns), key, "AUTOINCREMENT" in sql)
