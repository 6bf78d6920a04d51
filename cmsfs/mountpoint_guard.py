"""Makes the mountpoint read-only while no drive is mounted on it, and restores its mode afterwards.

When a daemon dies its mount is gone for a moment, and the mountpoint is an ordinary folder: what a program
saves there then is hidden by the next mount.  So the folder loses its right to be written to when the drive
takes it, and has its own mode again after an orderly unmount.  A memo beside the drive's state remembers
that mode over a crash.

What lies in the folder nevertheless is told by the drive, and brought in by `daemon.adopt_hidden`.

Rule: the memo is on the disk before the mode changes.
"""

import json
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cmsfs import process_env

log = logging.getLogger(__name__)

# As long as nothing is mounted on it: it can be looked into, and removed.
BARRED = 0o500

# fusermount3 mounts for those only who may write to the mountpoint.
_WRITABLE = 0o700


@dataclass(frozen=True, slots=True)
class _GuardRecord:
    """Where the drive was last, and the mode that the folder had; None: it has it again."""

    path: str
    mode: int | None


class MountpointGuard:
    """The folder below a drive, by a descriptor that the mount does not cover."""

    def __init__(self, path: Path, memo: Path | None, inherited: tuple[int, int] | None = None) -> None:
        """`inherited`: the descriptor and the mode to give back, where the folder is mounted on already."""
        self._path = path
        self._memo = memo
        if inherited is not None:
            self.fd, self.mode = inherited
            return
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.mode = stat.S_IMODE(os.fstat(self.fd).st_mode)

    def open_up(self) -> None:
        """Have it writable for the mounting.  Raises `OSError`."""
        before = _read(self._memo)
        if before is not None and before.mode is not None:
            if before.path == str(self._path):
                self.mode = before.mode  # a daemon before us died
            else:
                restore(self._memo)
        self._note(self.mode)
        if not os.fstat(self.fd).st_mode & stat.S_IWUSR:
            os.fchmod(self.fd, _WRITABLE)

    def bar(self) -> None:
        """It is mounted on: when the mount goes, the folder is not to be written to."""
        try:
            os.fchmod(self.fd, BARRED)
        except OSError as error:
            log.warning("the unmounted mountpoint cannot be made read-only: %s", error)

    def give_back(self) -> None:
        """Nothing is mounted on it any more: its own mode again."""
        try:
            os.fchmod(self.fd, self.mode)
        except OSError as error:
            log.warning("the mode %o of the mountpoint cannot be restored: %s", BARRED, error)
            return
        self._note(None)

    def hidden(self) -> list[str]:
        """The names of what lies in it, below the drive."""
        try:
            found = os.listdir(self.fd)  # noqa: PTH208  (by descriptor: the path leads to the drive)
            return sorted(os.fsencode(name).decode("utf-8", "replace") for name in found)
        except OSError:
            return []

    def close(self) -> None:
        os.close(self.fd)

    def _note(self, mode: int | None) -> None:
        if self._memo is not None:
            _write(self._memo, _GuardRecord(str(self._path), mode))


def note(memo: Path, path: Path) -> None:
    """The person wants the drive at this path, whatever lies there."""
    found = _read(memo)
    if found is None or found.path != str(path):
        restore(memo)
        _write(memo, _GuardRecord(str(path), None))


def is_known(memo: Path | None, path: Path) -> bool:
    """Whether the drive was at this path last."""
    found = _read(memo)
    return found is not None and found.path == str(path)


def restore(memo: Path | None) -> None:
    """Give the folder back that a daemon left when it died, nothing being mounted on it."""
    found = _read(memo)
    if memo is None or found is None or found.mode is None:
        return
    path = Path(found.path)
    try:
        if stat.S_IMODE(path.stat().st_mode) == BARRED:
            path.chmod(found.mode)
    except OSError as error:
        log.debug("%s is not given back: %s", path, error)
    _write(memo, _GuardRecord(found.path, None))


def _read(memo: Path | None) -> _GuardRecord | None:
    try:
        said = json.loads(memo.read_text("utf-8", "surrogateescape")) if memo is not None else {}
        return _GuardRecord(str(said["path"]), None if said["mode"] is None else int(said["mode"]) & 0o7777)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(memo: Path, said: _GuardRecord) -> None:
    process_env.private_folder(memo.parent)
    new = memo.with_name(f"{memo.name}.new")
    try:
        with new.open("w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump({"path": said.path, "mode": said.mode}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(memo)
    except OSError as error:
        # A full disk: the drive is worth more than the mode of a folder.
        log.warning("the mode of the mountpoint cannot be saved: %s", error)
