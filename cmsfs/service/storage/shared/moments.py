"""Moments: microseconds since 1970, each later than every one before."""

import threading

from cmsfs.runtime import clock


class Moments:
    """The clock of a store.  Processes that tell each other what they gave have one clock together."""

    def __init__(self) -> None:
        self.last = 0
        self._guard = threading.Lock()

    def now(self) -> int:
        """This moment, later than every moment given or heard of before."""
        with self._guard:
            self.last = max(self.last + 1, clock.time_ns() // 1000)
            return self.last

    def heard(self, moment: int) -> None:
        """Another process has given this one."""
        with self._guard:
            self.last = max(self.last, moment)
