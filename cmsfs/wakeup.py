"""Reusable wake-up signals: a `trio.Event` can be set only once."""

from collections.abc import Callable

import trio


class Signal:
    """An event that can be set again, for tasks of one loop.

    Two ways to use it:

    - `set` and `clear`: work is pending, or a condition holds, until the consumer clears the signal.  Clear
      it before looking for work: work that arrives meanwhile sets it again.
    - `pulse`: something has changed.  Tasks that are waiting now wake and look; later waiters do not.

    No wake-up is lost: a task that was waiting when the signal was set or pulsed wakes even if the signal is
    cleared before that task runs.  Clearing a signal that is not set does not affect its waiters.
    """

    __slots__ = ("_event", "_waiting")

    def __init__(self, *, is_set: bool = False) -> None:
        self._event = trio.Event()
        # Number of waiting tasks: most pulses wake nobody.
        self._waiting = 0
        if is_set:
            self._event.set()

    @property
    def is_set(self) -> bool:
        return self._event.is_set()

    def set(self) -> None:
        """Wake all waiters; `wait` returns at once until the signal is cleared."""
        self._event.set()

    def clear(self) -> None:
        """Make later calls of `wait` block again."""
        if self._event.is_set():
            self._event = trio.Event()

    def pulse(self) -> None:
        """Wake the current waiters only.  A signal that is set stays set."""
        if self._waiting and not self._event.is_set():
            self._event.set()
            self._event = trio.Event()

    async def wait(self) -> None:
        """Wait until the signal is set or pulsed.  Always a checkpoint."""
        self._waiting += 1
        try:
            await self._event.wait()
        finally:
            self._waiting -= 1


class LockGuard:
    """`async with LockGuard(lock)`: like `async with lock`, but without a checkpoint if the lock is free."""

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


class SignalGroup:
    """Sets several signals at once."""

    def __init__(self, *set_signals: Callable[[], None]) -> None:
        self._set_signals = set_signals

    def wake(self) -> None:
        for set_signal in self._set_signals:
            set_signal()
