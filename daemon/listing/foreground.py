"""Pauses background listings while a program waits for a listing, and shortly afterwards.

Two enumerations of one tree compete for processor time and bandwidth, at the expense of the program that
waits.  A program that walks the tree also reads the entries after its listing has ended.

Rule: foreground listings never wait here, and background listings always make some progress.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import trio

from cmsfs.wakeup import Signal
from daemon.core import request_scheduler
from daemon.core.request_scheduler import Priority

# After a listing the background pauses for as long as the listing took, at most this long.
CALM_SECONDS = 2.0

# With back-to-back listings the background reads one page this often.
MOST_SECONDS = 5.0


class Foreground:
    """Tracks the listings that a program waits for."""

    def __init__(self) -> None:
        self._count = 0
        self._free = Signal()
        self._calm_at = float("-inf")

    @contextmanager
    def listing(self) -> Iterator[None]:
        """Context of a listing of a folder; pauses the background only if a program waits for it."""
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
        """Return when the background may continue; whether it had to wait."""
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
