"""Remote changes by search, for services without an event stream.

A poll is two searches: for items changed since the cursor, and for items deleted since.  Cursors are times of
the service's clock, taken from its items.  Each poll looks back two minutes further, and one every five
minutes half an hour, since a search may show a change late and after newer ones, until the cursor has not
moved for that long. Our own changes come back with the version that we took from the responses, and are no
news.

No search reports permanent deletions, items no longer shared with us, or a move that leaves `modified_at`
unchanged: the sweep finds these.

Rule: a cursor advances only after everything up to it has been applied, and only over a stable result.
"""

import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection

import trio

from cmsfs.client.content.search import EVERYTHING, FIELDS
from cmsfs.models import base
from cmsfs.models.content.entries import Entry
from cmsfs.models.content.search import Query
from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import remote_from_item
from cmsfs.sqlite import Database
from daemon.core import root_check
from daemon.core.remote_updates import RemovedItem
from daemon.listing import search_windows
from daemon.pull import reconciler
from daemon.pull.context import PullContext

# Index lag of searches as a rule; and the lag that services call possible: polls look back that far now and
# then, and read the changes of that time again.
LOOK_BACK = timedelta(minutes=2)
DEEP_BACK = timedelta(minutes=30)
DEEP_SECONDS = 300.0

# Earlier than any change at a service.
BEGINNING = datetime(1970, 1, 2, tzinfo=UTC)


class SearchFeed:
    """Implements `poller.Feed` over /search."""

    can_wait = False
    brought = 0

    def __init__(self, context: PullContext) -> None:
        self.read = 0
        self._context = context
        self._windows = search_windows.Windows(context.client.search, context.health, purpose="poll")
        # The value of each cursor, and when (monotonic clock) it was first used.
        self._known: dict[str, tuple[str, float]] = {}
        self._deep_at = float("-inf")
        self._beginning = trio.Lock()

    async def begin(self, *, is_late: bool = False) -> None:
        """Set missing cursors to the newest existing change; call it before the first listing.

        `is_late`: something may have been listed, or its listing be under way.
        """
        async with self._beginning:
            await self._begin(is_late=is_late)

    async def _begin(self, *, is_late: bool) -> None:
        if kv_store.get(self._context.db, kv_store.CHANGES_SINCE) is not None:
            return
        query = _everything(self._context.db).model_copy(update={"limit": 1, "fields": list(FIELDS)})
        with self._context.health.request("poll"):
            page = await self._context.client.search.page(query)
        # Without any items, everything that appears later is new, also after the next start.
        newest = page.entries[0].modified_at if page.entries else BEGINNING
        if newest is None:
            return

        def txn(conn: Connection) -> None:
            _advance(conn, newest, newest)
            reconciler.schedule_for_listings(conn)
            if is_late:
                reconciler.schedule(conn, reconciler.FULL)

        await self._context.db.write(txn)
        self._context.wake_sweep()

    async def once(self) -> bool:
        """Poll; return whether both results were stable, so that the cursors advanced."""
        await root_check.check(self._context.db, self._context.client, self._context.health)
        self.read, removals = 0, self._context.remote_updates.removals
        began = trio.current_time()
        is_deep = began - self._deep_at >= DEEP_SECONDS
        back = DEEP_BACK if is_deep else LOOK_BACK
        since_changed, since_deleted = (
            self._since(kv_store.CHANGES_SINCE, back),
            self._since(kv_store.DELETED_SINCE, back),
        )
        changed = await self._windows.enumerate(
            _everything(self._context.db),
            search_windows.UPDATED,
            functools.partial(self._take_changed, removals),
            within=[search_windows.SearchWindow(since_changed)],
        )
        trash = _everything(self._context.db).model_copy(update={"trash_content": "trashed_only"})
        deleted = await self._windows.enumerate(
            trash,
            search_windows.DELETED,
            self._take_deleted,
            within=[search_windows.SearchWindow(since_deleted)],
        )
        if not (changed.stable and deleted.stable):
            return False
        if self._is_news(kv_store.CHANGES_SINCE, changed.latest) or self._is_news(
            kv_store.DELETED_SINCE, deleted.latest
        ):
            await self._context.db.write(lambda conn: _advance(conn, changed.latest, deleted.latest))
        if is_deep:
            self._deep_at = began
        return True

    def left_out(self) -> list[str]:
        return self._context.remote_updates.misfits.lines()

    async def news(self) -> bool:
        """Not supported: a search does not announce changes."""
        await trio.sleep_forever()
        return False

    def _since(self, key: str, back: timedelta) -> datetime | None:
        text = kv_store.get(self._context.db, key)
        if text is None:
            return None
        if self._known.get(key, ("", 0.0))[0] != text:
            self._known[key] = (text, trio.current_time())
        # Changes before the newest known one would be visible by now.
        is_settled = trio.current_time() - self._known[key][1] > back.total_seconds()
        return base.parse_timestamp(text) - (timedelta() if is_settled else back)

    def _is_news(self, key: str, moment: datetime | None) -> bool:
        """Whether a cursor advances to this moment: most polls find what the last one found."""
        text = kv_store.get(self._context.db, key)
        return moment is not None and (text is None or moment > base.parse_timestamp(text))

    async def _take_changed(self, removals: int, found: Sequence[Entry]) -> None:
        self.read += len(found)
        new = self._context.new_folders.new_folders(found)
        await self._context.remote_updates.apply(found, removals=removals)
        self._context.new_folders.list_soon(new)

    async def _take_deleted(self, found: Sequence[Entry]) -> None:
        self.read += len(found)
        remotes = [remote_from_item(item) for item in found]
        gone = [RemovedItem(one.kind, one.id, one.sequence) for one in remotes if one.trashed]
        await self._context.remote_updates.apply([], gone)


def _everything(db: Database) -> Query:
    root = tree.root_id(db)
    return Query(query=EVERYTHING, ancestor_folder_ids=[root], sort="modified_at", direction="DESC")


def _advance(conn: Connection, changed: datetime | None, deleted: datetime | None) -> None:
    for key, moment in ((kv_store.CHANGES_SINCE, changed), (kv_store.DELETED_SINCE, deleted)):
        before = kv_store.at(conn, key)
        # The newest item may have been deleted since: a cursor never moves back.
        if moment is not None and (before is None or moment > base.parse_timestamp(before)):
            kv_store.put(conn, key, base.format_timestamp(moment))
