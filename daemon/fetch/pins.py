"""Keeps pinned items completely downloaded while others change them.

The agent works in rounds: it examines all pinned trees (`replica.pins.survey`), marks their contents so that
the cache does not evict them, and requests missing listings and contents at the lowest priority.  Any local
or remote change of the tree triggers another round soon.

Rule: only the pins themselves are stored: each round determines the state anew, and after a restart the next
round continues.
"""

import errno
import logging
from collections.abc import Sequence
from itertools import islice
from sqlite3 import Connection

import trio

from cmsfs import errors
from cmsfs.cache import bitmap, content_table
from cmsfs.cache.blocks import BlockCache
from cmsfs.ipc import diagnostics
from cmsfs.replica import pins, tree
from cmsfs.replica.changes import Hub
from cmsfs.replica.nodes import Ino, NodeKind
from cmsfs.runtime import clock
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map
from cmsfs.wakeup import Signal
from daemon.core import concurrency
from daemon.core.health import Health
from daemon.fetch.hydrate import PINNED, Hydrator

log = logging.getLogger(__name__)

# Rounds also detect what no change announces, such as a cache folder that was cleared.
ROUND_INTERVAL_SECONDS = 60.0
# Retry delay after a failure: a full disk, a content that cannot be downloaded.
RETRY_SECONDS = 30.0

# Changes come in bursts; and examining very large trees must take at most a twentieth of the time.
BURST_SECONDS = 0.5
COST_SHARE = 20.0

# A long round is abandoned for a new one if something changed, but not before this time.
ROUND_SECONDS = 5.0

# Contents marked in one transaction.
MARKED_AT_ONCE = 500


