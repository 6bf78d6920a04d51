"""Lists single folders by the service's folder listing.

For services whose search cannot list, this is the lister; beside a lister by search it answers for a folder
whose tree is too large to be waited for.

Rule: what a folder no longer holds goes away only after a listing that was complete, and on the service's
word on the item itself (`deletion_check`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from cmsfs.client.content.folders import PAGE
from cmsfs.client.session import Client
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.listing.deletion_check import DeletionCheck

# A larger folder is read by marker, one page after the other: services bound the offset.
MOST_BY_OFFSET = 100_000

PAGES_AT_ONCE = 6

ATTEMPTS = 3

Call = Callable[[], None]


@dataclass(frozen=True, slots=True)
class FolderItems:
    """Lists one folder at a time."""

    db: Database
    client: Client
    remote_updates: RemoteUpdates
    health: Health
    deletion_check: DeletionCheck

    async def fill(
        self, folder: Ino, *, progress: Call, grown: Call | None = None, expected: int = 0
    ) -> None:
        """Make everything directly in a folder known; `progress` is called for every page.

        `expected`: there are probably so many items, whose pages are asked for at once.

        Raises `RemoteError`.  Cancelled, or failed: what came is in the tree, and the folder is not known.
        """
        node = tree.find(self.db, folder)
        if node is None:
            return
        complete, generation = True, 0
        if node.remote_id is not None:
            for _ in range(ATTEMPTS):
                generation = await self.db.write(kv_store.next_generation)
                complete = await self._once(node.remote_id, generation, progress, expected)
                if complete:
                    break

        if complete and node.remote_id is not None:
            unseen = await self.db.query(lambda conn: listing_diff.unseen_in(conn, folder, generation))
            await self.deletion_check.remove(unseen, generation)
        await self.db.write(lambda conn: tree.mark_listed(conn, folder, at=int(clock.time())))

    async def _once(self, folder_id: str, generation: int, progress: Call, expected: int) -> bool:
        """Whether this was the folder, whole, as it was at one moment."""
        if expected > MOST_BY_OFFSET:
            await self._by_marker(folder_id, generation, progress)
            return True
        seen: set[tuple[str, str]] = set()
        totals: set[int] = set()
        steps: set[int] = set()
        twice = False

        async def one(offset: int) -> None:
            nonlocal twice
            with self.health.request("listing"):
                page = await self.client.folders.page(folder_id, offset=offset)
            totals.add(page.total_count)
            steps.add(page.limit or PAGE)
            if page.total_count > MOST_BY_OFFSET:
                return
            keys = {(item.type, item.id) for item in page.entries}
            twice = twice or bool(seen & keys)
            seen.update(keys)
            await self.remote_updates.apply(page.entries, generation=generation)
            progress()

        asked = range(0, max(expected, 1), PAGE)
        await concurrency.for_each(asked, one, tasks=PAGES_AT_ONCE)
        total, step = max(totals), min(steps)
        if total > MOST_BY_OFFSET:
            await self._by_marker(folder_id, generation, progress)
            return True
        rest = [offset for offset in range(0, total, step) if offset not in asked]
        if step != PAGE and len(asked) > 1:
            # The service gives fewer a page than it was asked for: what was asked for at once had gaps.
            seen.clear()
            twice, rest = False, list(range(0, total, step))
        await concurrency.for_each(rest, one, tasks=PAGES_AT_ONCE)
        return not twice and len(totals) == 1 and len(seen) == total

    async def _by_marker(self, folder_id: str, generation: int, progress: Call) -> None:
        """A marker is a place in the order: nothing that is there all the while is left out."""
        marker: str | None = None
        while True:
            with self.health.request("listing"):
                page = await self.client.folders.page_after(folder_id, marker)
            await self.remote_updates.apply(page.entries, generation=generation)
            progress()
            marker = page.next_marker or None
            if marker is None:
                return
