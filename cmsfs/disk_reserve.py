"""Disk space reserved for the local state, released when the disk is full so that state can still be saved.

A disk without any room refuses even to record that something was deleted, or that an upload is done: then
nothing frees room any more.  So some room is held by a file of its own, and programs meet ENOSPC before it is
touched.  It is given up when the last of the rest is used, by whatever is recorded then: removals, the end of
uploads, the start; and is set aside anew when there is room.

Rule: what takes room for a program asks `check` first; what gives room back never asks.
"""

import errno
import logging
import os
import threading
from pathlib import Path

from cmsfs.runtime import clock

log = logging.getLogger(__name__)

SIZE_BYTES = 16 * 1024 * 1024

# A small disk is not to be taken up by it.
SHARE = 8

# Beside it, so much of its size stays free of what programs write; it is given up when half of that is used.
PART = 4

# A disk with so much room is not looked at again for a moment, in which nobody can use that up.
ROOMY_BYTES = 2 * 1024**3
ROOMY_SECONDS = 0.1


class DiskReserve:
    """The room set aside in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "reserve"
        self._lock = threading.Lock()
        # What was free when it was last looked at, and until when that will do (monotonic).
        self._seen, self._seen_until = 0, 0.0
        disk = os.statvfs(folder)
        self.nbytes = min(SIZE_BYTES, disk.f_blocks * disk.f_frsize // SHARE)
        self._look()

    @property
    def is_short(self) -> bool:
        """Whether programs are refused to write for want of room."""
        return self._free() < self.floor

    @property
    def is_whole(self) -> bool:
        """Whether all of it is set aside."""
        return self._held >= self.nbytes

    def check(self, nbytes: int = 0) -> None:
        """Raise `OSError` (ENOSPC) if so much more must not be written."""
        if self._free() - nbytes < self.floor:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def make_room(self) -> bool:
        """Before anything is recorded: give the reserve up if there is hardly any other room.

        True: room is short, or nothing is set aside, so that what is freed now may be somebody else's the
        next moment.
        """
        free = self._free()
        if self._held and free < self.nbytes // PART // 2:
            self.give_up()
        return not self._held or free < self.floor

    def give_up(self) -> None:
        """Let what is set aside be used."""
        with self._lock:
            if not self._held:
                return
            try:
                os.truncate(self._file, 0)
            except OSError as error:
                log.warning("the reserved disk space cannot be released: %s", error)
            else:
                log.warning("the disk of %s is full; using the reserved space to continue", self.folder)
            self._look()

    def restore(self) -> None:
        """Set aside what there is room for again; never fails."""
        with self._lock:
            if self.is_whole or self._free() < self.floor:
                return
            try:
                fd = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                try:
                    os.posix_fallocate(fd, 0, self.nbytes)
                finally:
                    os.close(fd)
            except OSError as error:
                # EFBIG: files may not be that large here.  Without it, writers still stop before the floor.
                log.info("no disk space can be reserved in %s: %s", self.folder, error)
            self._look()

    def _free(self) -> int:
        if self._seen > ROOMY_BYTES and clock.monotonic() < self._seen_until:
            return self._seen
        disk = os.statvfs(self.folder)
        self._seen, self._seen_until = disk.f_bavail * disk.f_frsize, clock.monotonic() + ROOMY_SECONDS
        return self._seen

    def _look(self) -> None:
        """What is set aside by now."""
        try:
            self._held = min(self._file.stat().st_blocks * 512, self.nbytes)
        except FileNotFoundError:
            self._held = 0
        # So much must be free beside it for programs to be allowed to write.
        self.floor = self.nbytes - self._held + self.nbytes // PART
