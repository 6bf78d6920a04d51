"""Bulk load into PostgreSQL: without triggers and foreign keys, which are restored and checked at the end."""

from collections.abc import Iterator
from contextlib import contextmanager

from cmsfs.service.storage import engine
from cmsfs.service.storage.move import tables

_FOREIGN_KEYS = """
  SELECT conrelid::regclass::text AS owner, conname::text AS name, pg_get_constraintdef(oid) AS text
  FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
"""
_SEQUENCE_OF = "SELECT pg_get_serial_sequence(?, 'id') AS name"


@contextmanager
def loading(conn: engine.Connection) -> Iterator[None]:
    foreign_keys = conn.execute(_FOREIGN_KEYS).fetchall()
    for row in foreign_keys:
        conn.execute(f'ALTER TABLE {row["owner"]} DROP CONSTRAINT "{row["name"]}"')
    for one in tables.all_tables():
        conn.execute(f'ALTER TABLE "{one.name}" DISABLE TRIGGER USER')
    yield
    for one in tables.all_tables():
        conn.execute(f'ALTER TABLE "{one.name}" ENABLE TRIGGER USER')
    conn.execute("UPDATE document SET name = name")  # a trigger builds the full-text index
    for row in foreign_keys:
        conn.execute(f'ALTER TABLE {row["owner"]} ADD CONSTRAINT "{row["name"]}" {row["text"]}')
    for one in tables.all_tables():
        conn.execute(f'ANALYZE "{one.name}"')


def last_ids(conn: engine.Connection) -> dict[str, int]:
    found = {}
    for name in _autoincrement_tables():
        sequence = conn.execute(_SEQUENCE_OF, (f'"{name}"',)).fetchone()["name"]
        row = conn.execute(f"SELECT last_value, is_called FROM {sequence}").fetchone()
        found[name] = row["last_value"] if row["is_called"] else row["last_value"] - 1
    return found


def set_last_ids(conn: engine.Connection, last: dict[str, int]) -> None:
    for name, number in last.items():
        sequence = conn.execute(_SEQUENCE_OF, (f'"{name}"',)).fetchone()["name"]
        conn.execute("SELECT setval(?, ?, ?)", (sequence, max(number, 1), number > 0))


def _autoincrement_tables() -> list[str]:
    return [one.name for one in tables.all_tables() if one.autoincrement]
