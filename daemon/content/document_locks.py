"""Locks documents at the service while they are open in an office application here.

When the application's lock file appears (`vfs.heuristics.lockfiles`), the document is locked at the service,
so that others see who edits it; when the lock file disappears, it is unlocked.  An application that is killed
leaves its lock file behind, and takes it for its own when it opens the document again: so a document is open
only while the program that made the lock file runs, or another has the document open for writing.

A lock expires after an hour and is renewed while the document is open, so that nothing stays locked when this
machine is gone.  What is locked is stored, for the next start.

Rule: this never delays or fails a program's request; a document that cannot be locked is edited without a
lock.
"""

import json
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, timedelta

import trio

from cmsfs import errors
from cmsfs.client.session import Client
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs.heuristics import callers, lockfiles
from cmsfs.vfs.heuristics.callers import ProcessIdentity
from daemon.account import file_locks
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates

log = logging.getLogger(__name__)

LASTS_SECONDS = 3600
RENEW_SECONDS = 2400

# How often we look whether applications still run: one that is killed leaves its lock file behind.
LOOK_SECONDS = 2.0

# After how long a lock is tried again that the network did not let pass.
AGAIN_SECONDS = 60.0

_Key = tuple[Ino, str]  # a lock file: its folder and name


@dataclass(slots=True)
class _OpenDocument:
    """A document by its ID: another node may stand for the item by the time it is unlocked.

    `program`: what made its lock file, None if unknown; `due`: when to lock it, or to renew the lock."""

    item_id: str
    program: ProcessIdentity | None
    is_locked: bool = False
    due: float = -math.inf


class DocumentLocks:
    """Implements `vfs.heuristics.lockfiles.Watcher`; `is_written` tells whether a program has a file open for
    writing."""

    def __init__(
        self,
        db: Database,
        client: Client,
        remote_updates: RemoteUpdates,
        health: Health,
        *,
        is_written: Callable[[Ino], bool],
    ) -> None:
        self._db = db
        self._client = client
        self._remote_updates = remote_updates
        self._health = health
        self._is_written = is_written
        self._send, self._receive = trio.open_memory_channel[tuple[_Key, ProcessIdentity | None, bool]](
            math.inf
        )
        self._held: dict[_Key, _OpenDocument] = {}

    def appeared(self, parent: Ino, name: str) -> None:
        if lockfiles.is_lock_file(name):
            self._send.send_nowait(((parent, name), callers.current_process(), True))

    def vanished(self, parent: Ino, name: str) -> None:
        if lockfiles.is_lock_file(name):
            self._send.send_nowait(((parent, name), None, False))

    def holds(self, item_id: str) -> bool:
        """Whether this file is locked for a document that is open."""
        return any(one.is_locked and one.item_id == item_id for one in self._held.values())

    async def run(self) -> None:
        """Lock and unlock, forever; documents open at the end of the last run are handled again."""
        await self._health.reachable()
        await self._resume()
        while True:
            message = None
            with trio.move_on_after(LOOK_SECONDS if self._held else math.inf):
                message = await self._receive.receive()
            if message is not None:
                key, program, is_there = message
                await (self._open(key, program) if is_there else self._close(key))
            await self._look()

    async def _resume(self) -> None:
        """Go on with the documents of the last run, and unlock those that were closed since."""
        earlier = json.loads(kv_store.get(self._db, kv_store.DOCUMENT_LOCKS) or "[]")
        for parent, name, item_id, program, is_locked in earlier:
            known = ProcessIdentity(*program) if program is not None else None
            self._held[parent, name] = _OpenDocument(item_id, known, is_locked)
            lock_file = tree.find_child(self._db, parent, name)
            if lock_file is None or not lock_file.local:
                await self._close((parent, name))

    async def _look(self) -> None:
        """Unlock documents whose application was killed; lock the others, again before that expires."""
        for key, one in list(self._held.items()):
            if not self._is_open(one):
                if one.is_locked:
                    name = self._name(one.item_id)
                    log.info("%s is unlocked: the program that had it open has ended", name)
                    await self._unlock(one)
            elif (
                clock.monotonic() >= one.due
                and self._health.can_ask
                # A lock of somebody, also of one's own, stays as it is.
                and (one.is_locked or not self._has_lock(one))
            ):
                await self._lock(key, one)

    def _is_open(self, one: _OpenDocument) -> bool:
        if one.program is None or callers.is_alive(one.program):
            return True
        node = tree.find_remote(self._db, NodeKind.FILE, one.item_id)
        return node is not None and self._is_written(node.ino)

    def _has_lock(self, one: _OpenDocument) -> bool:
        node = tree.find_remote(self._db, NodeKind.FILE, one.item_id)
        lock = file_locks.lock_in(tree.item_json(self._db, node.ino) or "{}") if node is not None else None
        return lock is not None and lock.holds(clock.time())

    async def _open(self, key: _Key, program: ProcessIdentity | None) -> None:
        if (held := self._held.get(key)) is not None:
            held.program = program
        elif (node := lockfiles.document(self._db, *key)) is not None and node.remote_id is not None:
            self._held[key] = _OpenDocument(node.remote_id, program)
        await self._remember()

    async def _close(self, key: _Key) -> None:
        if (held := self._held.pop(key, None)) is not None:
            if held.is_locked:
                await self._unlock(held)
            else:
                await self._remember()

    async def _remember(self) -> None:
        text = json.dumps(
            [[*key, one.item_id, one.program, one.is_locked] for key, one in self._held.items()]
        )
        await self._db.write(lambda conn: kv_store.put(conn, kv_store.DOCUMENT_LOCKS, text))

    async def _lock(self, key: _Key, one: _OpenDocument) -> None:
        """Lock the document; forget it if the service refuses that."""
        ends = clock.datetime_now(UTC) + timedelta(seconds=LASTS_SECONDS)
        try:
            with self._health.request("locks"):
                item = await self._client.locks.lock(one.item_id, expires_at=ends)
        except errors.Offline:
            one.due = clock.monotonic() + AGAIN_SECONDS
            return
        except errors.RemoteError as error:
            name = self._name(one.item_id)
            log.info("%s could not be locked at the service; continuing without a lock: %s", name, error)
            del self._held[key]
            await self._remember()
            return
        one.due = clock.monotonic() + RENEW_SECONDS
        if not one.is_locked:
            one.is_locked = True
            await self._remember()
        await self._remote_updates.apply([item], is_answer=True)

    async def _unlock(self, one: _OpenDocument) -> None:
        one.is_locked, one.due = False, -math.inf
        await self._remember()
        try:
            with self._health.request("locks"):
                item = await self._client.locks.unlock(one.item_id)
        except errors.RemoteError as error:
            name = self._name(one.item_id)
            log.info(
                "%s could not be unlocked at the service; its lock expires within an hour: %s", name, error
            )
            return
        await self._remote_updates.apply([item], is_answer=True)

    def _name(self, item_id: str) -> str:
        node = tree.find_remote(self._db, NodeKind.FILE, item_id)
        return node.name if node is not None else f"file {item_id}"
