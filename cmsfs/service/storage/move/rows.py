"""Moves the rows of a store: all in one transaction of the target, compared before it is committed.

The target has all of it or nothing, so a move that was cut off begins anew with the rows; contents, which are
most of it, go on where they were.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import trio

from cmsfs import errors
from cmsfs.service.storage import engine, store
from cmsfs.service.storage.move import tables
from cmsfs.service.storage.move.tables import BulkLoad, Table

# Rows at a time.
PAGE = 2000

# What a new store has already.
_USED = (
    "SELECT 1 FROM item LIMIT 1",
    "SELECT 1 FROM event LIMIT 1",
    "SELECT 1 FROM admin_event LIMIT 1",
    "SELECT 1 FROM account WHERE enterprise != 0 LIMIT 1",
)

Page = Callable[[str, tuple[Any, ...]], list[Any]]


@dataclass(slots=True)
class _Seen:
    """How many rows a table has, and what they say."""

    count: int = 0
    digest: str = ""


def is_used(read: store.Read) -> bool:
    """Whether somebody has worked with a store."""
    return any(read(sql) for sql in _USED)


async def move(
    source: store.Store,
    source_side: BulkLoad,
    target: store.Store,
    target_side: BulkLoad,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """Give the target the source's rows; how many, by table.  Nobody else may have either of them open.

    Raises `UserError`, with the target as it was, if what arrived is not what was sent.
    """
    numbers = await source.db.query(source_side.numbers)

    def ask(sql: str, args: tuple[Any, ...]) -> list[Any]:
        return trio.from_thread.run(source.query, lambda read: read(sql, *args))

    def run(conn: engine.Connection) -> dict[str, int]:
        counts = {}
        with target_side.loading(conn):
            for table in reversed(tables.all_tables()):
                conn.execute(f'DELETE FROM "{table.name}"')
            for table in tables.all_tables():
                trio.from_thread.run_sync(progress, table.name)
                sent = _each(table, ask, partial(put_page, conn, table))
                came = _each(table, lambda sql, args: conn.execute(sql, args).fetchall(), lambda page: None)
                if sent != came:
                    said = f"{sent.count} rows of {table.name} were sent, and {came.count} arrived"
                    raise errors.UserError(f"{said}, or others than those; the target is left as it was.")
                counts[table.name] = sent.count
        target_side.set_numbers(conn, numbers)
        return counts

    return await target.db.write(run, durable=True)


def put_page(conn: engine.Connection, table: Table, page: list[tuple[Any, ...]]) -> None:
    conn.executemany(table.insert, page)


def _each(table: Table, ask: Page, take: Callable[[list[tuple[Any, ...]]], None]) -> _Seen:
    """Hand all rows of a table on, a page at a time."""
    places = [table.columns.index(name) for name in table.key]
    seen, digest = _Seen(), hashlib.sha1(usedforsecurity=False)
    page = [tuple(row) for row in ask(table.first_page, (PAGE,))]
    while page:
        take(page)
        seen.count += len(page)
        for row in page:
            digest.update(repr([_plain(one) for one in row]).encode("utf-8", "surrogatepass"))
        if len(page) < PAGE:
            break
        last = tuple(page[-1][place] for place in places)
        page = [tuple(row) for row in ask(table.page, (*last, PAGE))]
    seen.digest = digest.hexdigest()
    return seen


def _plain(value: Any) -> Any:
    """A value as both engines have it: the character 0 is none of PostgreSQL's."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
