"""Disk faults: no space left, and unreadable blocks."""

import contextlib
import errno
import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cmsfs import disk_reserve


class Troubles:
    """The current disk faults of all machines."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.full: set[Path] = set()  # state and cache folders
        self.rotten: set[Path] = set()

    def repair(self, *folders: Path) -> None:
        """End all faults of these folders."""
        self.full.difference_update(folders)
        self.rotten.difference_update(folders)

    def _is_in(self, fd: int, folders: set[Path], kinds: tuple[str, ...]) -> bool:
        if not folders:
            return False
        path = Path(f"/proc/self/fd/{fd}").readlink()
        return any(path.is_relative_to(folder) for folder in folders) and any(
            part in kinds for part in path.parts
        )

    @contextlib.contextmanager
    def intercepting_disk_calls(self) -> Iterator[None]:
        """Patch disk calls: some reads fail on a rotten disk, and writes that need space on a full one."""
        pwrite, preadv, free = os.pwrite, os.preadv, disk_reserve.DiskReserve._free

        def write(fd: int, data: Any, offset: int) -> int:
            if self._is_in(fd, self.full, ("drafts", "blocks")) and offset + len(data) > os.fstat(fd).st_size:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return pwrite(fd, data, offset)

        def read(fd: int, *where: Any) -> int:
            if self._is_in(fd, self.rotten, ("blocks",)) and self._chance.random() < 0.3:
                raise OSError(errno.EIO, "rot")
            return preadv(fd, *where)

        def free_bytes(reserve: disk_reserve.DiskReserve) -> int:
            is_full = any(reserve.folder.is_relative_to(folder) for folder in self.full)
            return 0 if is_full else free(reserve)

        with contextlib.ExitStack() as stack:
            for holder, name, value in (
                (os, "pwrite", write),
                (os, "preadv", read),
                (disk_reserve.DiskReserve, "_free", free_bytes),
            ):
                stack.callback(setattr, holder, name, getattr(holder, name))
                setattr(holder, name, value)
            yield
