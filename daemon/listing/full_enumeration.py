"""Enumerates the whole tree by search, window after window, two at a time, resumable over restarts.

The remaining work is one value in the replica, updated with every finished window: the windows, the
generation, and the spans in which items changed.  Folders shown by a window are marked; when all windows are
done the marked folders become listed, all at once.

Programs list folders meanwhile.  When few folders are left, the windows are dropped: the crawl lists the rest
folder by folder (`Crawler`), and nothing is requested twice.

Rule: unseen items are removed only if no span that could contain them changed, and if the service confirms
the deletion (`deletion_check`).
"""

import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from sqlite3 import Connection

import pydantic
import trio

from cmsfs.client.content.search import EVERYTHING
from cmsfs.client.session import Client
from cmsfs.models.content.entries import Entry, EntryPage
from cmsfs.models.content.search import MAX_LIMIT, Query
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import listing_diff
from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core import concurrency, request_scheduler
from daemon.core.health import Health
from daemon.core.remote_updates import RemoteUpdates
from daemon.core.request_scheduler import Priority
from daemon.listing import search_windows
from daemon.listing.deletion_check import DeletionCheck
from daemon.listing.foreground import Foreground
from daemon.listing.known_folders import known_folders
from daemon.listing.walk_detector import RunningEnumeration, WalkDetector

log = logging.getLogger(__name__)

# Rows examined per thread call in the search for unseen items.
_SLICE = 20_000

Span = tuple[datetime | None, datetime | None]


class EnumerationPlan(pydantic.BaseModel):
    """The remaining work.  `windows`: the last one is next."""

    generation: int
    since: int | None = None  # the generation of the root's own listing, which came before
    windows: list[search_windows.SearchWindow]
    restless: list[Span] = []
    items: int = 0
    total: int = 0  # as far as reported: a service may limit its counts
    doubted: bool = False  # a folder was listed separately while its contents changed


