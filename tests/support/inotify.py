"""What programs that watch folders and files are told."""

import ctypes
import os
import select
import struct
from pathlib import Path

from tests.support.served import SECONDS

IN_DELETE_SELF = 0x400


class Watch:
    """inotify on a folder or file, as file managers and editors use it."""

    def __init__(self, path: Path, mask: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        assert libc.inotify_add_watch(self._fd, os.fsencode(path), mask) >= 0, os.strerror(ctypes.get_errno())

    def next(self) -> tuple[int, str]:
        """The next event's mask and name."""
        ready, _, _ = select.select([self._fd], [], [], SECONDS)
        assert ready, "no event came"
        data = os.read(self._fd, 4096)
        _, mask, _, size = struct.unpack_from("iIII", data)
        return mask, data[16 : 16 + size].rstrip(b"\0").decode()

    def close(self) -> None:
        os.close(self._fd)
