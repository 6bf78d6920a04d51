"""Mirrors programs' own write locks (`flock`, `fcntl`) on files of the drive as locks at the service.

The kernel manages these locks for the drive without any request, and `/proc/locks` lists each with its
inode.  A lock seen twice in a row is created at the service, for an hour at a time; when the program releases
it or exits, the file is unlocked.  Locked files are stored: after a restart, files that nobody locks any more
are unlocked.

Rule: this never delays or fails a program's request; a file that is already locked is left alone.
"""

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, timedelta
from pathlib import Path

import trio

from cmsfs import errors, mounts
from cmsfs.client.session import Client
from cmsfs.replica import kv_store, numbers, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database
from daemon.content.document_locks import LASTS_SECONDS, RENEW_SECONDS
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates

log = logging.getLogger(__name__)

TABLE = Path("/proc/locks")

# Polling interval.  Databases take short locks many times a second, which concern nobody else.
LOOK_SECONDS = 2.0


def write_locked(table: str, connection: int) -> frozenset[int]:
    """What a program has a write lock on of a FUSE connection's mount, by `/proc/locks`: inode numbers as
    programs see them."""
    found = set()
    for line in table.splitlines():
        words = line.split()
        # 1: FLOCK  ADVISORY  WRITE 4123 00:35:17 0 EOF; whoever waits for a lock has `->` before the kind.
        if len(words) < 8 or words[1] == "->" or words[3] != "WRITE":
            continue
        major, minor, ino = words[5].split(":")
        if (int(major, 16), int(minor, 16)) == (0, connection):
            found.add(int(ino))
    return frozenset(found)


class ProgramLocks:
    """`is_held` says whether a file is locked for another reason, an open document."""

    def __init__(
        self,
        db: Database,
        client: Client,
        remote_updates: RemoteUpdates,
        health: Health,
        mountpoint: Path,
        is_held: Callable[[str], bool],
    ) -> None:
        self._db = db
        self._client = client
        self._remote_updates = remote_updates
        self._health = health
        self._mountpoint = mountpoint
        self._is_held = is_held
        self._seen: frozenset[Ino] = frozenset()
        # By inode: the item, and when its lock was created.
        self._held: dict[Ino, tuple[str, float]] = {}
        self._refused: set[Ino] = set()

    async def run(self) -> None:
        """Mirror the locks of programs, forever."""
        await self._health.reachable()
        earlier = set(json.loads(kv_store.get(self._db, kv_store.PROGRAM_LOCKS) or "[]"))
        while True:
            await self.look()
            if earlier and self._health.can_ask:
                now = await self._locked()
                for item_id in earlier:
                    node = tree.find_remote(self._db, NodeKind.FILE, item_id)
                    if node is None or node.ino not in now:
                        await self._unlock(item_id)
                    elif node.ino not in self._held:
                        self._held[node.ino] = (item_id, float("-inf"))
                earlier.clear()
                await self._remember()
            await trio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """Lock and unlock files as needed now."""
        if not self._health.can_ask:
            return
        now = await self._locked()
        before = dict(self._held)
        for ino in now & self._seen:
            _, at = self._held.get(ino, ("", float("-inf")))
            if clock.monotonic() - at >= RENEW_SECONDS and (node := self._wanted(ino)) is not None:
                await self._lock(node)
        for ino in self._held.keys() - now:
            item_id, _ = self._held.pop(ino)
            await self._unlock(item_id)
        self._refused &= now
        self._seen = now
        if before.keys() != self._held.keys():
            await self._remember()

    def _wanted(self, ino: Ino) -> Node | None:
        """Return the file to lock; None: it is locked already, cannot be locked, or is not uploaded yet."""
        node = tree.find(self._db, ino)
        if node is None or node.kind is not NodeKind.FILE or node.remote_id is None or ino in self._refused:
            return None
        item: Mapping[str, object] = json.loads(tree.item_json(self._db, ino) or "{}")
        return None if item.get("lock") and ino not in self._held else node

    async def _locked(self) -> frozenset[Ino]:
        shown = await threads.run_sync(self._read)
        return frozenset(numbers.inodes_of(self._db, set(shown)))

    def _read(self) -> frozenset[int]:
        table = TABLE.read_text()
        mount = mounts.find(self._mountpoint) if "WRITE" in table else None
        return frozenset() if mount is None else write_locked(table, mount.connection)

    async def _lock(self, node: Node) -> None:
        assert node.remote_id is not None
        ends = clock.datetime_now(UTC) + timedelta(seconds=LASTS_SECONDS)
        try:
            with self._health.request("locks"):
                item = await self._client.locks.lock(node.remote_id, expires_at=ends)
        except errors.RemoteError as error:
            log.info("%s is locked by a program here, and could not be at the service: %s", node.name, error)
            if not isinstance(error, errors.Offline):
                self._refused.add(node.ino)
            return
        self._held[node.ino] = (node.remote_id, clock.monotonic())
        await self._remote_updates.apply([item], is_answer=True)

    async def _unlock(self, item_id: str) -> None:
        if self._is_held(item_id):
            return
        try:
            with self._health.request("locks"):
                item = await self._client.locks.unlock(item_id)
        except errors.RemoteError as error:
            log.info("a file could not be unlocked at the service; this ends within an hour: %s", error)
            return
        await self._remote_updates.apply([item], is_answer=True)

    async def _remember(self) -> None:
        text = json.dumps(sorted(item_id for item_id, _ in self._held.values()))
        await self._db.write(lambda conn: kv_store.put(conn, kv_store.PROGRAM_LOCKS, text))
