"""Group commit: acknowledged writes are on disk within a second, with one fsync for many files.

A close records its draft (`Drafts`), which survives a killed process; this task then fsyncs the draft files
of all recent closes and makes their commits durable together.  `fsync(2)` does the same at once for one file.
"""

import logging
import math
from pathlib import Path

import trio

from cmsfs import crashpoints, durability
from cmsfs.crashpoints import Point
from cmsfs.journal.draft import Draft
from cmsfs.runtime import clock, threads
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal

log = logging.getLogger(__name__)

# Half of the second that P1 allows between a close and its durability; the other half is for the disk.
INTERVAL_SECONDS = 0.5

# Changes at shorter intervals than this are made by a program that copies, unpacks or removes many files.
PAUSE_SECONDS = 0.2

# As many changes without a pause, and a second on average: more than a person or a busy log file makes.
MANY_CHANGES = 16
MANY_A_SECOND = 20.0

# For so long, from the first of these changes on, work that can wait leaves the processor to the programs.
ASIDE_SECONDS = 10.0

# Log every so many failures, a line per minute: a failing disk keeps failing.
LOG_EVERY = 120

# Parallel fsyncs; more gain little on one disk and take threads from readers.
PARALLEL_FSYNCS = 8


class GroupCommit:
    """Makes recorded drafts and commits durable, in groups."""

    def __init__(self, db: Database, drafts_root: Path) -> None:
        self._db = db
        self._root = drafts_root
        self._recorded: dict[int, Draft] = {}
        self._unlinks: list[Path] = []
        self._wanted = Signal()
        # When a program last made a change (monotonic); since when and how many were made without a pause.
        self.noted_at = self.noted_since = -math.inf
        self.noted_count = 0
        self._noted = Signal()

    def note(self, draft: Draft | None = None) -> None:
        """Schedule a durable commit of what was just committed, and of the draft's bytes."""
        if draft is not None:
            self._recorded[draft.id] = draft
        now = clock.monotonic()
        if now - self.noted_at > PAUSE_SECONDS:
            self.noted_since, self.noted_count = now, 0
        self.noted_at, self.noted_count = now, self.noted_count + 1
        self._wanted.set()
        self._noted.pulse()

    @property
    def are_programs_busy(self) -> bool:
        """Whether programs are changing many things right now, and have not done so for long."""
        now = clock.monotonic()
        seconds = now - self.noted_since
        is_many = self.noted_count >= max(MANY_CHANGES, MANY_A_SECOND * seconds)
        return is_many and now - self.noted_at < PAUSE_SECONDS and seconds < ASIDE_SECONDS

    async def noted_after(self, moment: float) -> None:
        """Wait until a program has made a change after `moment` (monotonic)."""
        while self.noted_at <= moment:
            await self._noted.wait()

    def unlink(self, path: Path) -> None:
        """Unlink a file once the commits so far, which make it obsolete, are durable."""
        self._unlinks.append(path)
        self._wanted.set()

    async def run(self) -> None:
        """Commit groups until cancelled; retry a failed group at the same interval.

        Cancelled: changes noted since the last group are not durable yet.
        """
        failures = 0
        while True:
            await self._wanted.wait()
            await trio.sleep(INTERVAL_SECONDS)
            try:
                await self.commit()
            except Exception:
                # No backoff: files that programs close in the meantime are waiting, too.
                if not failures % LOG_EVERY:
                    log.exception("writing to disk fails (fsync); retrying")
                failures += 1
            else:
                failures = 0
            durability.keep_spare()

    async def commit(self) -> None:
        """Make everything noted so far durable.  On failure it stays noted."""
        # atomic: no await until the group is taken
        self._wanted.clear()
        group, self._recorded = self._recorded, {}
        unlinks, self._unlinks = self._unlinks, []
        try:
            await self._commit([draft for draft in group.values() if not draft.dropped])
        except BaseException:
            self._recorded, self._unlinks = group | self._recorded, unlinks + self._unlinks
            self._wanted.set()
            raise
        if unlinks:
            await threads.run_sync(_unlink_all, unlinks)
        await self._db.write_back()

    async def _commit(self, group: list[Draft]) -> None:
        for draft in group:
            if draft.in_row:
                draft.note_fileless()
        group = [draft for draft in group if not draft.in_row]
        # In parallel, so that the file system's journal commits them together.
        async with trio.open_nursery() as nursery:
            for share in range(1, min(PARALLEL_FSYNCS, len(group))):
                nursery.start_soon(threads.run_sync, _fsync_all, group[share::PARALLEL_FSYNCS])
            if len(group) > 1:
                await threads.run_sync(_fsync_all, group[0::PARALLEL_FSYNCS])
        await self._sync([] if len(group) > 1 else group, names=bool(group))

    async def sync(self, draft: Draft | None) -> None:
        """Make one draft's recorded bytes, and every commit so far, durable before returning."""
        is_in_file = draft is not None and not draft.dropped and not draft.in_row
        await self._sync(
            [draft] if draft is not None and is_in_file else [], names=draft is None or is_in_file
        )
        if draft is not None and is_in_file:
            self._recorded.pop(draft.id, None)

    async def sync_file(self, draft: Draft) -> None:
        """Make the contents of a draft's file durable, whatever its row says."""
        await threads.run_sync(draft.fsync)
        await threads.run_sync(durability.sync, self._root)
        draft.in_row = False

    async def _sync(self, group: list[Draft], *, names: bool) -> None:
        # The log alone is usually synced before another task would have run.
        run = threads.run_sync if group or names else threads.run_brief
        with self._db.log_syncing():
            await run(self._sync_in_order, group, names)

    def _sync_in_order(self, group: list[Draft], names: bool) -> None:
        """Sync bytes, then names, then the rows that refer to them.  Runs in a thread."""
        _fsync_all(group)
        crashpoints.reached(Point.GROUP_SYNCED)
        if names:
            durability.sync(self._root)
        crashpoints.reached(Point.GROUP_NAMED)
        self._db.fsync_log()
        crashpoints.reached(Point.GROUP_COMMITTED)


def _fsync_all(group: list[Draft]) -> None:
    """Runs in a thread."""
    for draft in group:
        if not draft.dropped:
            draft.fsync()


def _unlink_all(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
