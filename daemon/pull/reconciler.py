"""Periodically compares the whole tree with the service, to find changes that no feed reported.

Some changes have no report: permanent deletions, items no longer shared with us, a move that leaves
`modified_at` unchanged, a lost event.  Two sweeps find them.  The quick one counts the items created in each
of several spans, with a tiny request each, and lists only a span whose count differs from ours.  The full one
lists everything, since a move changes no count; it runs every day, after a gap, and on request.  If the
service cannot search the tree, folders are listed one by one instead: all in which programs see something.

Rule: an unseen item is removed only if the whole span that must contain it did not change during the listing,
and if the service confirms the deletion (`deletion_check`).
"""

import json
import logging
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.client.content.search import EVERYTHING
from cmsfs.models.content.entries import Entry
from cmsfs.models.content.search import Query
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.runtime import clock
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority
from daemon.listing import search_windows
from daemon.listing.deletion_check import DeletionCheck
from daemon.pull.context import PullContext

log = logging.getLogger(__name__)

DAY = 86_400.0

# Values of `kv_store.SWEEP_DUE`.
QUICK = "quick"
FULL = "full"
RUNNING = "running"  # a full one that was requested, until it ends; after a crash it is repeated

# If folders are listed one by one, each is a request, and requests may be limited per month: the interval of
# full comparisons is chosen so that they are no more than this a day.
FOLDERS_A_DAY = 1_000

# Interval of quick sweeps: a count costs a service little.
QUICK_SECONDS = 3600.0

# A counted span has about this many items, so that two differences seldom cancel out; the number of spans is
# limited, whatever the size of the tree.
COUNTED_AT_ONCE = 2_000
MOST_SPANS = 64

# A span that differs is bisected until it is a few pages.
LISTED_AT_ONCE = 1_000

# After the start, programs that wait have priority for this time.
SETTLE_SECONDS = 30.0

# How often to check whether a sweep is due.
LOOK_SECONDS = 60.0

# Retry delay after a failure that is not the connection's.
PAUSE_SECONDS = 300.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)

# The items that the service has, as far as known: including unsent local deletions and moves.
_KNOWN = (
    "SELECT ino, item FROM node WHERE ino > ? AND ino > 2"
    " AND remote_id IS NOT NULL AND base_parent IS NOT NULL AND etag IS NOT NULL ORDER BY ino LIMIT 20000"
)

# The folders in which programs see something: those that are listed, and others with items known by events.
_SHOWN = (
    "SELECT f.ino FROM node AS f NOT INDEXED LEFT JOIN listing AS l ON l.ino = f.ino"
    " WHERE f.ino > ? AND f.kind = 'folder' AND f.remote_id IS NOT NULL AND (l.listed_at > 0 OR EXISTS"
    "  (SELECT 1 FROM node AS n WHERE n.parent = f.ino AND n.remote_id IS NOT NULL)) ORDER BY f.ino LIMIT 500"
)


def schedule(conn: Connection, what: str) -> None:
    """Request a sweep; the request survives a restart."""
    before = kv_store.at(conn, kv_store.SWEEP_DUE)
    if before != FULL:
        # One that is running may have passed already what this is requested for.
        kv_store.put(conn, kv_store.SWEEP_DUE, FULL if before == RUNNING else what)


def schedule_for_listings(conn: Connection) -> None:
    """Request a full sweep if folders were listed, or are being listed, before a feed knew where it begins:
    what changed since was reported to nobody."""
    if tree.has_listings(conn) or kv_store.at(conn, kv_store.CRAWL) is not None:
        schedule(conn, FULL)


