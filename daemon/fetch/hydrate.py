"""Downloads missing listings and blocks when the vfs or the push needs them.

Single flight: for each folder and each block there is at most one request in flight, and later callers join
it.  The listing of a folder above counts, since it covers everything below.  Separate limiters keep
read-ahead from delaying readers; a reader that needs a queued read-ahead request takes it over.

Rule: raises only `OSError`, immediately if the service is known to be unreachable, and in any case after
`network_seconds` without progress.
"""

import errno
import logging
from collections import deque
from collections.abc import Callable
from functools import partial

import trio

from cmsfs import errors
from cmsfs.cache import bitmap
from cmsfs.cache.blocks import BLOCK, BlockCache
from cmsfs.client.session import Client
from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.merge import local_work
from cmsfs.replica.nodes import Content, Ino, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core import request_scheduler
from daemon.core.health import Health
from daemon.core.request_scheduler import Priority
from daemon.core.supervisor import Starts
from daemon.fetch.block_download import WHOLE_BYTES, BlockDownloader, BlockRun
from daemon.fetch.folder_listings import FolderListings
from daemon.fetch.prefetch import Prefetch
from daemon.fetch.single_flight import SENT_SECONDS, STOPPING, Work
from daemon.listing.search_lister import Lister

log = logging.getLogger(__name__)

FOREGROUND = 8
BACKGROUND = 6
PREFETCH = 16
# Three times as many small files: on a link with 40 ms latency they depend on round trips, not on bytes.
PREFETCH_SMALL, SMALL_BYTES = 48, 64 * 1024
PINNED = 4

# Maximum size of a request for consecutive missing blocks: a large read-ahead window becomes several
# concurrent requests, since one connection does not fill a long link.  A request costs the event loop as much
# as 2 MiB.
MAX_RUN = 8 * 1024 * 1024 // BLOCK

# A pinned content is requested in pieces of this many runs: one demand for each block of a disk image would
# be hundreds of thousands.
PINNED_RUNS = 4

# A download that received bytes this recently continues, whatever the state of the connection.
SILENT_SECONDS = 2.0

# Contents that failed verification are remembered this long, up to this many.
CORRUPT_SECONDS = 3600.0
MOST_WRONG = 100


