"""A bounded pool of open draft descriptors (least recently used are closed).

Programs may keep thousands of drafts open for days; a descriptor is needed only while bytes are read, written
or made durable, and reopening a file takes 5 µs.

The file of a small new draft is created only when it must be opened, or some seconds later: most temporary
files are deleted by then, and until then the row has the bytes (`Draft.record`).

Rule: a borrowed descriptor is never closed.
"""

import errno
import os
import threading
from collections import OrderedDict
from pathlib import Path
from weakref import WeakValueDictionary

from cmsfs import durability


class DraftFile:
    """The file of one draft, and its descriptor if open.  Only `DraftFiles` changes it."""

    __slots__ = ("__weakref__", "_place", "fd", "is_made", "lock", "retired", "small", "users")

    def __init__(self, place: str) -> None:
        self._place = place
        self.fd = -1
        self.users = 0
        self.retired = False
        # All bytes of a small new draft; changed under the lock, since other threads read them.
        self.small: bytearray | None = None
        self.is_made = True  # whether the file exists; False: the bytes are in `small` only
        self.lock = threading.Lock()

    @property
    def path(self) -> Path:
        # Made when needed, which is never for most small files: it costs as much as two statements.
        return Path(self._place)

    def make(self) -> None:
        """Write the bytes in memory to a file, unless that is done; from any thread.  Raises `OSError`."""
        if (fd := self._make()) is not None:
            os.close(fd)

    def open_made(self) -> int:
        """Open the file, after making it; from any thread.  Raises `OSError`."""
        fd = self._make()
        return durability.open_file(self.path, os.O_RDWR) if fd is None else fd

    def _make(self) -> int | None:
        """Return the descriptor if this made the file."""
        with self.lock:
            if self.is_made or self.retired:
                return None
            assert self.small is not None
            fd = durability.open_file(self.path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            try:
                if os.write(fd, self.small) < len(self.small):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            except OSError:
                os.close(fd)
                self.path.unlink()
                raise
            self.is_made = True
            return fd


class DraftFiles:
    """The open files of all drafts."""

    def __init__(self, most: int | None = None) -> None:
        self._most = durability.pool_share() if most is None else most
        # Open and not borrowed, least recently used first.
        self._idle: OrderedDict[DraftFile, None] = OrderedDict()
        self._count = 0
        # A descriptor may outlive the draft that it was opened for.
        self._files: WeakValueDictionary[str, DraftFile] = WeakValueDictionary()
        # Drafts whose bytes are durable in their rows, and in no file yet.
        self.fileless: set[int] = set()

    def file(self, place: str) -> DraftFile:
        """Return the file at a path; always the same object while it is in use."""
        if (file := self._files.get(place)) is None:
            file = self._files[place] = DraftFile(place)
        return file

    def borrow(self, file: DraftFile, *, create: bool) -> int:
        """Return a descriptor that stays open until `give_back`.

        Raises `FileNotFoundError` if the file does not exist and `create` is false, or if it is retired.
        """
        if file.fd < 0:
            if file.retired:
                raise FileNotFoundError(str(file.path))
            if self._count >= self._most:
                self._close_idle(self._most - 1)
            if file.small:
                file.make()
            file.is_made = True
            file.fd = self._open(file.path, os.O_RDWR | (os.O_CREAT if create else 0))
            self._count += 1
        self._idle.pop(file, None)
        file.users += 1
        return file.fd

    def _open(self, path: Path, flags: int) -> int:
        while True:
            try:
                return os.open(path, flags | os.O_CLOEXEC, 0o600)
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE):
                    raise
                if not self._idle:
                    return durability.open_file(path, flags)
                self._close(next(iter(self._idle)))

    def give_back(self, file: DraftFile) -> None:
        file.users -= 1
        if file.users:
            return
        self._idle[file] = None
        if file.retired:
            self._close(file)
        elif self._count > self._most:
            self._close_idle(self._most)

    def retire(self, place: str) -> None:
        """Never open this file again, and close it as soon as it is not in use."""
        if (file := self._files.get(place)) is not None:
            with file.lock:
                file.retired, file.small = True, None
            if file in self._idle:
                self._close(file)

    def close(self) -> None:
        """Close all files that are not in use."""
        self._close_idle(0)

    def _close_idle(self, most: int) -> None:
        while self._idle and self._count > most:
            self._close(next(iter(self._idle)))

    def _close(self, file: DraftFile) -> None:
        del self._idle[file]
        os.close(file.fd)
        file.fd = -1
        self._count -= 1
