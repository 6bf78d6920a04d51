"""Moves files that lie in the mountpoint below the drive onto it: a process that writes through the mount.

    python -m daemon.adopt_hidden FD MOUNTPOINT

FD is the folder below the drive, which nobody reaches by its path.  Says what it did as one line of JSON.

Rule: a file leaves its old place when the drive has it on the disk, byte for byte; nothing that is on the
drive is written over, and a run that was cut short is simply run again.
"""

import errno
import filecmp
import json
import os
import shutil
import stat
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class AdoptReport:
    """The outcome: what was moved, and what could not be."""

    items: int = 0
    renamed: list[str] = field(default_factory=list)  # their names were taken
    failed: list[str] = field(default_factory=list)  # each with its reason; still where they were


def adopt(below: Path, drive: Path) -> AdoptReport:
    """Move all that is in one folder into the other."""
    told = AdoptReport()
    for path in sorted(below.iterdir()):
        _bring(path, drive / path.name, told)
    return told


def _bring(path: Path, target: Path, told: AdoptReport) -> None:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            _bring_folder(path, target, told)
        elif stat.S_ISLNK(mode):
            _bring_link(path, target, told)
        elif stat.S_ISREG(mode):
            _bring_file(path, target, told)
        else:
            told.failed.append(f"{path.name}: it is neither a file nor a folder")
    except OSError as error:
        told.failed.append(f"{path.name}: {error.strerror}")


def _bring_folder(path: Path, target: Path, told: AdoptReport) -> None:
    while True:
        try:
            target.mkdir()
            break
        except FileExistsError:
            if target.is_dir() and not target.is_symlink():
                break
            target = _another(target, told)
    for inside in sorted(path.iterdir()):
        _bring(inside, target / inside.name, told)
    failed = len(told.failed)
    try:
        path.rmdir()
        told.items += 1
    except OSError as error:
        if error.errno != errno.ENOTEMPTY or not failed:
            raise


def _bring_link(path: Path, target: Path, told: AdoptReport) -> None:
    aim = path.readlink()
    while True:
        try:
            target.symlink_to(aim)
            break
        except FileExistsError:
            if target.is_symlink() and target.readlink() == aim:
                break
            target = _another(target, told)
    path.unlink()
    told.items += 1


def _bring_file(path: Path, target: Path, told: AdoptReport) -> None:
    while True:
        try:
            made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            break
        except FileExistsError:
            # A run before us may have got as far as this.
            if target.is_file() and filecmp.cmp(path, target, shallow=False):
                path.unlink()
                told.items += 1
                return
            target = _another(target, told)
    try:
        with os.fdopen(made, "wb") as new, path.open("rb") as old:
            shutil.copyfileobj(old, new, 1024 * 1024)
            new.flush()
            os.fsync(new.fileno())
        found = path.stat()
        os.utime(target, ns=(found.st_atime_ns, found.st_mtime_ns))
        if not filecmp.cmp(path, target, shallow=False):
            raise OSError(errno.EBUSY, "it is being written to")
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    path.unlink()
    told.items += 1


def _another(target: Path, told: AdoptReport) -> Path:
    """A name beside one that is taken."""
    number, free = 1, target
    while os.path.lexists(free):
        words = "adopted" if number == 1 else f"adopted {number}"
        free = target.with_name(f"{target.stem} ({words}){target.suffix}")
        number += 1
    told.renamed.append(free.name)
    return free


def main(fd: int, drive: Path) -> None:
    """Let the folder be changed for as long as it takes."""
    mode = stat.S_IMODE(os.fstat(fd).st_mode)
    os.fchmod(fd, mode | stat.S_IRWXU)
    try:
        told = adopt(Path(f"/proc/self/fd/{fd}"), drive)
    finally:
        os.fchmod(fd, mode)
    sys.stdout.write(json.dumps(asdict(told)) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
