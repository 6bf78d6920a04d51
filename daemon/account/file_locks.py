"""Files that others have locked at the service: readable here, not writable.

The service says who has locked a file with every listing and every event, so nothing is asked: the few
that are locked are read from the tree whenever something changed.

Rule: a lock that has ended is no lock, whatever was last heard of it.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import trio

from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import Ino, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs.permissions import ALL, NodeRight
from cmsfs.vfs.virtual.lock_owners import LockHolder
from cmsfs.wakeup import Signal

# Changes come by the page: a page later is early enough.
GATHER_SECONDS = 0.2

_CHANGES = NodeRight.WRITE | NodeRight.RENAME | NodeRight.DELETE


@dataclass(frozen=True, slots=True)
class FileLock:
    """Somebody's lock; `ends` is seconds since the epoch, None: when it is taken away."""

    user: str
    name: str
    ends: float | None
    reads: bool
    login: str = ""
    since: float = 0.0

    def holds(self, now: float) -> bool:
        return self.ends is None or self.ends > now

    @property
    def reason(self) -> str:
        """Why the file cannot be changed, and until when."""
        until = ""
        if self.ends is not None:
            until = f" until {datetime.fromtimestamp(self.ends):%Y-%m-%d %H:%M}"
        return f"it is locked by {self.name}{until}"


class FileLocks:
    """The locks that others hold on files."""

    def __init__(self, db: Database, hub: Hub, user_id: Callable[[], str | None]) -> None:
        """`user_id` says whose drive this is, once that is known."""
        self._db = db
        self._hub = hub
        self._user_id = user_id
        # All that are heard of, whether they hold or not.
        self.known: dict[Ino, FileLock] = {}
        self._holding: frozenset[Ino] = frozenset()
        self._changed = Signal()
        self._freed = Signal()
        hub.wake(self._changed)

    async def freed(self) -> None:
        """Wait until a lock is gone: what was refused for it may go now."""
        await self._freed.wait()

    def rights(self, node: Node) -> NodeRight:
        """What somebody else's lock leaves of the rights on a node."""
        if (lock := self.of(node.ino)) is None:
            return ALL
        return ALL & ~_CHANGES if lock.reads else ALL & ~(_CHANGES | NodeRight.READ)

    def of(self, ino: Ino) -> FileLock | None:
        """Somebody else's lock that holds now."""
        lock = self.known.get(ino)
        if lock is None or lock.user == (self._user_id() or lock.user) or not lock.holds(clock.time()):
            return None
        return lock

    def holder(self, ino: Ino) -> LockHolder | None:
        """Who that is, as lock files of office applications tell it."""
        if (lock := self.of(ino)) is None:
            return None
        return LockHolder(lock.name, lock.login, lock.since)

    async def run(self) -> None:
        """Follow what changes, for ever."""
        while True:
            self._changed.clear()
            self._read()
            with trio.move_on_after(self._seconds_to_the_next_end()):
                await self._changed.wait()
                await trio.sleep(GATHER_SECONDS)

    def _seconds_to_the_next_end(self) -> float:
        now = clock.time()
        ends = [self.known[ino].ends for ino in self._holding]
        return min((max(end - now, 0) for end in ends if end is not None), default=math.inf)

    def _read(self) -> None:
        rows = self._db.rows(
            # By itself SQLite would look through the whole tree.
            "SELECT ino, item FROM node INDEXED BY node_locked"
            " WHERE instr(item, '\"lock\":') > 0 AND parent IS NOT NULL"
        )
        self.known = {row["ino"]: lock for row in rows if (lock := _lock(row["item"])) is not None}
        holding = frozenset(ino for ino in self.known if self.of(ino) is not None)
        if changed := holding ^ self._holding:
            freed, self._holding = self._holding - holding, holding
            self._hub.publish([Change(ChangeKind.ATTRIBUTES, ino) for ino in changed])
            if freed:
                self._freed.pulse()


def _lock(item: str) -> FileLock | None:
    found: Any = json.loads(item).get("lock")
    if not isinstance(found, dict):
        return None
    who = found.get("created_by") or {}
    ends = found.get("expired_at") or found.get("expires_at")
    reads = found.get("is_download_prevented") is not True
    login = who.get("login") or ""
    name = who.get("name") or login or "somebody"
    since = _seconds(found.get("created_at")) or 0.0
    return FileLock(str(who.get("id", "")), name, _seconds(ends), reads, login, since)


def _seconds(text: Any) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except (TypeError, ValueError):
        return None
