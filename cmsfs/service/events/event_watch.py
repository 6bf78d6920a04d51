"""Long polls: one waiter of this process polls the database on behalf of all of them, once per write.

A poll is a point read of the events since the last poll; it wakes only waiters whose user has an event from
another session.  The first waiter polls; when it leaves, another one takes over.

Rule: no event is missed.  Event ids grow in commit order, so an event committed after a poll has a higher id.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

import trio

from cmsfs.service.storage import engine, store

log = logging.getLogger(__name__)

# How often we poll for writes of other processes.  A poll is a point read, as cheap as asking the database
# whether it was written to.  Where writes are notified, the longer interval remains, for expiry.
POLL_SECONDS = 0.5
NOTIFIED_POLL_SECONDS = 60.0

# Delay before the next poll after the database was unavailable.
RETRY_SECONDS = 1.0

# Events read per query of a poll; a poll reads batches until one is not full.
_BATCH = 500

# The newest event is never deleted (events_admin.py); without events, one less than the first id.
LAST_EVENT = "SELECT coalesce(max(id), 1000000) AS top FROM event"
# Whether there is an event after a position from another session; '' matches no session.
_HAS_NEW = (
    "SELECT 1 FROM event WHERE account = ? AND id > ?"
    " AND coalesce(json_extract(details, '$.session'), ' ') != ? LIMIT 1"
)
_SINCE = (
    "SELECT id, account, json_extract(details, '$.session') AS session FROM event"
    " WHERE id > ? ORDER BY id LIMIT ?"
)


class _Waiter:
    def __init__(self, after: int, session: str | None) -> None:
        self.after = after
        self.session = session
        self.is_told = False
        # Set when there is an event, or when it is this waiter's turn to poll.
        self.wake = trio.Event()


class EventWatch:
    """The waiters of this process.  `expire` runs before each poll and ends expired collaborations."""

    def __init__(self, opened: store.Store, expire: Callable[[store.Store, int], Awaitable[None]]) -> None:
        self._store = opened
        self._expire = expire
        # By user; each a dict for its order: who has waited longest polls next.
        self._waiters: defaultdict[int, dict[_Waiter, None]] = defaultdict(dict)
        self._is_polling = False
        self._seen = 0

    async def wait(self, user: int, after: int, session: str | None) -> None:
        """Return when a user has an event after a position that is not from this session."""
        await self._expire(self._store, self._store.now())
        # Read before this user's events: an event committed between the two reads has a higher id.
        top = self._store.read(LAST_EVENT)[0]["top"]
        if self._store.read(_HAS_NEW, user, after, session or ""):
            return
        if not self._waiters:
            self._seen = top
        waiter = _Waiter(after, session)
        self._waiters[user][waiter] = None
        try:
            while not waiter.is_told:
                waiter.wake = trio.Event()
                if self._is_polling:
                    await waiter.wake.wait()
                else:
                    await self._poll(waiter)
        finally:
            del self._waiters[user][waiter]
            if not self._waiters[user]:
                del self._waiters[user]
            if not self._is_polling and self._waiters:
                next(iter(next(iter(self._waiters.values())))).wake.set()

    async def _poll(self, waiter: _Waiter) -> None:
        """Poll for all waiters until `waiter` has an event."""
        self._is_polling = True
        try:
            while not waiter.is_told:
                # Taken before polling: a write after the poll sets this event.
                written = self._store.written
                seconds = NOTIFIED_POLL_SECONDS if self._store.shared.receives_notifications else POLL_SECONDS
                try:
                    await self._expire(self._store, self._store.now())
                    self._notify_waiters()
                except engine.DatabaseUnavailable as error:
                    # The database recovers before most clients would reconnect.
                    log.info("cannot poll for events: %s", error)
                    seconds = RETRY_SECONDS
                if not waiter.is_told:
                    with trio.move_on_after(seconds):
                        await written.wait()
        finally:
            self._is_polling = False

    def _notify_waiters(self) -> None:
        while True:
            rows = self._store.read(_SINCE, self._seen, _BATCH)
            for row in rows:
                for waiter in self._waiters.get(row["account"], ()):
                    is_own = waiter.session is not None and row["session"] == waiter.session
                    if row["id"] > waiter.after and not is_own:
                        waiter.is_told = True
                        waiter.wake.set()
            if rows:
                self._seen = rows[-1]["id"]
            if len(rows) < _BATCH:
                return
