"""What somebody waits for and somebody else brings: one piece of work, any number of waiters.

The work runs in a nursery of its own, so a waiter that gives up takes nothing from the others.

Rule: a deadline is time without progress; work that gets on is worth waiting for.
"""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from cmsfs.vfs import oserrors


class Work:
    """Something under way at the service; `progressed` is called by whoever does it, and `grown` is set when
    it turns out to be long."""

    def __init__(self, *, urgent: bool = True) -> None:
        self.at = trio.current_time()
        self.urgent = urgent
        self.grown = trio.Event()
        self._queueing = trio.CancelScope()

    def progressed(self) -> None:
        self.at = trio.current_time()

    def hurry(self) -> None:
        """Somebody waits for it now: if it is still queueing in the background, it need not any longer."""
        if not self.urgent:
            self.urgent = True
            self.progressed()
            self._queueing.cancel()

    @asynccontextmanager
    async def admitted(self, urgent: trio.CapacityLimiter, idle: trio.CapacityLimiter) -> AsyncIterator[None]:
        """With a slot of the limiter that fits; the queue is changed if it becomes urgent meanwhile."""
        limiter = urgent
        if not self.urgent:
            with self._queueing:
                await idle.acquire_on_behalf_of(self)
                limiter = idle
        if limiter is urgent:
            await urgent.acquire_on_behalf_of(self)
        try:
            self.progressed()
            yield
        finally:
            limiter.release_on_behalf_of(self)


class Demand:
    """One thing that is waited for; `met` ends the waiting, well or with an error."""

    __slots__ = ("_done", "error", "work")

    def __init__(self, work: Work) -> None:
        self.work = work
        self.error: OSError | None = None
        self._done = trio.Event()

    def met(self, error: OSError | None = None) -> None:
        if not self._done.is_set():
            self.error = error
            self._done.set()

    async def wait(self, seconds: float, *, unless_grown: bool = False) -> None:
        """Return when it is met, or `unless_grown` when that is going to take long.

        Raises what it ended with, or `TimeoutError` after `seconds` without progress of the work.
        Cancelled: the work goes on.
        """
        came = trio.current_time()
        while not self._done.is_set():
            deadline = max(came, self.work.at) + seconds
            with trio.move_on_at(deadline):
                if not unless_grown:
                    await self._done.wait()
                elif await self._done_or_grown():
                    return
            if not self._done.is_set() and deadline >= max(came, self.work.at) + seconds:
                raise oserrors.oserror(errno.ETIMEDOUT, f"no progress for {seconds:g} s")
        if self.error is not None:
            # A new object for every waiter: a traceback grows on the one that is raised.
            raise OSError(self.error.errno, self.error.strerror, self.error.filename)

    async def _done_or_grown(self) -> bool:
        """Wait for either; whether the work has grown and is not done."""
        async with trio.open_nursery() as nursery:

            async def one(event: trio.Event) -> None:
                await event.wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(one, self._done)
            nursery.start_soon(one, self.work.grown)
        return not self._done.is_set()
