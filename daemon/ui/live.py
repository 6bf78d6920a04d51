"""The live data of the pages: state, transfers with rate and remaining time, and pending changes.

Updated once a second, for all viewers together, while there are any.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from cmsfs import output
from cmsfs.ipc import attention
from cmsfs.wakeup import Signal
from daemon.control import attention_count
from daemon.control.commands import Answers

LOOK_SECONDS = 1.0

# Interval for counting items that need attention, which takes its own query.
ATTENTION_SECONDS = 5.0

# The weight of the last second in the average rate.
FRESH = 0.4

# Maximum number of transfers shown.
MOST = 20

STATES = {
    "starting": "Starting",
    "online": "Connected",
    "offline": "Offline",
    "unauthorised": "Login needed",
    "degraded": "The service has problems",
    "read-only": "Read-only",
    "paused": "Paused",
}


class TransferPace:
    """The average rate of a transfer."""

    def __init__(self, done: int) -> None:
        self._done = done
        self._at = trio.current_time()
        self.rate = 0.0

    def note(self, done: int) -> None:
        now = trio.current_time()
        if (passed := now - self._at) > 0:
            rate = max(0, done - self._done) / passed
            self.rate = rate if not self.rate else FRESH * rate + (1 - FRESH) * self.rate
        self._done, self._at = done, now


class Live:
    """The state shared by all viewers."""

    def __init__(self, drive: Answers) -> None:
        self._drive = drive
        self._watching = 0
        self._wanted = Signal()
        self._paces: dict[tuple[str, str], TransferPace] = {}
        self._attention = 0
        self._counted = float("-inf")
        self.changed = Signal()
        self.now: dict[str, Any] = {}

    @property
    def is_watched(self) -> bool:
        return self._watching > 0

    @asynccontextmanager
    async def viewing(self) -> AsyncIterator[None]:
        """Keep `now` up to date within the context."""
        await self.look()
        self._watching += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._watching -= 1

    async def run(self) -> None:
        """Update the state while there are viewers, until cancelled."""
        while True:
            await self._wanted.wait()
            while self._watching:
                await trio.sleep(LOOK_SECONDS)
                await self.look()
            self._wanted.clear()

    async def look(self) -> None:
        """Update `now`."""
        if trio.current_time() - self._counted > ATTENTION_SECONDS:
            self._counted = trio.current_time()
            self._attention = await self._count()
        found = self._found()
        if found != self.now:
            self.now = found
            self.changed.pulse()

    async def _count(self) -> int:
        return attention_count.count(await self._drive.conflicts())

    def _found(self) -> dict[str, Any]:
        moment = self._drive.moment()
        transfers = [*self._uploads(moment.ops), *self._downloads()]
        keys = {(one["way"], one["path"]) for one in transfers}
        self._paces = {key: pace for key, pace in self._paces.items() if key in keys}
        state = STATES[self._drive.health.state.value]
        is_busy = moment.pending or transfers
        if state == "Connected":
            state = "Syncing" if is_busy else "Up to date"
        return {
            "state": state,
            "kind": self._drive.health.state.value,
            "reason": self._drive.health.reason,
            "waiting": output.plural(moment.pending, "change") if moment.pending else "none",
            "bytes": output.size(moment.bytes_pending),
            "held": moment.held,
            "attention": self._attention or "",
            "transfers": transfers[:MOST],
            "more": max(0, len(transfers) - MOST),
        }

    def _uploads(self, ops: list[attention.PendingChange]) -> list[dict[str, Any]]:
        return [
            self._transfer("up", op.path, op.sent, op.size) for op in ops if op.state == "running" and op.size
        ]

    def _downloads(self) -> list[dict[str, Any]]:
        return [self._transfer("down", path, done, size) for path, done, size in self._drive.downloads()]

    def _transfer(self, way: str, path: str, done: int, size: int) -> dict[str, Any]:
        pace = self._paces.setdefault((way, path), TransferPace(done))
        pace.note(done)
        left = (size - done) / pace.rate if pace.rate >= 1 else None
        return {
            "way": way,
            "path": path,
            "percent": min(100, done * 100 // size) if size else 100,
            "done": f"{output.size(done)} of {output.size(size)}",
            "rate": f"{output.size(int(pace.rate))}/s" if pace.rate >= 1 else "",
            "left": _time(left) if left is not None else "",
        }


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s left"
    if seconds < 5400:
        return f"{round(seconds / 60)} min left"
    return f"{round(seconds / 3600)} h left"
