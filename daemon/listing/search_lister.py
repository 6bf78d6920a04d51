"""Lists folders by search, which returns everything below a folder.

A folder becomes listed together with everything below it, with one request per 200 items.  If that takes too
long and the service can list single folders, only the folder itself is listed (`folder_lister`); the rest is
left to the crawl.

Rule: a row is deleted only after a complete listing during which nothing changed, and if the service confirms
the deletion (`deletion_check`); a listing marks only folders that it has seen as listed.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Protocol

import trio

from cmsfs import errors
from cmsfs.client.content.folders import PAGE
from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.models.content.entries import Entry, EntryPage
from cmsfs.models.content.search import Query
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.listing import search_windows
from daemon.listing.deletion_check import DeletionCheck
from daemon.listing.folder_lister import FirstPage, FolderItems
from daemon.listing.foreground import Foreground
from daemon.listing.full_enumeration import FullEnumeration
from daemon.listing.known_folders import known_folders
from daemon.listing.walk_detector import WalkDetector

log = logging.getLogger(__name__)

# A larger tree is left to the full enumeration: a second enumeration beside it would cost as much again.
MOST_BELOW = 100_000

Call = Callable[[], None]
Took = Callable[[int], None]


class Lister(Protocol):
    """Lists folders into the replica."""

    async def fill(self, folder: Ino, *, progress: Call, grown: Call) -> None:
        """List everything in a folder, perhaps everything below it, too.

        `progress` is called for every page; `grown` if it will take long, so that a program waiting for a
        folder below requests that one instead.  Raises `RemoteError`.  Cancelled or failed: items received
        are in the tree, and the folder stays unlisted.
        """


@dataclass(frozen=True, slots=True)
class _Listing:
    """The generation of a listing, and the folders that it has seen."""

    generation: int
    folders: set[str]


class SearchLister:
    """Lists by a search below a folder.

    `items` lists single folders, if the service can; then `opened` is called with folders that were listed
    alone because their trees are large: programs that walk will list their subfolders next.
    """

    def __init__(
        self,
        db: Database,
        client: Client,
        remote_updates: RemoteUpdates,
        health: Health,
        deletion_check: DeletionCheck,
        whole: FullEnumeration,
        walks: WalkDetector,
        foreground: Foreground,
        items: FolderItems | None,
        opened: Callable[[Ino], None],
    ) -> None:
        self._db = db
        self._remote_updates = remote_updates
        self._deletion_check = deletion_check
        self._windows = search_windows.Windows(client.search, health, purpose="listing")
        self._whole = whole
        self._walks = walks
        self._foreground = foreground
        self._items = items
        self._opened = opened
        # Of folders listed alone because of their size: the generation of that listing, and the first page,
        # with the total but no entries, of the search below.
        self._large: dict[Ino, tuple[int, EntryPage]] = {}

    async def fill(self, folder: Ino, *, progress: Call, grown: Call) -> None:
        """See `Lister.fill`; small trees are listed completely."""
        node = tree.find(self._db, folder)
        if node is None:
            return
        if node.remote_id is None:
            # Not created at the service yet: it contains what it contains here.
            await self._db.write(lambda conn: tree.mark_listed(conn, folder, at=int(clock.time())))
            return
        await self._walks.wait(folder, progress)
        if tree.is_listed(self._db, folder):
            return
        began = trio.current_time()
        query = Query(query=EVERYTHING, ancestor_folder_ids=[node.remote_id])
        with self._foreground.listing():
            if self._items is not None and self._is_probably_large(node):
                generation, first, own = await self._begun_both(self._items, node.remote_id, query)
            else:
                generation, first = await self._begun(query)
                own = None
            progress()
            is_large = first.total_count > search_windows.MOST
            # It has subfolders: programs that walk will list those next.
            deep = any(_is_deeper(item, node.remote_id) for item in first.entries)
            if is_large:
                grown()
            # Without subfolders the folder listing returns five times as much per request.
            is_flat = not deep and first.total_count > PAGE
            if self._items is not None and (is_large or is_flat):
                await self._alone(self._items, folder, generation, first, own, deep=deep, progress=progress)
                return
            if not is_large or folder != ROOT:
                await self._all_below(folder, query, generation, first, lambda _: progress())
                self._walks.stepped(began)
                return
        await self._whole.hurried(progress)

    def _is_probably_large(self, node: Node) -> bool:
        """Whether the folder is probably listed alone: the root of an account that nothing is known of, and
        one of few folders in a large one."""
        if node.ino == ROOT:
            return not tree.children(self._db, ROOT, limit=1)
        above = self._large.get(node.parent) if node.parent is not None else None
        if above is None or self._walks.is_walk:
            return False
        return above[1].total_count > PAGE * tree.count_unlisted(self._db, node.parent or ROOT)

    async def _begun_both(
        self, items: FolderItems, folder_id: str, query: Query
    ) -> tuple[int, EntryPage, FirstPage | None]:
        """As `_begun`, with the first page of the folder itself, if that could be had at the same time."""
        generation = await self._db.write(kv_store.next_generation)
        below: list[EntryPage] = []
        own: list[FirstPage] = []

        async def by_search() -> None:
            below.append(await self._first(query))

        async def by_folder() -> None:
            try:
                own.append(await items.first_page(folder_id, generation))
            except errors.RemoteError as error:
                log.debug("a folder's own listing failed: %s", error)

        await concurrency.for_each((by_search, by_folder), lambda job: job(), tasks=2)
        return generation, below[0], own[0] if own else None

    async def _alone(
        self,
        items: FolderItems,
        folder: Ino,
        generation: int,
        first: EntryPage,
        own: FirstPage | None,
        *,
        deep: bool,
        progress: Call,
    ) -> None:
        """List the folder itself, by larger pages than a search has, and leave its subfolders for later;
        `first` is the first page of the search below it, `own` that of the folder, if known; both are newer
        than `generation`."""
        if folder == ROOT:
            await self._whole.prepare(generation)
        if first.total_count > search_windows.MOST:
            self._large[folder] = generation, EntryPage(entries=[], total_count=first.total_count)
        if deep:
            self._opened(folder)
        await items.fill(folder, progress=progress, expected=0 if deep else first.total_count, first=own)
        if not deep and tree.has_unlisted(self._db, folder):
            self._opened(folder)

    async def deepen(self, folder: Ino) -> None:
        """List everything below a folder, unless that is very much.  Raises `RemoteError`."""
        node = tree.find(self._db, folder)
        if node is not None and node.remote_id is not None:
            query = Query(query=EVERYTHING, ancestor_folder_ids=[node.remote_id])
            with self._foreground.listing(), self._walks.enumerating(folder) as enumeration:
                # The listing of the opened folder has usually just counted, and shown the folders in it.
                since, first = self._large.pop(folder, (None, None))
                if first is None:
                    generation, first = await self._begun(query)
                else:
                    generation = await self._db.write(kv_store.next_generation)
                if first.total_count > MOST_BELOW:
                    return
                enumeration.total = first.total_count
                await self._all_below(folder, query, generation, first, enumeration.took, since)

    async def _begun(self, query: Query) -> tuple[int, EntryPage]:
        """Return the generation and first page of a new listing, in this order: items that we create from now
        on are newer than the listing, whether the page shows them or not."""
        generation = await self._db.write(kv_store.next_generation)
        return generation, await self._first(query)

    async def _first(self, query: Query) -> EntryPage:
        return await self._windows.page(query, search_windows.CREATED, search_windows.SearchWindow())

    async def _all_below(
        self,
        folder: Ino,
        query: Query,
        generation: int,
        first: EntryPage,
        took: Took,
        since: int | None = None,
    ) -> None:
        """List everything below a folder, its own listing having begun with generation `since`."""
        for _ in range(search_windows.ATTEMPTS):
            found, listing = await self._once(folder, query, generation, first, took, since or generation)
            if found.stable:
                break
            generation, first = await self._begun(query)
        else:
            # A tree that changes all the time never gives a consistent listing: use what was seen.
            log.info("items changed during the listing; its deletions are left to the change feed")
        if not (found.stable and found.whole):
            self._whole.doubt()
        await self._conclude(folder, listing, complete=found.stable and found.whole)
        log.info("listed %d items, generation %d", found.items, listing.generation)

    async def _once(
        self, folder: Ino, query: Query, generation: int, first: EntryPage, took: Took, since: int
    ) -> tuple[search_windows.EnumerationResult, "_Listing"]:
        """Enumerate everything below a folder once; its first page is given."""
        listing = _Listing(generation, set())

        async def take(found: Sequence[Entry]) -> None:
            listing.folders.update(item.id for item in found if item.type == "folder")
            await self._remote_updates.apply(found, generation=listing.generation)
            took(len(found))

        async def known(
            window: search_windows.SearchWindow, page: EntryPage
        ) -> search_windows.EnumerationResult | None:
            if window != search_windows.FOLDERS:
                return None
            ids = await known_folders(self._db, folder, since, page)
            if ids is None:
                return None
            await self._db.write(lambda conn: listing_diff.note_folders_seen(conn, ids, generation))
            listing.folders.update(ids)
            took(len(ids))
            return search_windows.EnumerationResult(items=len(ids), total=len(ids))

        axis = search_windows.CREATED
        if first.total_count <= search_windows.MOST:
            found = await self._windows.taken(query, axis, search_windows.SearchWindow(), first, take)
            return found, listing
        # Folders first, so that the tree gets its structure early.  A window that changes is repeated by
        # itself; deletions meanwhile are left to the change feed.
        parts = [search_windows.SearchWindow(kind=kind) for kind in search_windows.KINDS]
        found = await self._windows.enumerate(
            # A result that does not fit into a window consists mostly of files.
            query,
            axis,
            take,
            within=parts,
            attempts=search_windows.ATTEMPTS,
            large=[search_windows.SearchWindow(kind="file")],
            known=known,
        )
        return found, listing

    async def _conclude(self, folder: Ino, listing: "_Listing", *, complete: bool) -> None:
        if complete:
            unseen = await self._db.query(
                lambda conn: listing_diff.unseen_below(conn, folder, listing.generation)
            )
            await self._deletion_check.remove(unseen, listing.generation)
        now = int(clock.time())

        def txn(conn: Connection) -> None:
            if complete and folder == ROOT:
                # It was also a full comparison.
                kv_store.put(conn, kv_store.SWEPT_AT, str(now))
            tree.mark_listed(conn, folder, at=now)
            tree.mark_all_listed(conn, listing.folders, at=now)

        await self._db.write(txn)


def _is_deeper(item: Entry, folder_id: str) -> bool:
    """Whether this is a subfolder of that folder, or is inside one."""
    return item.type == "folder" or item.parent is None or item.parent.id != folder_id


async def list_in_background(lister: Lister, folder: Ino) -> None:
    """List a folder at background priority."""
    await lister.fill(folder, progress=lambda: None, grown=lambda: None)
