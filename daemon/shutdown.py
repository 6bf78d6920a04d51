"""Requests a shutdown of the daemon, or that it hands the drive over, and tracks its progress."""

import signal
from collections.abc import Awaitable, Callable

import trio

from cmsfs import errors
from cmsfs.wakeup import Signal


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


class Upgrading:
    """The wish that the version installed now serves the drive, and what becomes of it."""

    def __init__(self) -> None:
        self._wanted = Signal()
        self._tried = Signal()
        self._failure: Exception | None = None
        self._is_possible = False

    async def ask(self) -> None:
        """Return when there is no way back.  Raises `UserError`: the drive goes on as it is."""
        if not self._is_possible:
            raise errors.UserError("The drive is starting or stopping; try again in a moment.")
        self._wanted.set()
        await self._tried.wait()
        if self._failure is not None:
            raise self._failure

    async def run(self, try_it: Callable[[], Awaitable[None]]) -> None:
        """Try it whenever somebody asks, and return when it has been done."""
        self._is_possible = True
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                self._failure = None
                try:
                    await try_it()
                except (errors.CmsfsError, OSError) as error:
                    self._failure = error
                finally:
                    # Who has asked meanwhile is answered by this one, too.
                    self._wanted.clear()
                    self._tried.pulse()
                if self._failure is None:
                    return
        finally:
            self._is_possible = False
