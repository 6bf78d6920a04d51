"""Wipes cached data that may no longer be read: contents, versions and thumbnails of items that are no longer
shared with us or that our role no longer lets us read.

The transaction that removes an item from the tree also stores that there is something to wipe
(`lost_access`); the entry is deleted after the wipe, so a restart does not lose it.

Rule: contents that another visible item has stay, and so do contents that are not uploaded yet.
"""

import logging
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs.cache import content_table
from cmsfs.cache.blocks import BlockCache
from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database
from cmsfs.vfs.permissions import NodeRight
from daemon.account.permissions import RightsReader
from daemon.desktop import thumbnail_wipe
from daemon.fetch.hydrate import Hydrator
from daemon.fetch.pins import Pins

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0

# Contents of no node that has a name or a pending deletion or upload.  Cached contents of older versions
# belong to no node and are wiped, too.
_SHOWN_NOWHERE = """
  SELECT c.sha1 FROM content AS c WHERE NOT c.dirty
    AND NOT EXISTS (SELECT 1 FROM draft AS d WHERE d.base_sha1 = c.sha1)
    AND NOT EXISTS (SELECT 1 FROM node AS n WHERE n.sha1 = c.sha1 AND
      (n.parent IS NOT NULL OR n.draft IS NOT NULL OR EXISTS (SELECT 1 FROM op WHERE op.ino = n.ino)))
"""


class Wiper:
    """The agent that wipes cached data."""

    def __init__(
        self,
        db: Database,
        blocks: BlockCache,
        hydrator: Hydrator,
        keeper: Pins,
        hub: Hub,
        rights: RightsReader,
        mountpoint: Path,
    ) -> None:
        self._mountpoint = mountpoint
        self._db = db
        self._blocks = blocks
        self._hydrator = hydrator
        self._keeper = keeper
        self._hub = hub
        self._rights = rights

    async def run(self) -> None:
        """Wipe as soon as there is something to wipe, forever; open files once they are closed."""
        while True:
            # atomic: no await between the look and the wait for the next transaction
            if kv_store.get(self._db, kv_store.WIPE) is None:
                await self._db.written.wait()
            else:
                await self.once()
            await trio.sleep(LOOK_SECONDS)

    async def once(self) -> bool:
        """Wipe what can be wiped now; return whether that was all.  Cancelled: the next call continues."""
        noted = kv_store.get(self._db, kv_store.WIPE)
        async with self._keeper.marking:
            await self._blocks.flush()
            wanted = set(await self._db.query(_shown_nowhere)) | await self._unreadable()
            left = [sha1 for sha1 in wanted if not await self._wipe(sha1)]
            self._blocks.pins_changed()
            await self._blocks.flush()  # removes the files
        await thumbnail_wipe.wipe(self._db, self._rights, self._mountpoint)
        if wanted:
            log.info("wiped %d cached files that may no longer be read", len(wanted) - len(left))
        if left:
            return False
        await self._db.write(lambda conn: _done(conn, noted))
        return True

    async def _wipe(self, sha1: str) -> bool:
        await self._db.write(lambda conn: content_table.unpin(conn, sha1))
        if sha1 in self._hydrator.coming() or self._blocks.evict(sha1) is None:
            return False
        self._hub.publish(
            Change(ChangeKind.CONTENT, ino, is_same=True) for ino in tree.nodes_with_content(self._db, sha1)
        )
        return True

    async def _unreadable(self) -> set[str]:
        """Return contents that only unreadable nodes have."""
        tops = self._rights.unreadable()
        below = await self._db.query(lambda conn: {one for top in tops for one in tree.subtree(conn, top)})
        found: set[str] = set()
        for ino in below:
            node = tree.find(self._db, ino)
            if node is None or node.sha1 is None or node.sha1 != node.base_sha1:
                continue
            if not self._may_read(node) and not self._is_readable(node.sha1):
                found.add(node.sha1)
        return found

    def _is_readable(self, sha1: str) -> bool:
        nodes = (tree.find(self._db, ino) for ino in tree.nodes_with_content(self._db, sha1))
        return any(node is not None and node.parent is not None and self._may_read(node) for node in nodes)

    def _may_read(self, node: Node) -> bool:
        return NodeRight.READ in self._rights.of(node)


def _shown_nowhere(conn: Connection) -> list[str]:
    return [row[0] for row in conn.execute(_SHOWN_NOWHERE)]


def _done(conn: Connection, noted: str | None) -> None:
    if noted is not None and kv_store.at(conn, kv_store.WIPE) == noted:
        kv_store.drop(conn, kv_store.WIPE)
