"""The interface to the database engine: SQLite or PostgreSQL.

Transaction functions get a connection whose `execute(sql, args)` returns rows that can be indexed by name and
by position.  The types are SQLite's; another engine behaves as SQLite does.

Rule: write transactions are serialized across all processes: what one has read stays true until it commits,
and ids grow in commit order.
"""

import sqlite3
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cmsfs.service.storage.shared import attempt_limits, signed_urls

T = TypeVar("T")

Connection = sqlite3.Connection
Row = sqlite3.Row


def new_id(conn: Connection, sql: str, args: Sequence[Any] | Mapping[str, Any]) -> int:
    """Insert a row and return its id.

    For frequent inserts: RETURNING, which both engines support, costs SQLite two microseconds more.
    """
    if isinstance(conn, sqlite3.Connection):
        number = conn.execute(sql, args).lastrowid
    else:
        number = conn.execute(f"{sql} RETURNING id", args).fetchone()["id"]
    assert number is not None
    return int(number)


class DatabaseUnavailable(sqlite3.OperationalError):
    """The database is temporarily unavailable."""


class Engine(Protocol):
    """An open database."""

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """All rows of a query, run on the event loop; only for indexed, bounded queries."""

    def version(self) -> Hashable:
        """A value that changes with every commit of any process."""

    async def query(self, fn: Callable[[Connection], T]) -> T:
        """Run an unbounded read in a thread."""

    async def write(self, txn: Callable[[Connection], T], *, durable: bool = False) -> T:
        """Run `txn` in one transaction in a thread, commit, and return its result.

        An exception in `txn` rolls back and is raised here.  Cancelled: before the start nothing happens; a
        running transaction is finished first.
        """


class StoreCoordination(Protocol):
    """State and locks shared by the processes that serve one store."""

    attempts: attempt_limits.Attempts
    url_signer: signed_urls.UrlSigner
    on_remote_write: Callable[[], None]  # called when others may have written, if notifications arrive

    @property
    def receives_notifications(self) -> bool:
        """Whether this process is notified of other processes' writes."""

    def value(self, name: str) -> bytes | None:
        """The shared value stored under a name, or None."""

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Store a value durably unless the name has one already; returns the stored value."""

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Replace a value durably; None deletes it."""

    async def drop_values(self, first: str, end: str) -> None:
        """Delete the values with names in the range from `first` to before `end`."""

    def try_exclusive(self) -> bool:
        """Try to get exclusive access; while it is held, other processes wait in `open_shared`.

        False if another process has the store open.
        """

    async def open_shared(self) -> None:
        """Register this process as a user of the store, after any exclusive holder has finished."""

    async def run_as_leader(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job while this process is the leader of that name; polls until it is.

        If leadership may have been lost, the job is cancelled, and starts again after re-election.
        """
