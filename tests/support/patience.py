"""Time limits that are extended on a busy machine.

A second counts in full while there are no more runnable processes than processors; with twice as many it
counts half.  So a test that hangs is ended, but one that is only slow is not.
"""

import os
import time
from collections.abc import Callable


def crowding() -> float:
    """Return how many processes share a processor, over the last minute; at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(what: Callable[[], object], seconds: float = 20.0, told: str = "") -> None:
    """Poll until the condition holds, for so many seconds (`Patience`).  Raises AssertionError."""
    patience = Patience(seconds)
    while not what():
        assert patience.left(), f"{told or 'it did not come'}: {patience}"
        time.sleep(0.01)


class Patience:
    """A limit of so many seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counted = 0.0
        self._began = self._looked = time.monotonic()

    def left(self) -> float:
        """Return the seconds until the next check is useful; 0 if the limit is reached."""
        now = time.monotonic()
        self._counted += (now - self._looked) / crowding()
        self._looked = now
        return max(0.0, self._seconds - self._counted)

    def __str__(self) -> str:
        load, processors = os.getloadavg()[0], os.cpu_count()
        return (
            f"{self._seconds:g} s, {time.monotonic() - self._began:.0f} s by the clock,"
            f" at a load of {load:.1f} on {processors} processors"
        )
