"""Waking tasks again and again, where a `trio.Event` does it once."""

from collections.abc import Callable

import trio


class Signal:
    """An event that can be set again, for tasks of one loop.

    Two ways to use it:

    - `set` and `clear`: something is to be done, or is so, until whoever deals with it clears the signal.
      Clear before looking at the work: what comes meanwhile sets it again.
    - `pulse`: something has changed.  Whoever waits goes on and looks; nobody else hears of it.

    No wake-up is lost: a task that waited when it was set or pulsed goes on, also where it is cleared before
    that task runs; and clearing what is not set leaves those who wait where they are.
    """

    __slots__ = ("_event", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._event = trio.Event()
        # How many tasks wait: most pulses wake nobody.
        self._waiting = 0
        if is_set:
            self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Let those who wait go on, and those who come, until it is cleared."""
        self._event.set()

    def clear(self) -> None:
        """Have those who come from now on wait."""
        if self._event.is_set():
            self._event = trio.Event()

    def pulse(self) -> None:
        """Let those who wait now go on, and nobody else.  One that is set stays so."""
        if self._waiting and not self._event.is_set():
            self._event.set()
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait until it is set or pulsed; a checkpoint in any case."""
        self._waiting += 1
        try:
            await self._event.wait()
        finally:
            self._waiting -= 1


class Taken:
    """`async with Taken(lock)`: as `async with lock`, but no checkpoint where nobody has the lock."""

    __slots__ = ("_lock",)

    def __init__(self, lock: trio.Lock) -> None:
        self._lock = lock

    async def __aenter__(self) -> None:
        try:
            self._lock.acquire_nowait()
        except trio.WouldBlock:
            await self._lock.acquire()

    async def __aexit__(self, *raised: object) -> None:
        self._lock.release()


class Wakes:
    """Sets several signals as one."""

    def __init__(self, *set_signals: Callable[[], None]) -> None:
        self._set_signals = set_signals

    def wake(self) -> None:
        for set_signal in self._set_signals:
            set_signal()
