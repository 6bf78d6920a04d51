"""A watchdog for tests that mount: a process of its own that breaks connections when time is up.

A process that waits in the kernel for itself can be freed only by aborting the connection.  A thread of it
cannot be relied on to do that: a page fault on a mapped file of the mount is taken with the interpreter's
lock held.  When the test run itself dies, the watchdog aborts and unmounts what it left, which would
otherwise keep its last thread in the kernel for ever.

`Watchdog` is the tests' side; run as a program this file is the other one.  Lines in: `arm SECONDS FOLDER`,
`watch CONNECTION`, `ended CONNECTION`, `disarm` (answered by a line, `fine` or `fired`).
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
    """One for a test session; armed for each test."""

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
        """From now on: after `seconds` (`Patience`), abort every drive mounted below `under`."""
        self._say(f"arm {seconds} {under}")

    def watch(self, connection: int) -> None:
        """Abort this one too, even if it is no longer to be seen among the mounts."""
        self._say(f"watch {connection}")

    def ended(self, connection: int) -> None:
        """This one is gone, and its number may be another's."""
        self._say(f"ended {connection}")

    def disarm(self) -> bool:
        """The test is over; whether the watchdog had to fire."""
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
