"""Changes that are waiting for the disk share its next write.

A commit takes the disk its time, and everybody who wants to change something waits for it.  Those who come
meanwhile are carried out in one transaction, one after the other, and are durable by one commit: thousands of
small uploads cost the disk a fraction of thousands of commits.

Rule: each change is whole or not there, whatever becomes of the others (a savepoint each); and nobody is
answered before the commit.
"""

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import trio

from cmsfs.service.storage import engine

T = TypeVar("T")

# Those at the front wait for those at the end.
MOST = 16


class _Change:
    """One of them: what is to be done, on whose behalf, and what came of it."""

    def __init__(self, txn: Callable[[engine.Connection], Any]) -> None:
        self._txn = txn
        # Who acts is found in the context, and the thread has that of the first.
        self._context = contextvars.copy_context()
        self.taken = False
        self.done = trio.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self, conn: engine.Connection) -> None:
        self.result = self._context.run(self._txn, conn)

    def run_apart(self, conn: engine.Connection) -> None:
        """The same beside others; raises only if it took these down with it."""
        conn.execute("SAVEPOINT change")
        try:
            self.run(conn)
        except BaseException as error:
            if not conn.in_transaction:  # a full disk, say
                raise
            conn.execute("ROLLBACK TO change")
            self.error = error
        conn.execute("RELEASE change")


class CommitQueue:
    """Carries out changes of a database, durably."""

    def __init__(self, db: engine.Engine) -> None:
        self._db = db
        self._turn = trio.Lock()
        self._waiting: deque[_Change] = deque()
        self._guard = threading.Lock()

    async def write(self, txn: Callable[[engine.Connection], T]) -> T:
        """Like `Database.write`, durable.

        Cancelled: before it has begun nothing happens; once it has, it is finished first.
        """
        change = _Change(txn)
        with self._guard:
            self._waiting.append(change)
        try:
            async with self._turn:
                if not change.taken:
                    await self._write_group()
        except BaseException:
            with self._guard:
                if not change.taken:
                    self._waiting.remove(change)
                    raise
            # Cancelled, while others have it in their hands.
            with trio.CancelScope(shield=True):
                await change.done.wait()
        if change.error is not None:
            raise change.error
        result: T = change.result
        return result

    async def _write_group(self) -> None:
        """The change that is first in line, and those behind it."""
        group: list[_Change] = []

        def run(conn: engine.Connection) -> None:
            with self._guard:
                while self._waiting and len(group) < MOST:
                    change = self._waiting.popleft()
                    change.taken = True
                    group.append(change)
            if len(group) == 1:
                group[0].run(conn)
            else:
                for change in group:
                    change.run_apart(conn)

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
