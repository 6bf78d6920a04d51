"""Downloads missing listings and blocks when the vfs or the push needs them.

Single flight: for each folder and each block there is at most one request under way, and whoever wants
the same joins it.  A listing of a folder above counts, since it covers all below.  Two limiters keep
read-ahead from standing in the way of readers; a reader that wants what read-ahead has only queued
takes it over.

Rule: raises `OSError` only, at once when the service is known to be out of reach, and after
`network_seconds` without progress in any case.
"""

import errno
import logging
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
from cmsfs.replica.nodes import ROOT, Content, Ino, NodeKind
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core import request_scheduler
from daemon.core.health import Health
from daemon.core.request_scheduler import Priority
from daemon.core.supervisor import Starts
from daemon.fetch.block_download import WHOLE_BYTES, BlockDownloader, BlockRun
from daemon.fetch.prefetch import Prefetch
from daemon.fetch.single_flight import Work
from daemon.listing.search_lister import Lister

log = logging.getLogger(__name__)

FOREGROUND = 8
BACKGROUND = 6
PREFETCH = 16
# Of small files twice as many: on a link of 40 ms they are a matter of round trips, not of bytes.
PREFETCH_SMALL, SMALL_BYTES = 32, 64 * 1024
PINNED = 4

# A run of missing blocks becomes one request, up to this: a large window of read-ahead is several requests
# side by side, since one connection does not fill a long link.  Each costs the loop what two MiB do.
MAX_RUN = 8 * 1024 * 1024 // BLOCK

# A pinned content comes in pieces of this many runs: a demand for each block of a whole disk image would be
# hundreds of thousands.
PINNED_RUNS = 4

# What has brought bytes so recently goes on, whatever is said of the connection.
SILENT_SECONDS = 2.0

STOPPING = "the daemon is shutting down"

# What came wrong is told for so long, and of so many contents.
WRONG_SECONDS = 3600.0
MOST_WRONG = 100


