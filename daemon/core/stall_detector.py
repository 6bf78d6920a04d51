"""Detects request loops that make no progress, slows them down and names them in the log.

A loop tells its governor of each round, whether it got on.  Rounds that do not are let go a few times at
once, since most of what fails fails once, and then ever more seldom; never more than one a second on average.

Rule: what has made no progress for a minute is told by name, with what helps.
"""

from dataclasses import dataclass

import trio

# Rounds without progress that go at once.
FREE_ROUNDS = 2
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 60.0

# How long without progress until a person is told.
TOLD_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Stall:
    """A loop that makes no progress."""

    name: str
    seconds: float
    reason: str


class StallDetector:
    """Watches one loop."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._rounds = 0
        self._since = trio.current_time()
        self._reason = ""

    def progressed(self) -> None:
        """The last round brought something, or there was nothing to do."""
        self._rounds = 0

    def stood_still(self, reason: str) -> float:
        """The last round brought nothing; how long to rest before the next one."""
        if not self._rounds:
            self._since = trio.current_time()
        self._rounds += 1
        self._reason = reason
        if self._rounds <= FREE_ROUNDS:
            return 0.0
        return min(FIRST_REST_SECONDS * 2.0 ** min(self._rounds - FREE_ROUNDS - 1, 16), LONGEST_REST_SECONDS)

    @property
    def stalled(self) -> Stall | None:
        """What to tell, if it has lasted."""
        lasted = trio.current_time() - self._since
        if not self._rounds or lasted < TOLD_SECONDS:
            return None
        return Stall(self.name, lasted, self._reason)
