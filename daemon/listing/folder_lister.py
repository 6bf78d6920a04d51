"""Lists single folders by the service's folder listing.

For services whose search cannot list, this is the only lister; beside a lister by search it lists folders
whose trees are too large to wait for.

Rule: an item is removed only after a complete listing without it, and if the service confirms the deletion
(`deletion_check`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from cmsfs.client.content.folders import PAGE
from cmsfs.client.session import Client
from cmsfs.models.content.entries import EntryPage
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.listing.deletion_check import DeletionCheck

# A larger folder is read by marker, page after page: services limit the offset.
MOST_BY_OFFSET = 100_000

PAGES_AT_ONCE = 6

ATTEMPTS = 3

Call = Callable[[], None]


@dataclass(frozen=True, slots=True)
class FirstPage:
    """The first page of a folder, and the generation of its listing, which is older than the page."""

    generation: int
    page: EntryPage


@dataclass(frozen=True, slots=True)
class FolderItems:
    """Lists one folder at a time."""

    db: Database
    client: Client
    remote_updates: RemoteUpdates
    health: Health
    deletion_check: DeletionCheck

    async def first_page(self, folder_id: str, generation: int) -> FirstPage:
        """Request the first page, for a later `fill`.  Raises `RemoteError`."""
        return FirstPage(generation, await self._page(folder_id, 0))

    async def _page(self, folder_id: str, offset: int) -> EntryPage:
        with self.health.request("listing"):
            return await self.client.folders.page(folder_id, offset=offset)

    async def fill(
        self,
        folder: Ino,
        *,
        progress: Call,
        grown: Call | None = None,
        expected: int = 0,
        first: FirstPage | None = None,
    ) -> None:
        """List everything directly in a folder; `progress` is called for every page.

        `expected`: the probable number of items, whose pages are requested concurrently; `first`: the first
        page, if it has been requested already.

        Raises `RemoteError`.  Cancelled or failed: items received are in the tree, and the folder stays
        unlisted.
        """
        node = tree.find(self.db, folder)
        if node is None:
            return
        complete, generation = True, 0
        if node.remote_id is not None:
            for _ in range(ATTEMPTS):
                if first is None:
                    generation = await self.db.write(kv_store.next_generation)
                else:
                    generation = first.generation
                complete = await self._once(node.remote_id, generation, progress, expected, first)
                if complete:
                    break
                first = None

        if complete and node.remote_id is not None:
            unseen = await self.db.query(lambda conn: listing_diff.unseen_in(conn, folder, generation))
            await self.deletion_check.remove(unseen, generation)
        await self.db.write(lambda conn: tree.mark_listed(conn, folder, at=int(clock.time())))

    async def _once(
        self, folder_id: str, generation: int, progress: Call, expected: int, first: FirstPage | None
    ) -> bool:
        """Read the folder once; return whether the listing is complete and consistent."""
        if expected > MOST_BY_OFFSET:
            await self._by_marker(folder_id, generation, progress)
            return True
        seen: set[tuple[str, str]] = set()
        totals: set[int] = set()
        steps: set[int] = set()
        twice = False

        async def one(offset: int) -> None:
            nonlocal twice
            page = first.page if first and not offset else await self._page(folder_id, offset)
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
            # The service returns smaller pages than requested: the concurrent requests left gaps.
            seen.clear()
            twice, rest = False, list(range(0, total, step))
        await concurrency.for_each(rest, one, tasks=PAGES_AT_ONCE)
        return not twice and len(totals) == 1 and len(seen) == total

    async def _by_marker(self, folder_id: str, generation: int, progress: Call) -> None:
        """Read the folder by marker: items present throughout are never omitted."""
        marker: str | None = None
        while True:
            with self.health.request("listing"):
                page = await self.client.folders.page_after(folder_id, marker)
            await self.remote_updates.apply(page.entries, generation=generation)
            progress()
            marker = page.next_marker or None
            if marker is None:
                return
