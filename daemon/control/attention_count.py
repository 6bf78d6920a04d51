"""How much needs a person, counted now and then: it takes queries of its own."""

from collections.abc import Awaitable, Callable

import trio

from cmsfs.ipc import control

COUNT_SECONDS = 15.0


class AttentionCount:
    """The count, and when it was made."""

    def __init__(self, conflicts: Callable[[], Awaitable[control.Conflicts]]) -> None:
        self._conflicts = conflicts
        self._count = 0
        self._held = 0
        self._at = float("-inf")

    async def value(self, held: int) -> int:
        """The count; `held` of the changes are refused as of now, and others make it count anew."""
        now = trio.current_time()
        if held != self._held or now - self._at > COUNT_SECONDS:
            self._held, self._at = held, now
            self._count = count(await self._conflicts())
        return self._count


def count(waiting: control.Conflicts) -> int:
    """What waits for a person: refused and failing changes, conflict copies, recovered files, offers,
    what the guard asks."""
    offered = sum(not one.declined for one in waiting.offers)
    refused = len(waiting.held) + len(waiting.stuck)
    found = len(waiting.copies) + len(waiting.recovered)
    return refused + found + offered + (waiting.missing is not None) + (waiting.guard is not None)
