"""The database on a PostgreSQL server, which several processes on several machines may serve.

No driver of PostgreSQL runs on trio, so transactions and long reads are in threads, each on a connection of
its own.  Point reads stay on the loop, where they wait for the server's answer: some 0.1 ms over a Unix
socket, and a round trip over a network.

Every transaction first takes one lock of the database, which it holds until it is committed.  So there is one
writer at a time over all processes, as SQLite has it, and all that rests on that is true here: events are
numbered in the order of their commits, names and quotas are judged by what stays so, and a code is used once.
What that costs is the time of the others, most of which is the commit's; each process commits what waits
together (commit_queue.py).

Rule: a connection that failed is closed; whoever asked is told so, and the next one is another.
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

# Nobody waits longer for the writer: then something is wrong, and the caller is asked to come again.
_BEGIN = f"""
  BEGIN; SET LOCAL lock_timeout = '30s';
  SELECT pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})
"""
# Nobody writes while another process has the database to itself: the connection that says that this one has
# it open may have been lost, with a restart of the server, and not be there again.
_BEGIN_BESIDE = f"""
  BEGIN; SET LOCAL lock_timeout = '30s';
  SELECT pg_advisory_xact_lock_shared({presence.LOCKS}, {presence.OPEN}),
    pg_advisory_xact_lock({presence.LOCKS}, {presence.WRITER})
"""
# What is told is told with the commit, and not without it.
_COMMIT = f"NOTIFY {presence.CHANNEL}, '{{}}'; COMMIT"

# Long reads at a time.
READERS = 8

# How long after a failed attempt to reach the server the next one is made.
_AGAIN_SECONDS = 0.5


class PostgresDatabase:
    """A database that is open.  Construct with `open_database`."""

    def __init__(self, url: str, clock: moments.Moments) -> None:
        self.presence = presence.Presence(partial(self._connect, role="listener"), clock)
        self._url = url
        self._clock = clock
        self._near: PostgresConnection | None = None
        self._near_lost = trio.Event()
        self._writer: PostgresConnection | None = None
        self._idle: list[PostgresConnection] = []
        self._writing = trio.CapacityLimiter(1)
        self._reading = trio.CapacityLimiter(READERS)

    def rows(self, sql: str, *args: Any) -> list[engine.Row]:
        """All rows, here and now: the loop waits for the server."""
        near = self._near
        if near is None:
            raise engine.DatabaseUnavailable("the database is out of reach")
        try:
            return near.execute(sql, args).fetchall()
        finally:
            if near.is_lost:
                self._near = None
                self._near_lost.set()

    def version(self) -> Hashable:
        """Which transactions can be seen."""
        return str(self.rows("SELECT pg_current_snapshot()::text")[0][0])

    async def query(self, fn: Callable[[engine.Connection], T]) -> T:
        """Run an unbounded read in a thread, once more if its connection had been lost."""
        return await threads.run_sync(self._read, fn, limiter=self._reading)

    async def write(self, txn: Callable[[engine.Connection], T], *, durable: bool = False) -> T:
        """Run `txn` as the one writer, commit, and return what it returned; always durable.

        Raises `DatabaseUnavailable`: if the connection is lost in the commit, it may have been made.
        """
        return await threads.run_sync(self._run, txn, limiter=self._writing)

    def _read(self, fn: Callable[[engine.Connection], T]) -> T:
        # With the connections of one that had the database to itself that is over.
        alone = self.presence.has_it_alone
        while True:
            is_new = not self._idle
            conn = self._connect(role="reader") if is_new else self._idle.pop()
            try:
                return fn(cast(engine.Connection, conn))
            except engine.DatabaseUnavailable:
                if is_new or alone or not conn.is_lost:
                    raise
            finally:
                with suppress(sqlite3.Error):
                    conn.settle()
                if not conn.is_lost:
                    self._idle.append(conn)

    def _run(self, txn: Callable[[engine.Connection], T]) -> T:
        conn = self._begun()
        try:
            result = txn(cast(engine.Connection, conn))
            conn.command(_COMMIT.format(self._clock.last))
        finally:
            with suppress(sqlite3.Error):
                conn.settle()
        return result

    def _begun(self) -> PostgresConnection:
        """The writer's connection, at the beginning of a transaction; another one, if that had been lost."""
        while True:
            is_new = self._writer is None or self._writer.is_lost
            if is_new:
                self._writer = self._connect(role="writer")
                self.presence.own = self._writer.pid
            conn = self._writer
            assert conn is not None
            try:
                conn.command(_BEGIN if self.presence.has_it_alone else _BEGIN_BESIDE)
                return conn
            except engine.DatabaseUnavailable:
                with suppress(sqlite3.Error):
                    conn.settle()
                if is_new or not conn.is_lost:
                    raise

    def _connect(self, *, role: str) -> PostgresConnection:
        return connection.connect(self._url, reads_only=role == "reader", name=f"cmsfs {role}")

    async def keep_near(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the loop's connection, until cancelled.  Raises `DatabaseUnavailable` if none was had."""
        self._near = await threads.run_sync(partial(self._connect, role="loop"))
        task_status.started()
        while True:
            await self._near_lost.wait()
            log.warning("the connection to the database was lost")
            said = ""
            while self._near is None:
                try:
                    self._near = await threads.run_sync(partial(self._connect, role="loop"))
                except engine.DatabaseUnavailable as error:
                    if str(error) != said:
                        said = str(error)
                        log.warning("the database is out of reach: %s", said)
                    await trio.sleep(_AGAIN_SECONDS)
            log.warning("the database is there again")
            self._near_lost = trio.Event()

    def close(self) -> None:
        for conn in (self._near, self._writer, *self._idle):
            if conn is not None:
                conn.close()


@asynccontextmanager
async def open_database(url: str, clock: moments.Moments) -> AsyncIterator[PostgresDatabase]:
    """The database at a URL, made if it is empty, brought to this format if it has an older one.

    Raises `UserError` if it cannot be reached, or has a newer format or something else in it.
    """
    await threads.run_sync(format.prepare, url)
    db = PostgresDatabase(url, clock)
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(db.keep_near)
            await nursery.start(db.presence.listen)
            try:
                yield db
            except Exception as error:
                failed = error  # as it is, and not in a group
            nursery.cancel_scope.cancel()
    finally:
        db.close()
    if failed is not None:
        raise failed
