"""Carries out one claimed operation and sees that it ends: done, given back for later, or held.

Rule: an operation that fails stands in nobody's way and is never lost, whatever was raised.
"""

import logging
from collections.abc import Awaitable, Callable

from cmsfs import errors
from cmsfs.journal import ops, queue
from daemon.push import error_policy, inflight_recovery, loop_detector
from daemon.push.context import PushContext, wait_ns

log = logging.getLogger(__name__)

Perform = Callable[[PushContext, queue.Task], Awaitable[None]]


class OperationRunner:
    """Runs operations for the workers; `dangling`: those whose end could not be written (a full disk)."""

    def __init__(self, context: PushContext) -> None:
        self._context = context
        self._circles = loop_detector.LoopDetector()
        self.dangling: list[ops.Op] = []

    async def run(self, task: queue.Task, perform: Perform) -> None:
        try:
            try:
                await perform(self._context, task)
                await self._rest_if_circling(task.op)
            except (errors.CmsfsError, OSError) as error:
                await self._failed(task.op, error)
            await inflight_recovery.unsent(self._context, task.op.ino)
        except Exception:
            log.exception("unexpected error in an operation; it will be retried")
            self.dangling.append(task.op)

    async def release(self) -> None:
        """What the service has by now may be evicted."""
        released = list(self._context.released)
        self._context.released.clear()
        try:
            await self._context.blocks.settle_all(released)
        except Exception:
            log.exception("uploaded files could not be moved to the cache; the next start does it")

    async def _rest_if_circling(self, op: ops.Op) -> None:
        """Nothing failed; but what comes back for ever, at once, rests like what does."""
        after = next((one for one in queue.states(self._context.db, op.ino) if one.seq == op.seq), None)
        if self._circles.circles(op, after, now_ns=ops.now_ns()):
            not_before = ops.now_ns() + wait_ns(op.attempts)
            await self._context.db.write(
                lambda conn: queue.retry(conn, op, not_before_ns=not_before, error=f"{loop_detector.REASON}.")
            )
            log.info("a change makes no progress; backing off")

    async def _failed(self, op: ops.Op, error: errors.CmsfsError | OSError) -> None:
        if isinstance(error, errors.ApiError) and error.code == error_policy.FULL:
            self._context.full()
        verdict = error_policy.verdict_for(error, op.attempts)
        delay = verdict.wait_ns
        if delay is None:
            await self._context.db.write(lambda conn: queue.hold(conn, op, error=verdict.reason))
            log.warning(
                "the service rejected a change, which is kept locally; see `cmsfs conflicts`: %s",
                verdict.reason,
            )
            return
        not_before = ops.now_ns() + delay
        await self._context.db.write(
            lambda conn: queue.retry(conn, op, not_before_ns=not_before, error=verdict.reason)
        )
        log.info("a change could not be uploaded; retrying in %.0f s: %s", delay / 10**9, verdict.reason)
