"""Keeps base contents that a local file needs and that the service has only as a version of another item.

An editor that renames `doc` to `doc~` and writes a new `doc` leaves a backup whose contents are an older
version of the document at the service.  Deleting the document deletes that version, and the cache may evict
its copy. So the contents are downloaded and kept locally, like contents that the service does not have, as
soon as this happens and at the latest before the document is deleted.  A file that the service is to copy
(`replica/rows/copy_sources`) needs none of its contents here unless its original is to be deleted.

Rule: every deletion of an item at the service calls `before_deletion` first.
"""

import errno
import logging
from sqlite3 import Connection

import trio

from cmsfs.cache.blocks import BlockCache
from cmsfs.replica.nodes import Content
from cmsfs.replica.rows import copy_sources
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core.health import Health
from daemon.fetch.hydrate import Hydrator

log = logging.getLogger(__name__)

# Retry interval after a failed download; changes of the tree trigger a retry, too.
RETRY_SECONDS = 60.0

# A missing content may come back, for instance from the trash: retry after this time.
LOST_SECONDS = 3600.0

# Changes come in bursts, and each one wakes us.
GATHER_SECONDS = 0.1

# The join order starts with the few such versions: the query runs on the event loop after every change, and
# the other order would scan the whole tree.
_DEPENDING = f"""
  SELECT p.sha1, n.size AS size, p.remote_id, p.version, {copy_sources.IS_COPY} AS is_copy
    FROM past p CROSS JOIN node n ON n.sha1 = p.sha1
   WHERE n.base_sha1 IS NOT p.sha1 AND n.parent IS NOT NULL AND n.size > 0 AND n.draft IS NULL
     AND NOT EXISTS (SELECT 1 FROM content c WHERE c.sha1 = p.sha1 AND c.dirty)
  UNION SELECT p.sha1, d.base_total, p.remote_id, p.version, 0 FROM past p
    CROSS JOIN draft d ON d.base_sha1 = p.sha1 CROSS JOIN node n ON n.draft = d.id
   WHERE n.base_sha1 IS NOT p.sha1 AND n.parent IS NOT NULL AND d.base_total > 0
     AND NOT EXISTS (SELECT 1 FROM content c WHERE c.sha1 = p.sha1 AND c.dirty)
"""


class BaseBytes:
    """The agent that downloads and keeps such contents.  Call `wake` after changes of the tree."""

    def __init__(self, db: Database, blocks: BlockCache, hydrator: Hydrator, health: Health) -> None:
        self._db = db
        self._blocks = blocks
        self._hydrator = hydrator
        self._health = health
        self._wanted = Signal()
        self.wake = self._wanted.set
        self._lost: dict[str, float] = {}  # when the service reported it missing, by SHA-1
        self._keeping = trio.Lock()

    async def run(self) -> None:
        """Keep the contents that local files depend on, forever."""
        while True:
            # atomic: a change after this is seen by this round or starts the next one
            self._wanted.clear()
            try:
                await self._fetch_and_keep(None, again=False)
            except OSError as error:
                log.info("downloading the unmodified parts of a changed file failed: %s", error)
                with trio.move_on_after(RETRY_SECONDS):
                    await self._health.changed()
            else:
                await self._wanted.wait()
                await trio.sleep(GATHER_SECONDS)

    def depends_on(self, remote_id: str) -> bool:
        """Whether contents of this item must still be downloaded for another file."""
        return any(row["remote_id"] == remote_id for row in self._db.rows(_DEPENDING))

    async def before_deletion(self, remote_id: str | None) -> None:
        """Return once nothing here depends on the item; None: on any item.

        Raises `OSError` if the contents cannot be downloaded now; missing contents do not block.
        """
        await self._fetch_and_keep(remote_id, again=True)

    async def _fetch_and_keep(self, remote_id: str | None, *, again: bool) -> None:
        """`again`: also contents that were missing recently, and those of files that the service copies."""
        for row in self._db.rows(_DEPENDING):
            if remote_id not in (None, row["remote_id"]):
                continue
            if not again and (row["is_copy"] or self._is_lost(row["sha1"])):
                continue
            async with self._keeping:
                await self._keep(Content(row["sha1"], row["size"], row["remote_id"], row["version"]))

    def _is_lost(self, sha1: str) -> bool:
        asked_at = self._lost.get(sha1)
        return asked_at is not None and clock.monotonic() - asked_at < LOST_SECONDS

    async def _keep(self, content: Content) -> None:
        self._blocks.open(content.sha1, content.size)
        try:
            await self._hydrator.keep(content)
            await self._blocks.hold(content.sha1, is_wanted=_is_wanted)
        except OSError as error:
            if error.errno != errno.ESTALE:
                raise
            if content.sha1 not in self._lost:
                log.warning("the service no longer has the contents of a backup: %s", error)
            self._lost[content.sha1] = clock.monotonic()
        finally:
            self._blocks.close(content.sha1)


def _is_wanted(conn: Connection, sha1: str) -> bool:
    """Whether a local file still depends on this content."""
    return any(row["sha1"] == sha1 for row in conn.execute(_DEPENDING))
