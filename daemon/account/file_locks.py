"""Makes files that others have locked at the service read-only.

Every listing and event includes the lock of a file, so no requests are needed: the few locked files are read
from the tree after each change.

Rule: an expired lock does not count, whatever was last received.
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

# Changes arrive in pages: gather them for this time.
GATHER_SECONDS = 0.2

_CHANGES = NodeRight.WRITE | NodeRight.RENAME | NodeRight.DELETE


@dataclass(frozen=True, slots=True)
class FileLock:
    """A lock by another user; `ends` is seconds since the epoch, None: until it is removed."""

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
        """Return why the file cannot be changed, and until when."""
        until = ""
        if self.ends is not None:
            until = f" until {datetime.fromtimestamp(self.ends):%Y-%m-%d %H:%M}"
        return f"it is locked by {self.name}{until}"


class FileLocks:
    """Tracks the locks that others hold on files."""

    def __init__(self, db: Database, hub: Hub, user_id: Callable[[], str | None]) -> None:
        """`user_id` returns the user of the drive, once known."""
        self._db = db
        self._hub = hub
        self._user_id = user_id
        # All known locks, expired or not.
        self.known: dict[Ino, FileLock] = {}
        self._holding: frozenset[Ino] = frozenset()
        self._changed = Signal()
        self._freed = Signal()
        hub.wake(self._changed)

    async def freed(self) -> None:
        """Wait until a lock is gone, so that refused operations can be retried."""
        await self._freed.wait()

    def rights(self, node: Node) -> NodeRight:
        """Return the rights on a node without those that somebody else's lock removes."""
        if (lock := self.of(node.ino)) is None:
            return ALL
        return ALL & ~_CHANGES if lock.reads else ALL & ~(_CHANGES | NodeRight.READ)

    def of(self, ino: Ino) -> FileLock | None:
        """Return somebody else's lock that is in force."""
        lock = self.known.get(ino)
        if lock is None or lock.user == (self._user_id() or lock.user) or not lock.holds(clock.time()):
            return None
        return lock

    def holder(self, ino: Ino) -> LockHolder | None:
        """Return the owner in the form of the lock files of office applications."""
        if (lock := self.of(ino)) is None:
            return None
        return LockHolder(lock.name, lock.login, lock.since)

    async def run(self) -> None:
        """Follow changes of the tree, forever."""
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
            # Without this SQLite would scan the whole tree.
            "SELECT ino, item FROM node INDEXED BY node_locked"
            " WHERE instr(item, '\"lock\":') > 0 AND parent IS NOT NULL"
        )
        self.known = {row["ino"]: lock for row in rows if (lock := lock_in(row["item"])) is not None}
        holding = frozenset(ino for ino in self.known if self.of(ino) is not None)
        if changed := holding ^ self._holding:
            freed, self._holding = self._holding - holding, holding
            self._hub.publish([Change(ChangeKind.ATTRIBUTES, ino) for ino in changed])
            if freed:
                self._freed.pulse()


def lock_in(item: str) -> FileLock | None:
    """Return the lock of an item as the service shows it, expired or not."""
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