class Reconciler:
    """The agent that compares the tree with the service periodically.

    `poll` applies the changes that the feed knows, so that only unreported ones are found.  `fill` lists one
    folder; given if the service cannot search the tree.
    """

    def __init__(
        self,
        context: PullContext,
        absences: DeletionCheck,
        *,
        poll: Callable[[], Awaitable[None]],
        fill: Callable[[Ino], Awaitable[None]] | None,
        full_seconds: float,
    ) -> None:
        self._context = context
        self._absences = absences
        self._poll = poll
        self._fill = fill
        self._full_seconds = full_seconds
        self._windows = search_windows.Windows(context.client.search, context.health, purpose="sweep")
        self._query = Query(query=EVERYTHING, ancestor_folder_ids=[tree.root_id(context.db)])
        self._sweeping = trio.Lock()
        self._wanted = context.sweep_due
        self._quick_at = float("-inf")
        self.differences = 0  # found since the start

    # ---- schedule ----

    async def run(self) -> None:
        """Sweep forever, in the background.  Cancelled: the next run repeats an unfinished sweep."""
        with request_scheduler.with_priority(Priority.LISTING):
            await self._sleep(SETTLE_SECONDS)
            while True:
                await self._context.health.reachable()
                pause = QUICK_SECONDS
                try:
                    if await self.once(full=await self.is_full_due()) is None:
                        await self._sleep(LOOK_SECONDS)
                        continue
                except (errors.RemoteError, OSError) as error:
                    log.info("the comparison with the service was interrupted: %s", error)
                    pause = PAUSE_SECONDS
                await self._sleep_until_due(pause)

    async def compare(self) -> str:
        """Compare everything, for a user who waits; return a note for the user.

        A tree that is still being listed is compared once that is complete.  Raises `RemoteError`.
        """
        if await self.once(full=True) is not None:
            return ""
        await self._context.db.write(lambda conn: schedule(conn, FULL))
        return "The tree is still being listed; it will be compared with the service after that."

    async def once(self, *, full: bool) -> int | None:
        """Compare now and apply the differences; return the number of changes.  Raises `RemoteError`.

        None: the tree is not completely listed yet, so nothing can be compared.
        """
        async with self._sweeping:
            await self._poll()
            if kv_store.get(self._context.db, kv_store.CRAWL) is not None:
                return None
            if not tree.is_listed(self._context.db, ROOT):
                swept = kv_store.get(self._context.db, kv_store.SWEPT_AT)
                if swept is not None or self._is_full_requested():
                    # It was; listing it again may have failed.
                    self._context.new_folders.list_again([ROOT])
                return None
            requests = self._context.health.requests.total()
            began = kv_store.get(self._context.db, kv_store.GENERATION)
            if full:
                self._context.remote_updates.creations.note_comparison()
                await self._context.db.write(_begin_full)
                await self._absences.remove_unplaced()
            if self._fill is not None:
                found = await self._folders(self._fill) if full else 0
            else:
                found = await self._spans(full=full)
            found += await self._absences.look_at_disputed()
            self.differences += found
            if full:
                # Items with an older state than the known one have been deferred.
                await self._poll()
                await self._absences.reconsider(int(began or 0) + 1)
                await self._context.db.write(_swept)
            elif kv_store.get(self._context.db, kv_store.SWEEP_DUE) == QUICK:
                await self._context.db.write(lambda conn: kv_store.drop(conn, kv_store.SWEEP_DUE))
        told = self._context.health.requests.total() - requests
        log.info("compared %s with the service: %d changes", "everything" if full else "counts", found)
        log.debug("the comparison took about %d requests", told)
        return found

    async def is_full_due(self) -> bool:
        """Whether a full sweep is due: something was missed, or it is time."""
        if self._is_full_requested():
            return True
        if not self._full_seconds:
            return False
        swept = kv_store.get(self._context.db, kv_store.SWEPT_AT)
        if swept is None:
            return True
        # One in the future was before the clock was set back: nobody knows how long ago.
        interval = max(self._full_seconds, await self._min_full_interval())
        return not 0 <= clock.time() - float(swept) <= interval

    def _is_full_requested(self) -> bool:
        return kv_store.get(self._context.db, kv_store.SWEEP_DUE) in (FULL, RUNNING)

    async def _min_full_interval(self) -> float:
        """Return the minimum interval in seconds between full comparisons, given their cost."""
        if self._fill is None:
            return 0.0
        sql = "SELECT count(*) FROM listing WHERE listed_at > 0"
        folders = await self._context.db.query(lambda conn: int(conn.execute(sql).fetchone()[0]))
        return folders / FOLDERS_A_DAY * DAY

    async def _sleep_until_due(self, seconds: float) -> None:
        """Sleep, unless a sweep becomes due meanwhile."""
        end = trio.current_time() + seconds
        while (left := end - trio.current_time()) > 0 and kv_store.get(
            self._context.db, kv_store.SWEEP_DUE
        ) is None:
            if await self._sleep(min(left, LOOK_SECONDS)):
                return

    async def _sleep(self, seconds: float) -> bool:
        """Sleep; return whether a sweep was requested."""
        with trio.move_on_after(seconds):
            await self._wanted.wait()
        wanted = self._wanted.is_set
        self._wanted.clear()
        return wanted

    # ---- by search ----

    async def _spans(self, *, full: bool) -> int:
        known = await self._load()
        generation = await self._context.db.write(kv_store.next_generation)
        unseen: list[Ino] = []
        changes = 0

        async def take(found: Sequence[Entry]) -> None:
            nonlocal changes
            new = self._context.new_folders.new_folders(found)
            changes += await self._context.remote_updates.apply(found, generation=generation)
            self._context.new_folders.list_soon(new)

        waiting = [search_windows.SearchWindow()] if full else known.spans()
        while waiting:
            window = waiting.pop()
            first = None
            if not full:
                first = await self._windows.page(self._query, search_windows.CREATED, window, limit=1)
                inside = known.inside(window)
                if first.total_count == len(inside):
                    continue
                if max(first.total_count, len(inside)) > LISTED_AT_ONCE and (halves := known.halves(window)):
                    waiting += halves
                    continue
            found = await self._windows.window(
                query=self._query,
                axis=search_windows.CREATED,
                window=window,
                take=take,
                attempts=search_windows.ATTEMPTS,
            )
            if not isinstance(found, search_windows.EnumerationResult):
                waiting += found.parts
            elif found.stable and found.whole and window.kind is None:
                unseen += known.inside(window)
        return changes + await self._absences.remove(unseen, generation)

    async def _load(self) -> "KnownItems":
        known = KnownItems()
        after = 0
        while rows := await self._context.db.query(
            lambda conn, after=after: conn.execute(_KNOWN, (after,)).fetchall()  # type: ignore[misc]
        ):
            for row in rows:
                known.add(row["ino"], row["item"])
            after = rows[-1]["ino"]
        known.sort()
        return known

    # ---- one folder after the other ----

    async def _folders(self, fill: Callable[[Ino], Awaitable[None]]) -> int:
        before = self._context.remote_updates.applied
        after = 0
        while rows := await self._context.db.query(
            lambda conn, after=after: conn.execute(_SHOWN, (after,)).fetchall()  # type: ignore[misc]
        ):
            for row in rows:
                try:
                    await fill(row["ino"])
                except (errors.NotFound, errors.Forbidden):
                    # Deleted, or not accessible any more: the listing of its parent shows that.
                    continue
            after = rows[-1]["ino"]
        return self._context.remote_updates.applied - before


