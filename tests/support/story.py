"""Trace of a random test, with the folders it left, so that a failure can be analysed.

A line has the time since the start, the actor, and the action: the call, the path, the inode, the contents
before and after, and the error of the call that raised it.  `after_kill` saves the state of a killed daemon
before the next one changes it; `keep` saves everything at the end, with the logs of the drives and the
service's store.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# Contents are identified by their first line, which is unique in a story.
LABEL_BYTES = 40


def label(data: bytes) -> str:
    """Return the name of a content in the trace."""
    first = data.split(b"\n", 1)[0][:LABEL_BYTES].decode("utf-8", "replace")
    return f"<{first}; {len(data)}>" if data else "<empty>"


def inode(path: Path | int) -> int | None:
    """Return the inode of a path or descriptor; None if there is none or stat fails."""
    try:
        found = os.fstat(path) if isinstance(path, int) else path.stat()
    except OSError:
        return None
    return found.st_ino


class Trace:
    """`folder` is kept by the test run; `home` has the drives' state, logs and caches."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.folder = folder
        self.home = home
        self.path = folder / "trace.txt"
        self._begun = time.time()
        self._kills = 0

    def note(self, who: str, what: str) -> None:
        now = time.time()
        clock = time.strftime("%H:%M:%S", time.localtime(now)) + f"{now % 1:.3f}"[1:]
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{now - self._begun:9.3f} {clock} {who}: {what}\n")

    @contextlib.contextmanager
    def telling(self, who: str, what: str) -> Iterator[None]:
        """Log the start of this action and its end, or the exception."""
        self.note(who, f"{what} ...")
        try:
            yield
        except BaseException as error:
            self.note(who, f"{what} raised {error!r}")
            raise
        self.note(who, f"{what} done")

    def after_kill(self, account: str) -> None:
        """Save the state of the daemon that was just killed."""
        self._kills += 1
        target = self.folder / "kills" / f"{self._kills:03d}-{account}"
        for kind in ("state", "cache"):
            _copy(self.home / kind / "cmsfs" / account, target / kind)
        self.note(account, f"killed; what it left is in {target}")

    def keep(self, vanished: Iterable[str], store: Path) -> str:
        """Save everything about a failed story; return its place, and the lines about the lost contents."""
        _copy(self.home, self.folder / "home")
        _copy(store, self.folder / "store")
        names = [f"<{one};" for one in vanished]
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        told = [line for line in lines if any(name in line for name in names) or "killed" in line]
        return "\n".join([f"the story is in {self.folder}", *told])

    def forget(self) -> None:
        """Remove the saved state of a passed story."""
        shutil.rmtree(self.folder / "kills", ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    # Running daemons create and remove files meanwhile; sockets cannot be copied.
    with contextlib.suppress(shutil.Error, FileNotFoundError):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
