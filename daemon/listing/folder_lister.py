"""Lists single folders by the service's folder listing.

For services whose search cannot list, this is the lister; beside a lister by search it answers for a folder
whose tree is too large to be waited for.

Rule: what a folder no longer holds goes away only after a listing that was complete, and on the service's
word on the item itself (`deletion_check`).
"""

import time
from collections.abc import Callable, Sequence

from cmsfs.client.content.folders import PAGE
from cmsfs.client.session import Client
from cmsfs.models.content.entries import Entry
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.listing.deletion_check import DeletionCheck

# A larger folder is read by marker, one page after the other: services bound the offset.
MOST_BY_OFFSET = 100_000

PAGES_AT_ONCE = 4

ATTEMPTS = 3

Call = Callable[[], None]


class FolderItems:
    """Lists one folder at a time."""

    def __init__(
        self,
        db: Database,
        client: Client,
        remote_updates: RemoteUpdates,
        health: Health,
        deletion_check: DeletionCheck,
    ) -> None:
        self._db = db
        self._folders = client.folders
        self._remote_updates = remote_updates
        self._health = health
        self._deletion_check = deletion_check

    async def fill(self, folder: Ino, *, progress: Call, grown: Call) -> None:
        """Make everything directly in a folder known; `progress` is called for every page.

        Raises `RemoteError`.  Cancelled, or failed: what came is in the tree, and the folder is not known.
        """
        node = tree.find(self._db, folder)
        if node is None:
            return
        complete, generation = True, 0
        if node.remote_id is not None:
            for _ in range(ATTEMPTS):
                generation = await self._db.write(kv_store.next_generation)
                complete = await self._once(node.remote_id, generation, progress)
                if complete:
                    break

        if complete and node.remote_id is not None:
            unseen = await self._db.query(lambda conn: listing_diff.unseen_in(conn, folder, generation))
            await self._deletion_check.remove(unseen, generation)
        await self._db.write(lambda conn: tree.mark_listed(conn, folder, at=int(time.time())))

    async def _once(self, folder_id: str, generation: int, progress: Call) -> bool:
        """Whether this was the folder, whole, as it was at one moment."""
        with self._health.request("listing"):
            first = await self._folders.page(folder_id)
        if first.total_count > MOST_BY_OFFSET:
            await self._by_marker(folder_id, generation, progress)
            return True
        seen: set[tuple[str, str]] = set()
        moved = False

        async def take(found: Sequence[Entry], total: int) -> None:
            nonlocal moved
            keys = {(item.type, item.id) for item in found}
            moved = moved or total != first.total_count or bool(seen & keys)
            seen.update(keys)
            await self._remote_updates.apply(found, generation=generation)
            progress()

        async def one(offset: int) -> None:
            with self._health.request("listing"):
                page = await self._folders.page(folder_id, offset=offset)
            await take(page.entries, page.total_count)

        await take(first.entries, first.total_count)
        step = first.limit or PAGE
        await concurrency.for_each(range(step, first.total_count, step), one, tasks=PAGES_AT_ONCE)
        return not moved and len(seen) == first.total_count

    async def _by_marker(self, folder_id: str, generation: int, progress: Call) -> None:
        """A marker is a place in the order: nothing that is there all the while is left out."""
        marker: str | None = None
        while True:
            with self._health.request("listing"):
                page = await self._folders.page_after(folder_id, marker)
            await self._remote_updates.apply(page.entries, generation=generation)
            progress()
            marker = page.next_marker or None
            if marker is None:
                return
