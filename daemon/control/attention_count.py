"""Counts the items that need the user's attention; cached, since it takes several queries."""

from collections.abc import Awaitable, Callable

import trio

from cmsfs.ipc import control

COUNT_SECONDS = 15.0


class AttentionCount:
    """The cached count, with its time."""

    def __init__(self, conflicts: Callable[[], Awaitable[control.Conflicts]]) -> None:
        self._conflicts = conflicts
        self._count = 0
        self._held = 0
        self._at = float("-inf")

    async def value(self, held: int) -> int:
        """Return the count; a changed number `held` of rejected operations invalidates the cache."""
        now = trio.current_time()
        if held != self._held or now - self._at > COUNT_SECONDS:
            self._held, self._at = held, now
            self._count = count(await self._conflicts())
        return self._count


def count(waiting: control.Conflicts) -> int:
    """Return the number of items that need attention: rejected and failing changes, conflict copies,
    recovered files, offers, the question of the guard."""
    offered = sum(not one.declined for one in waiting.offers)
    refused = len(waiting.held) + len(waiting.stuck)
    found = len(waiting.copies) + len(waiting.recovered)
    return refused + found + offered + (waiting.missing is not None) + (waiting.guard is not None)
