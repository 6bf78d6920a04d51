"""Makes the mountpoint read-only while no drive is mounted on it, and restores its mode afterwards.

When a daemon dies its mount is gone for a moment, and the mountpoint is an ordinary folder: files that
programs save there are hidden by the next mount.  So the folder is made read-only when the drive is mounted,
and gets its own mode back after a clean unmount.  A memo file beside the drive's state preserves that mode
across a crash.

Files in the folder that are hidden nevertheless are reported by the drive, and imported by
`daemon.adopt_hidden`.

Rule: the memo is on disk before the mode changes.
"""

import json
import logging
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cmsfs import process_env

log = logging.getLogger(__name__)

# The mode while nothing is mounted: the folder can be listed and removed.
BARRED = 0o500

# fusermount3 requires write permission on the mountpoint.
_WRITABLE = 0o700


@dataclass(frozen=True, slots=True)
class _GuardRecord:
    """The drive's last mountpoint and that folder's original mode; None: the mode is restored."""

    path: str
    mode: int | None


class MountpointGuard:
    """The folder under a mount, accessed by a descriptor that the mount does not hide."""

    def __init__(self, path: Path, memo: Path | None, inherited: tuple[int, int] | None = None) -> None:
        """`inherited`: the descriptor and the mode to restore, if the drive is already mounted."""
        self._path = path
        self._memo = memo
        if inherited is not None:
            self.fd, self.mode = inherited
            return
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.mode = stat.S_IMODE(os.fstat(self.fd).st_mode)

    def open_up(self) -> None:
        """Make the folder writable for mounting.  Raises `OSError`."""
        before = _read(self._memo)
        if before is not None and before.mode is not None:
            if before.path == str(self._path):
                self.mode = before.mode  # a previous daemon died
            else:
                restore(self._memo)
        self._note(self.mode)
        if not os.fstat(self.fd).st_mode & stat.S_IWUSR:
            os.fchmod(self.fd, _WRITABLE)

    def bar(self) -> None:
        """Make the folder read-only after mounting, for when the mount disappears."""
        try:
            os.fchmod(self.fd, BARRED)
        except OSError as error:
            log.warning("the unmounted mountpoint cannot be made read-only: %s", error)

    def give_back(self) -> None:
        """Restore the folder's own mode after unmounting."""
        try:
            os.fchmod(self.fd, self.mode)
        except OSError as error:
            log.warning("the mode %o of the mountpoint cannot be restored: %s", BARRED, error)
            return
        self._note(None)

    def hidden(self) -> list[str]:
        """Return the names of files in the folder that the mount hides."""
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
    """Record that the user wants the drive at this path, whatever is in the folder."""
    found = _read(memo)
    if found is None or found.path != str(path):
        restore(memo)
        _write(memo, _GuardRecord(str(path), None))


def is_known(memo: Path | None, path: Path) -> bool:
    """Whether this was the drive's last mountpoint."""
    found = _read(memo)
    return found is not None and found.path == str(path)


def restore(memo: Path | None) -> None:
    """Restore the mode of a folder that a dead daemon left read-only; nothing must be mounted on it."""
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
        stored = json.loads(memo.read_text("utf-8", "surrogateescape")) if memo is not None else {}
        return _GuardRecord(
            str(stored["path"]), None if stored["mode"] is None else int(stored["mode"]) & 0o7777
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(memo: Path, record: _GuardRecord) -> None:
    process_env.private_folder(memo.parent)
    new = memo.with_name(f"{memo.name}.new")
    try:
        with new.open("w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump({"path": record.path, "mode": record.mode}, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(memo)
    except OSError as error:
        # For example a full disk: mounting is more important than the mode of a folder.
        log.warning("the mode of the mountpoint cannot be saved: %s", error)
