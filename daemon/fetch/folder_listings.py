"""Listings of folders, on demand.

Single flight: for each folder there is at most one listing in progress, and later callers join it.  That of a
folder above counts, since it may cover everything below.
"""

import errno
import logging

import trio

from cmsfs import errors
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core import request_scheduler
from daemon.core.health import Health
from daemon.core.supervisor import Starts
from daemon.fetch.single_flight import STOPPING, Work
from daemon.listing.search_lister import Lister

log = logging.getLogger(__name__)

# Delay before a background listing that failed is repeated, which doubles; and how often it is.  Meanwhile
# the kernel may know names as missing that exist.
RETRY_SECONDS = 5.0
RETRIES = 5


class FolderListings:
    """Lists folders with one lister; its tasks run in the given nursery."""

    def __init__(
        self, db: Database, lister: Lister, health: Health, nursery: Starts, *, network_seconds: float
    ) -> None:
        self._db = db
        self._lister = lister
        self._health = health
        self._nursery = nursery
        self._network_seconds = network_seconds
        self._running: dict[Ino, Work] = {}
        # Folders to list after the running listing of the folder above, unless that lists them, too.
        self._next: dict[Ino, set[Ino]] = {}
        # How often the listing of a folder that nobody waits for has failed.
        self._failed: dict[Ino, int] = {}

    @property
    def is_running(self) -> bool:
        """Whether a listing is in progress."""
        return bool(self._running)

    async def complete(self, folder: Ino) -> None:
        """Return once the folder is completely listed.  Raises OSError.  Cancelled: the listing continues."""
        # Repeats if the listing of a folder above began before this one was moved there.
        while self._is_due(folder):
            work = self._demand(folder)
            # Do not wait for a folder above with a very large tree.
            wait = work.wait if self._running.get(folder) is work else work.wait_unless_grown
            await wait(self._network_seconds, self._health.suspect)

    def start(self, folder: Ino) -> None:
        """Start listing the folder if it is not listed, and try again if that fails; never waits, never
        fails."""
        if not self._health.can_ask or not self._is_due(folder):
            self._failed.pop(folder, None)
            return
        self._failed.setdefault(folder, 0)
        if (above := self._running_above(folder)) is None or above == folder:
            self._demand(folder)
        else:
            self._running[above].hurry(request_scheduler.current())
            self._next.setdefault(above, set()).add(folder)

    def _is_due(self, folder: Ino) -> bool:
        """Whether the service can list it, and what it has is not known completely."""
        if tree.is_listed(self._db, folder):
            return False
        node = tree.find(self._db, folder)
        return node is not None and not node.is_lost

    def _demand(self, folder: Ino) -> Work:
        if (above := self._running_above(folder)) is not None:
            work = self._running[above]
            work.hurry(request_scheduler.current())
            return work
        self._health.check()
        work = self._running[folder] = Work(on=request_scheduler.current())
        self._nursery.start_soon(self._list, folder, work)
        return work

    def _running_above(self, folder: Ino) -> Ino | None:
        """Return this folder or one above it, if its running listing may list this one."""
        current: Ino | None = folder
        while current is not None:
            work = self._running.get(current)
            if work is not None and (current == folder or not work.grown.is_set()):
                return current
            node = tree.find(self._db, current)
            current = node.parent if node is not None and node.ino != ROOT else None
        return None

    async def _list(self, folder: Ino, work: Work) -> None:
        error: OSError | None = errno_map.oserror(errno.ENETDOWN, STOPPING)
        try:
            with request_scheduler.with_priority(work):
                await self._lister.fill(folder, progress=work.progressed, grown=work.grown.set)
            error = None
        except errors.CmsfsError as failure:
            error = errno_map.to_oserror(failure)
            log.info("a listing ended early: %s", failure)
        except OSError as failure:
            error = failure
        except Exception:
            log.exception("unexpected error in a listing")
            error = errno_map.oserror(errno.EIO)
        finally:
            del self._running[folder]
            work.end(error)
        for one in self._next.pop(folder, ()):
            self.start(one)
        if folder in self._failed:
            self._note_end(folder, error)

    def _note_end(self, folder: Ino, error: OSError | None) -> None:
        failed = self._failed.pop(folder)
        is_final = error is None or error.errno in (errno.ENOENT, errno.EACCES, errno.EPERM)
        if not is_final and failed < RETRIES:
            self._failed[folder] = failed + 1
            self._nursery.start_soon(self._retry, folder, RETRY_SECONDS * 2**failed)

    async def _retry(self, folder: Ino, seconds: float) -> None:
        await trio.sleep(seconds)
        self.start(folder)
