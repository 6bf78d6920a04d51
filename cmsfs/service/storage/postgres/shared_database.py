"""State shared by the processes that serve one PostgreSQL database, kept in its rows and advisory locks."""

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
_ANY_IN_RANGE = "SELECT 1 FROM shared_value WHERE name >= ? AND name < ? LIMIT 1"
_DROP_VALUES = "DELETE FROM shared_value WHERE name >= ? AND name < ?"
_SECOND = 1_000_000


class SharedAttempts(attempt_limits.Attempts):
    """Like AttemptLimits, but counted across all processes."""

    def __init__(self, db: database.PostgresDatabase, clock: moments.StoreClock) -> None:
        self.clock = lambda: clock.now() / _SECOND
        self._db = db

    def take(self, who: str, what: str) -> float:
        limits = (attempt_limits.FREE_GUESSES, attempt_limits.MAX_WRONG_GUESSES)
        times = (attempt_limits.MAX_WAIT_SECONDS, attempt_limits.REMEMBERED_SECONDS)
        spans = [int(seconds * _SECOND) for seconds in times]
        found = self._db.rows(_TAKE, who, what, int(self.clock() * _SECOND), *limits, *spans)
        return float(found[0]["wait"]) / _SECOND

    def forgive(self, who: str, what: str) -> None:
        self._db.rows(_FORGIVE, who, what)


class SharedDatabase:
    """This process's view of the state shared through the database."""

    # Commits of other processes arrive as notifications.
    receives_notifications = True

    def __init__(self, db: database.PostgresDatabase, clock: moments.StoreClock) -> None:
        self.attempts: attempt_limits.Attempts = SharedAttempts(db, clock)
        self.url_signer = signed_urls.UrlSigner(lambda: self._signing_key(db))
        self._db = db
        self._presence = db.presence

    @property
    def on_remote_write(self) -> Callable[[], None]:
        return self._presence.on_remote_write

    @on_remote_write.setter
    def on_remote_write(self, call: Callable[[], None]) -> None:
        self._presence.on_remote_write = call

    def value(self, name: str) -> bytes | None:
        """The shared value stored under a name, or None."""
        found = self._db.rows(_VALUE, name)
        return bytes(found[0]["value"]) if found else None

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Store a value durably unless the name has one already; returns the stored value."""

        def txn(conn: engine.Connection) -> bytes:
            conn.execute(_ADD_VALUE, (name, data))
            return bytes(conn.execute(_VALUE, (name,)).fetchone()["value"])

        return await self._db.write(txn)

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Replace a value durably; None deletes it."""

        def txn(conn: engine.Connection) -> None:
            conn.execute("DELETE FROM shared_value WHERE name = ?", (name,))
            if data is not None:
                conn.execute(_ADD_VALUE, (name, data))

        await self._db.write(txn)

    async def drop_values(self, first: str, end: str) -> None:
        """Delete the values with names in the range from `first` to before `end`."""
        if self._db.rows(_ANY_IN_RANGE, first, end):
            await self._db.write(lambda conn: conn.execute(_DROP_VALUES, (first, end)))

    def _signing_key(self, db: database.PostgresDatabase) -> bytes:
        return bytes(db.rows(_VALUE, "addresses.key")[0]["value"])

    def try_exclusive(self) -> bool:
        """Try to get exclusive access; see `engine.StoreCoordination`."""
        return self._presence.try_exclusive()

    async def open_shared(self) -> None:
        """Register as a user of the store, after any exclusive holder has finished."""
        await self._presence.open_shared()

    async def run_as_leader(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job while this process is the leader; see `engine.StoreCoordination`."""
        await self._presence.run_as_leader(name, job)
