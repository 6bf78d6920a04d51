"""Telling systemd how the daemon is: ready, what it does, alive, stopping (sd_notify(3)).

One datagram a message, by hand.  Without `NOTIFY_SOCKET` nothing is sent.

Rule: `WATCHDOG=1` comes from the event loop, so that a loop that hangs is noticed.
"""

import os
import socket

import trio

from daemon.health import Health


class Watchdog:
    """Sends messages to the manager that started us, if it wants any."""

    def __init__(self) -> None:
        self._address = os.environ.get("NOTIFY_SOCKET", "")
        wanted = os.environ.get("WATCHDOG_USEC", "")
        mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # Half the time, as sd_watchdog_enabled(3) advises.
        self._interval = int(wanted) / 2_000_000 if wanted.isdigit() and mine else None

    def notify(self, **fields: object) -> None:
        """Send one message; a manager that does not listen is no failure of ours."""
        if not self._address:
            return
        # A leading @ stands for the NUL of an abstract address.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        message = "\n".join(f"{key}={value}" for key, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.sendto(message.encode(), address)
        except OSError:
            pass

    def ready(self) -> None:
        self.notify(READY=1, STATUS="mounted")

    def stopping(self, seconds: float) -> None:
        """We are on our way out, which may take so long."""
        self.notify(STOPPING=1, STATUS="uploading what is left", EXTEND_TIMEOUT_USEC=int(seconds * 10**6))

    async def run(self, health: Health) -> None:
        """Keep the manager informed, for ever."""
        told = ""
        while True:
            if self._interval is not None:
                self.notify(WATCHDOG=1)
            if told != (state := f"{health.state} {health.reason}".strip()):
                self.notify(STATUS=state)
                told = state
            with trio.move_on_after(self._interval or 3600):
                await health.changed()
