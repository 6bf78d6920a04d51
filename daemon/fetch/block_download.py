"""Downloads one run of blocks into the cache, resuming after network failures.

Hydrate decides what is fetched and who waits for it; here bytes come, are kept as they land, and a
connection that breaks, falls silent or ends too early is replaced by another that goes on where it stopped.

Rule: only bytes of whole blocks are kept, and only from an answer that is the range that was asked for.
"""

import errno
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass

import trio

from cmsfs import errors
from cmsfs.cache.bitmap import run_bytes
from cmsfs.cache.blocks import BLOCK, BlockCache
from cmsfs.cache.eviction import Reservation
from cmsfs.client.content.files import ContentStream
from cmsfs.client.session import Client
from cmsfs.config.abilities import Ability
from cmsfs.replica.nodes import Content
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from daemon.core.health import Health
from daemon.fetch.offered_content import OfferedContent
from daemon.fetch.single_flight import Work

log = logging.getLogger(__name__)

# Blocks written in one go; the first of a request goes alone, somebody waits for it.
WRITE_BYTES = 1024 * 1024

# Of a run that is so long still, the thread that receives it does all else, too.
POURED_BYTES = 1024 * 1024

# A file up to this size is one request and one piece: it is never read before it was checked.
WHOLE_BYTES = 1024 * 1024

# Connections that may break or fall silent one after another without a single block having come.
FRUITLESS = 3

# The part of the readers' deadline after which a silent connection is given up for another.
PATIENCE = 0.4


@dataclass(eq=False, kw_only=True)
class BlockRun(Work):
    """A download: the blocks `first` to `last` of a content; `first` moves on as they land."""

    content: Content
    remote_id: str
    first: int
    last: int

    @property
    def nbytes(self) -> int:
        return run_bytes(self.content.size, self.first, self.last)

    def has_landed(self, index: int) -> bool:
        """Whether a block of it can be read, or could be when it came."""
        return self.first > index


