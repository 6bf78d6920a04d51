"""Applies remote updates that were deferred while a local operation was in progress.

Most are settled by the answer to our own operation at no cost; the rest is requested one by one.

Rule: an update is dropped only if it was applied or is already present (`merge.local_work`).
"""

import logging
from collections.abc import Callable
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.merge import local_work
from cmsfs.replica.merge.local_work import DeferredUpdate
from cmsfs.replica.nodes import ItemKey
from daemon.pull.context import PullContext

log = logging.getLogger(__name__)

# How often to check whether one of them is ready.
LOOK_SECONDS = 2.0

# Maximum retry interval for an update that stays deferred; the interval grows exponentially.
LONGEST_WAIT_SECONDS = 600.0


class DeferredUpdates:
    """The agent that applies deferred updates."""

    def __init__(self, context: PullContext, *, now: Callable[[], float] = trio.current_time) -> None:
        self._context = context
        self._now = now
        self._settling = trio.Lock()
        # Updates still deferred after a request: the number of requests, and the time of the next.
        self._again: dict[ItemKey, tuple[int, float]] = {}

    async def run(self) -> None:
        """Settle updates forever.  Cancelled: they are stored, and the next run continues."""
        while True:
            # atomic: no await between the look and the wait for the next transaction
            if not local_work.has_deferred(self._context.db):
                await self._context.db.written.wait()
            await trio.sleep(LOOK_SECONDS)
            if not self._ready():
                continue
            await self._context.health.reachable()
            try:
                await self.settle()
            except errors.RemoteError as error:
                log.info("items with deferred updates could not be queried: %s", error)

    async def settle(self) -> None:
        """Settle the updates that can be settled now.  Raises `RemoteError`."""
        async with self._settling:
            while found := self._ready():
                await self._settle(found)

    def _ready(self) -> list[DeferredUpdate]:
        return [
            one
            for one in local_work.ready_updates(self._context.db)
            if not self._is_made(one) and self._again.get((one.kind, one.id), (0, 0.0))[1] <= self._now()
        ]

    def _is_made(self, doubt: DeferredUpdate) -> bool:
        if self._context.remote_updates.is_moving((doubt.kind, doubt.id)):
            return True
        if doubt.folder is None or doubt.name_key is None:
            return False
        return self._context.remote_updates.is_being_made(doubt.folder, doubt.name_key)

    async def _settle(self, found: list[DeferredUpdate]) -> None:
        db, new_folders = self._context.db, self._context.new_folders
        asked = [one for one in found if not local_work.is_settled(db, one)]
        keys = [(one.kind, one.id) for one in asked]
        # Read before the request, so that anything newer received meanwhile wins.
        known = {key: self._context.remote_updates.last_known(key) for key in keys}
        believed = {key: sequence for key, sequence in known.items() if sequence is not None}
        answers = await self._context.ask(keys)
        new = new_folders.new_folders(answers.found)
        nodes = (tree.find_remote(db, one.kind, one.id) for one in answers.gone)
        folders = {node.parent for node in nodes if node is not None and node.parent is not None}

        def mark_unlisted(conn: Connection) -> None:
            # They may be away for a moment, with a folder above them: back in it unchanged, they are no news.
            for ino in folders:
                tree.mark_unlisted(conn, ino)

        # An update without a usable answer stays deferred.
        settled = [one for one in found if (one.kind, one.id) not in answers.unread]
        made = await self._context.remote_updates.apply(
            answers.found, answers.gone, settled=settled, believed=believed, note=mark_unlisted
        )
        new_folders.list_soon(new)
        # Nothing is compared with the service while the root is incomplete, and offline nobody can list it.
        new_folders.list_again(folders)
        if asked:
            log.debug("checked %d items with deferred updates: %d changes", len(asked), made)
        self._note_remaining(found)

    def _note_remaining(self, found: list[DeferredUpdate]) -> None:
        asked = {(one.kind, one.id) for one in found}
        remaining: dict[ItemKey, tuple[int, float]] = {}
        for one in local_work.ready_updates(self._context.db):
            key = (one.kind, one.id)
            count, due = self._again.get(key, (0, 0.0))
            if key in asked:
                count += 1
                # Once more at once: an operation of ours may have run during the request.
                wait = 0.0 if count == 1 else min(2.0 ** min(count, 16), LONGEST_WAIT_SECONDS)
                due = self._now() + wait
            if count:
                remaining[key] = (count, due)
        self._again = remaining
