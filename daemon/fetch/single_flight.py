"""Single flight: one task for any number of waiters.

The task runs in a separate nursery, so a waiter that gives up does not affect the others.  Waiters can wait
for parts of the work (`moved`); its end, successful or not, wakes all of them.

Rule: a timeout is time without progress; work that progresses is worth waiting for.
"""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from cmsfs.vfs import errno_map
from daemon.core.request_scheduler import Priority, RequestContext

STOPPING = "the daemon is shutting down"

# After this time without progress, check whether the service is reachable at all.
DOUBT_SECONDS = 3.0

# A reader's request has been sent this long after it was made.  What the daemon does before that delays it.
SENT_SECONDS = 0.002


@dataclass(eq=False, kw_only=True)
class Work(RequestContext):
    """A task in flight, with the priority of its requests; the task calls `progressed`, and `grown` is set
    when it turns out to take long."""

    on: Priority = Priority.INTERACTIVE
    urgent: bool = True
    queue: trio.CapacityLimiter | None = None  # the limiter while it is not urgent
    pinned: bool = False  # for a pinned content
    at: float = field(default_factory=trio.current_time, init=False)
    taken_over: bool = field(default=False, init=False)  # began as read-ahead, now has a waiter
    answered: bool = field(default=False, init=False)  # the response has begun
    grown: trio.Event = field(default_factory=trio.Event, init=False)
    ended: bool = field(default=False, init=False)
    error: OSError | None = field(default=None, init=False)
    _waiters: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot, init=False)
    _abandoned: bool = field(default=False, init=False)
    _queueing: trio.CancelScope = field(default_factory=trio.CancelScope, init=False)

    def progressed(self) -> None:
        self.at = trio.current_time()

    def hurry(self, on: Priority = Priority.INTERACTIVE) -> None:
        """Make the task urgent: it leaves the background queue if it is still queued."""
        super().hurry(on)
        if not self.urgent:
            self.urgent = self.taken_over = True
            self.progressed()
            self._queueing.cancel()

    def abandon(self) -> None:
        """Drop the task if nobody waits for it and it has not begun."""
        if not self.urgent:
            self._abandoned = True
            self._queueing.cancel()

    async def admitted(self, urgent: trio.CapacityLimiter) -> trio.CapacityLimiter:
        """Take a slot of the right limiter, and return the limiter, which the caller releases on behalf of
        the task; changes the queue if the task becomes urgent meanwhile.

        Raises OSError (ECANCELED) if the task was abandoned.
        """
        limiter = urgent
        if self._abandoned and not self.urgent:
            raise errno_map.oserror(errno.ECANCELED)
        if not self.urgent and self.queue is not None:
            with self._queueing:
                await self._take_slot(self.queue)
                limiter = self.queue
            if limiter is urgent and not self.urgent:
                raise errno_map.oserror(errno.ECANCELED)
        if limiter is urgent:
            await self._take_slot(urgent)
        self.progressed()
        return limiter

    async def _take_slot(self, limiter: trio.CapacityLimiter) -> None:
        try:
            limiter.acquire_on_behalf_of_nowait(self)  # no checkpoint if one is free
        except trio.WouldBlock:
            await limiter.acquire_on_behalf_of(self)

    def moved(self) -> bool:
        """Wake waiters after another part is available; return whether there were any."""
        return bool(self._waiters.unpark_all())

    def end(self, error: OSError | None = None) -> None:
        """Mark the task as finished or failed."""
        if not self.ended:
            self.ended, self.error = True, error
            self._waiters.unpark_all()

    async def wait(
        self,
        seconds: float,
        doubt: Callable[[], None],
        *,
        until: Callable[[], bool] = lambda: False,
        meanwhile: Callable[[], None] | None = None,
    ) -> None:
        """Return when the task has ended or `until` is true; raise the task's error, or `TimeoutError` after
        `seconds` without progress.  `doubt` is called after a while without progress, and `meanwhile` before
        that, `SENT_SECONDS` after the call if the wait lasts so long.
        Cancelled: the task continues."""
        came = trio.current_time()
        if meanwhile is not None and not (until() or self.ended):
            with trio.move_on_at(came + SENT_SECONDS) as sending:
                while not (until() or self.ended):
                    await self._waiters.park()
            if sending.cancelled_caught:
                meanwhile()
        patience = min(DOUBT_SECONDS, seconds)
        while not (until() or self.ended):
            last = max(came, self.at)
            with trio.move_on_at(last + patience) as silence:
                await self._waiters.park()
            if not silence.cancelled_caught or max(came, self.at) > last:
                patience = min(DOUBT_SECONDS, seconds)
            elif patience >= seconds:
                raise errno_map.oserror(errno.ETIMEDOUT, f"no progress for {seconds:g} s")
            else:
                doubt()
                patience = seconds
        if self.error is not None and not until():
            # A new object for every waiter: raising one adds to its traceback.
            raise OSError(self.error.errno, self.error.strerror, self.error.filename)

    async def wait_unless_grown(self, seconds: float, doubt: Callable[[], None]) -> None:
        """Like `wait`, but returns also when the task turns out to take long."""
        failure: OSError | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self.grown.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                await self.wait(seconds, doubt)
            except OSError as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