class BlockDownloader:
    """Downloads runs of blocks."""

    def __init__(
        self, db: Database, client: Client, blocks: BlockCache, health: Health, *, network_seconds: float
    ) -> None:
        self._client = client
        self._offered = OfferedContent(db, client)
        self._blocks = blocks
        self._health = health
        self._network_seconds = network_seconds

    async def fetch(self, run: BlockRun) -> None:
        """Bring the run into the cache; who waits is told of blocks that can be read now.

        Where the disk has no room for it, it is brought into memory, to be read and not kept.

        Raises `RemoteError`, `IntegrityError` or OSError.  Cancelled: what landed is there.
        """
        try:
            async with self._blocks.reserved(run.nbytes, spare=not run.urgent, pinned=run.pinned) as room:
                await self._bring(run, room)
        except OSError as error:
            may_pass = run.urgent or self._blocks.may_pass(run.nbytes)
            if error.errno != errno.ENOSPC or run.pinned or not may_pass:
                raise
            await self._bring(run, None)

    async def _bring(self, run: BlockRun, room: Reservation | None) -> None:
        began, fruitless = trio.current_time(), 0
        while True:
            first = run.first
            try:
                await self._attempt(run, room)
                if run.first > run.last:
                    return
                # The file that was being filled is there no longer: what is missing comes anew.
                fruitless += 1
                if fruitless > FRUITLESS:
                    raise errno_map.oserror(errno.EIO, "a content's file does not stay")
            except errors.RemoteError as failure:
                if run.first > first:
                    began, fruitless = trio.current_time(), 0
                fruitless += 1
                wait = self._wait(failure, run, fruitless)
                if wait is None or trio.current_time() + wait > began + self._network_seconds:
                    raise
                log.info("resuming a download at block %d of %d: %s", run.first, run.last + 1, failure)
                await trio.sleep(wait)

    def _wait(self, failure: errors.RemoteError, run: BlockRun, fruitless: int) -> float | None:
        """How long to wait before another connection is tried; None: there is no use."""
        if isinstance(failure, errors.RateLimited):
            return failure.retry_after
        if fruitless >= FRUITLESS or not self._health.can_ask:
            return None
        if isinstance(failure, errors.RemoteTimeout):
            return 0.0
        # Before there is an answer, the client has tried again by itself.
        broke = isinstance(failure, errors.Offline | errors.ProtocolError) and run.answered
        return 0.1 * fruitless if broke else None

    async def _attempt(self, run: BlockRun, room: Reservation | None) -> None:
        content, start = run.content, run.first * BLOCK
        is_whole = start == 0 and run.nbytes == content.size <= WHOLE_BYTES
        patience = self._network_seconds * PATIENCE
        run.answered = False
        with self._health.request("read"):
            with trio.move_on_after(patience) as silence:
                pieces: list[bytes] = []
                held = 0
                wanted = run.nbytes if is_whole else min(BLOCK, run.nbytes)
                # By ID, or from what else the service offers.
                by_id = Ability.CONTENTS not in self._client.offers.lacking
                async with (self._client.files if by_id else self._offered).content(
                    run.remote_id, first=start, last=start + run.nbytes - 1, version=content.version
                ) as chunks:
                    run.answered, heard = True, trio.current_time()
                    async for chunk in chunks:
                        run.progressed()
                        if run.at > heard + 1:  # setting a deadline is dearer than a chunk of bytes
                            silence.deadline, heard = run.at + patience, run.at
                        pieces.append(chunk)
                        held += len(chunk)
                        if held < wanted:
                            continue
                        data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                        usable = held if held == run.nbytes else held - held % BLOCK
                        silence.deadline = float("inf")  # the disk may be slow
                        await self._keep(run, data[:usable], room)
                        heard = trio.current_time()
                        silence.deadline = heard + patience
                        rest = bytes(data[usable:])
                        if room is not None and run.nbytes >= POURED_BYTES:
                            found = await self._poured(run, chunks, rest, room, silence)
                            if found is None:
                                return
                            rest, heard = found, trio.current_time()
                            silence.deadline = heard + patience
                        pieces, held = [rest] if rest else [], len(rest)
                        wanted = max(1, min(max(wanted * 4, BLOCK), WRITE_BYTES, run.nbytes))
                return
            raise errors.RemoteTimeout(f"no data received for {patience:g} s")

    async def _poured(
        self,
        run: BlockRun,
        chunks: AsyncIterator[bytes],
        rest: bytes,
        room: Reservation,
        silence: trio.CancelScope,
    ) -> bytes | None:
        """Have what comes written by the thread that receives it, for as long as that can be; `rest` is here
        already.  What is here behind the last block then; None if the file has been lost."""
        if not isinstance(chunks, ContentStream):
            return rest
        content, patience = run.content, self._network_seconds * PATIENCE

        def told(behind: int, nbytes: int) -> None:
            run.progressed()
            room.left -= nbytes
            # atomic: no await between the blocks being here and everybody being told
            run.first = behind
            run.moved()

        def begins() -> None:
            run.progressed()
            silence.deadline = float("inf")  # the disk may be slow

        with self._blocks.landing(content.sha1, content.size, run.first, run.last, rest, told) as landing:
            if landing is None:
                return rest
            landing.begins = begins
            while not landing.is_done:
                silence.deadline = trio.current_time() + patience
                count = await chunks.pour(landing)
                await landing.settle()
                if landing.is_lost:
                    return None
                if not count:
                    break
            return landing.rest

    async def _keep(self, run: BlockRun, data: memoryview, room: Reservation | None) -> None:
        content, first = run.content, run.first
        if room is None:
            self._blocks.pass_through(content.sha1, content.size, first, data)
        else:
            await self._blocks.write_blocks(content.sha1, content.size, first, data)
            room.left -= len(data)
        # atomic: no await between the blocks being here and everybody being told
        run.first += -(-len(data) // BLOCK)
        run.moved()
