"""The store's clock: microseconds since 1970, strictly increasing."""

import threading

from cmsfs.runtime import clock


class StoreClock:
    """Strictly increasing timestamps; across processes too, if each observes the timestamps of the others."""

    def __init__(self) -> None:
        self.last = 0
        self._guard = threading.Lock()

    def now(self) -> int:
        """The current time, later than every timestamp returned or observed before."""
        with self._guard:
            self.last = max(self.last + 1, clock.time_ns() // 1000)
            return self.last

    def observe(self, moment: int) -> None:
        """Take note of a timestamp that another process has used."""
        with self._guard:
            self.last = max(self.last, moment)
