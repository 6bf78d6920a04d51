"""The port to the database: what the service asks of SQLite, and of PostgreSQL in its place.

Transaction functions get a connection with `execute(sql, args)`, which gives rows by name and by place; the
types are SQLite's, and another engine answers as SQLite does.

Rule: transactions run one after another, over all processes: what one has read stays so until it is
committed, and numbers that are given out grow in the order of the commits.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cmsfs.service.storage.shared import attempt_limits, signed_urls

T = TypeVar("T")

Connection = sqlite3.Connection
Row = sqlite3.Row


def new_id(conn: Connection, sql: str, args: Sequence[Any] | Mapping[str, Any]) -> int:
    """Insert a row, and give its number.

    For what is inserted all the time: RETURNING, which both engines take, costs SQLite two microseconds more.
    """
    if isinstance(conn, sqlite3.Connection):
        number = conn.execute(sql, args).lastrowid
    else:
        number = conn.execute(f"{sql} RETURNING id", args).fetchone()["id"]
    assert number is not None
    return int(number)


class DatabaseUnavailable(sqlite3.OperationalError):
    """The database cannot be asked now; later it may."""


class Engine(Protocol):
    """A database that is open."""

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """All rows, here and now; only for indexed, bounded queries."""

    def version(self) -> Hashable:
        """Something that is another one after every commit, whoever made it."""

    async def query(self, fn: Callable[[Connection], T]) -> T:
        """Run an unbounded read in a thread."""

    async def write(self, txn: Callable[[Connection], T], *, durable: bool = False) -> T:
        """Run `txn` inside one transaction in a thread, commit, and return what it returned.

        An exception out of `txn` rolls back and is raised here.  Cancelled: before the start nothing happens;
        once running, the transaction is finished first.
        """


class Together(Protocol):
    """What the processes that serve one store have together, and know of each other."""

    attempts: attempt_limits.Attempts
    addresses: signed_urls.SignedUrls
    heard: Callable[[], None]  # called when others have written, or may have, where that is told

    @property
    def is_told(self) -> bool:
        """Whether this process is told at once what others write."""

    def value(self, name: str) -> bytes | None:
        """What the processes have noted under a name."""

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Note something, durably, unless another process has; what is noted then."""

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Note something in place of what was noted, durably; None: nothing."""

    async def drop_values(self, first: str, end: str) -> None:
        """Forget what is noted under names from one up to but without another."""

    def is_alone(self) -> bool:
        """Whether no other process has the store open; then none opens it until `open_to_others`."""

    async def open_to_others(self) -> None:
        """Say that this process has the store open, when whoever wanted to be alone has finished."""

    async def lead(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job when no other process does; it is cancelled, and may begin anew, if that is not sure."""
