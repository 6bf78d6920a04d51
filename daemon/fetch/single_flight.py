"""Single flight: one piece of work for any number of waiters.

The work runs in a nursery of its own, so a waiter that gives up takes nothing from the others.

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


@dataclass(eq=False, slots=True)
class Demand:
    """One thing that is waited for; `met` ends the waiting, well or with an error."""

    work: Work
    error: OSError | None = field(default=None, init=False)
    _done: trio.Event = field(default_factory=trio.Event, init=False)

    def met(self, error: OSError | None = None) -> None:
        if not self._done.is_set():
            self.error = error
            self._done.set()

    async def wait(self, seconds: float, doubt: Callable[[], None]) -> None:
        """Return when it is met; raise what it ended with, or `TimeoutError` after `seconds` without
        progress of the work.  `doubt` is called when there was none for a while.  Cancelled: the work goes
        on."""
        came = trio.current_time()
        patience = min(DOUBT_SECONDS, seconds)
        while not self._done.is_set():
            last = max(came, self.work.at)
            with trio.move_on_at(last + patience):
                await self._done.wait()
            if self._done.is_set() or max(came, self.work.at) > last:
                patience = min(DOUBT_SECONDS, seconds)
            elif patience >= seconds:
                raise errno_map.oserror(errno.ETIMEDOUT, f"no progress for {seconds:g} s")
            else:
                doubt()
                patience = seconds
        if self.error is not None:
            # A new object for every waiter: a traceback grows on the one that is raised.
            raise OSError(self.error.errno, self.error.strerror, self.error.filename)

    async def wait_unless_grown(self, seconds: float, doubt: Callable[[], None]) -> None:
        """As `wait`; returns too when the work is going to take long."""
        failure: OSError | None = None
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                await self.work.grown.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            try:
                await self.wait(seconds, doubt)
            except OSError as error:
                failure = error
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
