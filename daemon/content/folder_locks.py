"""Refuses to move or delete folders that are locked at the service.

Neither listings nor events report such a lock, so the service is asked when a folder is about to be moved or
deleted.  A program waits, and `rm -r` deletes a thousand folders: the number of consecutive requests is
limited, and answers are cached.  Beyond that the journal finds out, and refused changes are undone.

Rule: without an answer the change is allowed; the service has the last word.
"""

import errno
import json
import logging
from collections import OrderedDict, deque

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.models.content import folder_locks
from cmsfs.replica import kv_store
from cmsfs.replica.nodes import ROOT, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core.health import Health

log = logging.getLogger(__name__)

# Time limit; a program waits.
WAIT_SECONDS = 3.0

# Cache time of an unlocked folder: locks are rare, and a user who has just removed one tries again.
FREE_SECONDS = 60.0
LOCKED_SECONDS = 5.0
# Cache time if we may not ask (only co-owners may), or the service has no such locks.
REFUSED_SECONDS = 600.0

# Pause after a request that timed out.
SILENT_SECONDS = 60.0

# Maximum number of consecutive requests; `rm -r` continues without.
QUESTIONS = 8
QUESTIONS_SECONDS = 10.0
REMEMBERED = 1000

# Key of `cursor`: the IDs of locked folders, for offline use.
KNOWN = "folder_locks"


class FolderLockGuard:
    """Implements `FolderLocksPort` of the vfs."""

    def __init__(self, db: Database, client: Client, health: Health) -> None:
        self._db = db
        self._client = client
        self._health = health
        self._known: dict[str, dict[str, str]] = json.loads(kv_store.get(db, KNOWN) or "{}")
        self._current_until: OrderedDict[str, float] = OrderedDict()
        self._asked: deque[float] = deque(maxlen=QUESTIONS)
        self._silent_until = 0.0

    async def check(self, node: Node, *, removes: bool) -> None:
        """See `ports.FolderLocksPort.check`."""
        if not node.is_folder or node.remote_id is None or node.ino == ROOT:
            return
        if self._is_due(node.remote_id):
            with trio.move_on_after(WAIT_SECONDS) as wait:
                await self._ask(node.remote_id)
            if wait.cancelled_caught:
                self._silent_until = clock.monotonic() + SILENT_SECONDS
        lock = self._known.get(node.remote_id)
        if lock is None or not lock.get("delete" if removes else "move"):
            return
        word = "deleted" if removes else "moved or renamed"
        log.warning("%s is not %s: %s has locked the folder at the service", node.name, word, lock["by"])
        raise errno_map.oserror(errno.EPERM, f"{node.name}: the folder is locked")

    def _is_due(self, folder_id: str) -> bool:
        now = clock.monotonic()
        known_until = max(self._current_until.get(folder_id, 0.0), self._silent_until)
        if known_until > now or not self._health.can_ask:
            return False
        is_many = len(self._asked) == QUESTIONS and now - self._asked[0] < QUESTIONS_SECONDS
        return folder_id in self._known or not is_many

    async def _ask(self, folder_id: str) -> None:
        now = clock.monotonic()
        self._asked.append(now)
        seconds = FREE_SECONDS
        found: list[folder_locks.FolderLock] = []
        try:
            with self._health.request("locks"):
                found = await self._client.folder_locks.of(folder_id)
        except (errors.Forbidden, errors.NotFound, errors.NotSupported):
            seconds = REFUSED_SECONDS
        except errors.RemoteError as error:
            log.info("the locks on a folder could not be read: %s", error)
            return
        if found:
            seconds = LOCKED_SECONDS
        await self._note(folder_id, found)
        self._current_until.pop(folder_id, None)
        self._current_until[folder_id] = now + seconds
        while len(self._current_until) > REMEMBERED:
            self._current_until.popitem(last=False)

    async def _note(self, folder_id: str, found: list[folder_locks.FolderLock]) -> None:
        before = self._known.get(folder_id)
        now: dict[str, str] | None = None
        if found:
            who = found[0].created_by
            now = {"by": (who.name or who.login if who is not None else None) or "somebody"}
            for one in found:
                now |= {word: "1" for word, is_locked in one.locked_operations.items() if is_locked}
        if now == before:
            return
        if now is None:
            del self._known[folder_id]
        else:
            self._known[folder_id] = now
        text = json.dumps(self._known, ensure_ascii=False)
        await self._db.write(lambda conn: kv_store.put(conn, KNOWN, text))
