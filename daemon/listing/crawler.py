"""Lists the whole tree in the background, so that `find` is answered locally.

A lister by search lists everything in windows (`full_enumeration`).  Folders still unlisted after that, and
with a lister of single folders all of them, are listed one by one.  A folder that a program opens does not
wait for this: `Hydrator` lists it at once, and its subfolders are listed next, the most recently opened
first.

Rule: everything here runs in the background: it waits for its turn and for the network, without limit.
"""

import logging
from collections.abc import Awaitable, Callable

import trio

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal
from daemon.core import concurrency, request_scheduler
from daemon.core.health import Health
from daemon.core.request_scheduler import Priority
from daemon.listing.full_enumeration import FullEnumeration

log = logging.getLogger(__name__)

# Folders listed concurrently; the request scheduler limits their requests.
FOLDERS_AT_ONCE = 4

# Maximum number of opened folders in the queue; the oldest are left to the crawl.
MOST_OPENED = 16

# A program that opens the root usually opens a folder in it next: pause for that one.
ROOT_REST_SECONDS = 1.0

# Retry delay after a failure that is not the connection's.
PAUSE_SECONDS = 60.0

# How often to check for folders that are or have become unlisted.
AGAIN_SECONDS = 600.0


class Crawler:
    """Lists unlisted folders; `whole` enumerates by search, if the service can."""

    def __init__(
        self,
        db: Database,
        health: Health,
        whole: FullEnumeration | None,
        fill: Callable[[Ino], Awaitable[None]],
        deepen: Callable[[Ino], Awaitable[None]] | None,
    ) -> None:
        self._db = db
        self._health = health
        self._whole = whole
        self._fill = fill
        self._deepen = deepen
        self._opened: list[Ino] = []
        self._fetching: Ino | None = None
        self._giving_way = trio.CancelScope()
        self._news = Signal()
        self.is_running = False

    def opened(self, folder: Ino) -> None:
        """List the subfolders of this folder before any other background work."""
        if folder in self._opened:
            self._opened.remove(folder)
        self._opened.append(folder)
        del self._opened[:-MOST_OPENED]
        if self._fetching == ROOT:
            # The full enumeration takes long and can be resumed.
            self._giving_way.cancel()
        self._news.set()

    async def follow(self) -> None:
        """List the subfolders of opened folders, forever."""
        with request_scheduler.with_priority(Priority.OPENED):
            while True:
                await self._news.wait()
                self._news.clear()
                while self._opened and self._health.may_work:
                    self._fetching = folder = self._opened.pop()
                    with trio.CancelScope() as self._giving_way:
                        try:
                            await self._below(folder)
                        except (errors.RemoteError, OSError) as error:
                            log.info("the subfolders of an opened folder could not be listed: %s", error)
                    self._fetching = None
                    if self._giving_way.cancelled_caught and folder not in self._opened:
                        self._opened.insert(0, folder)

    async def _below(self, folder: Ino) -> None:
        if folder == ROOT and self._whole is not None:
            await trio.sleep(ROOT_REST_SECONDS)
            await self._whole.run()
        elif self._deepen is not None and not await self._db.query(
            lambda conn: tree.is_listed_below(conn, folder)
        ):
            await self._deepen(folder)

    async def run(self) -> None:
        """Crawl forever.  Cancelled: listed items are in the tree, and the next run continues."""
        with request_scheduler.with_priority(Priority.LISTING):
            while True:
                await self._health.reachable()
                pause = AGAIN_SECONDS
                try:
                    await self.once()
                except (errors.RemoteError, OSError) as error:
                    log.info("the full listing was interrupted: %s", error)
                    pause = PAUSE_SECONDS if self._health.may_work else 0.0
                await trio.sleep(pause)

    async def once(self) -> None:
        """Return when every folder is listed.  Raises `RemoteError`, or the `OSError` of a folder."""
        self.is_running = True
        try:
            await self._all()
        finally:
            self.is_running = False

    async def _all(self) -> None:
        in_windows = self._whole is not None and await self._whole.run()
        if not tree.is_listed(self._db, ROOT):
            await self._fill(ROOT)
        after = 0
        while found := await self._db.query(lambda conn, after=after: tree.unlisted(conn, after=after)):  # type: ignore[misc]
            await concurrency.for_each(found, self._one, tasks=FOLDERS_AT_ONCE)
            # Subfolders found meanwhile mostly come later in this order; the rest is left to the next round.
            after = found[-1]
        if self._whole is not None and not in_windows:
            await self._whole.finish()

    async def _one(self, folder: Ino) -> None:
        if not tree.is_listed(self._db, folder):
            try:
                await self._fill(folder)
            except (FileNotFoundError, PermissionError) as error:
                # Deleted meanwhile, or not accessible: continue with the others.
                log.info("a folder could not be listed: %s", error)
