"""Disk space reserved for the local state, released when the disk is full so that state can still be saved.

On a completely full disk, not even a deletion or a finished upload can be recorded, so nothing could free
space any more.  So a file reserves some space, and programs get ENOSPC before it is touched.  The reserve is
released when all other space is used, for recording removals, finished uploads and the start-up; it is
restored when there is space again.

Rule: writes on behalf of a program call `check` first; anything that frees space never does.
"""

import errno
import logging
import os
import threading
from pathlib import Path

from cmsfs.runtime import clock

log = logging.getLogger(__name__)

SIZE_BYTES = 16 * 1024 * 1024

# The reserve takes at most this fraction (1/8) of the disk.
SHARE = 8

# Besides, this fraction (1/4) of the reserve's size is kept free of programs' writes; the reserve is released
# when half of that is used.
PART = 4

# With this much free space the disk is not checked again for a moment: nobody can use it up so fast.
ROOMY_BYTES = 2 * 1024**3
ROOMY_SECONDS = 0.1


class DiskReserve:
    """Reserves disk space with a file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._file = folder / "reserve"
        self._lock = threading.Lock()
        # The free space at the last check, and until when that value is used (monotonic).
        self._seen, self._seen_until = 0, 0.0
        disk = os.statvfs(folder)
        self.nbytes = min(SIZE_BYTES, disk.f_blocks * disk.f_frsize // SHARE)
        self._look()

    @property
    def is_short(self) -> bool:
        """Whether programs' writes are rejected for lack of space."""
        return self._free() < self.floor

    @property
    def is_whole(self) -> bool:
        """Whether the full reserve is in place."""
        return self._held >= self.nbytes

    def is_roomy(self) -> bool:
        """Whether there is far more space than is needed."""
        return self._free() > ROOMY_BYTES

    def check(self, nbytes: int = 0) -> None:
        """Raise `OSError` (ENOSPC) if `nbytes` more must not be written."""
        if self._free() - nbytes < self.floor:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder))

    def make_room(self) -> bool:
        """Release the reserve if there is hardly any other space; call it before recording anything.

        Returns true if space is short or nothing is reserved, so that space freed now may at once be taken by
        another process.
        """
        free = self._free()
        if self._held and free < self.nbytes // PART // 2:
            self.give_up()
        return not self._held or free < self.floor

    def give_up(self) -> None:
        """Release the reserved space."""
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
        """Reserve space again if there is enough; never fails."""
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
                # For example EFBIG (a file size limit).  Writers still stop before the floor.
                log.info("no disk space can be reserved in %s: %s", self.folder, error)
            self._look()

    def _free(self) -> int:
        if self._seen > ROOMY_BYTES and clock.monotonic() < self._seen_until:
            return self._seen
        disk = os.statvfs(self.folder)
        self._seen, self._seen_until = disk.f_bavail * disk.f_frsize, clock.monotonic() + ROOMY_SECONDS
        return self._seen

    def _look(self) -> None:
        """Measure the reserve that is in place."""
        try:
            self._held = min(self._file.stat().st_blocks * 512, self.nbytes)
        except FileNotFoundError:
            self._held = 0
        # The space that must be free besides the reserve for programs to be allowed to write.
        self.floor = self.nbytes - self._held + self.nbytes // PART
