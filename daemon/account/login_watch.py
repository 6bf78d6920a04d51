"""Detects a new login after the previous one was refused.

While the service refuses the login, nothing is sent, and the health's probe asks ever more seldom.  A person
who has just logged in does not want to wait for it: a new login leaves a changed file, whichever way it was
made (`auth.login_files`), and that is looked for.

Rule: it only has the service asked; whether the new login is good, the probe says.
"""

from pathlib import Path

import trio

from cmsfs import config
from cmsfs.auth.login_files import login_files
from daemon.core.health import Health

# As long as a person who looks at the status after the login may have to wait, nearly.
LOOK_SECONDS = 1.0

_Marks = list[tuple[int, int] | None]


class LoginWatch:
    """The agent that notices a new login."""

    def __init__(self, settings: config.Settings, health: Health) -> None:
        self._files = login_files(settings)
        self._health = health

    async def run(self) -> None:
        """Look whenever the login is refused, for ever."""
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