class Hydrator:
    """Downloads listings and blocks for the vfs with one client; its tasks run in the given nursery."""

    def __init__(
        self,
        db: Database,
        client: Client,
        blocks: BlockCache,
        lister: Lister,
        health: Health,
        nursery: Starts,
        *,
        hub: Hub,
        network_seconds: float,
    ) -> None:
        self._db = db
        self._hub = hub
        self._client = client
        self._blocks = blocks
        self._health = health
        self._nursery = nursery
        self._network_seconds = network_seconds
        self._listings = FolderListings(db, lister, health, nursery, network_seconds=network_seconds)
        # Runs in flight or queued, by SHA-1.  There are few at a time, each of hundreds of blocks.
        self._fetches: dict[str, list[BlockRun]] = {}
        self._fetching = BlockDownloader(db, client, blocks, health, network_seconds=network_seconds)
        # Called for downloaded data: the SHA-1 and the number of bytes.
        self.fetched: Callable[[str, int], None] = lambda sha1, nbytes: None
        self._in_flight: dict[trio.CancelScope, Work] = {}
        self._corrupt: dict[str, float] = {}  # time of the failed verification, by SHA-1
        health.subscribe(self._on_health_change)
        self._foreground = trio.CapacityLimiter(FOREGROUND)
        self._background = trio.CapacityLimiter(BACKGROUND)
        self._spare = trio.CapacityLimiter(PREFETCH)
        self._spare_small = trio.CapacityLimiter(PREFETCH_SMALL)
        self._pinned = trio.CapacityLimiter(PINNED)
        self._prefetch = Prefetch(db, self._prefetched)
        # Files being read that the prefetch is not told of yet, in the order in which they were begun.
        self._begun: deque[Ino] = deque()

    # ---- listings ------------------------------------------------------------------------------

    @property
    def is_listing(self) -> bool:
        """Whether a listing is in progress."""
        return self._listings.is_running

    async def listing(self, folder: Ino) -> None:
        """Return once the folder is completely listed."""
        await self._listings.complete(folder)

    def list_soon(self, folder: Ino) -> None:
        """Start listing the folder if it is not listed; never waits, never fails."""
        self._listings.start(folder)

    # ---- blocks --------------------------------------------------------------------------------

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached."""
        while True:
            for run, index in self._demand_blocks(content, first, last, urgent=True).items():
                try:
                    here = partial(run.has_landed, index)
                    meanwhile = partial(self._use_the_wait, content) if self._begun else None
                    await run.wait(
                        self._network_seconds, self._health.suspect, until=here, meanwhile=meanwhile
                    )
                except OSError as error:
                    # Read-ahead found no free space for it; a reader may get some.
                    if run.taken_over and error.errno == errno.ENOSPC:
                        break
                    raise
            else:
                if self._begun:  # the answer came sooner: the reader goes on first
                    self._nursery.start_soon(self._note_later)
                return

    def ahead(self, content: Content, first: int, last: int, *, kept: bool = False) -> None:
        """Download these blocks at lower priority than readers; never waits, never fails."""
        if self._health.can_ask and content.remote_id is not None:
            self._demand_blocks(content, first, last, urgent=False, pinned=kept)

    def coming(self) -> set[str]:
        """Return the contents that are being downloaded."""
        # Not those of which all has landed, but whose task has something left to do.
        return {sha1 for sha1, runs in self._fetches.items() if any(run.first <= run.last for run in runs)}

    async def keep(self, content: Content) -> None:
        """Return once a pinned content is completely downloaded and verified; at lower priority than readers.

        Raises OSError.  Cancelled: downloads in flight continue.
        """
        last, step = bitmap.blocks(content.size) - 1, MAX_RUN * PINNED_RUNS
        for first in range(0, last + 1, step):
            until = min(first + step, last + 1) - 1
            while wanted := self._demand_blocks(
                content, first, until, urgent=False, queue=self._pinned, pinned=True
            ):
                for run, index in wanted.items():
                    try:
                        # No deadline: background work may queue for a long time.
                        here = partial(run.has_landed, index)
                        await run.wait(float("inf"), _ignore_silence, until=here)
                    except OSError as error:
                        # Another caller's download may be abandoned for reasons that do not apply here.
                        if run.pinned or error.errno not in (errno.ENOSPC, errno.ECANCELED):
                            raise
                        break
        await self._blocks.verify(content.sha1)

    def began(self, ino: Ino, content: Content | None = None) -> None:
        """Note that a file is read from its beginning: its neighbours may be next.

        If what is read is missing, the prefetch is told of it once the request for it is on its way: its
        reader waits in `blocks`.
        """
        if not self._health.may_work:
            return
        if content is None or content.sha1 in self._fetches or not self._is_missing(content):
            self._note_begun()
            self._prefetch.began(ino)
        else:
            self._begun.append(ino)

    def _use_the_wait(self, content: Content) -> None:
        """Do what is to be done before the bytes arrive, once the request for them is on its way."""
        if not self._blocks.is_short:
            self._blocks.prepare(content.sha1, content.size)
        self._note_begun()

    async def _note_later(self) -> None:
        await trio.sleep(SENT_SECONDS)
        self._note_begun()

    def _note_begun(self) -> None:
        while self._begun:
            self._prefetch.began(self._begun.popleft())

    def _is_missing(self, content: Content) -> bool:
        return bool(self._blocks.missing(content.sha1, content.size, 0, 0, readable=True))

    def _prefetched(self, content: Content, nbytes: int) -> Work | None:
        """Prefetch the beginning of a content at the lowest priority; None if cached or in flight."""
        queue = self._spare_small if content.size <= SMALL_BYTES else self._spare
        wanted = self._demand_blocks(content, 0, (nbytes - 1) // BLOCK, urgent=False, queue=queue)
        return next(iter(wanted), None)

    def _demand_blocks(
        self,
        content: Content,
        first: int,
        last: int,
        *,
        urgent: bool,
        queue: trio.CapacityLimiter | None = None,
        pinned: bool = False,
    ) -> dict[BlockRun, int]:
        """Return the runs that deliver the missing ones of these blocks, with the last block wanted of each;
        starts runs for blocks that nobody has requested yet."""
        # atomic: no await between checking for missing blocks and registering the runs
        if content.size <= WHOLE_BYTES:
            first, last = 0, bitmap.blocks(content.size) - 1
        wanted: dict[BlockRun, int] = {}
        new: list[tuple[int, int]] = []
        span = (content.sha1, content.size, first, last)
        # Readers are served at the priority of their request; speculative downloads must not delay them.
        on = request_scheduler.current() if urgent else Priority.PIN if pinned else Priority.AHEAD
        coming = self._fetches.get(content.sha1, ())
        for start, end in self._blocks.missing(*span, readable=not pinned):
            index = start
            while index <= end:
                run = next((one for one in coming if one.first <= index <= one.last), None)
                if run is not None:
                    if urgent:
                        run.hurry(on)
                    wanted[run] = min(end, run.last)
                    index = run.last + 1
                else:
                    stop = min((one.first for one in coming if index < one.first), default=end + 1)
                    stop = min(stop, end + 1, index + MAX_RUN)
                    new.append((index, stop - 1))
                    index = stop
        if new:
            self._health.check()
        for start, end in new:
            if content.remote_id is None:
                # A local content that is no longer cached: nobody else has it.
                raise errno_map.oserror(
                    errno.EIO, f"content {content.sha1} is neither cached nor at the service"
                )
            run = BlockRun(
                content=content,
                remote_id=content.remote_id,
                first=start,
                last=end,
                on=on,
                urgent=urgent,
                queue=queue or self._background,
                pinned=pinned,
            )
            self._fetches.setdefault(content.sha1, []).append(run)
            wanted[run] = end
            self._nursery.start_soon(self._fetch, run)
        return wanted

    async def _fetch(self, run: BlockRun) -> None:
        """Download one run of blocks; blocks that fail to arrive end with its error."""
        content, nbytes, error = run.content, run.nbytes, None
        try:
            with trio.CancelScope() as scope:
                self._in_flight[scope] = run
                limiter = await run.admitted(self._foreground)
                try:
                    with request_scheduler.with_priority(run):
                        await self._fetching.fetch(run)
                finally:
                    limiter.release_on_behalf_of(run)
            if not scope.cancelled_caught:
                self.fetched(content.sha1, nbytes)
            if scope.cancelled_caught:
                error = errno_map.oserror(errno.ENETDOWN, STOPPING)
                self._health.check()
        except errors.IntegrityError as failure:
            log.error("a download does not match its SHA-1: %s", failure)
            self._note_corrupt(content.sha1)
            error = errno_map.to_oserror(failure)
            # Some parts may have been read before the verification, and the kernel caches pages of them.
            self._hub.publish(
                [
                    Change(ChangeKind.CONTENT, ino, is_same=True)
                    for ino in tree.nodes_with_content(self._db, content.sha1)
                ]
            )
        except errors.CmsfsError as failure:
            error = self._to_os_error(content, failure)
            if isinstance(failure, errors.NotFound):
                await self._refresh_item(content)
        except OSError as failure:
            error = failure
        except Exception:
            log.exception("unexpected error in a download")
            error = errno_map.oserror(errno.EIO)
        except BaseException:
            error = errno_map.oserror(errno.ENETDOWN, STOPPING)
            raise
        finally:
            del self._in_flight[scope]
            self._fetches[content.sha1].remove(run)
            if not self._fetches[content.sha1]:
                del self._fetches[content.sha1]
            run.end(error)

    def _on_health_change(self) -> None:
        """Abandon downloads that cannot continue after the connection state changed."""
        if self._health.can_ask:
            return
        for scope, work in self._in_flight.items():
            if trio.current_time() - work.at > SILENT_SECONDS:
                scope.cancel()

    def _note_corrupt(self, sha1: str) -> None:
        self._corrupt.pop(sha1, None)
        self._corrupt[sha1] = trio.current_time()
        if len(self._corrupt) > MOST_WRONG:
            del self._corrupt[next(iter(self._corrupt))]

    def corrupt_contents(self) -> list[str]:
        """Return the contents (SHA-1) whose download failed verification within the last hour: their readers
        should read them again."""
        since = trio.current_time() - CORRUPT_SECONDS
        return [sha1 for sha1, at in self._corrupt.items() if at > since]

    async def _refresh_item(self, content: Content) -> None:
        """Refresh the item, since the service does not have this content any more."""
        if content.remote_id is not None:
            news = local_work.DeferredUpdate(NodeKind.FILE, content.remote_id, local_work.ANYHOW)
            await self._db.write(lambda conn: local_work.defer(conn, news))

    @staticmethod
    def _to_os_error(content: Content, failure: errors.CmsfsError) -> OSError:
        if isinstance(failure, errors.NotFound):
            # The name exists and can be opened; only the version of this handle is gone.
            return errno_map.oserror(errno.ESTALE, str(failure))
        log.info("blocks of %s could not be downloaded: %s", content.sha1, failure)
        return errno_map.to_oserror(failure)


def _ignore_silence() -> None:
    """Ignore the suspicion: a background task that queues says nothing about the connection."""
