"""Downloads one run of blocks into the cache, resuming after network failures.

Hydrate decides what is downloaded and who waits for it.  This module receives the bytes, stores them as they
arrive, and replaces a connection that breaks, stalls or ends early by another that resumes the range.

Rule: only whole blocks are stored, and only from a response with exactly the requested range.
"""

import errno
import functools
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
from daemon.core import root_check
from daemon.core.health import Health
from daemon.fetch.offered_content import OfferedContent
from daemon.fetch.single_flight import SENT_SECONDS, Work

log = logging.getLogger(__name__)

# Bytes written in one go; the first block of a request is written alone, since a reader waits for it.
WRITE_BYTES = 1024 * 1024

# A run with at least this much left is written by the thread that receives it.
THREAD_WRITE_BYTES = 1024 * 1024

# A file up to this size is one request and one run: it is never read before it was verified.
WHOLE_BYTES = 1024 * 1024

# Maximum number of consecutive connections that fail without a single block.
MAX_EMPTY_CONNECTIONS = 3

# Answers that contents are gone, if the drive's folder is there.
_GONE = (errors.NotFound, errors.Forbidden)

# The share of the readers' deadline after which a silent connection is replaced.
SILENCE_SHARE = 0.4


@dataclass(eq=False, kw_only=True)
class BlockRun(Work):
    """A download of blocks `first` to `last` of a content; `first` advances as they are stored."""

    content: Content
    remote_id: str
    first: int
    last: int

    @property
    def nbytes(self) -> int:
        return run_bytes(self.content.size, self.first, self.last)

    def has_landed(self, index: int) -> bool:
        """Whether a block of it can be read, or could be when it arrived."""
        return self.first > index


