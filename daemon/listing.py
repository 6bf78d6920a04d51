"""Making folders known: everything below a folder, by a search among its descendants.

The service has no listing of one folder, but a search below one; so a folder becomes known together with
all below it.  Small folders take one request; larger ones come folders first, so that the tree has its
shape early.

Rule: a row goes away only after a listing that saw everything and during which nothing moved, and only
folders that the listing itself has seen become known by it.
"""

import logging
import time
from collections.abc import Callable, Sequence
from sqlite3 import Connection
from typing import Literal

from cmsfs.client.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.models import items
from cmsfs.models.search import Query
from cmsfs.replica import cursor, remote, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import Ino, Kind
from cmsfs.sqlite import Database
from daemon import windows
from daemon.health import Health
from daemon.incoming import Incoming

log = logging.getLogger(__name__)

# A tree in which somebody works all the time is never still; after this many attempts what was seen is
# taken as the listing, and deletions are left to the change feed.
ATTEMPTS = 3

_TYPES: tuple[Literal["folder", "file", "web_link"], ...] = ("folder", "file", "web_link")


class Lister:
    """Lists subtrees into the replica."""

    def __init__(self, db: Database, client: Client, incoming: Incoming, health: Health) -> None:
        self._db = db
        self._incoming = incoming
        self._windows = windows.Windows(client.search, health, purpose="listing")

    async def fill(self, folder: Ino, *, progress: Callable[[], None]) -> None:
        """Make everything below a folder known; `progress` is called for every page.

        Raises `RemoteError`.  Cancelled, or failed: what came is in the tree, and the folder is not known.
        """
        node = tree.find(self._db, folder)
        if node is None:
            return
        if node.remote_id is None:
            # It is to be made yet: what is in it is what is here.
            await self._db.write(lambda conn: tree.mark_listed(conn, folder, at=int(time.time())))
            return
        for attempt in range(ATTEMPTS):
            stable = await self._once(folder, node.remote_id, last=attempt == ATTEMPTS - 1, progress=progress)
            if stable:
                return
        log.info("a listing was never still; deletions in it are left to the change feed")

    async def _once(self, folder: Ino, remote_id: str, *, last: bool, progress: Callable[[], None]) -> bool:
        """One enumeration; whether nothing moved during it.  The last attempt counts in any case."""
        generation = await self._db.write(cursor.next_generation)
        folders: set[str] = set()

        async def take(found: Sequence[items.Item]) -> None:
            folders.update(item.id for item in found if item.type == "folder")
            await self._incoming.apply(found, generation=generation)
            progress()

        found = await self._enumerate(remote_id, take)
        if found.stable or last:
            await self._conclude(folder, folders, generation, complete=found.stable and found.whole)
            log.info("listed %d items, generation %d", found.items, generation)
        return found.stable

    async def _enumerate(self, remote_id: str, take: windows.Take) -> windows.Found:
        query = Query(query=EVERYTHING, ancestor_folder_ids=[remote_id])
        first = await self._windows.page(query, windows.CREATED, (None, None))
        if first.total_count <= len(first.entries):
            await take(first.entries)
            return windows.Found(len(first.entries), first.total_count)
        total = windows.Found()
        for kind in _TYPES:
            part = await self._windows.enumerate(
                query.model_copy(update={"type": kind}), windows.CREATED, take
            )
            total.items += part.items
            total.total += part.total
            total.stable = total.stable and part.stable
            total.whole = total.whole and part.whole
        # Something may have come or gone between two of the three.  (Very large totals are estimates.)
        if first.total_count <= windows.MOST:
            total.stable = total.stable and total.total == first.total_count
        return total

    async def _conclude(self, folder: Ino, folders: set[str], generation: int, *, complete: bool) -> None:
        now = int(time.time())

        def txn(conn: Connection) -> list[Change]:
            changes = remote.remove_unseen(conn, folder, generation) if complete else []
            tree.mark_listed(conn, folder, at=now)
            for remote_id in folders:
                below = tree.remote_at(conn, Kind.FOLDER, remote_id)
                if below is not None:
                    tree.mark_listed(conn, below.ino, at=now)
            return changes

        self._incoming.publish(await self._db.write(txn))
