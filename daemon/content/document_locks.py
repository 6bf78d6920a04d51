"""Locks documents at the service while they are open in an office application here.

When the application's lock file appears (`vfs.heuristics.lockfiles`), the document is locked at the service,
so that others see who edits it; when the lock file disappears, it is unlocked.  A lock expires after an hour
and is renewed while the application runs, so that nothing stays locked when this machine is gone.

Rule: this never delays or fails a program's request; a document that cannot be locked is edited without a
lock.
"""

import logging
import math
from datetime import UTC, timedelta

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs.heuristics import lockfiles
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates

log = logging.getLogger(__name__)

LASTS_SECONDS = 3600
RENEW_SECONDS = 2400

_Key = tuple[Ino, str]  # a lock file: its folder and name


class DocumentLocks:
    """Implements `vfs.heuristics.lockfiles.Watcher`."""

    def __init__(self, db: Database, client: Client, remote_updates: RemoteUpdates, health: Health) -> None:
        self._db = db
        self._client = client
        self._remote_updates = remote_updates
        self._health = health
        self._send, self._receive = trio.open_memory_channel[tuple[_Key, bool]](math.inf)
        # Locked documents by ID: another node may stand for the item by the time it is unlocked.
        self._held: dict[_Key, str] = {}

    def appeared(self, parent: Ino, name: str) -> None:
        if lockfiles.is_lock_file(name):
            self._send.send_nowait(((parent, name), True))

    def vanished(self, parent: Ino, name: str) -> None:
        if lockfiles.is_lock_file(name):
            self._send.send_nowait(((parent, name), False))

    def holds(self, item_id: str) -> bool:
        """Whether this file is locked for a document that is open."""
        return item_id in self._held.values()

    async def run(self) -> None:
        """Lock and unlock, forever; documents open at the end of the last run are handled again."""
        for row in self._db.rows("SELECT parent, name FROM node WHERE local AND +parent IS NOT NULL"):
            self.appeared(row["parent"], row["name"])
        while True:
            key: _Key | None = None
            with trio.move_on_after(RENEW_SECONDS):
                key, is_there = await self._receive.receive()
            if key is None:
                for item_id in list(self._held.values()):
                    await self._lock(item_id)
            elif is_there and (node := lockfiles.document(self._db, *key)) is not None:
                if node.remote_id is not None and await self._lock(node.remote_id):
                    self._held[key] = node.remote_id
            elif not is_there and (held := self._held.pop(key, None)) is not None:
                await self._unlock(held)

    async def _lock(self, item_id: str) -> bool:
        """Lock the file; return whether it is locked for us."""
        ends = clock.datetime_now(UTC) + timedelta(seconds=LASTS_SECONDS)
        try:
            with self._health.request("locks"):
                item = await self._client.locks.lock(item_id, expires_at=ends)
        except errors.RemoteError as error:
            name = self._name(item_id)
            log.info("%s could not be locked at the service; continuing without a lock: %s", name, error)
            return False
        await self._remote_updates.apply([item], is_answer=True)
        return True

    async def _unlock(self, item_id: str) -> None:
        try:
            with self._health.request("locks"):
                item = await self._client.locks.unlock(item_id)
        except errors.RemoteError as error:
            name = self._name(item_id)
            log.info(
                "%s could not be unlocked at the service; its lock expires within an hour: %s", name, error
            )
            return
        await self._remote_updates.apply([item], is_answer=True)

    def _name(self, item_id: str) -> str:
        node = tree.find_remote(self._db, NodeKind.FILE, item_id)
        return node.name if node is not None else f"file {item_id}"
