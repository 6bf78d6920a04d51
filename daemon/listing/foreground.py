"""Listings in the background stand aside while a program waits for one of its own.

Two enumerations of one tree take the same processors and the same line, and whoever waits would pay for the
one that nobody waits for.

Rule: what somebody waits for never waits here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from cmsfs.wakeup import Signal
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority


class Foreground:
    """The listings that somebody waits for."""

    def __init__(self) -> None:
        self._count = 0
        self._free = Signal()

    @contextmanager
    def listing(self) -> Iterator[None]:
        """While a folder is listed here; for nobody who waits, nothing is held up by it."""
        if request_scheduler.current() >= Priority.LISTING:
            yield
            return
        self._count += 1
        try:
            yield
        finally:
            self._count -= 1
            if not self._count:
                self._free.pulse()

    async def free(self) -> None:
        """Return when nobody waits for a listing."""
        while self._count:
            await self._free.wait()
