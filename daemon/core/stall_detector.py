"""Detects request loops that make no progress, slows them down and names them in the log.

A loop reports to its detector whether each round made progress.  A few rounds without progress continue at
once, since most failures are transient, then with growing pauses; at most one round a second on average.

Rule: a loop without progress for a minute is reported by name, with advice.
"""

from dataclasses import dataclass

import trio

# Rounds without progress that continue at once.
FREE_ROUNDS = 2
FIRST_REST_SECONDS = 2.0
LONGEST_REST_SECONDS = 60.0

# Time without progress until the user is told.
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
        """Record that the last round made progress, or that there was nothing to do."""
        self._rounds = 0

    def stood_still(self, reason: str) -> float:
        """Record a round without progress; return the pause before the next one."""
        if not self._rounds:
            self._since = trio.current_time()
        self._rounds += 1
        self._reason = reason
        if self._rounds <= FREE_ROUNDS:
            return 0.0
        return min(FIRST_REST_SECONDS * 2.0 ** min(self._rounds - FREE_ROUNDS - 1, 16), LONGEST_REST_SECONDS)

    @property
    def stalled(self) -> Stall | None:
        """Return the stall to report, if it has lasted long enough."""
        lasted = trio.current_time() - self._since
        if not self._rounds or lasted < TOLD_SECONDS:
            return None
        return Stall(self.name, lasted, self._reason)
