"""Pull: what others change at the service, applied here every few seconds.

Two searches a poll: what was changed since the cursor, and what was deleted since.  Cursors are times of
the service's clock, taken from its items; each poll looks back two minutes further, since a search may
show a change a little later than it happened.  Our own changes come back with the version that we took
over from their answers, and are no news.

Rule: a cursor moves only after everything up to it has been applied, and only over a stable result.
"""

import logging
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.client.search import EVERYTHING, FIELDS
from cmsfs.client.session import Client
from cmsfs.models import base
from cmsfs.models.entries import Entry
from cmsfs.models.search import Query
from cmsfs.replica import cursor, remote, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import Kind, remote_from_item
from cmsfs.sqlite import Database
from daemon import windows
from daemon.health import Health
from daemon.hydrate import Hydrate
from daemon.incoming import Incoming

log = logging.getLogger(__name__)

# How late a search may show a change.
LOOK_BACK = timedelta(minutes=2)

# So that a thousand drives that were started together do not ask together.
SPREAD = 0.2

# How long after its last use the drive counts as in use.
IN_USE_SECONDS = 60.0

ATTEMPTS = 3

# How long a listing takes the place of polls.
LISTING_SECONDS = 30.0

# While thousands of changes of our own come back with every poll, a poll takes seconds; the drive has other
# things to do in nine tenths of its time.
MOST_OF_THE_TIME = 9


class Pull:
    """Polls the service for changes."""

    def __init__(
        self,
        db: Database,
        client: Client,
        incoming: Incoming,
        hydrate: Hydrate,
        health: Health,
        *,
        seconds: float,
        idle_seconds: float,
        is_used: Callable[[], bool],
    ) -> None:
        self._db = db
        self._client = client
        self._incoming = incoming
        self._hydrate = hydrate
        self._health = health
        self._windows = windows.Windows(client.search, health, purpose="poll")
        self._seconds = seconds
        self._idle_seconds = idle_seconds
        self._is_used = is_used
        self._used_at = trio.current_time()
        self._wanted = trio.Event()
        self._polling = trio.Lock()
        self.last: datetime | None = None
        self._polled_at = trio.current_time()
        self._took = 0.0

    async def begin(self) -> None:
        """Set the cursors, if they are not: to the newest change there is, before anything is listed.

        Raises `RemoteError`.
        """
        if cursor.get(self._db, cursor.CHANGES_SINCE) is not None:
            return
        query = _everything(self._db).model_copy(update={"limit": 1, "fields": list(FIELDS)})
        with self._health.request("poll"):
            page = await self._client.search.page(query)
        newest = page.entries[0].modified_at if page.entries else None
        if newest is not None:
            await self._db.write(lambda conn: _advance(conn, newest, newest))

    async def run(self) -> None:
        """Poll for ever: often while the drive is in use, seldom otherwise, at once when asked to."""
        while True:
            await self._health.reachable()
            try:
                await self.begin()
                if not self._is_superfluous():
                    await self.poll()
            except errors.RemoteError as error:
                log.info("remote changes could not be looked for: %s", error)
            with trio.move_on_after(max(self._interval(), MOST_OF_THE_TIME * self._took)):
                await self._wanted.wait()
            self._wanted = trio.Event()

    def poke(self) -> None:
        """Poll at once."""
        self._wanted.set()

    def _is_superfluous(self) -> bool:
        """Whether a listing is telling all this at the moment; one that takes long tells it too late."""
        return self._hydrate.is_listing and trio.current_time() - self._polled_at < LISTING_SECONDS

    def _interval(self) -> float:
        if self._is_used():
            self._used_at = trio.current_time()
        recent = trio.current_time() - self._used_at < IN_USE_SECONDS
        seconds = self._seconds if recent else self._idle_seconds
        return seconds * random.uniform(1 - SPREAD, 1 + SPREAD)

    async def poll(self) -> None:
        """Apply everything that was changed or deleted since the last time.  Raises `RemoteError`."""
        began = trio.current_time()
        async with self._polling:
            for _ in range(ATTEMPTS):
                if await self._once():
                    break
            self.last = datetime.now(UTC)
        self._polled_at = trio.current_time()
        self._took = self._polled_at - began

    async def _once(self) -> bool:
        """Whether both results were stable, and the cursors moved."""
        since_changed, since_deleted = self._since(cursor.CHANGES_SINCE), self._since(cursor.DELETED_SINCE)
        changed = await self._windows.enumerate(
            _everything(self._db), windows.UPDATED, self._take_changed, within=windows.Window(since_changed)
        )
        trash = _everything(self._db).model_copy(update={"trash_content": "trashed_only"})
        deleted = await self._windows.enumerate(
            trash, windows.DELETED, self._take_deleted, within=windows.Window(since_deleted)
        )
        if not (changed.stable and deleted.stable):
            return False
        await self._db.write(lambda conn: _advance(conn, changed.latest, deleted.latest))
        return True

    def _since(self, key: str) -> datetime | None:
        text = cursor.get(self._db, key)
        return base.parse_timestamp(text) - LOOK_BACK if text else None

    async def _take_changed(self, found: Sequence[Entry]) -> None:
        new = [item for item in found if item.type == "folder" and self._is_new(item)]
        await self._incoming.apply(found)
        for folder in new:
            node = tree.find_remote(self._db, Kind.FOLDER, folder.id)
            above = node.parent if node is not None else None
            # One that came with a new folder above it is listed with that.
            if node is not None and above is not None and tree.is_listed(self._db, above):
                self._hydrate.list_soon(node.ino)

    def _is_new(self, item: Entry) -> bool:
        node = tree.find_remote(self._db, Kind.FOLDER, item.id)
        return node is None or node.etag is None or node.parent is None

    async def _take_deleted(self, found: Sequence[Entry]) -> None:
        remotes = [remote_from_item(item) for item in found]

        def txn(conn: Connection) -> list[Change]:
            changes: list[Change] = []
            for one in remotes:
                node = tree.remote_at(conn, one.kind, one.id)
                if node is None or not one.trashed or one.sequence < node.sequence:
                    continue
                if node.parent is not None or node.base_parent is not None:
                    changes += remote.vanish(conn, node.ino, sequence=one.sequence)
            return changes

        if remotes:
            self._incoming.publish(await self._db.write(txn))


def _everything(db: Database) -> Query:
    return Query(
        query=EVERYTHING, ancestor_folder_ids=[tree.root_id(db)], sort="modified_at", direction="DESC"
    )


def _advance(conn: Connection, changed: datetime | None, deleted: datetime | None) -> None:
    for key, moment in ((cursor.CHANGES_SINCE, changed), (cursor.DELETED_SINCE, deleted)):
        before = cursor.at(conn, key)
        # The newest item may have been deleted since: a cursor never goes back for that.
        if moment is not None and (before is None or moment > base.parse_timestamp(before)):
            cursor.put(conn, key, base.format_timestamp(moment))
