"""What the processes that serve one PostgreSQL database know of each other.

Each has a connection that the loop listens to: there it is told what others have written, and there it holds
the locks that say that it has the database open and what it does for all.  The server gives them back when
the process or its machine is gone.
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

# Advisory locks of the database: this number, and one of these.
LOCKS = 0x636D7366
WRITER = 1
OPEN = 2
MAKING = 3
_LEADERS = {"indexing": 10, "sweeper": 11}

CHANNEL = "cmsfs_written"

_AGAIN_SECONDS = 0.5

# How often whoever wants to do what one does for all asks whether it may.
_LEAD_SECONDS = 5.0


class Presence:
    """This process among the others.  `listen` runs as long as the database is open."""

    def __init__(self, connect: Callable[[], PostgresConnection], clock: moments.Moments) -> None:
        # Called on the loop when another process has written, or may have.
        self.heard: Callable[[], None] = lambda: None
        # The server's process that this one writes by: what it tells is known here.
        self.own = 0
        # No other process has the database open, and none opens it.
        self.has_it_alone = False
        self._connect = connect
        self._clock = clock
        self._conn: PostgresConnection | None = None
        self._gone = trio.Event()
        self._is_open = False

    async def listen(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        try:
            self._conn = await threads.run_sync(self._listener)
            task_status.started()
            while True:
                await self._listen(self._conn)
                self._gone.set()
                self.has_it_alone = False
                self._conn = await self._reconnected()
                self._gone = trio.Event()
                self.heard()  # what was told meanwhile nobody heard
        finally:
            if self._conn is not None:
                self._conn.close()

    def _listener(self) -> PostgresConnection:
        conn = self._connect()
        conn.listen(CHANNEL, self._hear)
        if self._is_open:
            conn.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, {OPEN})")
        return conn

    async def _listen(self, conn: PostgresConnection) -> None:
        """Hear what others write, until the connection is lost."""
        # Whoever finds the connection lost closes it, and its number is then nobody's, or another's.
        watched = os.dup(conn.raw.fileno())
        try:
            while True:
                await trio.lowlevel.wait_readable(watched)
                conn.take_in()
        except engine.DatabaseUnavailable as error:
            log.warning("the database is out of reach: %s", error)
        finally:
            os.close(watched)

    def _hear(self, pid: int, payload: str) -> None:
        if pid != self.own:
            self._clock.heard(int(payload))
            self.heard()

    async def _reconnected(self) -> PostgresConnection:
        while True:
            with suppress(engine.DatabaseUnavailable):
                return await threads.run_sync(self._listener)
            await trio.sleep(_AGAIN_SECONDS)

    def is_alone(self) -> bool:
        """Whether no other process has the database open; then none opens it until `open_to_others`."""
        self.has_it_alone = self._take(OPEN)
        return self.has_it_alone

    async def open_to_others(self) -> None:
        """Say that this process has the database open, when whoever wanted to be alone has finished."""
        conn = self._conn
        assert conn is not None
        self._is_open = True
        lock = f"SELECT pg_try_advisory_lock_shared({LOCKS}, {OPEN}) AS got"
        if not conn.execute(lock).fetchone()["got"]:
            # Waited for on another connection: this one is the loop's.
            await threads.run_sync(self._wait_to_open)
            conn.execute(lock)
        self.has_it_alone = False
        conn.execute(f"SELECT pg_advisory_unlock({LOCKS}, {OPEN})")

    def _wait_to_open(self) -> None:
        with closing(self._connect()) as conn:
            conn.execute(f"SELECT pg_advisory_lock_shared({LOCKS}, {OPEN})")

    async def lead(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job when no other process does; it is cancelled, and may begin anew, if that is not sure."""
        lock = _LEADERS[name]
        while True:
            conn, gone = self._conn, self._gone
            if self._take(lock):
                try:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_cancel_when, gone, nursery.cancel_scope)
                        await job()
                        nursery.cancel_scope.cancel()
                finally:
                    self._give(conn, lock)
            await trio.sleep(_LEAD_SECONDS)

    def _take(self, lock: int) -> bool:
        if self._conn is None:
            return False
        try:
            found = self._conn.execute(f"SELECT pg_try_advisory_lock({LOCKS}, {lock}) AS got")
        except engine.DatabaseUnavailable:
            return False
        return bool(found.fetchone()["got"])

    def _give(self, conn: PostgresConnection | None, lock: int) -> None:
        # With the connection it is gone by itself.
        with suppress(engine.DatabaseUnavailable):
            if conn is not None and not conn.is_lost:
                conn.execute(f"SELECT pg_advisory_unlock({LOCKS}, {lock})")


async def _cancel_when(gone: trio.Event, scope: trio.CancelScope) -> None:
    await gone.wait()
    scope.cancel()
