"""Bulk load into SQLite: without triggers; then keys are checked and the full-text index is rebuilt."""

from collections.abc import Iterator
from contextlib import contextmanager

from cmsfs import errors
from cmsfs.service.storage import engine
from cmsfs.service.storage.move import tables


@contextmanager
def loading(conn: engine.Connection) -> Iterator[None]:
    conn.execute("PRAGMA defer_foreign_keys = ON")  # until the commit
    triggers = conn.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for row in triggers:
        conn.execute(f'DROP TRIGGER "{row["name"]}"')
    yield
    for row in triggers:
        conn.execute(row["sql"])
    conn.execute("INSERT INTO word(word) VALUES('rebuild')")
    broken = conn.execute("PRAGMA foreign_key_check").fetchone()
    if broken is not None:
        raise errors.UserError(f"A row of {broken[0]} refers to a missing row of {broken[2]}.")


def last_ids(conn: engine.Connection) -> dict[str, int]:
    found = {row["name"]: row["seq"] for row in conn.execute("SELECT name, seq FROM sqlite_sequence")}
    return {one.name: found.get(one.name, 0) for one in tables.all_tables() if one.autoincrement}


def set_last_ids(conn: engine.Connection, last: dict[str, int]) -> None:
    for name, number in last.items():
        conn.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
        conn.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, number))
