"""Telling systemd how the daemon is: ready, what it does, alive, stopping.

`cmsfs.notify` sends; `cmsfs@.service` says what the manager does with it.

Rule: `WATCHDOG=1` comes from the event loop, so that a loop that hangs is noticed.
"""

import trio

from cmsfs import notify
from daemon.health import Health


class Watchdog:
    """Keeps the manager that started us informed, if there is one."""

    def __init__(self) -> None:
        self._interval = notify.watchdog_seconds()

    def ready(self) -> None:
        """The mount answers; the status line stays that of the connection."""
        notify.tell(READY=1)

    def stopping(self, seconds: float) -> None:
        """We are on our way out, which may take so long."""
        notify.tell(STOPPING=1, STATUS="uploading what is left", EXTEND_TIMEOUT_USEC=int(seconds * 10**6))

    async def run(self, health: Health) -> None:
        """Keep the manager informed, for ever."""
        told = ""
        while True:
            if self._interval is not None:
                notify.tell(WATCHDOG=1)
            if told != (state := f"{health.state} {health.reason}".strip()):
                notify.tell(STATUS=state)
                told = state
            with trio.move_on_after(self._interval or 3600):
                await health.changed()
