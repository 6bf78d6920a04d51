"""Filling a PostgreSQL database: triggers and keys rest; at the end keys are checked and words indexed."""

from collections.abc import Iterator
from contextlib import contextmanager

from cmsfs.service.storage import engine
from cmsfs.service.storage.move import tables

_KEYS = """
  SELECT conrelid::regclass::text AS owner, conname::text AS name, pg_get_constraintdef(oid) AS text
  FROM pg_constraint WHERE contype = 'f' AND connamespace = current_schema()::regnamespace
"""
_NUMBER = "SELECT pg_get_serial_sequence(?, 'id') AS name"


@contextmanager
def loading(conn: engine.Connection) -> Iterator[None]:
    keys = conn.execute(_KEYS).fetchall()
    for row in keys:
        conn.execute(f'ALTER TABLE {row["owner"]} DROP CONSTRAINT "{row["name"]}"')
    for one in tables.all_tables():
        conn.execute(f'ALTER TABLE "{one.name}" DISABLE TRIGGER USER')
    yield
    for one in tables.all_tables():
        conn.execute(f'ALTER TABLE "{one.name}" ENABLE TRIGGER USER')
    conn.execute("UPDATE document SET name = name")  # the index of words is made by a trigger
    for row in keys:
        conn.execute(f'ALTER TABLE {row["owner"]} ADD CONSTRAINT "{row["name"]}" {row["text"]}')
    for one in tables.all_tables():
        conn.execute(f'ANALYZE "{one.name}"')


def numbers(conn: engine.Connection) -> dict[str, int]:
    found = {}
    for name in _numbered():
        sequence = conn.execute(_NUMBER, (f'"{name}"',)).fetchone()["name"]
        row = conn.execute(f"SELECT last_value, is_called FROM {sequence}").fetchone()
        found[name] = row["last_value"] if row["is_called"] else row["last_value"] - 1
    return found


def set_numbers(conn: engine.Connection, last: dict[str, int]) -> None:
    for name, number in last.items():
        sequence = conn.execute(_NUMBER, (f'"{name}"',)).fetchone()["name"]
        conn.execute("SELECT setval(?, ?, ?)", (sequence, max(number, 1), number > 0))


def _numbered() -> list[str]:
    return [one.name for one in tables.all_tables() if one.numbers]
