"""Pausing sync: only requests that a program waits for are sent, for a time or until resumed.

Changes are kept in the journal; polling, background listings and downloads of pinned items stop; reads by
programs still work.  A pause survives a restart.

Rule: a pause ends at a wall-clock time: a laptop that slept through it is not paused any more.  If
the clock is set back, so is that time, and no pause lasts longer than the user said.
"""

import math
from datetime import UTC, datetime

import trio

from cmsfs.replica import kv_store
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core.health import Health
from daemon.core.request_scheduler import RequestScheduler

FOR_EVER = "for ever"

# The clock may be set, and a machine may sleep: check this often.
LOOK_SECONDS = 20.0

# The wall clock and the monotonic one may drift apart by this during a pause.
DRIFT_SECONDS = 5.0


class Pausing:
    """Stores the pause, so that it survives a restart, and ends it in time."""

    def __init__(self, db: Database, health: Health, pace: RequestScheduler) -> None:
        self._db = db
        self._health = health
        self._pace = pace
        self._changed = Signal()
        self._until = _parsed(kv_store.get(db, kv_store.PAUSED))
        self._longest = self._monotonic_end()
        self._tell()

    @property
    def until(self) -> datetime | None:
        """Return when the pause ends by itself, if it does."""
        return None if self._until in (None, math.inf) else datetime.fromtimestamp(self._until or 0, UTC)

    async def pause(self, seconds: float | None) -> None:
        """Pause for this time, or until `resume`."""
        await self._set(math.inf if seconds is None else clock.time() + seconds)

    async def resume(self) -> None:
        """End the pause, if there is one."""
        await self._set(None)

    async def run(self) -> None:
        """End pauses when their time has come, forever."""
        while True:
            left = math.inf if self._until is None else self._until - clock.time()
            if left <= 0:
                await self.resume()
                continue
            most = max(0.0, self._longest - clock.monotonic())
            if math.isfinite(left) and left > most + DRIFT_SECONDS:
                await self._set(clock.time() + most)
                continue
            with trio.move_on_after(min(left, LOOK_SECONDS)):
                await self._changed.wait()

    async def _set(self, until: float | None) -> None:
        if until is None:
            await self._db.write(lambda conn: kv_store.drop(conn, kv_store.PAUSED))
        else:
            value = FOR_EVER if until == math.inf else str(until)
            await self._db.write(lambda conn: kv_store.put(conn, kv_store.PAUSED, value))
        self._until = until
        self._longest = self._monotonic_end()
        self._changed.pulse()
        self._tell()

    def _monotonic_end(self) -> float:
        """Return when the pause ends by the clock that nobody sets; it stops while a machine sleeps."""
        return math.inf if self._until is None else clock.monotonic() + self._until - clock.time()

    def _tell(self) -> None:
        # The request scheduler first: subscribers of the end may send requests at once.
        self._pace.hold(self._until is not None)
        if self._until is None:
            self._health.resume()
        elif self._until == math.inf:
            self._health.pause("Use `cmsfs resume` to resume.")
        else:
            end = datetime.fromtimestamp(self._until).astimezone()
            self._health.pause(f"Resumes at {end:%H:%M}, or with `cmsfs resume`.")


def _parsed(value: str | None) -> float | None:
    if value is None:
        return None
    return math.inf if value == FOR_EVER else float(value)
