"""A watchdog for tests that mount: a separate process that aborts FUSE connections after a time limit.

A process that is deadlocked with its own mount can only be freed by aborting the connection.  Its own threads
may be unable to do so: a page fault on a mapped file of the mount happens with the GIL held.  If the test run
itself dies, the watchdog aborts and unmounts its mounts, which would otherwise keep its last thread in the
kernel forever.

`Watchdog` is the tests' side; run as a program this file is the watchdog itself.  Commands, one per line:
`arm SECONDS FOLDER`, `watch CONNECTION`, `ended CONNECTION`, `disarm` (answered by a line, `fine` or
`fired`).
"""

import os
import select
import subprocess
import sys
from pathlib import Path

from cmsfs import errors, mounts
from tests.support.patience import Patience

ROOT = Path(__file__).parents[2]


class Watchdog:
    """One watchdog per test session; armed for each test."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fuse_watchdog"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def arm(self, *, seconds: float, under: Path) -> None:
        """Abort every drive mounted below `under` after `seconds` (`Patience`) from now."""
        self._say(f"arm {seconds} {under}")

    def watch(self, connection: int) -> None:
        """Abort this connection too, even if its mount is no longer listed."""
        self._say(f"watch {connection}")

    def ended(self, connection: int) -> None:
        """Forget this connection: it has ended, and its number may be reused."""
        self._say(f"ended {connection}")

    def disarm(self) -> bool:
        """End of the test: return whether the watchdog fired."""
        self._say("disarm")
        assert self._process.stdout
        return self._process.stdout.readline() == "fired\n"

    def close(self) -> None:
        self._process.communicate()

    def _say(self, line: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(line + "\n")


class _Dog:
    def __init__(self) -> None:
        self.patience: Patience | None = None
        self.under = Path("/nonexistent")
        self.watched: set[int] = set()
        self.fired = False

    def run(self) -> None:
        rest = b""
        while True:
            left = None if self.patience is None else self.patience.left()
            if left == 0:
                self.fire()
            elif not select.select([0], [], [], left)[0]:
                continue
            elif not (data := os.read(0, 65536)):
                break
            else:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self.obey(*os.fsdecode(line).split(" ", 2))
        if self.patience is not None:
            self.fire()
            for mount in self._mounted():
                _detach(mount)

    def obey(self, word: str, *words: str) -> None:
        match word, *words:
            case "arm", seconds, under:
                self.patience, self.under, self.fired = Patience(float(seconds)), Path(under), False
            case "watch", connection:
                self.watched.add(int(connection))
            case "ended", connection:
                self.watched.discard(int(connection))
            case _:
                self.patience = None
                self.watched.clear()
                os.write(1, b"fired\n" if self.fired else b"fine\n")

    def fire(self) -> None:
        self.patience, self.fired = None, True
        for connection in self.watched | {mount.connection for mount in self._mounted()}:
            mounts.abort(connection)

    def _mounted(self) -> list[mounts.Mount]:
        found = [mount for mount in mounts.listing() if mount.is_drive]
        return [mount for mount in found if Path(mount.mountpoint).is_relative_to(self.under)]


def _detach(mount: mounts.Mount) -> None:
    try:
        mounts.detach(Path(mount.mountpoint))
    except errors.UserError:
        pass


if __name__ == "__main__":
    _Dog().run()
