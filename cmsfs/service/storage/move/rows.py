"""Copies the rows of a store in one transaction of the target, and compares them before the commit.

The target gets all rows or none, so an interrupted move starts over with the rows; contents, which are most
of the data, are not copied again.
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

# Rows per page.
PAGE = 2000

# Queries that find nothing in a new store.
_USED_CHECKS = (
    "SELECT 1 FROM item LIMIT 1",
    "SELECT 1 FROM event LIMIT 1",
    "SELECT 1 FROM admin_event LIMIT 1",
    "SELECT 1 FROM account WHERE enterprise != 0 LIMIT 1",
)

Page = Callable[[str, tuple[Any, ...]], list[Any]]


@dataclass(slots=True)
class _TableDigest:
    """The number of rows of a table, and a digest of them."""

    count: int = 0
    digest: str = ""


def is_used(read: store.Read) -> bool:
    """Whether a store has data of users."""
    return any(read(sql) for sql in _USED_CHECKS)


async def move(
    source: store.Store,
    source_loader: BulkLoad,
    target: store.Store,
    target_loader: BulkLoad,
    progress: Callable[[str], None],
) -> dict[str, int]:
    """Copy the source's rows to the target; returns the number of rows by table.

    Nobody else may have either store open.  Raises `UserError`, and leaves the target unchanged, if the
    copied rows differ.
    """
    last_ids = await source.db.query(source_loader.last_ids)

    def read_source(sql: str, args: tuple[Any, ...]) -> list[Any]:
        return trio.from_thread.run(source.query, lambda read: read(sql, *args))

    def run(conn: engine.Connection) -> dict[str, int]:
        counts = {}
        with target_loader.loading(conn):
            for table in reversed(tables.all_tables()):
                conn.execute(f'DELETE FROM "{table.name}"')
            for table in tables.all_tables():
                trio.from_thread.run_sync(progress, table.name)
                sent = _each_page(table, read_source, partial(put_page, conn, table))
                received = _each_page(
                    table, lambda sql, args: conn.execute(sql, args).fetchall(), lambda page: None
                )
                if sent != received:
                    message = f"{sent.count} rows of {table.name} were sent, and {received.count} arrived"
                    raise errors.UserError(f"{message}, or others than those; the target is left as it was.")
                counts[table.name] = sent.count
        target_loader.set_last_ids(conn, last_ids)
        return counts

    counts = await target.db.write(run, durable=True)
    if source.first_position:
        await target.shared.set_value(store.FIRST_POSITION, str(source.first_position).encode())
    return counts


def put_page(conn: engine.Connection, table: Table, page: list[tuple[Any, ...]]) -> None:
    conn.executemany(table.insert, page)


def _each_page(
    table: Table, read_source: Page, handle_page: Callable[[list[tuple[Any, ...]]], None]
) -> _TableDigest:
    """Pass all rows of a table to `handle_page`, a page at a time; returns their count and digest."""
    key_positions = [table.columns.index(name) for name in table.key]
    totals, digest = _TableDigest(), hashlib.sha1(usedforsecurity=False)
    page = [tuple(row) for row in read_source(table.first_page, (PAGE,))]
    while page:
        handle_page(page)
        totals.count += len(page)
        for row in page:
            digest.update(repr([_comparable(one) for one in row]).encode("utf-8", "surrogatepass"))
        if len(page) < PAGE:
            break
        last = tuple(page[-1][position] for position in key_positions)
        page = [tuple(row) for row in read_source(table.page, (*last, PAGE))]
    totals.digest = digest.hexdigest()
    return totals


def _comparable(value: Any) -> Any:
    """A value in the form that both engines can store: PostgreSQL's text cannot contain NUL."""
    return value.replace("\0", "\ufffd") if isinstance(value, str) else value
