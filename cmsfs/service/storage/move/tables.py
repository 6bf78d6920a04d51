"""What there is to move: the tables of the schema with their columns, keys and numbers."""

import sqlite3
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import cache
from typing import Protocol

from cmsfs.service.storage import engine, upgrade

# Not moved: uploads in parts that are not complete (their clients begin anew), what is made again by itself,
# and contents that no file has.
LEFT = frozenset({"upload_session", "upload_part", "rendition", "orphan", "aside"})


@dataclass(frozen=True, slots=True)
class Table:
    """One table; `numbers` where ids are given out and none is given twice."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    numbers: bool

    @property
    def page(self) -> str:
        """The statement for a page of rows in the order of the key, behind one key's values."""
        names, key = _list(self.columns), _list(self.key)
        after = ", ".join("?" * len(self.key))
        return f'SELECT {names} FROM "{self.name}" WHERE ({key}) > ({after}) ORDER BY {key} LIMIT ?'

    @property
    def first_page(self) -> str:
        return f'SELECT {_list(self.columns)} FROM "{self.name}" ORDER BY {_list(self.key)} LIMIT ?'

    @property
    def insert(self) -> str:
        values = ", ".join("?" * len(self.columns))
        return f'INSERT INTO "{self.name}" ({_list(self.columns)}) VALUES ({values})'


def _list(names: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in names)


class BulkLoad(Protocol):
    """What an engine does differently for whoever fills a database; all of it inside one transaction."""

    def loading(self, conn: engine.Connection) -> AbstractContextManager[None]:
        """Triggers and foreign keys rest meanwhile; at the end the keys are checked, and search finds all."""

    def numbers(self, conn: engine.Connection) -> dict[str, int]:
        """The last id that each table with `numbers` gave out."""

    def set_numbers(self, conn: engine.Connection, last: dict[str, int]) -> None: ...


@cache
def all_tables() -> tuple[Table, ...]:
    """What is moved, in the order of the schema."""
    with closing(sqlite3.connect(":memory:")) as model:
        model.executescript(upgrade.schema())
        rows = model.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        virtual = [name for name, sql in rows if sql.upper().startswith("CREATE VIRTUAL")]
        found = []
        for name, sql in rows:
            inside = any(name == one or name.startswith(f"{one}_") for one in virtual)
            if not inside and name not in LEFT and not name.startswith("sqlite_"):
                found.append(_table(model, name, sql))
        return tuple(found)


def _table(model: sqlite3.Connection, name: str, sql: str) -> Table:
    columns = model.execute(f'PRAGMA table_info("{name}")').fetchall()
    key = tuple(row[1] for row in sorted(columns, key=lambda row: int(row[5])) if row[5])
    return Table(name, tuple(row[1] for row in columns), key, "AUTOINCREMENT" in sql)
