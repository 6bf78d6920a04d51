"""What the processes that serve one PostgreSQL database have together: by rows and locks of it."""

from collections.abc import Awaitable, Callable

from cmsfs.service.storage import engine
from cmsfs.service.storage.postgres import database
from cmsfs.service.storage.shared import attempt_limits, moments, signed_urls

_TAKE = "SELECT attempt_take(?, ?, ?, ?, ?, ?, ?) AS wait"
_FORGIVE = """
  WITH gone AS (DELETE FROM attempt WHERE who = 'by ' || ?1 AND what = ?2)
  UPDATE attempt SET wrong = greatest(0, wrong - 1) WHERE who = '' AND what = ?2
"""
_VALUE = "SELECT value FROM shared_value WHERE name = ?"
_ADD_VALUE = "INSERT INTO shared_value VALUES (?, ?) ON CONFLICT DO NOTHING"
_VALUES = "SELECT 1 FROM shared_value WHERE name >= ? AND name < ? LIMIT 1"
_DROP_VALUES = "DELETE FROM shared_value WHERE name >= ? AND name < ?"
_SECOND = 1_000_000


class SharedAttempts(attempt_limits.Attempts):
    """As AttemptLimits, counted over all processes."""

    def __init__(self, db: database.PostgresDatabase, clock: moments.Moments) -> None:
        self.clock = lambda: clock.now() / _SECOND
        self._db = db

    def take(self, who: str, what: str) -> float:
        limits = (attempt_limits.FREE, attempt_limits.MANY)
        times = (attempt_limits.MAX_WAIT_SECONDS, attempt_limits.REMEMBERED_SECONDS)
        spans = [int(seconds * _SECOND) for seconds in times]
        found = self._db.rows(_TAKE, who, what, int(self.clock() * _SECOND), *limits, *spans)
        return float(found[0]["wait"]) / _SECOND

    def forgive(self, who: str, what: str) -> None:
        self._db.rows(_FORGIVE, who, what)


class SharedDatabase:
    """This process among those that have a database open."""

    # What others write is told.
    is_told = True

    def __init__(self, db: database.PostgresDatabase, clock: moments.Moments) -> None:
        self.attempts: attempt_limits.Attempts = SharedAttempts(db, clock)
        self.addresses = signed_urls.SignedUrls(lambda: self._key(db))
        self._db = db
        self._presence = db.presence

    @property
    def heard(self) -> Callable[[], None]:
        return self._presence.heard

    @heard.setter
    def heard(self, call: Callable[[], None]) -> None:
        self._presence.heard = call

    def value(self, name: str) -> bytes | None:
        """What the processes have noted under a name."""
        found = self._db.rows(_VALUE, name)
        return bytes(found[0]["value"]) if found else None

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Note something, durably, unless another process has; what is noted then."""

        def txn(conn: engine.Connection) -> bytes:
            conn.execute(_ADD_VALUE, (name, data))
            return bytes(conn.execute(_VALUE, (name,)).fetchone()["value"])

        return await self._db.write(txn)

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Note something in place of what was noted, durably; None: nothing."""

        def txn(conn: engine.Connection) -> None:
            conn.execute("DELETE FROM shared_value WHERE name = ?", (name,))
            if data is not None:
                conn.execute(_ADD_VALUE, (name, data))

        await self._db.write(txn)

    async def drop_values(self, first: str, end: str) -> None:
        """Forget what is noted under names from one up to but without another."""
        if self._db.rows(_VALUES, first, end):
            await self._db.write(lambda conn: conn.execute(_DROP_VALUES, (first, end)))

    def _key(self, db: database.PostgresDatabase) -> bytes:
        return bytes(db.rows(_VALUE, "addresses.key")[0]["value"])

    def is_alone(self) -> bool:
        """Whether no other process has the store open; then none opens it until `open_to_others`."""
        return self._presence.is_alone()

    async def open_to_others(self) -> None:
        """Say that this process has the store open, when whoever wanted to be alone has finished."""
        await self._presence.open_to_others()

    async def lead(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job when no other process does; it is cancelled, and may begin anew, if that is not sure."""
        await self._presence.lead(name, job)
