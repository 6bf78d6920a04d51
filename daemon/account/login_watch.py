"""Detects a new login after the previous one was refused.

While the service refuses the login, nothing is sent, and the health's probe backs off.  A user who has just
logged in should not wait for it: every kind of login changes a file (`auth.login_files`), and that is polled.

Rule: it only triggers the probe, which determines whether the new login is valid.
"""

from pathlib import Path

import trio

from cmsfs import config
from cmsfs.auth.login_files import login_files
from daemon.core.health import Health

# Polling interval: about as long as a user who checks the status after the login should wait.
LOOK_SECONDS = 1.0

_Marks = list[tuple[int, int] | None]


class LoginWatch:
    """The agent that detects a new login."""

    def __init__(self, settings: config.Settings, health: Health) -> None:
        self._files = login_files(settings)
        self._health = health

    async def run(self) -> None:
        """Poll while the login is refused, forever."""
        while True:
            while not self._health.is_refused:
                await self._health.changed()
            await self._watch()

    async def _watch(self) -> None:
        before = self._marks()
        while self._health.is_refused:
            await trio.sleep(LOOK_SECONDS)
            if (found := self._marks()) != before:
                before = found
                self._health.suspect()

    def _marks(self) -> _Marks:
        return [_mark(path) for path in self._files]


def _mark(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns)
