"""inotify events of folders and files, as watching programs get them."""

import ctypes
import os
import select
import struct
from pathlib import Path

from tests.support import patience
from tests.support.served import SECONDS

IN_DELETE_SELF = 0x400


class Watch:
    """inotify on a folder or file, as file managers and editors use it."""

    def __init__(self, path: Path, mask: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        assert libc.inotify_add_watch(self._fd, os.fsencode(path), mask) >= 0, os.strerror(ctypes.get_errno())

    def next(self) -> tuple[int, str]:
        """Return the next event's mask and name."""
        ready, _, _ = select.select([self._fd], [], [], SECONDS)
        assert ready, "no event came"
        data = os.read(self._fd, 4096)
        _, mask, _, size = struct.unpack_from("iIII", data)
        return mask, data[16 : 16 + size].rstrip(b"\0").decode()

    def close(self) -> None:
        os.close(self._fd)


# The events that programs watch for; open, read and close without writing are not changes.
CHANGES = {
    0x2: "MODIFY",
    0x4: "ATTRIB",
    0x8: "CLOSE_WRITE",
    0x40: "MOVED_FROM",
    0x80: "MOVED_TO",
    0x100: "CREATE",
    0x200: "DELETE",
}
_FOLDER = 0x40000000


class Trace:
    """The events of some folders, as `inotifywait -m` would print them."""

    def __init__(self, *folders: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        self._names: dict[int, str] = {}
        for folder in folders:
            watch = libc.inotify_add_watch(self._fd, os.fsencode(folder), sum(CHANGES))
            assert watch >= 0, os.strerror(ctypes.get_errno())
            self._names[watch] = folder.name if folder != folders[0] else ""

    def until(self, kind: str, name: str) -> list[tuple[str, str]]:
        """Return the events up to this one."""
        found: list[tuple[str, str]] = []

        def is_there() -> bool:
            found.extend(self.events())
            return (kind, name) in found

        patience.until(is_there, told=f"{kind} {name}")
        return found

    def events(self) -> list[tuple[str, str]]:
        """Return the events since the last call: kind (a folder's with a slash) and name."""
        found = []
        while select.select([self._fd], [], [], 0)[0]:
            data, at = os.read(self._fd, 1 << 16), 0
            while at < len(data):
                watch, mask, _, size = struct.unpack_from("iIII", data, at)
                name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode()
                at += 16 + size
                for bit, kind in CHANGES.items():
                    if mask & bit:
                        told = f"{kind}/" if mask & _FOLDER else kind
                        found.append((told, "/".join(filter(None, [self._names[watch], name]))))
        return found

    def close(self) -> None:
        os.close(self._fd)
