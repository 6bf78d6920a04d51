"""The blob store: file contents by SHA-1, streamed in and out.

`blobs/ab/<sha1>` is the content, `incoming/` holds what is still arriving.  Used by uploads (in) and
downloads (out); all disk work happens in threads, a mebibyte at a time.

A content that lost its last version is set aside first: an upload of the same bytes may have put it in place
already and only be about to name it, and then has it brought back.  Both happen inside write transactions,
of which there is one at a time over all processes.

Rule: a blob is on disk (file synced, renamed, folder synced) before a row names it; what no row names and
nobody set aside is removed only at start, when no other process has the store open (see store.py).
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from cmsfs import durability
from cmsfs.runtime import chance, clock, threads

# One hop into a thread a mebibyte: 64 KiB a hop reads at a fifth of the rate.
CHUNK = 1024 * 1024

# Another process may be receiving this file right now; nobody is silent for an hour in mid-upload.
STALE_SECONDS = 3600


class IncomingBlob:
    """A content that is arriving: `write` it, then `keep` it.  Construct with `Blobs.receive`."""

    def __init__(self, blobs: "Blobs") -> None:
        self._blobs = blobs
        self._path = blobs.incoming / f"{os.getpid()}-{chance.uuid4().hex}"
        self._file = -1  # there is none before something is to be in it, and after it has got its place
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self.size = 0
        self.head = b""  # the first bytes, for search

    @property
    def is_open(self) -> bool:
        """Whether there is something on the disk that nobody has kept."""
        return self._file >= 0

    def close(self) -> None:
        """Discard what was not kept."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    async def write(self, chunk: bytes) -> None:
        """Take the next bytes.  Cancelled: the content is incomplete and must be discarded."""
        self._pending.append(chunk)
        self._pending_size += len(chunk)
        if self._pending_size >= CHUNK:
            await threads.run_sync(self._drain)

    async def begin_anew(self) -> None:
        """Forget what has arrived: it was not the content after all."""
        self._pending.clear()
        self._pending_size, self.size, self.head = 0, 0, b""
        self._hash = hashlib.sha1(usedforsecurity=False)
        if self._file >= 0:
            os.lseek(self._file, 0, os.SEEK_SET)
            await threads.run_sync(os.ftruncate, self._file, 0)

    async def keep(self, check: Callable[[str], None] | None = None) -> str:
        """Put the content in its place, durably, and return its SHA-1.

        `check` gets that first, in the thread; what it raises keeps the content from its place.
        """

        def run() -> str:
            self._drain()
            if check is not None:
                check(self._hash.hexdigest())
            return self.keep_now()

        return await threads.run_sync(run)

    async def sha1(self) -> str:
        """The SHA-1 of what has arrived."""
        await threads.run_sync(self._drain)
        return self._hash.hexdigest()

    def append_file(self, path: Path, offset: int = 0, size: int | None = None) -> None:
        """Take bytes of a file, to its end unless `size` is given; for a thread.

        Raises `OSError`: the content is incomplete then.
        """
        left = size if size is not None else path.stat().st_size - offset
        with path.open("rb", buffering=0) as file:
            file.seek(offset)
            while left > 0 and (data := file.read(min(left, CHUNK))):
                left -= len(data)
                self._pending.append(data)
                self._drain()
        if left:
            raise OSError(errno.EIO, "the file is shorter than it was", str(path))

    def file_at(self, target: Path) -> None:
        """Give the content a name of its own outside the blobs, durably; for a thread."""
        self._drain()
        os.fsync(self._file)
        self._path.rename(target)
        durability.sync(target.parent)
        self._put_down()

    def _put_down(self) -> None:
        file, self._file = self._file, -1
        os.close(file)

    def _drain(self) -> None:
        if self._file < 0:
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        data = memoryview(b"".join(self._pending))
        self._pending.clear()
        self._pending_size = 0
        self._hash.update(data)
        if len(self.head) < HEAD_BYTES:
            self.head += bytes(data[: HEAD_BYTES - len(self.head)])
        self.size += len(data)
        while data:
            data = data[os.write(self._file, data) :]

    def keep_now(self, data: bytes = b"") -> str:
        """`keep`, with the last of the data, for a thread."""
        self._pending.append(data)
        self._drain()
        os.fsync(self._file)
        sha1 = self._hash.hexdigest()
        target = self._blobs.path(sha1)
        self._blobs.ensure_folder(target.parent)
        # Over an equal blob too: the content is the same, and a damaged one is healed.
        self._path.rename(target)
        durability.sync(target.parent)
        self._put_down()
        return sha1


