"""Dispatches journal operations to a pool of workers.

The dispatcher claims operations that are ready and hands them, one at a time, to a free worker; the worker
carries one out and makes sure that it ends: done, put back for later, or held.  Nothing is sent while the
service is known to be unreachable.

Rule: a failing operation blocks no other and is never lost, whatever was raised.
"""

import errno
import functools
import logging
import math
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs import crashpoints
from cmsfs.client.transport.errors import LONGEST_RETRY_AFTER
from cmsfs.crashpoints import Point
from cmsfs.ipc.outcomes import GuardUndone
from cmsfs.journal import deadlocks, ops, queue, sealing
from cmsfs.journal.group_commit import PAUSE_SECONDS
from cmsfs.journal.ops import OpKind
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import op_rows
from cmsfs.runtime import clock
from cmsfs.wakeup import Signal
from daemon.push import guard_undo, rejected
from daemon.push.context import LONGEST_WAIT_SECONDS, PushContext, wait_ns
from daemon.push.operation_runner import LARGE_BYTES, Job, OperationRunner, Perform, job_of
from daemon.push.operations import deletes, describe, folders, moves, uploads
from daemon.push.programs_first import ProgramsFirst

log = logging.getLogger(__name__)

PERFORM: dict[OpKind, Perform] = {
    OpKind.MKDIR: folders.mkdir,
    OpKind.UPLOAD: uploads.upload,
    OpKind.MOVE: moves.move,
    OpKind.TOUCH: moves.touch,
    OpKind.DESCRIBE: describe.describe,
    OpKind.TRASH: deletes.trash,
}

UNFINISHED = "The change could not be completed locally; see the log."

# Number of small files claimed and sealed together; one at a time while programs are active.
CLAIMED_AT_ONCE = 16

# Small uploads in flight to a remote service: each costs a round trip.  Fewer while programs read.
SMALL_AT_ONCE = 16

# The wall clock, on which due times are, may be set back: check at least this often.
LONGEST_SLEEP_SECONDS = 60.0

# Clocks are adjusted all the time; a larger step back moves the due times.
CLOCK_STEP_NS = 2 * 10**9

# How long to gather changes before the journal is read.
BURST_SECONDS = 0.05

# Maximum duration of a pass, since programs may change things faster than they can be sent.
PASS_SECONDS = 1.0

# Maximum number of due operations searched for small files while nothing else can run.
LOOKED_AT_FOR_SMALL = 200

# Retry interval when the database cannot be written: a full disk refuses every transaction.
DATABASE_RETRY_SECONDS = 5.0