class FullEnumeration:
    """Enumerates everything below the root; one enumeration at a time for all callers."""

    def __init__(
        self,
        db: Database,
        client: Client,
        remote_updates: RemoteUpdates,
        health: Health,
        deletion_check: DeletionCheck,
        walks: WalkDetector,
        foreground: Foreground,
        *,
        can_list_root: bool,
    ) -> None:
        """`can_list_root`: whether the root can be listed without everything below it."""
        self._db = db
        self._remote_updates = remote_updates
        self._deletion_check = deletion_check
        self._windows = search_windows.Windows(
            client.search, health, purpose="listing", turn=self._stand_aside
        )
        self._query = Query(query=EVERYTHING, ancestor_folder_ids=[tree.root_id(db)])
        self._walks = walks
        self._foreground = foreground
        self._can_list_root = can_list_root
        self._running = trio.Lock()
        self._waiters: list[Callable[[], None]] = []
        self._windows_worth = trio.CancelScope()
        # Windows of the plan that are being read, with the number of items that came so far; and those that
        # are probably large.
        self._under_way: dict[search_windows.SearchWindow, int] = {}
        self._large: set[search_windows.SearchWindow] = set()
        self._ended = Signal()
        self.plan: EnumerationPlan | None = None

    @property
    def is_running(self) -> bool:
        return self._running.locked()

    async def hurried(self, progress: Callable[[], None]) -> None:
        """Like `run`, at interactive priority from now on, for a program that waits."""
        self._waiters.append(progress)
        try:
            await self.run()
        finally:
            self._waiters.remove(progress)

    async def prepare(self, since: int) -> None:
        """Before the root is listed separately: store that everything else is still to be listed.

        `since`: the generation of that listing, which has begun: folders that it shows are not read again.
        """
        # A running enumeration has stored that itself, and may be about to delete it.
        if not (self.is_running or tree.is_listed(self._db, ROOT) or self._left_over()):
            await self._begun(since)

    async def run(self) -> bool:
        """Return when the whole tree is listed; resumes an earlier run.  Raises `RemoteError`.

        False: so few folders are left that listing them one by one is faster; call `finish` afterwards.
        Cancelled or failed: items received are in the tree, and the next run continues with the last window.
        """
        async with self._running:
            left = self._left_over()
            # The root may have been listed separately, for a program that opened it.
            if left is None and tree.is_listed(self._db, ROOT):
                return True
            self.plan = plan = left or await self._begun()
            self._under_way.clear()
            self._large.clear()
            with self._walks.enumerating(ROOT) as enumeration, trio.CancelScope() as self._windows_worth:
                await self._all(plan, enumeration)
            if self._windows_worth.cancelled_caught:
                return False
            await self._conclude(plan)
            self.plan = None
            return True

    async def finish(self) -> None:
        """End the enumeration after all folders were listed one by one."""
        async with self._running:
            plan = self.plan or self._left_over()
            if plan is not None:
                compared = not (plan.restless or plan.doubted)
                await self._db.write(lambda conn: _end(conn, at=int(clock.time()), compared=compared))
                log.info("the rest was listed folder by folder")
            self.plan = None

    def doubt(self) -> None:
        """Note that a listing of some folders could not determine their deletions."""
        if self.plan is not None:
            self.plan.doubted = True

    async def _stand_aside(self) -> None:
        if not self._waiters and await self._foreground.calm():
            await self._give_up_if_listed()

    async def _give_up_if_listed(self) -> None:
        """End the enumeration if most of what its windows would show has been listed meanwhile."""
        plan = self.plan
        if plan is None or self._waiters:
            return
        if not (self._can_list_root or tree.is_listed(self._db, ROOT)):
            return
        if any(window.kind == "folder" for window in plan.windows):
            # The number of unlisted folders is known only once all folders are known.
            return
        pages = (plan.total - plan.items) // MAX_LIMIT
        folders = await self._db.query(lambda conn: tree.unlisted(conn, limit=max(pages, 0) + 1))
        # A folder usually costs two requests, and its files as many as in a window.
        if 2 * len(folders) < pages:
            self._windows_worth.cancel()
            await trio.lowlevel.checkpoint()

    def _left_over(self) -> EnumerationPlan | None:
        text = kv_store.get(self._db, kv_store.CRAWL)
        if text is None:
            return None
        plan = EnumerationPlan.model_validate_json(text)
        log.info("resuming the full listing: %d windows left", len(plan.windows))
        return plan

    async def _begun(self, since: int | None = None) -> EnumerationPlan:
        # Folders first, so that the tree gets its structure early.
        parts = [search_windows.SearchWindow(kind=kind) for kind in reversed(search_windows.KINDS)]

        def txn(conn: Connection) -> EnumerationPlan:
            generation = kv_store.next_generation(conn)
            plan = EnumerationPlan(generation=generation, since=since, windows=parts)
            kv_store.put(conn, kv_store.CRAWL, plan.model_dump_json())
            return plan

        return await self._db.write(txn)

    async def _all(self, plan: EnumerationPlan, enumeration: RunningEnumeration) -> None:
        """Take the windows of the plan, two at a time: while one is read, the next is looked at, and begun
        when only the last pages of that one are left, so that neither side waits for the other."""
        before = plan.items
        looking, reading = trio.Lock(), trio.Semaphore(1)
        turns = trio.CapacityLimiter(search_windows.PAGES_AT_ONCE)

        async def work(_: int) -> None:
            while True:
                async with looking:
                    ready = await self._next(plan)
                if ready is None:
                    return
                window, first = ready
                enumeration.total = None if _is_uncounted(plan) else plan.total - before
                await reading.acquire()
                pass_on = contextlib.ExitStack()
                pass_on.callback(reading.release)
                with pass_on, self._priority():
                    found = await self._taken(plan, enumeration, window, first, turns, pass_on.close)
                plan.windows.remove(window)
                plan.items += found.items - self._under_way.pop(window)
                if not (found.stable and found.whole):
                    plan.restless.append((window.start, window.end))
                await self._keep(plan)
                enumeration.total = None if _is_uncounted(plan) else plan.total - before
                self._ended.pulse()

        await concurrency.for_each(range(2), work, tasks=2)

    def _priority(self) -> contextlib.AbstractContextManager[None]:
        # A program that starts to wait gets priority from the next window on.
        return request_scheduler.with_priority(Priority.INTERACTIVE if self._waiters else Priority.LISTING)

    async def _keep(self, plan: EnumerationPlan) -> None:
        """Store the rest of the plan; a window that is under way will be read again after a restart."""
        items = plan.items - sum(self._under_way.values())
        text = plan.model_copy(update={"items": items}).model_dump_json()
        await self._db.write(lambda conn: kv_store.put(conn, kv_store.CRAWL, text))

    async def _next(self, plan: EnumerationPlan) -> tuple[search_windows.SearchWindow, EntryPage] | None:
        """Return the next window, which is under way then, with its first page; None: there is none left.

        Those that are too large are split before.
        """
        while waiting := [one for one in plan.windows if one not in self._under_way]:
            window = waiting[-1]
            is_of_kind = window == search_windows.SearchWindow(kind=window.kind)
            # The items of a kind are counted when those of the one before are known.
            while is_of_kind and self._under_way:
                await self._ended.wait()
            with self._priority():
                first = None
                if is_of_kind or not self._under_way:
                    first = await self._windows.page(self._query, search_windows.CREATED, window)
                    plan.total += first.total_count if is_of_kind else 0
                    await self._give_up_if_listed()
                ready = await self._windows.prepare(
                    self._query,
                    search_windows.CREATED,
                    window,
                    first=first,
                    is_large=window in self._large,
                )
            if ready.first is not None:
                self._under_way[window] = 0
                return window, ready.first
            at = plan.windows.index(window)
            plan.windows[at : at + 1] = ready.parts
            self._large.update(ready.large)
            await self._keep(plan)
        return None

    async def _taken(
        self,
        plan: EnumerationPlan,
        enumeration: RunningEnumeration,
        window: search_windows.SearchWindow,
        first: EntryPage,
        turns: trio.CapacityLimiter,
        nearly_done: Callable[[], None],
    ) -> search_windows.EnumerationResult:
        """Take a window whose first page is known."""
        if window == search_windows.FOLDERS and (
            known := await known_folders(self._db, ROOT, plan.since or plan.generation, first)
        ):
            return await self._taken_as_known(plan, enumeration, known)

        async def take(found: Sequence[Entry]) -> None:
            await self._remote_updates.apply(found, generation=plan.generation)
            folders = [item.id for item in found if item.type == "folder"]
            if folders:
                await self._db.write(lambda conn: tree.mark_seen(conn, folders, plan.generation))
            plan.items += len(found)
            self._under_way[window] += len(found)
            enumeration.took(len(found))
            for progress in self._waiters:
                progress()

        return await self._windows.taken(
            query=self._query,
            axis=search_windows.CREATED,
            window=window,
            first=first,
            take=take,
            attempts=search_windows.ATTEMPTS,
            turns=turns,
            nearly_done=nearly_done,
        )

    async def _taken_as_known(
        self, plan: EnumerationPlan, enumeration: RunningEnumeration, folders: list[str]
    ) -> search_windows.EnumerationResult:
        """Take the folders as if their window had shown them."""

        def txn(conn: Connection) -> None:
            listing_diff.note_folders_seen(conn, folders, plan.generation)
            tree.mark_seen(conn, folders, plan.generation)

        await self._db.write(txn)
        enumeration.took(len(folders))
        return search_windows.EnumerationResult(items=len(folders), total=len(folders))

    async def _conclude(self, plan: EnumerationPlan) -> None:
        gone = [ino for ino, created in await self._unseen(plan) if not _is_in(created, plan.restless)]
        await self._deletion_check.remove(gone, plan.generation)
        now = int(clock.time())

        def txn(conn: Connection) -> None:
            tree.mark_all_seen_listed(conn, plan.generation, at=now)
            tree.mark_listed(conn, ROOT, at=now)
            _end(conn, at=now, compared=not plan.restless)

        await self._db.write(txn)
        log.info("full listing complete: %d items, generation %d", plan.items, plan.generation)

    async def _unseen(self, plan: EnumerationPlan) -> list[tuple[int, datetime | None]]:
        """Return the nodes that no window showed, with their creation times at the service."""
        found: list[tuple[int, datetime | None]] = []
        after = 0
        while True:
            start, end = after, after + _SLICE
            rows, last = await self._db.query(
                lambda conn, start=start, end=end: listing_diff.unseen(conn, plan.generation, start, end)  # type: ignore[misc]
            )
            found += [(ino, _created(item)) for ino, item in rows]
            if end >= last:
                return found
            after = end


def _end(conn: Connection, *, at: int, compared: bool) -> None:
    """Mark the listing as finished; `compared`: deletions at the service have been applied, too."""
    kv_store.drop(conn, kv_store.CRAWL)
    if compared:
        kv_store.put(conn, kv_store.SWEPT_AT, str(at))


def _is_uncounted(plan: EnumerationPlan) -> bool:
    """Whether many items may be without a reported total; web links are few."""
    return any(window == search_windows.SearchWindow(kind="file") for window in plan.windows)


def _created(item: str | None) -> datetime | None:
    text = json.loads(item).get("created_at") if item else None
    return datetime.fromisoformat(text) if text else None


def _is_in(moment: datetime | None, spans: Sequence[Span]) -> bool:
    """Whether a moment may lie in one of the spans; an unknown one may lie anywhere."""
    if moment is None:
        return bool(spans)
    return any((start is None or start <= moment) and (end is None or moment <= end) for start, end in spans)