# How much of a file is looked at while it arrives: all of most texts.
HEAD_BYTES = 10_000


class Blobs:
    """The directory, and what may be asked of it."""

    def __init__(self, root: Path, incoming: Path, aside: Path) -> None:
        self.root = root
        self.incoming = incoming
        self.aside = aside
        self._folders: set[Path] = set()

    def path(self, sha1: str) -> Path:
        return self.root / sha1[:2] / sha1

    def ensure_folder(self, folder: Path) -> None:
        """Make a folder of blobs, durably; one that somebody else is just making is synced again."""
        if folder not in self._folders:
            folder.mkdir(exist_ok=True, mode=0o700)
            durability.sync(self.root)
            self._folders.add(folder)

    @asynccontextmanager
    async def receive(self) -> AsyncIterator[IncomingBlob]:
        """Receive a content; what was not kept when the context is left is discarded."""
        incoming = IncomingBlob(self)
        try:
            yield incoming
        finally:
            # Removing gigabytes takes the disk its time, so not on the loop; and it is done in any case.
            if incoming.is_open:
                with trio.CancelScope(shield=True):
                    await threads.run_sync(incoming.close)

    def keep_bytes(self, data: bytes) -> str:
        """Store a small content at once, durably; for a thread."""
        incoming = IncomingBlob(self)
        try:
            return incoming.keep_now(data)
        finally:
            incoming.close()

    async def head(self, sha1: str) -> bytes:
        """The beginning of a content, for search."""

        def read() -> bytes:
            with self.path(sha1).open("rb") as file:
                return file.read(HEAD_BYTES)

        return await threads.run_sync(read)

    def set_aside(self, sha1: str) -> None:
        """Take a content out of its place; inside a write transaction that saw no version of it."""
        with contextlib.suppress(FileNotFoundError):
            self.path(sha1).rename(self.aside / sha1)
            # The time of the rename counts, and a file system may keep none of its own.
            os.utime(self.aside / sha1)

    def bring_back(self, sha1: str) -> None:
        """See that a content is in its place; inside the write transaction that names it.

        Raises `FileNotFoundError` if it is nowhere.
        """
        place = self.path(sha1)
        if not place.exists():
            (self.aside / sha1).rename(place)
            durability.sync(place.parent)

    def drop_aside(self, known: Callable[[str], bool], *, before: float) -> int:
        """Remove for good what was set aside before a moment, in seconds; what has a version is put back.

        Inside a write transaction, or while no other process has the store open.
        """
        removed = 0
        for entry in os.scandir(self.aside):
            if known(entry.name):
                self.bring_back(entry.name)
            elif entry.stat().st_mtime >= before:
                continue
            with contextlib.suppress(FileNotFoundError):
                Path(entry.path).unlink()
                removed += 1
        return removed

    def sweep_incoming(self, *, alone: bool) -> int:
        """Remove what was left half arrived; with other processes around, only what is stale."""
        removed = 0
        for entry in os.scandir(self.incoming):
            with contextlib.suppress(FileNotFoundError):
                if alone or clock.time() - entry.stat().st_mtime > STALE_SECONDS:
                    Path(entry.path).unlink()
                    removed += 1
        return removed

    def sweep(self, known: Callable[[str], set[str]]) -> int:
        """Remove the blobs that no row names; `known` gives the SHA-1s that begin with two digits.

        Only while no other process has the store open.
        """
        removed = 0
        for folder in os.scandir(self.root):
            names = known(folder.name)
            for entry in os.scandir(folder.path):
                if entry.name not in names:
                    Path(entry.path).unlink()
                    removed += 1
        return removed
