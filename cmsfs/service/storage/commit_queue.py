"""Group commit: concurrent changes share one transaction.

A durable commit waits for the disk, and all writers wait for it.  Changes that queue up meanwhile run one
after the other in the next transaction, and one commit makes all of them durable: thousands of small uploads
need a fraction of thousands of commits.

Rule: each change is atomic, whatever happens to the others (each has a savepoint), and no caller gets its
result before the commit.
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from cmsfs.service.storage import engine

T = TypeVar("T")

# Changes per transaction: the first ones have to wait for the last.
MAX_GROUP = 16


class _Change:
    """A queued change: its function, its context, and its result."""

    def __init__(self, txn: Callable[[engine.Connection], Any]) -> None:
        self._txn = txn
        # The context identifies the actor; the thread itself runs in the context of the group's first change.
        self._context = contextvars.copy_context()
        self.is_taken = False
        self.done = trio.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, conn: engine.Connection) -> None:
        self.result = self._context.run(self._txn, conn)

    def run_in_savepoint(self, conn: engine.Connection) -> None:
        """Run in a savepoint, as one of several; raises only if the whole transaction was rolled back."""
        conn.execute("SAVEPOINT change")
        try:
            self.run(conn)
        except BaseException as error:
            if not conn.in_transaction:  # such as a full disk
                raise
            conn.execute("ROLLBACK TO change")
            self.error = error
        conn.execute("RELEASE change")


class CommitQueue:
    """Runs changes of a database durably, in groups."""

    def __init__(self, db: engine.Engine) -> None:
        self._db = db
        self._commit_lock = trio.Lock()
        self._waiting: deque[_Change] = deque()
        self._guard = threading.Lock()

    async def write(self, txn: Callable[[engine.Connection], T]) -> T:
        """Like `Database.write`, durable.

        Cancelled: before the start nothing happens; a running change is finished first.
        """
        change = _Change(txn)
        with self._guard:
            self._waiting.append(change)
        try:
            async with self._commit_lock:
                if not change.is_taken:
                    await self._write_group()
        except BaseException:
            with self._guard:
                if not change.is_taken:
                    self._waiting.remove(change)
                    raise
            # Cancelled, but another task is already running the change.
            with trio.CancelScope(shield=True):
                await change.done.wait()
        if change.error is not None:
            raise change.error
        # An error in the same group keeps all of them alive for a while, and a cursor its database open.
        result: T = change.result
        change.result = None
        return result

    async def _write_group(self) -> None:
        """Run the first waiting changes in one transaction, up to MAX_GROUP."""
        group: list[_Change] = []

        def run(conn: engine.Connection) -> None:
            with self._guard:
                while self._waiting and len(group) < MAX_GROUP:
                    change = self._waiting.popleft()
                    change.is_taken = True
                    group.append(change)
            if len(group) == 1:
                group[0].run(conn)
            else:
                for change in group:
                    change.run_in_savepoint(conn)

        try:
            await self._db.write(run, durable=True)
        except Exception as error:
            if not group:
                raise
            for change in group:
                change.error = change.error or error
        finally:
            for change in group:
                change.done.set()