class Pins:
    """The agent that keeps pinned items complete; it also pins and unpins."""

    def __init__(
        self, db: Database, blocks: BlockCache, hydrator: Hydrator, health: Health, hub: Hub
    ) -> None:
        self._db = db
        self._blocks = blocks
        self._hydrator = hydrator
        self._health = health
        self._news = Signal()
        self._trees: list[pins.Tree] = []
        self._fetching: dict[str, pins.WantedContent] = {}
        self._cost = 0.0
        self._round = trio.CancelScope()  # cancelled if its survey is out of date after an unpin
        self.marking = trio.Lock()  # held from the survey until the cache knows what is pinned
        self.problem = ""
        # Starts a round after a local or remote change.
        self.wake = self._news.set
        hub.wake(self._news)
        health.subscribe(self.wake)

    # ---- requests of the user ----

    async def pin(self, ino: Ino) -> str:
        """Pin an item; return a note for the user.

        Raises `UserError` if it cannot be pinned or does not fit.
        """
        node = tree.find(self._db, ino)
        if node is None or node.kind not in (NodeKind.FILE, NodeKind.FOLDER):
            raise errors.UserError("Only files and folders can be pinned.")
        path = tree.path(self._db, ino)
        if pins.holder(self._db, ino) == ino:
            return f"{path} is already pinned."
        missing = await self._db.query(lambda conn: pins.missing_below(conn, ino))
        room = await self._blocks.room_for_pinned()
        if missing > room:
            raise errors.UserError(f"{path} does not fit: {_short_of(missing, room)}")
        if not await self._db.write(lambda conn: pins.add(conn, ino, at=int(clock.time())), durable=True):
            raise errors.UserError(f"{path} does not exist any more.")
        log.info("an item was pinned; %d bytes to download", missing)
        self.wake()
        return ""

    async def unpin(self, ino: Ino) -> None:
        """Unpin an item.  Raises `UserError` if it is not pinned, or something above it is."""
        if not await self._db.write(lambda conn: pins.remove(conn, ino), durable=True):
            path, above = tree.path(self._db, ino), pins.holder(self._db, ino)
            if above is None:
                raise errors.UserError(f"{path} is not pinned.")
            raise errors.UserError(f"{path} is pinned by {tree.path(self._db, above)}.")
        log.info("an item was unpinned")
        self._unpinned()

    async def unpin_below(self, ino: Ino) -> None:
        """Unpin the item and everything below it; pins above it still apply."""
        if count := await self._db.write(lambda conn: pins.remove_below(conn, ino), durable=True):
            log.info("%d items were unpinned", count)
            self._unpinned()

    def _unpinned(self) -> None:
        # Contents may be evicted from now on, so later pins must not rely on the last survey.
        self._trees = []
        self._round.cancel()
        self.wake()

    async def set(self, ino: Ino, *, pinned: bool) -> None:
        """Like `pin` and `unpin`, for a program that sets the extended attribute.  Raises OSError."""
        try:
            if pinned:
                await self.pin(ino)
            elif pins.holder(self._db, ino) == ino:
                await self.unpin(ino)
        except errors.UserError as error:
            if tree.find(self._db, ino) is None:
                raise errno_map.oserror(errno.ENOENT, error.message) from error
            log.warning("%s", error.message)
            raise errno_map.oserror(errno.ENOSPC if pinned else errno.EINVAL, error.message) from error

    async def progress(self) -> diagnostics.Pinning:
        """Return the download progress of all pinned items, including those that no round has examined
        yet."""
        trees = await self._surveyed_trees()
        coming: dict[Ino, int] = {}
        for wanted in self._fetching.values():
            here = self._cached_bytes(wanted)
            for one in wanted.trees:
                coming[one.ino] = coming.get(one.ino, 0) + here
        items = [
            diagnostics.Pinned(
                path=tree.path(self._db, one.ino),
                files=one.files,
                bytes=one.bytes,
                files_here=one.files_here,
                bytes_here=min(one.bytes_here + coming.get(one.ino, 0), one.bytes),
                listing=not one.is_known,
            )
            for one in trees
        ]
        return diagnostics.Pinning(
            items=items, listing=any(one.listing for one in items), problem=self.problem
        )

    async def _surveyed_trees(self) -> list[pins.Tree]:
        """Return all pinned trees, from the last round or examined now."""
        found: dict[Ino, pins.Tree] = {}
        # atomic: no await from reading what is pinned until it is returned.
        while True:
            known = found | {one.ino: one for one in self._trees}
            pinned = pins.roots(self._db)
            if not (new := [ino for ino in pinned if ino not in known]):
                return [known[ino] for ino in pinned]
            await self._blocks.flush()
            for ino in new:
                found[ino] = await self._db.query(lambda conn, ino=ino: pins.progress_of(conn, ino))  # type: ignore[misc]

    def _cached_bytes(self, wanted: pins.WantedContent) -> int:
        content = wanted.content
        last = (content.size - 1) // bitmap.BLOCK
        runs = self._blocks.missing(content.sha1, content.size, 0, last)
        return content.size - sum(bitmap.run_bytes(content.size, *run) for run in runs)

    # ---- the work ----

    async def run(self) -> None:
        """Keep pinned items complete, forever.  Cancelled: what was downloaded stays."""
        while True:
            self._news.clear()
            wait = RETRY_SECONDS
            try:
                if await self.once():
                    wait = ROUND_INTERVAL_SECONDS
            except OSError as error:
                log.info("pinned items could not be updated: %s", error)
            except Exception:
                log.exception("unexpected error while updating pinned items")
            with trio.move_on_after(wait):
                await self._news.wait()
            await trio.sleep(max(BURST_SECONDS, self._cost * COST_SHARE))

    async def once(self) -> bool:
        """Run one round; return whether nothing is left to do."""
        if not pins.any_left(self._db):
            self._trees, self.problem = [], ""
            return True
        survey = await self._survey()
        if not survey.wanted and not survey.unlisted:
            self.problem = ""
            return True
        if not self._health.may_work:
            return False  # told when it can
        known = await self._list(survey.unlisted)
        if survey.unlisted:
            survey = await self._survey()
        await self._warn(survey)
        return await self._fetch(survey) and known

    async def _survey(self) -> pins.Survey:
        async with self.marking:
            self._round = trio.CancelScope()
            await self._blocks.flush()
            began = clock.monotonic()
            survey = await self._db.query(pins.survey)
            self._cost = clock.monotonic() - began
            # The survey is out of date for items that were unpinned meanwhile.
            self._trees = [] if self._round.cancel_called else survey.trees
            marks = iter([*survey.mark, *((sha1, None) for sha1 in survey.release)])
            while batch := list(islice(marks, MARKED_AT_ONCE)):
                await self._db.write(lambda conn, batch=batch: _mark(conn, batch))  # type: ignore[misc]
                self._blocks.pins_changed()
            return survey

    async def _list(self, folders: Sequence[Ino]) -> bool:
        known = True
        for folder in folders:
            if tree.is_listed(self._db, folder):
                continue  # listed with a folder above
            try:
                await self._hydrator.listing(folder)
            except OSError as error:
                log.info("a pinned folder could not be listed: %s", error)
                known = False
        return known

    async def _warn(self, survey: pins.Survey) -> None:
        """Warn before the disk is full; what fits is downloaded anyway."""
        room = await self._blocks.room_for_pinned()
        if survey.wanted_bytes > room:
            self._report_problem(f"Not enough space for pinned items: {_short_of(survey.wanted_bytes, room)}")
        else:
            self.problem = ""

    def _report_problem(self, problem: str) -> None:
        if not self.problem:
            log.warning("%s", problem)
        self.problem = problem

    async def _fetch(self, survey: pins.Survey) -> bool:
        """Download missing contents; return whether all of them arrived."""
        left = len(survey.wanted)
        began = trio.current_time()
        no_room = False

        async def one(wanted: pins.WantedContent) -> None:
            nonlocal left, no_room
            news = self._news.is_set and trio.current_time() - began > ROUND_SECONDS
            if news or no_room or self._round.cancel_called or not self._health.may_work:
                return
            self._fetching[wanted.content.sha1] = wanted
            try:
                await self._hydrator.keep(wanted.content)
            except OSError as error:
                log.info("a pinned file could not be downloaded: %s", error)
                no_room |= error.errno == errno.ENOSPC
                return
            finally:
                del self._fetching[wanted.content.sha1]
            left -= 1
            for found in wanted.trees:
                found.files_here += 1
                found.bytes_here += wanted.content.size

        with self._round:
            await concurrency.for_each(survey.wanted, one, tasks=PINNED)
        if no_room:
            self._report_problem("Not enough space for pinned items: the disk is full.")
        return left == 0


def _mark(conn: Connection, batch: Sequence[tuple[str, int | None]]) -> None:
    for sha1, size in batch:
        if size is None:
            content_table.unpin(conn, sha1)
        else:
            content_table.pin(conn, sha1, size)


def _short_of(missing: int, room: int) -> str:
    return f"{_size(missing)} to download, {_size(room)} available (keep_free_bytes stays free)."


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 10**9 else f"{count / 1e6:.1f} MB"
