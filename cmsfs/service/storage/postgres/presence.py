"""Coordinates the processes that share one PostgreSQL database.

Each process has a listener connection, watched by the event loop.  It receives notifications of other
processes' commits, and holds the session's advisory locks: one while the database is open, and one for each
leader role.  The server releases them when the process or its machine dies.
"""

import logging
import os
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress

import trio

from cmsfs.runtime import threads
from cmsfs.service.storage import engine
from cmsfs.service.storage.postgres.connection import PostgresConnection
from cmsfs.service.storage.shared import moments

log = logging.getLogger(__name__)

# Keys of the advisory locks: LOCKS is the first key, one of the others the second.
LOCKS = 0x636D7366
WRITER = 1
OPEN = 2
FORMAT = 3
_LEADER_LOCKS = {"indexing": 10, "sweeper": 11}

CHANNEL = "cmsfs_written"

_RECONNECT_SECONDS = 0.5

# How often a process polls for a leader role that another one holds.
_LEADER_POLL_SECONDS = 5.0


class Presence:
    """This process's listener connection and locks.  `listen` runs as long as the database is open."""

    def __init__(self, connect: Callable[[], PostgresConnection], clock: moments.StoreClock) -> None:
        # Called on the event loop when another process has written, or may have.
        self.on_remote_write: Callable[[], None] = lambda: None
        # The backend pid of our writer connection, whose notifications we ignore.
        self.writer_pid = 0
        # No other process has the database open, or can open it.
        self.is_exclusive = False
        self._connect = connect
        self._clock = clock
        self._conn: PostgresConnection | None = None
        self._connection_lost = trio.Event()
        self._is_registered = False

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            self._conn = await threads.run_sync(self._connect_listener)
            task_status.started()
            while True:
                await self._receive_notifications(self._conn)
                self._connection_lost.set()
                self.is_exclusive = False
                self._conn = await self._reconnect()
                self._connection_lost = trio.Event()
                self.on_remote_write()  # notifications sent while disconnected are lost
        finally:
            if self._conn is not None:
                self._conn.close()

    def _connect_listener(self) -> PostgresConnection:
        conn = self._connect()
        try:
            conn.listen(CHANNEL, self._on_notify)
            if self._is_registered:
                conn.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, {OPEN})")
        except BaseException:
            conn.close()
            raise
        return conn

    async def _receive_notifications(self, conn: PostgresConnection) -> None:
        """Process notifications until the connection is lost."""
        # A duplicate: whoever notices a lost connection closes it, and its descriptor could then be reused.
        descriptor = os.dup(conn.raw.fileno())
        try:
            while True:
                await trio.lowlevel.wait_readable(descriptor)
                conn.process_notifications()
        except engine.DatabaseUnavailable as error:
            log.warning("the database is out of reach: %s", error)
        finally:
            os.close(descriptor)

    def _on_notify(self, pid: int, payload: str) -> None:
        if pid != self.writer_pid:
            self._clock.observe(int(payload))
            self.on_remote_write()

    async def _reconnect(self) -> PostgresConnection:
        while True:
            with suppress(engine.DatabaseUnavailable):
                return await threads.run_sync(self._connect_listener)
            await trio.sleep(_RECONNECT_SECONDS)

    def try_exclusive(self) -> bool:
        """Try to get exclusive access; while it is held, other processes wait in `open_shared`.

        False if another process has the database open.
        """
        self.is_exclusive = self._try_lock(OPEN)
        return self.is_exclusive

    async def open_shared(self) -> None:
        """Register this process as a user of the database, after any exclusive holder has finished."""
        conn = self._conn
        assert conn is not None
        self._is_registered = True
        lock = f"SELECT pg_try_advisory_lock_shared({LOCKS}, {OPEN}) AS got"
        if not conn.execute(lock).fetchone()["got"]:
            # Wait on a separate connection: waiting on this one would block the event loop.
            await threads.run_sync(self._wait_to_open)
            conn.execute(lock)
        self.is_exclusive = False
        conn.execute(f"SELECT pg_advisory_unlock({LOCKS}, {OPEN})")

    def _wait_to_open(self) -> None:
        with closing(self._connect()) as conn:
            conn.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, {OPEN})")

    async def run_as_leader(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job while this process is the leader; polls until it is.

        The job is cancelled if the lock may be lost with the connection, and starts again after re-election.
        So it does if it meets a database that is out of reach: other connections may be lost before this one,
        or come back after it.
        """
        lock = _LEADER_LOCKS[name]
        while True:
            conn, connection_lost = self._conn, self._connection_lost
            if self._try_lock(lock):
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_cancel_on, connection_lost, nursery.cancel_scope)
                        try:
                            await job()
                        except engine.DatabaseUnavailable as error:
                            log.debug("%s begins again: %s", name, error)
                        nursery.cancel_scope.cancel()
                finally:
                    self._unlock(conn, lock)
            await trio.sleep(_LEADER_POLL_SECONDS)

    def _try_lock(self, lock: int) -> bool:
        if self._conn is None:
            return False
        try:
            found = self._conn.execute(f"SELECT pg_try_advisory_lock({LOCKS}, {lock}) AS got")
        except engine.DatabaseUnavailable:
            return False
        return bool(found.fetchone()["got"])

    def _unlock(self, conn: PostgresConnection | None, lock: int) -> None:
        # A lost connection has released its locks already.
        with suppress(engine.DatabaseUnavailable):
            if conn is not None and not conn.is_lost:
                conn.execute(f"SELECT pg_advisory_unlock({LOCKS}, {lock})")


async def _cancel_on(connection_lost: trio.Event, scope: trio.CancelScope) -> None:
    await connection_lost.wait()
    scope.cancel()
