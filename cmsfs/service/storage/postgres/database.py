"""The PostgreSQL database engine; several processes on several machines can share one database.

No PostgreSQL driver supports trio, so transactions and long reads run in threads, each on its own connection.
Point reads run on the event loop and block it until the server answers: about 0.1 ms over a Unix socket, one
round trip over a network.

Every write transaction first takes one advisory lock and holds it until the commit.  So there is a single
writer across all processes, as with SQLite, and the service can rely on it: events are numbered in commit
order, checks of names and quotas stay true until the commit, and a code is used only once.  The price is that
writers wait for each other, mostly for the commit; each process batches its waiting changes into one commit
(commit_queue.py).

Rule: a failed connection is closed and the caller gets the error; the next call opens a new connection.
"""

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import trio

from cmsfs.runtime import threads
from cmsfs.service.storage import engine
from cmsfs.service.storage.postgres import connection, format, presence
from cmsfs.service.storage.postgres.connection import PostgresConnection
from cmsfs.service.storage.shared import moments

log = logging.getLogger(__name__)

T = TypeVar("T")

# If the writer lock takes longer than this, something is wrong, and the caller has to retry.
_BEGIN = f"""
  BEGIN; SET LOCAL lock_timeout = '30s';
  SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})
"""
# Also takes OPEN in shared mode, so that no write runs while another process holds the database exclusively:
# the listener connection that normally holds OPEN may be lost after a server restart and not yet be restored.
_BEGIN_SHARED = f"""
  BEGIN; SET LOCAL lock_timeout = '30s';
  SELECT pg_advisory_xact_lock_shared({presence.LOCKS}, {presence.OPEN}),
    pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})
"""
# The notification is sent if, and only if, the transaction commits.
_COMMIT = f"NOTIFY {presence.CHANNEL}, '{{}}'; COMMIT"

# Concurrent long reads.
READERS = 8

# The delay between attempts to reconnect.
_RECONNECT_SECONDS = 0.5


class PostgresDatabase:
    """An open database.  Construct with `open_database`."""

    def __init__(self, url: str, clock: moments.StoreClock) -> None:
        self.presence = presence.Presence(partial(self._connect, role="listener"), clock)
        self._url = url
        self._clock = clock
        self._loop_conn: PostgresConnection | None = None
        self._loop_conn_lost = trio.Event()
        self._writer: PostgresConnection | None = None
        self._idle_readers: list[PostgresConnection] = []
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(READERS)
        self._is_closed = False

    def rows(self, sql: str, *args: Any) -> list[engine.Row]:
        """All rows of a query; blocks the event loop until the server answers."""
        conn = self._loop_conn
        if conn is None:
            raise engine.DatabaseUnavailable("the database is out of reach")
        try:
            return conn.execute(sql, args).fetchall()
        finally:
            if conn.is_lost:
                self._loop_conn = None
                self._loop_conn_lost.set()

    def version(self) -> Hashable:
        """The current snapshot, which changes with every commit of any process."""
        return str(self.rows("SELECT pg_current_snapshot()::text")[0][0])

    async def query(self, fn: Callable[[engine.Connection], T]) -> T:
        """Run an unbounded read in a thread; retried once on a new connection if a pooled one was lost."""
        return await threads.run_sync(self._run_query, fn, limiter=self._reading)

    async def write(self, txn: Callable[[engine.Connection], T], *, durable: bool = False) -> T:
        """Run `txn` as the single writer, commit, and return its result; always durable.

        Raises `DatabaseUnavailable`; if the connection is lost during the commit, it may have succeeded.
        """
        return await threads.run_sync(self._run_transaction, txn, limiter=self._writing)

    def _run_query(self, fn: Callable[[engine.Connection], T]) -> T:
        # A lost connection also ends exclusive access, so an exclusive process must not retry.
        was_exclusive = self.presence.is_exclusive
        while True:
            is_new = not self._idle_readers
            conn = self._connect(role="reader") if is_new else self._idle_readers.pop()
            try:
                return fn(cast(engine.Connection, conn))
            except engine.DatabaseUnavailable:
                if is_new or was_exclusive or not conn.is_lost:
                    raise
            finally:
                with suppress(sqlite3.Error):
                    conn.rollback_open_transaction()
                if not conn.is_lost:
                    self._idle_readers.append(conn)
                if self._is_closed:
                    self._close_idle_readers()

    def _run_transaction(self, txn: Callable[[engine.Connection], T]) -> T:
        conn = self._begin()
        try:
            result = txn(cast(engine.Connection, conn))
            conn.command(_COMMIT.format(self._clock.last))
        finally:
            with suppress(sqlite3.Error):
                conn.rollback_open_transaction()
            if self._is_closed:
                conn.close()
        return result

    def _begin(self) -> PostgresConnection:
        """Begin a write transaction and return its connection; reconnects if the connection was lost."""
        while True:
            is_new = self._writer is None or self._writer.is_lost
            if is_new:
                self._writer = self._connect(role="writer")
                self.presence.writer_pid = self._writer.pid
            conn = self._writer
            assert conn is not None
            try:
                conn.command(_BEGIN if self.presence.is_exclusive else _BEGIN_SHARED)
                return conn
            except engine.DatabaseUnavailable:
                with suppress(sqlite3.Error):
                    conn.rollback_open_transaction()
                if is_new or not conn.is_lost:
                    raise

    def _connect(self, *, role: str) -> PostgresConnection:
        if self._is_closed:
            raise engine.DatabaseUnavailable("the database is closed")
        return connection.connect(self._url, read_only=role == "reader", name=f"cmsfs {role}")

    async def keep_loop_connection(
        self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Open the event loop's connection and reopen it when lost, until cancelled.

        Raises `DatabaseUnavailable` if the first attempt fails.
        """
        self._loop_conn = await threads.run_sync(partial(self._connect, role="loop"))
        task_status.started()
        while True:
            await self._loop_conn_lost.wait()
            log.warning("the connection to the database was lost")
            last_error = ""
            while self._loop_conn is None:
                try:
                    self._loop_conn = await threads.run_sync(partial(self._connect, role="loop"))
                except engine.DatabaseUnavailable as error:
                    if str(error) != last_error:
                        last_error = str(error)
                        log.warning("the database is out of reach: %s", last_error)
                    await trio.sleep(_RECONNECT_SECONDS)
            log.warning("the database is reachable again")
            self._loop_conn_lost = trio.Event()

    def close(self) -> None:
        """Close the connections; one that a thread still uses is closed when that ends."""
        self._is_closed = True
        if self._loop_conn is not None:
            self._loop_conn.close()
        if self._writer is not None and not self._writing.borrowed_tokens:
            self._writer.close()
        self._close_idle_readers()

    def _close_idle_readers(self) -> None:
        while self._idle_readers:
            self._idle_readers.pop().close()


@asynccontextmanager
async def open_database(url: str, clock: moments.StoreClock) -> AsyncIterator[PostgresDatabase]:
    """Open the database at a URL; an empty one gets the schema, an older format is upgraded.

    Raises `UserError` if it is unreachable, has a newer format, or contains something else.
    """
    await threads.run_sync(format.prepare, url)
    db = PostgresDatabase(url, clock)
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(db.keep_loop_connection)
            await nursery.start(db.presence.listen)
            try:
                yield db
            except Exception as error:
                failed = error  # raised below, not wrapped in an exception group
            nursery.cancel_scope.cancel()
    finally:
        db.close()
    if failed is not None:
        raise failed
