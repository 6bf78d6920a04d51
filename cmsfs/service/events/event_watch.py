"""Long polls of one process: however many wait, one of them looks for all, once for each write.

A look is one point read of the events that came since the last one; only those whose user has news, of
another session than their own, go on.  Whoever came first looks; when that one leaves, another takes over.

Rule: no event is missed.  Numbers grow in the order of the commits, so what comes after a look is behind it.
"""

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable

import trio

from cmsfs.service.storage import engine, store

log = logging.getLogger(__name__)

# How often it is looked whether another process has written to the same data.  Looking is a point read, as
# cheap as asking the database whether it was written to.  Where that is told, what ends by itself is not.
LOOK_SECONDS = 0.5
TOLD_LOOK_SECONDS = 60.0

# How long after the database was found out of reach the next look comes.
AGAIN_SECONDS = 1.0

# Events of one look; more are looked at at once.
_MOST = 500

# The newest is never removed (events_admin.py); before the first, the position that its number follows.
TOP = "SELECT coalesce(max(id), 1000000) AS top FROM event"
# Whether there is an event behind a position of another session; '' is nobody's.
_NEWS = (
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
        # Set when there is news, or when it is this one's turn to look.
        self.called = trio.Event()


class EventWatch:
    """Those who wait for events at this process.  `expire` ends what ends by itself, before each look."""

    def __init__(self, opened: store.Store, expire: Callable[[store.Store, int], Awaitable[None]]) -> None:
        self._store = opened
        self._expire = expire
        self._waiting: defaultdict[int, set[_Waiter]] = defaultdict(set)
        self._is_looking = False
        self._seen = 0

    async def wait(self, user: int, after: int, session: str | None) -> None:
        """Return when a user has an event behind a position that is not of this session."""
        await self._expire(self._store, self._store.now())
        # Before the look at this user's events: what comes between the two is behind it.
        top = self._store.read(TOP)[0]["top"]
        if self._store.read(_NEWS, user, after, session or ""):
            return
        if not self._waiting:
            self._seen = top
        waiter = _Waiter(after, session)
        self._waiting[user].add(waiter)
        try:
            while not waiter.is_told:
                waiter.called = trio.Event()
                if self._is_looking:
                    await waiter.called.wait()
                else:
                    await self._look(waiter)
        finally:
            self._waiting[user].discard(waiter)
            if not self._waiting[user]:
                del self._waiting[user]
            if not self._is_looking and self._waiting:
                next(iter(next(iter(self._waiting.values())))).called.set()

    async def _look(self, waiter: _Waiter) -> None:
        """Look for all, until there is news for the one whose turn it is."""
        self._is_looking = True
        try:
            while not waiter.is_told:
                # Taken before looking: a write after the look sets this one.
                written = self._store.written
                seconds = TOLD_LOOK_SECONDS if self._store.shared.receives_notifications else LOOK_SECONDS
                try:
                    await self._expire(self._store, self._store.now())
                    self._tell()
                except engine.DatabaseUnavailable as error:
                    # It is there again before most clients would be.
                    log.info("events cannot be looked for now: %s", error)
                    seconds = AGAIN_SECONDS
                if not waiter.is_told:
                    with trio.move_on_after(seconds):
                        await written.wait()
        finally:
            self._is_looking = False

    def _tell(self) -> None:
        while True:
            rows = self._store.read(_SINCE, self._seen, _MOST)
            for row in rows:
                for waiter in self._waiting.get(row["account"], ()):
                    is_own = waiter.session is not None and row["session"] == waiter.session
                    if row["id"] > waiter.after and not is_own:
                        waiter.is_told = True
                        waiter.called.set()
            if rows:
                self._seen = rows[-1]["id"]
            if len(rows) < _MOST:
                return
