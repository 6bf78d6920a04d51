"""Hydrate: brings what is missing here, listings and blocks, when the vfs or the push asks for it.

Single flight: for each folder and each block there is at most one request under way, and whoever wants
the same joins it.  A listing of a folder above counts, since it covers all below.  Two limiters keep
read-ahead from standing in the way of readers; a reader that wants what read-ahead has only queued
takes it over.

Rule: raises `OSError` only, at once when the service is known to be out of reach, and after
`network_seconds` without progress in any case.
"""

import errno
import logging

import trio

from cmsfs import errors
from cmsfs.cache.bitmap import block_length
from cmsfs.cache.blocks import BLOCK, Blocks
from cmsfs.client.session import Client
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Content, Ino
from cmsfs.sqlite import Database
from cmsfs.vfs import oserrors
from daemon.demands import Demand, Work
from daemon.health import Health
from daemon.listing import Lister

log = logging.getLogger(__name__)

FOREGROUND = 8
BACKGROUND = 4

# A run of missing blocks becomes one request, up to this: the largest window of read-ahead.
MAX_RUN = 16

STOPPING = "the agent is stopping"


class Hydrate:
    """The vfs's hydrator over one client; its work runs in the given nursery."""

    def __init__(
        self,
        db: Database,
        client: Client,
        blocks: Blocks,
        lister: Lister,
        health: Health,
        nursery: trio.Nursery,
        *,
        network_seconds: float,
    ) -> None:
        self._db = db
        self._client = client
        self._blocks = blocks
        self._lister = lister
        self._health = health
        self._nursery = nursery
        self._network_seconds = network_seconds
        self._listings: dict[Ino, Demand] = {}
        self._fetches: dict[tuple[str, int], Demand] = {}
        self._foreground = trio.CapacityLimiter(FOREGROUND)
        self._background = trio.CapacityLimiter(BACKGROUND)

    # ---- listings ------------------------------------------------------------------------------

    @property
    def is_listing(self) -> bool:
        """Whether a listing is under way."""
        return bool(self._listings)

    async def listing(self, folder: Ino) -> None:
        """Return once everything in the folder is known."""
        # More than once if a listing of a folder above began before this one was moved there.
        while not tree.is_listed(self._db, folder) and tree.find(self._db, folder) is not None:
            demand = self._demand_listing(folder)
            # A folder above with a very large tree is not waited for.
            of_its_own = self._listings.get(folder) is demand
            await demand.wait(self._network_seconds, unless_grown=not of_its_own)

    def list_soon(self, folder: Ino) -> None:
        """Have the folder listed if it is not; never waits, never fails."""
        if self._health.can_ask and not tree.is_listed(self._db, folder):
            self._demand_listing(folder)

    def _demand_listing(self, folder: Ino) -> Demand:
        if (demand := self._listing_above(folder)) is not None:
            return demand
        self._health.check()
        demand = self._listings[folder] = Demand(Work())
        self._nursery.start_soon(self._list, folder, demand)
        return demand

    def _listing_above(self, folder: Ino) -> Demand | None:
        current: Ino | None = folder
        while current is not None:
            demand = self._listings.get(current)
            if demand is not None and (current == folder or not demand.work.grown.is_set()):
                return demand
            node = tree.find(self._db, current)
            current = node.parent if node is not None and node.ino != ROOT else None
        return None

    async def _list(self, folder: Ino, demand: Demand) -> None:
        error: OSError | None = oserrors.oserror(errno.ENETDOWN, STOPPING)
        try:
            work = demand.work
            await self._lister.fill(folder, progress=work.progressed, grown=work.grown.set)
            error = None
        except errors.CmsfsError as failure:
            error = oserrors.to_oserror(failure)
            log.info("a listing ended early: %s", failure)
        except OSError as failure:
            error = failure
        except Exception:
            log.exception("a bug in a listing")
            error = oserrors.oserror(errno.EIO)
        finally:
            del self._listings[folder]
            demand.met(error)

    # ---- blocks --------------------------------------------------------------------------------

    async def blocks(self, content: Content, first: int, last: int) -> None:
        """Return once the blocks `first` to `last` (inclusive) are cached."""
        for demand in self._demand_blocks(content, first, last, urgent=True):
            await demand.wait(self._network_seconds)

    def ahead(self, content: Content, first: int, last: int) -> None:
        """Fetch these blocks behind whatever readers wait for; never waits, never fails."""
        if self._health.can_ask and content.remote_id is not None:
            self._demand_blocks(content, first, last, urgent=False)

    def _demand_blocks(self, content: Content, first: int, last: int, *, urgent: bool) -> list[Demand]:
        """The demands of all these blocks that are not here, new ones where nobody has asked yet."""
        # atomic: no await between the look at what is missing and the entry of what is fetched
        wanted: list[Demand] = []
        runs: list[list[int]] = []
        for start, end in self._blocks.missing(content.sha1, content.size, first, last):
            for index in range(start, end + 1):
                if (demand := self._fetches.get((content.sha1, index))) is not None:
                    if urgent:
                        demand.work.hurry()
                    wanted.append(demand)
                elif runs and runs[-1][-1] == index - 1 and len(runs[-1]) < MAX_RUN:
                    runs[-1].append(index)
                else:
                    runs.append([index])
        if runs:
            self._health.check()
        for run in runs:
            wanted += self._start(content, run, urgent=urgent)
        return wanted

    def _start(self, content: Content, run: list[int], *, urgent: bool) -> list[Demand]:
        if content.remote_id is None:
            # Bytes made here that are no longer here: nobody else has them.
            raise oserrors.oserror(errno.EIO, f"content {content.sha1} is nowhere")
        work = Work(urgent=urgent)
        demands = {index: Demand(work) for index in run}
        for index, demand in demands.items():
            self._fetches[content.sha1, index] = demand
        self._nursery.start_soon(self._fetch, content, content.remote_id, demands, work)
        return list(demands.values())

    async def _fetch(self, content: Content, remote_id: str, demands: dict[int, Demand], work: Work) -> None:
        """One ranged request; what it does not bring ends with its error."""
        error: OSError | None = oserrors.oserror(errno.ENETDOWN, STOPPING)
        try:
            async with work.admitted(self._foreground, self._background):
                await self._stream(content, remote_id, demands, work)
            error = None
        except errors.CmsfsError as failure:
            error = self._explained(content, failure)
        except OSError as failure:
            error = failure
        except Exception:
            log.exception("a bug in fetching blocks")
            error = oserrors.oserror(errno.EIO)
        finally:
            for index, demand in demands.items():
                self._fetches.pop((content.sha1, index), None)
                demand.met(error)

    async def _stream(self, content: Content, remote_id: str, demands: dict[int, Demand], work: Work) -> None:
        first, last = min(demands), max(demands)
        start = first * BLOCK
        end = last * BLOCK + block_length(content.size, last)
        await self._blocks.make_room(end - start)
        index, buffer = first, bytearray()
        with self._health.request("read"):
            content_of = self._client.files.content
            async with content_of(remote_id, first=start, last=end - 1, version=content.version) as chunks:
                async for chunk in chunks:
                    work.progressed()
                    buffer += chunk
                    while index <= last and len(buffer) >= (length := block_length(content.size, index)):
                        await self._blocks.write_block(content.sha1, content.size, index, buffer[:length])
                        del buffer[:length]
                        # atomic: gone from the requests under way, there to be read
                        del self._fetches[content.sha1, index]
                        demands.pop(index).met()
                        index += 1

    @staticmethod
    def _explained(content: Content, failure: errors.CmsfsError) -> OSError:
        if isinstance(failure, errors.IntegrityError):
            log.error("the service delivered bytes that are not those of their SHA-1: %s", failure)
        elif isinstance(failure, errors.NotFound):
            # The name is there and can be opened; it is the version of this handle that is not.
            return oserrors.oserror(errno.ESTALE, str(failure))
        else:
            log.info("blocks of %s could not be fetched: %s", content.sha1, failure)
        return oserrors.to_oserror(failure)