class Hydrator:
    """The vfs's hydrator over one client; its work runs in the given nursery."""

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
        self._lister = lister
        self._health = health
        self._nursery = nursery
        self._network_seconds = network_seconds
        self._listings: dict[Ino, Work] = {}
        # By SHA-1: the runs that are asked for, until they have ended.  Few at a time, of hundreds of blocks.
        self._fetches: dict[str, list[BlockRun]] = {}
        self._fetching = BlockDownloader(db, client, blocks, health, network_seconds=network_seconds)
        # Told of what has come: a content, and how many bytes of it.
        self.fetched: Callable[[str, int], None] = lambda sha1, nbytes: None
        self._under_way: dict[trio.CancelScope, Work] = {}
        self._came_wrong: dict[str, float] = {}  # when, by SHA-1
        health.subscribe(self._heard)
        self._foreground = trio.CapacityLimiter(FOREGROUND)
        self._background = trio.CapacityLimiter(BACKGROUND)
        self._spare = trio.CapacityLimiter(PREFETCH)
        self._spare_small = trio.CapacityLimiter(PREFETCH_SMALL)
        self._pinned = trio.CapacityLimiter(PINNED)
        self._prefetch = Prefetch(db, self._prefetched)

    # ---- listings ------------------------------------------------------------------------------

    @property
    def is_listing(self) -> bool:
        """Whether a listing is under way."""
        return bool(self._listings)

    async def listing(self, folder: Ino) -> None:
        """Return once everything in the folder is known."""
        # More than once if a listing of a folder above began before this one was moved there.
        while not tree.is_listed(self._db, folder) and tree.find(self._db, folder) is not None:
            work = self._demand_listing(folder)
            # A folder above with a very large tree is not waited for.
            wait = work.wait if self._listings.get(folder) is work else work.wait_unless_grown
            await wait(self._network_seconds, self._health.suspect)

    def list_soon(self, folder: Ino) -> None:
        """Have the folder listed if it is not; never waits, never fails."""
        if self._health.can_ask and not tree.is_listed(self._db, folder):
            self._demand_listing(folder)

    def _demand_listing(self, folder: Ino) -> Work:
        if (work := self._listing_above(folder)) is not None:
            work.hurry(request_scheduler.current())
            return work
        self._health.check()
        work = self._listings[folder] = Work(on=request_scheduler.current())
        self._nursery.start_soon(self._list, folder, work)
        return work

    def _listing_above(self, folder: Ino) -> Work | None:
        current: Ino | None = folder
        while current is not None:
            work = self._listings.get(current)
            if work is not None and (current == folder or not work.grown.is_set()):
                return work
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
            del self._listings[folder]
            work.end(error)

    # ---- blocks --------------------------------------------------------------------------------

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached."""
        while True:
            for run, index in self._demand_blocks(content, first, last, urgent=True).items():
                try:
                    here = partial(run.has_landed, index)
                    await run.wait(self._network_seconds, self._health.suspect, until=here)
                except OSError as error:
                    # There was no room to spare for it ahead; for who waits there may be.
                    if run.taken_over and error.errno == errno.ENOSPC:
                        break
                    raise
            else:
                return

    def ahead(self, content: Content, first: int, last: int, *, kept: bool = False) -> None:
        """Fetch these blocks behind whatever readers wait for; never waits, never fails."""
        if self._health.can_ask and content.remote_id is not None:
            self._demand_blocks(content, first, last, urgent=False, pinned=kept)

    def coming(self) -> set[str]:
        """The contents of which blocks are on their way."""
        return set(self._fetches)

    async def keep(self, content: Content) -> None:
        """Return once all of a pinned content is here and checked; behind everybody who waits.

        Raises OSError.  Cancelled: what is under way comes all the same.
        """
        last, step = bitmap.blocks(content.size) - 1, MAX_RUN * PINNED_RUNS
        for first in range(0, last + 1, step):
            until = min(first + step, last + 1) - 1
            while wanted := self._demand_blocks(
                content, first, until, urgent=False, queue=self._pinned, pinned=True
            ):
                for run, index in wanted.items():
                    try:
                        # No deadline: work in the background may wait long for its turn.
                        here = partial(run.has_landed, index)
                        await run.wait(float("inf"), _content_to_wait, until=here)
                    except OSError as error:
                        # What somebody else began may be given up for reasons that do not hold here.
                        if run.pinned or error.errno not in (errno.ENOSPC, errno.ECANCELED):
                            raise
                        break
        await self._blocks.verify(content.sha1)

    def began(self, ino: Ino) -> None:
        """A file is being read from its beginning: its neighbours may be next."""
        if self._health.may_work:
            self._prefetch.began(ino)

    def _prefetched(self, content: Content, nbytes: int) -> Work | None:
        """Fetch the beginning of a content behind everything else; None if it is here or on its way."""
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
        """The runs that bring those of these blocks that are not here, and the last block wanted of each; new
        runs for what nobody has asked for yet."""
        # atomic: no await between the look at what is missing and the entry of what is fetched
        if content.size <= WHOLE_BYTES:
            first, last = 0, bitmap.blocks(content.size) - 1
        wanted: dict[BlockRun, int] = {}
        new: list[tuple[int, int]] = []
        span = (content.sha1, content.size, first, last)
        # Whoever waits for it pays; what nobody waits for yet costs those nothing.
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
                # Bytes made here that are no longer here: nobody else has them.
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
        """One run of blocks; what it does not bring ends with its error."""
        content, nbytes, error = run.content, run.nbytes, None
        try:
            with trio.CancelScope() as scope:
                self._under_way[scope] = run
                async with run.admitted(self._foreground):
                    with request_scheduler.with_priority(run):
                        await self._fetching.fetch(run)
            if not scope.cancelled_caught:
                self.fetched(content.sha1, nbytes)
            if scope.cancelled_caught:
                error = errno_map.oserror(errno.ENETDOWN, STOPPING)
                self._health.check()
        except errors.IntegrityError as failure:
            log.error("a download does not match its SHA-1: %s", failure)
            self._note_wrong(content.sha1)
            error = errno_map.to_oserror(failure)
            # Of what came in parts, some may have been read already, and the kernel keeps pages of them.
            self._hub.publish(
                [
                    Change(ChangeKind.CONTENT, ino, is_same=True)
                    for ino in tree.nodes_with_content(self._db, content.sha1)
                ]
            )
        except errors.CmsfsError as failure:
            error = self._explained(content, failure)
            if isinstance(failure, errors.NotFound):
                await self._doubt(content)
        except OSError as failure:
            error = failure
        except Exception:
            log.exception("unexpected error in a download")
            error = errno_map.oserror(errno.EIO)
        except BaseException:
            error = errno_map.oserror(errno.ENETDOWN, STOPPING)
            raise
        finally:
            del self._under_way[scope]
            self._fetches[content.sha1].remove(run)
            if not self._fetches[content.sha1]:
                del self._fetches[content.sha1]
            run.end(error)

    def _heard(self) -> None:
        """The connection's state has changed: nobody waits for what will not come."""
        if self._health.can_ask:
            return
        for scope, work in self._under_way.items():
            if trio.current_time() - work.at > SILENT_SECONDS:
                scope.cancel()

    def _note_wrong(self, sha1: str) -> None:
        self._came_wrong.pop(sha1, None)
        self._came_wrong[sha1] = trio.current_time()
        if len(self._came_wrong) > MOST_WRONG:
            del self._came_wrong[next(iter(self._came_wrong))]

    def came_wrong(self) -> list[str]:
        """The contents (SHA-1) that came with other bytes within the last hour: whoever read parts of them
        had better read them again."""
        since = trio.current_time() - WRONG_SECONDS
        return [sha1 for sha1, at in self._came_wrong.items() if at > since]

    async def _doubt(self, content: Content) -> None:
        """The service does not have these bytes: what it has is asked for."""
        if content.remote_id is not None:
            news = local_work.DeferredUpdate(NodeKind.FILE, content.remote_id, local_work.ANYHOW)
            await self._db.write(lambda conn: local_work.defer(conn, news))

    @staticmethod
    def _explained(content: Content, failure: errors.CmsfsError) -> OSError:
        if isinstance(failure, errors.NotFound):
            # The name is there and can be opened; it is the version of this handle that is not.
            return errno_map.oserror(errno.ESTALE, str(failure))
        log.info("blocks of %s could not be downloaded: %s", content.sha1, failure)
        return errno_map.to_oserror(failure)


def _content_to_wait() -> None:
    """What waits for its turn in the background says nothing of the connection."""