class Dispatcher:
    """Runs the journal's operations.  Call `wake` after every change of the journal."""

    def __init__(self, context: PushContext, *, workers: int) -> None:
        self._context = context
        self._workers = workers
        # With one worker there is no concurrency; an embedded service has no latency.
        is_far = workers > 1 and not context.profile.embedded
        self._small_workers = max(workers, SMALL_AT_ONCE) if is_far else 0
        self._wanted = Signal()
        # Wakes the dispatcher: the journal has work, or a busy file was closed.
        self.wake = self._wanted.set
        self._moved = Signal()
        self.programs = ProgramsFirst(context.commit)
        # Nothing runs, can be claimed or becomes due: everything left waits for something else.
        self._stuck = False
        # The longest possible delays of an operation: until it is tried, and from Retry-After.  One that was
        # recorded since the clock was read is due a little later than these say.
        longest = LONGEST_RETRY_AFTER + context.settle_seconds + LONGEST_WAIT_SECONDS
        self._bounds = {
            "settle_ns": int(context.settle_seconds * 10**9) + CLOCK_STEP_NS,
            "longest_ns": int(longest * 10**9),
        }
        # Difference between wall clock and monotonic clock at the last check.
        self._clock_offset_ns = 0
        self._runner = OperationRunner(context, self._notify_ended)
        # Claimed operations that were not handed to a worker.
        self._unsent: list[ops.Op] = []

    # ---- requests of other agents ----

    def sent(self, seq: int) -> int:
        """Return the number of bytes sent of a running upload."""
        return self._context.sent.get(seq, 0)

    @contextmanager
    def hurrying(self) -> Iterator[None]:
        """Context in which operations are sent without settle time."""
        with self.programs.hurrying():
            self.wake()
            yield

    async def confirm(self, ino: Ino, *, seconds: float) -> None:
        """Return when the service has a file as it is recorded now, even if open, or a folder and its name.

        Raises `OSError`: EIO if the service refuses it, ETIMEDOUT if it is not uploaded in time.  In both
        cases the change is kept.
        """
        self._context.confirming[ino] += 1
        try:
            with self.hurrying(), trio.fail_after(seconds):
                while states := queue.unconfirmed(self._context.db, ino):
                    if "held" in states:
                        log.warning("fsync: the service rejected the file; see `cmsfs conflicts`")
                        raise OSError(errno.EIO, os.strerror(errno.EIO))
                    with trio.move_on_after(1):
                        await self._moved.wait()
        except trio.TooSlowError:
            log.warning(
                "fsync: the file is not uploaded after %g s; the upload continues in the background", seconds
            )
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from None
        finally:
            self._context.confirming[ino] -= 1
            if not self._context.confirming[ino]:
                del self._context.confirming[ino]

    async def until(self, reached: Callable[[], Awaitable[bool]], *, seconds: float) -> bool:
        """Wait until the condition holds; return whether it does within `seconds`."""
        with trio.move_on_after(seconds):
            while not await reached():
                self.wake()
                with trio.move_on_after(1):
                    await self._moved.wait()
            return True
        return False

    async def retry_all(self) -> None:
        """Retry all failed and held operations; their cause may be gone."""

        def txn(conn: Connection) -> None:
            op_rows.release_held(conn, due_ns=clock.time_ns())
            op_rows.end_waiting(conn, now_ns=clock.time_ns())

        await self._context.db.write(txn)
        self._stuck = False
        self.wake()

    async def retry(self, path: str) -> None:
        """Retry the failed operations of one item.  Raises `UserError` if there are none."""
        await rejected.retry(self._context, path)
        self._stuck = False
        self.wake()

    async def discard(self, path: str, recovered: Path) -> Path | None:
        """Discard the held operations of one item; return where its contents are kept.  Raises
        `UserError`."""
        kept = await rejected.discard(self._context, path, recovered)
        self.wake()
        return kept

    async def undo_mass_change(self, recovered: Path, *, dry_run: bool) -> GuardUndone:
        """Undo the mass change that the guard stopped.  Raises `UserError`."""
        undone = await guard_undo.undo(self._context, recovered, dry_run=dry_run)
        self.wake()
        return undone

    async def drained(self) -> None:
        """Wait until everything possible is uploaded: not for held operations, nor for files that are open
        for writing."""
        while queue.unfinished(self._context.db) and not (self._stuck and not self._wanted.is_set):
            # Operations can end without a worker: an upload is obsolete once its file is deleted.
            with trio.move_on_after(1):
                await self._moved.wait()

    # ---- the dispatcher ----

    async def run(self) -> None:
        """Carry out operations forever.  Cancelled or failed: the next run sends operations in flight
        again."""
        self._runner.running = self._runner.small = self._runner.large = 0
        await self._context.db.write(self._begin)
        send, receive = trio.open_memory_channel[Job](0)
        async with trio.open_nursery() as nursery:
            async with receive:
                for _ in range(self._workers + self._small_workers):
                    nursery.start_soon(self._runner.work, receive.clone())
            nursery.start_soon(self._follow_health)
            async with send:
                while True:
                    try:
                        await self._round(send)
                    except Exception:
                        log.exception("the journal cannot be read or written")
                        await trio.sleep(DATABASE_RETRY_SECONDS)

    async def _round(self, send: "trio.MemorySendChannel[Job]") -> None:
        # atomic: a change after this is seen by this round or wakes the next one
        self._wanted.clear()
        self._stuck = False
        await self._context.health.reachable()
        if self._context.guard.is_holding:
            # `drained` need not wait for the user's decision.
            self._stuck = True
            self._moved.pulse()
            await self._context.guard.wait_until_released()
            return
        await self.programs.stand_aside()
        await self._follow_clock()
        rests = (
            self.programs.is_hurried
            and queue.next_due(self._context.db, after_ns=clock.time_ns()) is not None
        )
        if self._runner.dangling or self._unsent or rests:
            await self._context.db.write(self._prepare)
        sent = 0
        soonest = queue.next_due(self._context.db)
        if op_rows.are_overlong(self._context.db, now_ns=clock.time_ns(), **self._bounds):
            await self._context.db.write(
                lambda conn: op_rows.bound(conn, now_ns=clock.time_ns(), **self._bounds)
            )
            log.warning("changes were recorded while the clock was ahead; uploading them now")
            soonest = queue.next_due(self._context.db)
        # Operations that become due after this belong to the next round.
        looked_at = clock.time_ns()
        # While all operations settle, as during a copy of many files, there is nothing to do.
        if soonest is not None and soonest <= looked_at:
            sent = await self._pass(send)
            if not sent and not self._runner.running and not self._wanted.is_set:
                task = await self._context.db.write(deadlocks.step_aside)
                if task is not None:
                    sent = await self._hand_over(send, [Job(task, moves.step_aside)])
        due = queue.next_due(self._context.db, after_ns=looked_at)
        self._stuck = not sent and not self._runner.running and due is None
        self._moved.pulse()
        wait = LONGEST_SLEEP_SECONDS if due is None else max(0.0, (due - clock.time_ns()) / 10**9)
        with trio.move_on_after(min(wait, LONGEST_SLEEP_SECONDS)):
            await self._wanted.wait()
            if not self.programs.is_hurried:
                # Changes come in bursts, and each one wakes us.
                await trio.sleep(BURST_SECONDS)

    def _begin(self, conn: Connection) -> None:
        op_rows.reset_running(conn)
        # An earlier run may have used another clock; and a restart is a reason to retry.
        settle_ns = self._bounds["settle_ns"]
        op_rows.bound(conn, now_ns=clock.time_ns(), settle_ns=settle_ns, longest_ns=settle_ns)

    async def _follow_clock(self) -> None:
        """Move due times when the wall clock was set back, so that no operation waits longer than
        intended."""
        offset = clock.time_ns() - int(clock.monotonic() * 10**9)
        back = self._clock_offset_ns - offset
        if back > CLOCK_STEP_NS:
            await self._context.db.write(
                lambda conn: op_rows.advance(conn, now_ns=clock.time_ns(), by_ns=back)
            )
        self._clock_offset_ns = offset

    def _prepare(self, conn: Connection) -> None:
        # Runs in the writer's thread, while a worker may append to the list: later entries stay.
        for op in list(self._unsent):
            queue.give_back(conn, op, not_before_ns=0)
            self._unsent.remove(op)
        for op in list(self._runner.dangling):
            queue.retry(conn, op, not_before_ns=clock.time_ns() + wait_ns(op.attempts), error=UNFINISHED)
            self._runner.dangling.remove(op)
        if self.programs.is_hurried:
            op_rows.end_settling(conn, now_ns=clock.time_ns())

    async def _pass(self, send: "trio.MemorySendChannel[Job]") -> int:
        """Go through the due operations once, in order; return how many were handed to a worker.

        The pass is short: operations that were not ready are checked again, however many were added since.
        """
        sent = after = looked_at = 0
        end = trio.current_time() + PASS_SECONDS
        page: list[ops.Op] = []
        due = functools.partial(queue.candidates, self._context.db, trees=self._context.profile.known_trees)
        while page := page or due(now_ns=clock.time_ns(), after=after):
            looked_at += len(page)
            if self._is_for_small and looked_at > LOOKED_AT_FOR_SMALL:
                break
            jobs = await self._claim(page)
            after = jobs[-1].task.op.seq if jobs else page[-1].seq
            page = [op for op in page if op.seq > after]
            if jobs:
                sent += await self._hand_over(send, jobs)
                await self._context.health.reachable()
                if self._context.guard.is_holding:
                    break
                if trio.current_time() > end:
                    self.wake()
                    break
        return sent

    async def _hand_over(self, send: "trio.MemorySendChannel[Job]", jobs: list[Job]) -> int:
        """Hand jobs to workers while there is a connection; return how many.  The others are put back."""
        left = deque(jobs)
        try:
            if small := [job.task for job in jobs if job.is_small]:
                await uploads.seal_ahead(self._context, small)
            while left and self._context.health.may_work and not self._context.guard.is_holding:
                if not self._has_worker(left[0]):
                    await self._moved.wait()
                    continue
                self._runner.take(left[0])
                await send.send(left[0])
                left.popleft()
                # While a program changes things it has priority: one operation at a time, with pauses.
                while self.programs.are_active and self._runner.running:
                    with trio.move_on_after(PAUSE_SECONDS):
                        await self._moved.wait()
        finally:
            # However this ends early: these are not in flight.
            self._unsent += [job.task.op for job in left]
        if self._unsent:
            await self._context.db.write(self._prepare)
            self._moved.pulse()
        return len(jobs) - len(left)

    def _has_worker(self, job: Job) -> bool:
        """Whether a worker can take the job now; small and other jobs have separate slots."""
        if not self._small_workers:
            return self._runner.running < self._workers
        return self._runner.small < self._small_workers if job.is_small else not self._is_for_small

    @property
    def _is_for_small(self) -> bool:
        """Whether only small files can be sent now: other jobs would block small ones behind them."""
        return self._small_workers > 0 and self._runner.running - self._runner.small >= self._workers

    async def _claim(self, page: list[ops.Op]) -> list[Job]:
        """Return the first of these that is ready, and the small ones after it.

        A file that becomes busy later is noticed when it is sealed.
        """
        waits_from = LARGE_BYTES if self._runner.large >= max(1, self._workers // 2) else math.inf
        if self._is_for_small:
            page, waits_from = [op for op in page if op.kind is OpKind.UPLOAD], sealing.SMALL + 1
        trees = self._context.profile.known_trees
        most = 1 if self.programs.are_active else CLAIMED_AT_ONCE

        def is_busy(node: Node) -> bool:
            is_open = node.ino in self._context.drafts.busy and not self._context.goes_as_it_is(node)
            return is_open or node.size >= waits_from

        def txn(conn: Connection) -> tuple[list[Job], list[Ino], bool]:
            jobs: list[Job] = []
            pointless: list[Ino] = []
            look_again = False
            for op in page:
                if (task := queue.claim(conn, op.seq, busy=is_busy, trees=trees)) is not None:
                    jobs.append(job_of(task, PERFORM[op.kind]))
                    if len(jobs) >= most or not jobs[-1].is_small:
                        break
                elif op.kind is OpKind.TRASH and (tried := queue.attempts(conn, op.seq)) != op.attempts:
                    pointless += [op.ino] if tried is None else []
                    # The contents of that folder are sent item by item, and have been skipped so far.
                    look_again |= tried is not None
            return jobs, pointless, look_again

        jobs, pointless, look_again = await self._context.db.write(txn)
        for ino in pointless:
            self._context.ended(ino)
        if look_again:
            self.wake()
        if jobs:
            crashpoints.reached(Point.OP_CLAIMED)
        return jobs

    async def _follow_health(self) -> None:
        """Retry operations that failed for lack of a connection as soon as there is one."""
        while True:
            await self._context.health.changed()
            if self._context.health.is_online:
                await self._context.db.write(lambda conn: op_rows.end_waiting(conn, now_ns=clock.time_ns()))
                self.wake()

    def _notify_ended(self) -> None:
        """Notify waiters that an operation has ended."""
        self._moved.pulse()
        self.wake()