class BlockDownloader:
    """Downloads runs of blocks."""

    def __init__(
        self, db: Database, client: Client, blocks: BlockCache, health: Health, *, network_seconds: float
    ) -> None:
        self._db = db
        self._client = client
        self._offered = OfferedContent(db, client)
        self._blocks = blocks
        self._health = health
        self._network_seconds = network_seconds
        self._running = 0

    async def fetch(self, run: BlockRun) -> None:
        """Download the run into the cache and notify waiters of readable blocks.

        Without space on the disk it is downloaded into memory, to be read but not kept.

        Raises `RemoteError`, `IntegrityError` or OSError; `NotFound` and `Forbidden` only if the folder that
        the drive begins at is there.  Cancelled: stored blocks stay.
        """
        self._running += 1
        try:
            async with self._blocks.reserved(run.nbytes, spare=not run.urgent, pinned=run.pinned) as room:
                await self._download(run, room)
                if run.urgent and self._running == 1:
                    # Until the program that waited has made its next request.
                    await trio.sleep(SENT_SECONDS)
        except OSError as error:
            may_pass = run.urgent or self._blocks.can_pass_through(run.nbytes)
            if error.errno != errno.ENOSPC or run.pinned or not may_pass:
                raise
            await self._download(run, None)
        finally:
            self._running -= 1

    async def _download(self, run: BlockRun, room: Reservation | None) -> None:
        began, empty_connections = trio.current_time(), 0
        attempt = functools.partial(self._attempt, run, room)
        while True:
            first = run.first
            try:
                await root_check.ask(self._db, self._client, self._health, attempt, gone=_GONE)
                if run.first > run.last:
                    return
                # The file being filled was deleted: download the missing blocks again.
                empty_connections += 1
                if empty_connections > MAX_EMPTY_CONNECTIONS:
                    raise errno_map.oserror(errno.EIO, "a content's file does not stay")
            except errors.RemoteError as failure:
                if run.first > run.last:
                    return  # the connection broke behind the last byte
                if run.first > first:
                    began, empty_connections = trio.current_time(), 0
                empty_connections += 1
                wait = self._retry_delay(failure, run, empty_connections)
                if wait is None or trio.current_time() + wait > began + self._network_seconds:
                    raise
                log.info("resuming a download at block %d of %d: %s", run.first, run.last + 1, failure)
                await trio.sleep(wait)

    def _retry_delay(
        self, failure: errors.RemoteError, run: BlockRun, empty_connections: int
    ) -> float | None:
        """Return the delay before the next connection; None to give up."""
        if isinstance(failure, errors.RateLimited):
            return failure.retry_after
        if empty_connections >= MAX_EMPTY_CONNECTIONS or not self._health.can_ask:
            return None
        if isinstance(failure, errors.RemoteTimeout):
            return 0.0
        # Before a response the client has already retried.
        broke = isinstance(failure, errors.Offline | errors.ProtocolError) and run.answered
        return 0.1 * empty_connections if broke else None

    async def _attempt(self, run: BlockRun, room: Reservation | None) -> int:
        """Receive blocks from one connection until it ends; return the number of the next one."""
        content, start = run.content, run.first * BLOCK
        is_whole = start == 0 and run.nbytes == content.size <= WHOLE_BYTES
        patience = self._network_seconds * SILENCE_SHARE
        run.answered = False
        with self._health.request("read"):
            with trio.move_on_after(patience) as silence:
                pieces: list[bytes] = []
                held = 0
                wanted = run.nbytes if is_whole else min(BLOCK, run.nbytes)
                # By ID, or from what else the service offers.
                by_id = self._client.offers.is_tried(Ability.CONTENTS)
                async with (self._client.files if by_id else self._offered).content(
                    run.remote_id, first=start, last=start + run.nbytes - 1, version=content.version
                ) as chunks:
                    run.answered, heard = True, trio.current_time()
                    async for chunk in chunks:
                        run.progressed()
                        if run.at > heard + 1:  # setting a deadline costs more than a chunk of bytes
                            silence.deadline, heard = run.at + patience, run.at
                        pieces.append(chunk)
                        held += len(chunk)
                        if held < wanted:
                            continue
                        data = memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))
                        usable = held if held == run.nbytes else held - held % BLOCK
                        silence.deadline = float("inf")  # the disk may be slow
                        await self._store(run, data[:usable], room)
                        heard = trio.current_time()
                        silence.deadline = heard + patience
                        rest = bytes(data[usable:])
                        if room is not None and run.nbytes >= THREAD_WRITE_BYTES:
                            found = await self._write_in_thread(run, chunks, rest, room, silence)
                            if found is None:
                                return run.first
                            rest, heard = found, trio.current_time()
                            silence.deadline = heard + patience
                        pieces, held = [rest] if rest else [], len(rest)
                        wanted = max(1, min(max(wanted * 4, BLOCK), WRITE_BYTES, run.nbytes))
                return run.first
            raise errors.RemoteTimeout(f"no data received for {patience:g} s")

    async def _write_in_thread(
        self,
        run: BlockRun,
        chunks: AsyncIterator[bytes],
        rest: bytes,
        room: Reservation,
        silence: trio.CancelScope,
    ) -> bytes | None:
        """Let the receiving thread write the data for as long as possible; `rest` has already been received.
        Returns the bytes received after the last stored block; None if the cache file was lost."""
        if not isinstance(chunks, ContentStream):
            return rest
        content, patience = run.content, self._network_seconds * SILENCE_SHARE

        def told(behind: int, nbytes: int) -> None:
            run.progressed()
            room.left -= nbytes
            # atomic: no await between storing the blocks and notifying waiters
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

    async def _store(self, run: BlockRun, data: memoryview, room: Reservation | None) -> None:
        content, first = run.content, run.first
        if room is None:
            self._blocks.pass_through(content.sha1, content.size, first, data)
        else:
            await self._blocks.write_blocks(content.sha1, content.size, first, data)
            room.left -= len(data)
        # atomic: no await between storing the blocks and notifying waiters
        run.first += -(-len(data) // BLOCK)
        if run.moved():
            # Readers continue now; all else about the response can wait.  The first of two checkpoints may
            # end before the readers have run.
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
