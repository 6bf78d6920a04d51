"""Reports the daemon's state to systemd: ready, status, watchdog, stopping.

`cmsfs.sd_notify` sends; `cmsfs@.service` says what the manager does with it.

Rule: `WATCHDOG=1` comes from the event loop, so that a loop that hangs is noticed.
"""

from collections.abc import Mapping

import trio

from cmsfs import output, sd_notify
from cmsfs.journal import queue
from cmsfs.sqlite import Database
from daemon.core.health import Health

# The queue tells nobody that it has changed, and counting it is one read of an index.
COUNT_SECONDS = 5.0


class SystemdNotifier:
    """Notifies the service manager that started us, if there is one."""

    def __init__(self) -> None:
        self._interval = sd_notify.watchdog_seconds()

    def ready(self) -> None:
        """The mount answers; the status line stays that of the connection."""
        sd_notify.notify(READY=1)

    def stopping(self, seconds: float) -> None:
        """We are on our way out, which may take so long."""
        sd_notify.notify(
            STOPPING=1, STATUS="uploading pending changes", EXTEND_TIMEOUT_USEC=int(seconds * 10**6)
        )

    async def run(self, health: Health, db: Database) -> None:
        """Keep the manager informed, for ever; returns at once if nobody listens."""
        told, seconds = "", min(self._interval or COUNT_SECONDS, COUNT_SECONDS)
        while sd_notify.is_enabled():
            if self._interval is not None:
                sd_notify.notify(WATCHDOG=1)
            if told != (line := status_line(health, queue.counts(db))):
                sd_notify.notify(STATUS=line)
                told = line
            with trio.move_on_after(seconds):
                await health.changed()


def status_line(health: Health, counts: Mapping[str, int]) -> str:
    """The connection, what is on its way, what is the matter: `offline, 2 changes to upload: The...`"""
    words = [str(health.state)]
    if pending := counts.get("ready", 0) + counts.get("running", 0):
        words.append(f"{output.plural(pending, 'change')} to upload")
    if held := counts.get("held", 0):
        words.append(f"{held:,} held")
    return ", ".join(words) + (f": {health.reason}" if health.reason else "")
