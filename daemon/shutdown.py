"""Requests a shutdown of the daemon, and tracks its progress."""

import signal
from collections.abc import Callable

import trio


class Shutdown:
    """One request to stop, whoever makes it first; a second one stops waiting for uploads."""

    def __init__(self, drain_seconds: float) -> None:
        self.wanted = trio.Event()
        self.done = trio.Event()
        self._drain_seconds = drain_seconds
        self._impatient = trio.Event()

    @property
    def drain_seconds(self) -> float:
        return self._drain_seconds

    def ask(self, drain_seconds: float | None = None) -> None:
        """Stop; uploads may take so long, if it is said."""
        if self.wanted.is_set():
            self._impatient.set()
            return
        if drain_seconds is not None:
            self._drain_seconds = drain_seconds
        self.wanted.set()

    async def impatient(self) -> None:
        """Wait until somebody asks once more."""
        await self._impatient.wait()

    async def heed_signals(self, hang_up: Callable[[], None]) -> None:
        """Stop on SIGTERM and SIGINT, call `hang_up` on SIGHUP, for ever."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP:
                    hang_up()
                else:
                    self.ask()
