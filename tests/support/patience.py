"""Limits of tests that count what a test could have done: on a machine with much else to do, time is longer.

A second counts in full while each process that wants a processor has one; with twice as many as there are
processors it counts half.  So a test that hangs ends, and one that is only slow does not.
"""

import os
import time
from collections.abc import Callable


def crowding() -> float:
    """How many share a processor, over the last minute; 1 at least."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def until(what: Callable[[], object], seconds: float = 20.0, told: str = "") -> None:
    """Look again and again, for so many seconds (`Patience`).  Raises AssertionError."""
    patience = Patience(seconds)
    while not what():
        assert patience.left(), f"{told or 'it did not come'}: {patience}"
        time.sleep(0.01)


class Patience:
    """So many seconds, from now on."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._counted = 0.0
        self._began = self._looked = time.monotonic()

    def left(self) -> float:
        """Seconds until it is worth while to look again; 0 if they are used up."""
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
