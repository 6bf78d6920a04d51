"""Listings in the background stand aside while a program waits for one of its own, and a moment longer.

Two enumerations of one tree take the same processors and the same line, and whoever waits would pay for the
one that nobody waits for.  A program that walks reads what has come after the listing has ended, too.

Rule: what somebody waits for never waits here, and what nobody waits for gets on all the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from cmsfs.wakeup import Signal
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority

# After a listing comes a rest as long as that took, but no longer than this.
CALM_SECONDS = 2.0

# Where one listing follows the other, the background takes a page so often.
MOST_SECONDS = 5.0


class Foreground:
    """The listings that somebody waits for."""

    def __init__(self) -> None:
        self._count = 0
        self._free = Signal()
        self._calm_at = float("-inf")

    @contextmanager
    def listing(self) -> Iterator[None]:
        """While a folder is listed here; for nobody who waits, nothing is held up by it."""
        if request_scheduler.current() >= Priority.LISTING:
            yield
            return
        self._count += 1
        began = trio.current_time()
        try:
            yield
        finally:
            self._count -= 1
            now = trio.current_time()
            self._calm_at = max(self._calm_at, now + min(now - began, CALM_SECONDS))
            if not self._count:
                self._free.pulse()

    async def calm(self) -> bool:
        """Return when nobody waits for a listing, nor has just now; whether that took waiting."""
        if not self._count and trio.current_time() >= self._calm_at:
            return False
        if self._count:
            await self._free.wait()
        end = trio.current_time() + MOST_SECONDS
        while self._count or trio.current_time() < self._calm_at:
            with trio.move_on_at(end) as late:
                if self._count:
                    await self._free.wait()
                else:
                    await trio.sleep_until(self._calm_at)
            if late.cancelled_caught:
                break
        return True
