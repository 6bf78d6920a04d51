"""Contents in a folder, as files `blobs/ab/<sha1>`; `aside/` has those that lost their last version.

Rule: a file is on disk (synced, renamed, its folder synced) before a row references it.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs import durability
from cmsfs.runtime import threads
from cmsfs.service.storage import blobs

# How often a few bytes are looked for in memory, with other tasks in between: the first look has the kernel
# read them, and a fast disk takes less time for that than a thread to begin and to be waited for.
LOOKS = 9

# Where that is in vain, it is not done for a while, twice as long each time: at most so many times.
MOST_SKIPPED = 63


class FileReader(blobs.BlobReader):
    """Reads a range of a file."""

    def __init__(self, path: Path, first: int, end: int | None) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._at = first
        self._end = end

    def read(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self._at)
        data = os.pread(self._file, size, self._at)
        self._at += len(data)
        return data

    def close(self) -> None:
        os.close(self._file)


class FolderBlobs(blobs.BlobStore):
    """Contents in the folder `root`; `aside` must be on the same file system."""

    def __init__(self, root: Path, incoming: Path, aside: Path) -> None:
        super().__init__(incoming)
        self.root = root
        self.aside = aside
        self._folders: set[Path] = set()
        # How many times bytes are not looked for again, from the last time in vain, and how many are left.
        self._skipped = self._skips = 0

    @property
    def local_folder(self) -> Path:
        return self.root

    def path(self, sha1: str) -> Path:
        return self.root / sha1[:2] / sha1

    def ensure_folder(self, folder: Path) -> None:
        """Create a folder durably; one that another process may be creating is synced again."""
        if folder not in self._folders:
            folder.mkdir(exist_ok=True, mode=0o700)
            durability.sync(self.root)
            self._folders.add(folder)

    def put(self, sha1: str, spool: Path, file: int) -> None:
        os.fsync(file)
        target = self.path(sha1)
        self.ensure_folder(target.parent)
        spool.rename(target)
        durability.sync(target.parent)

    def check_reachable(self) -> None:
        self.root.stat()

    def open(self, sha1: str, first: int = 0, end: int | None = None) -> blobs.BlobReader:
        # It is set aside before its last version's deletion is committed, and brought back before a new
        # reference is.
        place = self.path(sha1)
        for path in (place, self.aside / sha1, place):
            with contextlib.suppress(FileNotFoundError):
                return FileReader(path, first, end)
        raise blobs.ContentLost(sha1)

    async def read_soon(self, sha1: str, first: int, end: int) -> bytes | None:
        looks = 1 if self._skips else LOOKS
        self._skips = max(self._skips - 1, 0)
        try:
            file = os.open(self.path(sha1), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            for number in range(looks):
                if number:
                    await trio.lowlevel.checkpoint()
                if (data := _read_from_memory(file, first, end - first)) is not None:
                    if number:
                        self._skipped = 0
                    return data
        except OSError:
            return None
        finally:
            os.close(file)
        if looks > 1:
            self._skips = self._skipped = min(2 * self._skipped + 1, MOST_SKIPPED)
        return None

    def size(self, sha1: str) -> int:
        return self.path(sha1).stat().st_size

    def stored(self, prefix: str) -> Iterator[blobs.StoredBlob]:
        with contextlib.suppress(FileNotFoundError):
            for entry in os.scandir(self.root / prefix):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.stat()
                    yield blobs.StoredBlob(entry.name, found.st_size, found.st_mtime_ns // 1000)

    @asynccontextmanager
    async def local_copy(self, sha1: str) -> AsyncIterator[Path]:
        yield self.path(sha1)

    def set_aside(self, conn: Connection, sha1: str, *, now: int) -> None:
        with contextlib.suppress(FileNotFoundError):
            self.path(sha1).rename(self.aside / sha1)
            # The mtime records when it was set aside; a rename does not change it.
            os.utime(self.aside / sha1)

    def bring_back(self, conn: Connection, sha1: str) -> None:
        self._bring_back(sha1)

    def _bring_back(self, sha1: str) -> None:
        place = self.path(sha1)
        if not place.exists():
            (self.aside / sha1).rename(place)
            durability.sync(place.parent)

    async def drop_aside(self, read: blobs.Read, write: blobs.Write, *, before: int) -> int:
        if not await threads.run_sync(os.listdir, self.aside):
            return 0
        removed: int = await write(lambda conn: self._drop_aside(conn, before / 1e6))
        return removed

    def _drop_aside(self, conn: Connection, before: float) -> int:
        removed = 0
        for entry in os.scandir(self.aside):
            if blobs.has_version(conn, entry.name):
                self._bring_back(entry.name)
            elif entry.stat().st_mtime >= before:
                continue
            with contextlib.suppress(FileNotFoundError):
                Path(entry.path).unlink()
                removed += 1
        return removed

    def sweep(self, conn: Connection) -> int:
        # A power failure may have undone the rename that brought a file back.
        removed = self._drop_aside(conn, float("inf"))
        for folder in os.scandir(self.root):
            names = blobs.referenced(conn, folder.name)
            for entry in os.scandir(folder.path):
                if entry.name not in names:
                    Path(entry.path).unlink()
                    removed += 1
        return removed


def _read_from_memory(file: int, first: int, size: int) -> bytes | None:
    """Return the bytes if all of them are in the page cache; raises `OSError`."""
    data = bytearray(size)
    try:
        return bytes(data) if os.preadv(file, [data], first, os.RWF_NOWAIT) == size else None
    except BlockingIOError:
        return None
