"""Group commit: acknowledged writes are on disk within a second, with one fsync for many files.

A close records its draft (`Drafts`), which a killed process survives; this task then fsyncs the draft
files of all recent closes and commits once, durably, for all of them.  `fsync(2)` does the same at once
for one file.
"""

import logging
import math
from contextlib import suppress
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

# A disk that fails fails often: a line a minute.
TELL_EVERY = 120

# fsyncs at a time; more gain little on one disk and take threads from readers.
AT_ONCE = 8


class GroupCommit:
    """Makes recorded drafts and commits durable, in groups."""

    def __init__(self, db: Database, drafts_root: Path) -> None:
        self._db = db
        self._root = drafts_root
        self._recorded: dict[int, Draft] = {}
        self._unlinks: list[Path] = []
        self._wanted = Signal()
        # When a program last changed something (monotonic).
        self.noted_at = -math.inf
        self._noted = Signal()

    def note(self, draft: Draft | None = None) -> None:
        """Something was committed (and, with a draft, its bytes written) that must be durable soon."""
        if draft is not None:
            self._recorded[draft.id] = draft
        self.noted_at = clock.monotonic()
        self._wanted.set()
        self._noted.pulse()

    async def noted_after(self, moment: float) -> None:
        """Wait until a program has changed something after `moment` (monotonic)."""
        while self.noted_at <= moment:
            await self._noted.wait()

    def unlink(self, path: Path) -> None:
        """Unlink a file once the commits made so far, which make it superfluous, are durable."""
        self._unlinks.append(path)
        self._wanted.set()

    async def run(self) -> None:
        """Commit groups for ever; one that fails is tried again at the same pace.

        Cancelled: what was noted since the last group is not durable yet.
        """
        failures = 0
        while True:
            await self._wanted.wait()
            await trio.sleep(INTERVAL_SECONDS)
            try:
                await self.commit()
            except Exception:
                # Never ever later: what a program closes in the meantime is waiting, too.
                if not failures % TELL_EVERY:
                    log.exception("writing to disk fails (fsync); retrying")
                failures += 1
            else:
                failures = 0
            durability.keep_spare()

    async def commit(self) -> None:
        """Make everything noted so far durable.  Failed: it is noted still."""
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

    async def _commit(self, group: list[Draft]) -> None:
        if small := [draft for draft in group if draft.in_row]:
            await threads.run_sync(_make_files, small)
        group = [draft for draft in group if not draft.in_row]
        # Several at a time, so that the file system's own log makes them durable together.
        async with trio.open_nursery() as nursery:
            for share in range(1, min(AT_ONCE, len(group))):
                nursery.start_soon(threads.run_sync, _fsync_all, group[share::AT_ONCE])
            if len(group) > 1:
                await threads.run_sync(_fsync_all, group[0::AT_ONCE])
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
        """Make what a draft's file holds durable, whatever its row says."""
        await threads.run_sync(draft.fsync)
        await threads.run_sync(durability.sync, self._root)
        draft.in_row = False

    async def _sync(self, group: list[Draft], *, names: bool) -> None:
        with self._db.log_syncing():
            await threads.run_sync(self._sync_in_order, group, names)

    def _sync_in_order(self, group: list[Draft], names: bool) -> None:
        """Bytes, then names, then the rows that speak of them.  Runs in a thread."""
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


def _make_files(group: list[Draft]) -> None:
    """Runs in a thread."""
    for draft in group:
        # What cannot be made now is made when it is wanted: the row has the bytes.
        with suppress(OSError):
            if not draft.dropped:
                draft.make_file()


def _unlink_all(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)
