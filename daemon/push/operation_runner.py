"""Workers: each carries out one claimed operation at a time and makes sure that it ends: done, put back for
later, or held.

Rule: a failing operation blocks no other and is never lost, whatever was raised.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from cmsfs import errors, logs
from cmsfs.client.transport import wire
from cmsfs.journal import ops, queue, sealing
from cmsfs.journal.ops import OpKind
from cmsfs.replica import tree
from cmsfs.replica.rows import in_flight, op_rows
from cmsfs.runtime import clock
from daemon.push import error_policy, inflight_recovery, loop_detector
from daemon.push.context import PushContext, wait_ns

log = logging.getLogger(__name__)

Perform = Callable[[PushContext, queue.Task], Awaitable[None]]

# Uploads of files from this size use at most half of the workers, so that a small file is uploaded quickly
# during a backup.
LARGE_BYTES = 8 * 1024 * 1024

# What a person is told of what has been sent.
_TOLD = {
    OpKind.UPLOAD: "uploaded",
    OpKind.MKDIR: "created",
    OpKind.MOVE: "renamed",
    OpKind.TRASH: "deleted",
}

# Number of uploaded contents moved to the cache at a time.
RELEASED_AT_ONCE = 32


@dataclass(frozen=True, slots=True)
class Job:
    """A claimed operation and its function; for an upload, whether it is of `LARGE_BYTES`, or small enough to
    be sealed with others."""

    task: queue.Task
    perform: Perform
    is_small: bool = False
    is_large: bool = False


def job_of(task: queue.Task, perform: Perform) -> Job:
    if task.op.kind is not OpKind.UPLOAD:
        return Job(task, perform)
    size = task.node.size
    return Job(task, perform, is_small=size <= sealing.SMALL, is_large=size >= LARGE_BYTES)


class OperationRunner:
    """Runs operations; `running`, `small` and `large` count those handed to a worker, `dangling` are those
    whose end could not be written (a full disk).

    `ended` is called after each.
    """

    def __init__(self, context: PushContext, ended: Callable[[], None]) -> None:
        self._context = context
        self._ended = ended
        self._rounds: loop_detector.Rounds = {}
        self.running = self.small = self.large = 0
        self.dangling: list[ops.Op] = []

    def take(self, job: Job) -> None:
        """Count a job that is about to be handed to a worker."""
        self.running += 1
        self.small += job.is_small
        self.large += job.is_large

    async def work(self, receive: "trio.MemoryReceiveChannel[Job]") -> None:
        """Run as a worker, forever."""
        async with receive:
            with wire.applying_answers():
                async for job in receive:
                    op = job.task.op
                    try:
                        with logs.context(op=op.kind, ino=op.ino):
                            await self._carry_out(job)
                    except Exception:
                        log.exception("unexpected error in an operation; it will be retried")
                        self.dangling.append(op)
                    self.running -= 1
                    self.small -= job.is_small
                    self.large -= job.is_large
                    released = self._context.released
                    if released and (not self.running or len(released) >= RELEASED_AT_ONCE):
                        await self._release()
                    self._ended()

    async def _carry_out(self, job: Job) -> None:
        op, context = job.task.op, self._context
        try:
            await job.perform(context, job.task)
            # No failure; but an operation that keeps coming back at once backs off as after one.
            if (after := queue.find(context.db, op.seq)) is None:
                self._rounds.pop(op.seq, None)
                context.reconsidered.pop(op.seq, None)
                context.untold.pop(op.seq, None)
                if (what := _TOLD.get(op.kind)) is not None:
                    size = job.task.node.size if op.kind is OpKind.UPLOAD else 0
                    context.remote_updates.happenings.sent(what, op.ino, size=size)
            elif loop_detector.is_circling(self._rounds, op, after, now_ns=clock.time_ns()):
                await self._back_off(op)
        except inflight_recovery.HasItem:
            # If the operation is still there, it looks again.
            await context.db.write(lambda conn: queue.give_back(conn, op, not_before_ns=0))
        except (errors.CmsfsError, OSError) as error:
            await self._failed(job.task, error)
        if waiting := context.blocked.pop(job.task.node.remote_id or "", None):
            # Its place may be free now.
            await context.db.write(lambda conn: op_rows.end_waiting_of(conn, waiting, now_ns=clock.time_ns()))
        context.sealed.pop(op.ino, None)
        if (noted := context.noted.pop(op.ino, None)) is not None:
            # It was recorded in advance but not sent.
            await context.db.write(lambda conn: in_flight.not_sent(conn, noted))
        node = tree.find(context.db, op.ino)
        if node is None or node.parent is None:
            context.ended(op.ino)

    async def _release(self) -> None:
        """Let uploaded contents be evicted."""
        released = list(self._context.released)
        self._context.released.clear()
        try:
            await self._context.blocks.settle_clean(*released)
        except Exception:
            log.exception("uploaded files could not be moved to the cache; the next start does it")

    async def _back_off(self, op: ops.Op) -> None:
        not_before = clock.time_ns() + wait_ns(op.attempts)
        await self._context.db.write(
            lambda conn: queue.retry(conn, op, not_before_ns=not_before, error=f"{loop_detector.REASON}.")
        )
        log.info("a change makes no progress; backing off")

    async def _failed(self, task: queue.Task, error: errors.CmsfsError | OSError) -> None:
        op = task.op
        if isinstance(error, errors.ApiError) and error.code == error_policy.FULL:
            self._context.full()
        verdict = error_policy.verdict_for(error, op.attempts)
        delay = verdict.wait_ns
        if delay is None:
            await self._context.db.write(lambda conn: queue.hold(conn, op, error=verdict.reason))
            path = tree.path(self._context.db, op.ino)
            self._context.remote_updates.happenings.note("refused", path, more=verdict.reason)
            log.warning(
                "the service rejected a change, which is kept locally; see `cmsfs conflicts`: %s",
                verdict.reason,
            )
            return
        not_before = clock.time_ns() + delay
        await self._context.db.write(
            lambda conn: queue.retry_task(conn, task, not_before_ns=not_before, error=verdict.reason)
        )
        log.info("a change could not be uploaded; retrying in %.0f s: %s", delay / 10**9, verdict.reason)