class KnownItems:
    """The service's items in the tree, by creation time: 16 bytes each."""

    def __init__(self) -> None:
        self._made = array("q")
        self._inos = array("q")

    def add(self, ino: Ino, item: str | None) -> None:
        text = json.loads(item).get("created_at") if item else None
        # Items without a time belong to every span without a beginning.
        self._made.append((datetime.fromisoformat(text) - _EPOCH) // _TICK if text else 0)
        self._inos.append(ino)

    def sort(self) -> None:
        order = sorted(range(len(self._made)), key=self._made.__getitem__)
        self._made = array("q", (self._made[place] for place in order))
        self._inos = array("q", (self._inos[place] for place in order))

    def _bounds(self, window: search_windows.SearchWindow) -> tuple[int, int]:
        first, last = 0, len(self._made)
        if window.start is not None:
            first = bisect_left(self._made, (window.start - _EPOCH) // _TICK)
        if window.end is not None:
            last = bisect_right(self._made, (window.end - _EPOCH) // _TICK)
        return first, last

    def inside(self, window: search_windows.SearchWindow) -> Sequence[Ino]:
        first, last = self._bounds(window)
        return self._inos[first:last]

    def spans(self) -> list[search_windows.SearchWindow]:
        """Divide all of time into spans with about as many items each."""
        count = min(max(len(self._made) // COUNTED_AT_ONCE, 1), MOST_SPANS)
        step = max(len(self._made) // count, 1)
        cuts = (
            sorted({self._made[place] for place in range(step, len(self._made), step)}) if count > 1 else []
        )
        ends = [_moment(cut) for cut in cuts]
        starts = [None, *(end + _TICK for end in ends)]
        return [
            search_windows.SearchWindow(start, end) for start, end in zip(starts, [*ends, None], strict=True)
        ]

    def halves(self, window: search_windows.SearchWindow) -> list[search_windows.SearchWindow]:
        """Bisect the span at its median item; empty if all its items have the same time."""
        first, last = self._bounds(window)
        if last - first < 2:
            return []
        middle = self._made[(first + last - 1) // 2]
        if middle == self._made[last - 1]:
            return []
        cut = _moment(middle)
        return [window._replace(end=cut), window._replace(start=cut + _TICK)]


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)


def _begin_full(conn: Connection) -> None:
    if kv_store.at(conn, kv_store.SWEEP_DUE) is not None:
        kv_store.put(conn, kv_store.SWEEP_DUE, RUNNING)


def _swept(conn: Connection) -> None:
    kv_store.put(conn, kv_store.SWEPT_AT, str(int(clock.time())))
    if kv_store.at(conn, kv_store.SWEEP_DUE) == RUNNING:
        kv_store.drop(conn, kv_store.SWEEP_DUE)
