"""What happened in a story, line by line, and the folders it left: so that a red one explains itself.

A line is the time since the story began, who did it, and what: the call, the path, the inode, what stood
there and what was put in its place, and the error at the call that raised it.  `after_kill` keeps what a
killed daemon left before the next one touches it; `keep` what there is at the end, the logs of the drives
and the service's store among it.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

# Bytes are told by their first line, which no two contents of a story share.
LABEL_BYTES = 40


def label(data: bytes) -> str:
    """What a content is called in a trace."""
    first = data.split(b"\n", 1)[0][:LABEL_BYTES].decode("utf-8", "replace")
    return f"<{first}; {len(data)}>" if data else "<empty>"


def inode(path: Path | int) -> int | None:
    """The inode of a path or descriptor; None if there is none, or none that can be asked."""
    try:
        found = os.fstat(path) if isinstance(path, int) else path.stat()
    except OSError:
        return None
    return found.st_ino


class Trace:
    """`folder` is kept by the test run; `home` is where the drives have their state, logs and caches."""

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
        """Note that this is being done and that it is done, or what it raised."""
        self.note(who, f"{what} ...")
        try:
            yield
        except BaseException as error:
            self.note(who, f"{what} raised {error!r}")
            raise
        self.note(who, f"{what} done")

    def after_kill(self, account: str) -> None:
        """Keep what the daemon that was just killed left of itself."""
        self._kills += 1
        target = self.folder / "kills" / f"{self._kills:03d}-{account}"
        for kind in ("state", "cache"):
            _copy(self.home / kind / "cmsfs" / account, target / kind)
        self.note(account, f"killed; what it left is in {target}")

    def keep(self, vanished: Iterable[str], store: Path) -> str:
        """Keep all that can tell of a red story; where it is, and the lines that speak of what vanished."""
        _copy(self.home, self.folder / "home")
        _copy(store, self.folder / "store")
        names = [f"<{one};" for one in vanished]
        lines = self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []
        told = [line for line in lines if any(name in line for name in names) or "killed" in line]
        return "\n".join([f"the story is in {self.folder}", *told])

    def forget(self) -> None:
        """The story was green: nobody will ask."""
        shutil.rmtree(self.folder / "kills", ignore_errors=True)


def _copy(source: Path, target: Path) -> None:
    # Files come and go under running daemons; sockets cannot be copied.
    with contextlib.suppress(shutil.Error, FileNotFoundError):
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
