"""Single flight: one piece of work for any number of waiters.

The work runs in a nursery of its own, so a waiter that gives up takes nothing from the others.  What comes
part by part (`moved`) is waited for by parts; the end, well or with an error, ends all waiting.

Rule: a deadline is time without progress; work that gets on is worth waiting for.
"""

import errno
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import trio

from cmsfs.vfs import errno_map
from daemon.core.request_scheduler import Priority, RequestContext

# Silence of the network for so long is worth a question whether it is there at all.
DOUBT_SECONDS = 3.0


@dataclass(eq=False, kw_only=True)
class Work(RequestContext):
    """Something under way at the service, for which its requests are made; `progressed` is called by whoever
    does it, and `grown` is set when it turns out to be long."""

    on: Priority = Priority.INTERACTIVE
    urgent: bool = True
    queue: trio.CapacityLimiter | None = None  # while it is not urgent
    pinned: bool = False  # for a content that is kept here
    at: float = field(default_factory=trio.current_time, init=False)
    taken_over: bool = field(default=False, init=False)  # began as what nobody waits for
    answered: bool = field(default=False, init=False)  # the service has begun to answer the request
    grown: trio.Event = field(default_factory=trio.Event, init=False)
    ended: bool = field(default=False, init=False)
    error: OSError | None = field(default=None, init=False)
    _waiters: trio.lowlevel.ParkingLot = field(default_factory=trio.lowlevel.ParkingLot, init=False)
    _abandoned: bool = field(default=False, init=False)
    _queueing: trio.CancelScope = field(default_factory=trio.CancelScope, init=False)

    def progressed(self) -> None:
        self.at = trio.current_time()

    def hurry(self, on: Priority = Priority.INTERACTIVE) -> None:
        """Somebody waits for it now: if it is still queueing in the background, it need not any longer."""
        super().hurry(on)
        if not self.urgent:
            self.urgent = self.taken_over = True
            self.progressed()
            self._queueing.cancel()

    def abandon(self) -> None:
        """It is not wanted any more: nothing happens if somebody waits for it, or it has begun."""
        if not self.urgent:
            self._abandoned = True
            self._queueing.cancel()

    @asynccontextmanager
    async def admitted(self, urgent: trio.CapacityLimiter) -> AsyncIterator[None]:
        """With a slot of the limiter that fits; the queue is changed if it becomes urgent meanwhile.

        Raises OSError with ECANCELED if it was abandoned.
        """
        limiter = urgent
        if self._abandoned and not self.urgent:
            raise errno_map.oserror(errno.ECANCELED)
        if not self.urgent and self.queue is not None:
            with self._queueing:
                await self.queue.acquire_on_behalf_of(self)
                limiter = self.queue
            if limiter is urgent and not self.urgent:
                raise errno_map.oserror(errno.ECANCELED)
        if limiter is urgent:
            await urgent.acquire_on_behalf_of(self)
        try:
            self.progressed()
            yield
        finally:
            limiter.release_on_behalf_of(self)

    def moved(self) -> None:
        """Another part of it is there."""
        self._waiters.unpark_all()

    def end(self, error: OSError | None = None) -> None:
        """It is done, or will not be."""
        if not self.ended:
            self.ended, self.error = True, error
            self._waiters.unpark_all()

    async def wait(
        self, seconds: float, doubt: Callable[[], None], *, until: Callable[[], bool] = lambda: False
    ) -> None:
        """Return when it has ended, or when so much of it is there; raise what it ended with, or
        `TimeoutError` after `seconds` without progress.  `doubt` is called when there was none for a while.
        Cancelled: the work goes on."""
        came = trio.current_time()
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
            # A new object for every waiter: a traceback grows on the one that is raised.
            raise OSError(self.error.errno, self.error.strerror, self.error.filename)

    async def wait_unless_grown(self, seconds: float, doubt: Callable[[], None]) -> None:
        """As `wait`; returns too when the work is going to take long."""
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
