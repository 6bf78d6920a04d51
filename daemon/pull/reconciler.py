"""Periodically compares the whole tree with the service, to find changes that no feed reported.

What was removed for good or is no longer shown to us, a move that leaves `modified_at` alone, an event that
was lost: nothing says so.  Two sweeps find it.  The quick one asks how many items there are in each of some
spans of creation times, a tiny question each, and lists only a span whose number is not ours.  The full one
lists everything, since a move changes no number; it is made every day, after a gap, and when it is asked for.
Where the service cannot search the tree, folders are listed one by one instead.

Rule: what was not seen goes away only if the whole of a span that it must be in was still, and on the
service's word on the item itself (`absences`).
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
from cmsfs.wakeup import Signal
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority
from daemon.listing import search_windows
from daemon.listing.deletion_check import DeletionCheck
from daemon.pull.context import PullContext

log = logging.getLogger(__name__)

DAY = 86_400.0

# What `kv_store.SWEEP_DUE` may say.
QUICK = "quick"
FULL = "full"

# Where folders are listed one by one, each is a request, and those may be counted by the month: everything is
# compared so seldom that it is no more of them a day.
FOLDERS_A_DAY = 1_000

# A count costs a service little; this often it is asked for a few.
QUICK_SECONDS = 3600.0

# A span counted has about so many items, so that two differences seldom hide each other; but there are not
# more spans than this, whatever the size of the tree.
COUNTED_AT_ONCE = 2_000
MOST_SPANS = 64

# A span that differs is cut in two until it is a few pages.
LISTED_AT_ONCE = 1_000

# After the start the tree is left to those who wait for it.
SETTLE_SECONDS = 30.0

# How often to look whether something that was missed asks for one.
LOOK_SECONDS = 60.0

# After something went wrong that the connection is not to blame for.
PAUSE_SECONDS = 300.0

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)

# What the service has, as far as we know: also what was deleted or moved here and is not sent yet.
_KNOWN = (
    "SELECT ino, item FROM node WHERE ino > ? AND ino > 2"
    " AND remote_id IS NOT NULL AND base_parent IS NOT NULL AND etag IS NOT NULL ORDER BY ino LIMIT 20000"
)
_LISTED = "SELECT ino FROM listing WHERE ino > ? AND listed_at > 0 ORDER BY ino LIMIT 500"


def schedule(conn: Connection, what: str) -> None:
    """Have a sweep made soon; over a restart too."""
    if kv_store.at(conn, kv_store.SWEEP_DUE) != FULL:
        kv_store.put(conn, kv_store.SWEEP_DUE, what)


class Reconciler:
    """The agent that compares the tree with the service periodically.

    `poll` applies what the feed knows, so that only what it does not know is found.  `fill` lists one folder,
    and is given where the service cannot search the tree.
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
        self._wanted = Signal()
        self._quick_at = float("-inf")
        self.differences = 0  # found since the start

    # ---- when ----

    async def run(self) -> None:
        """Sweep for ever, in the background.  Cancelled: the next run begins what was due again."""
        with request_scheduler.with_priority(Priority.LISTING):
            await self._rest(SETTLE_SECONDS)
            while True:
                await self._context.health.reachable()
                pause = QUICK_SECONDS
                try:
                    if await self.once(full=await self.is_full_due()) is None:
                        await self._rest(LOOK_SECONDS)
                        continue
                except (errors.RemoteError, OSError) as error:
                    log.info("the comparison with the service was interrupted: %s", error)
                    pause = PAUSE_SECONDS
                await self._until_due(pause)

    async def compare(self) -> str:
        """Compare everything, for a person who waits for it; what the person should know.

        Of a tree that is still being listed everything is compared once it is.  Raises `RemoteError`.
        """
        if await self.once(full=True) is not None:
            return ""
        await self._context.db.write(lambda conn: schedule(conn, FULL))
        return "The tree is still being listed; it will be compared with the service after that."

    def soon(self) -> None:
        """Something may have been missed: look without waiting for the hour."""
        self._wanted.set()

    async def once(self, *, full: bool) -> int | None:
        """Compare now, and apply what differs; how many changes that made.  Raises `RemoteError`.

        None: of a tree that is not listed yet, or not to its end, nothing can be said.
        """
        async with self._sweeping:
            await self._poll()
            if (
                not tree.is_listed(self._context.db, ROOT)
                or kv_store.get(self._context.db, kv_store.CRAWL) is not None
            ):
                return None
            requests = self._context.health.requests.total()
            began = kv_store.get(self._context.db, kv_store.GENERATION)
            if self._fill is not None:
                found = await self._folders(self._fill) if full else 0
            else:
                found = await self._spans(full=full)
            found += await self._absences.look_at_disputed()
            self.differences += found
            if full:
                # What was older than what is known here has been left in doubt.
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
        """Whether everything is to be compared: something was missed, or it is time."""
        if kv_store.get(self._context.db, kv_store.SWEEP_DUE) == FULL:
            return True
        if not self._full_seconds:
            return False
        swept = kv_store.get(self._context.db, kv_store.SWEPT_AT)
        return swept is None or clock.time() - float(swept) > max(
            self._full_seconds, await self._affordable()
        )

    async def _affordable(self) -> float:
        """How many seconds one comparison had better be apart from the next, for what it costs."""
        if self._fill is None:
            return 0.0
        sql = "SELECT count(*) FROM listing WHERE listed_at > 0"
        folders = await self._context.db.query(lambda conn: int(conn.execute(sql).fetchone()[0]))
        return folders / FOLDERS_A_DAY * DAY

    async def _until_due(self, seconds: float) -> None:
        """Rest, but for a sweep that becomes due meanwhile."""
        end = trio.current_time() + seconds
        while (left := end - trio.current_time()) > 0 and kv_store.get(
            self._context.db, kv_store.SWEEP_DUE
        ) is None:
            if await self._rest(min(left, LOOK_SECONDS)):
                return

    async def _rest(self, seconds: float) -> bool:
        """Whether somebody wants a sweep."""
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
                waiting += found
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
            lambda conn, after=after: conn.execute(_LISTED, (after,)).fetchall()  # type: ignore[misc]
        ):
            for row in rows:
                try:
                    await fill(row["ino"])
                except (errors.NotFound, errors.Forbidden):
                    # Gone, or not for us any more: the folder above it shows that.
                    continue
            after = rows[-1]["ino"]
        return self._context.remote_updates.applied - before


class KnownItems:
    """What the tree has of the service's items, by the time when they were made: 16 bytes each."""

    def __init__(self) -> None:
        self._made = array("q")
        self._inos = array("q")

    def add(self, ino: Ino, item: str | None) -> None:
        text = json.loads(item).get("created_at") if item else None
        # What has no time is in every span that has no beginning.
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
        """All of time, in parts with about as many items each."""
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
        """The span cut where half of its items are before; none if they are all of one moment."""
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


def _swept(conn: Connection) -> None:
    kv_store.put(conn, kv_store.SWEPT_AT, str(int(clock.time())))
    kv_store.drop(conn, kv_store.SWEEP_DUE)
