"""The interface to content storage: blobs by SHA-1, streamed in and out.

A content is received into a file in the folder `incoming` (an `IncomingBlob`), and `put` into storage when it
is complete.  Uploads write; downloads, archives and indexing read; I/O runs in threads, a mebibyte at a time.
Storage is a folder (`folder_blobs.py`) or a bucket (`s3/s3_blobs.py`).

A content that lost its last version is first set aside, because an upload of the same bytes may have put it
already and be about to reference it; that upload brings it back.  Both happen inside write transactions,
which are serialized across all processes.

Rule: a content is stored durably before a row references it; an unreferenced content is removed only after it
was set aside, or if no other process has the store open (see store.py).
"""

import abc
import contextlib
import errno
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

import trio

from cmsfs.runtime import chance, clock, threads

log = logging.getLogger(__name__)

# The types of `Store.read` and `Store.write`.
Read = Callable[..., list[Row]]
Write = Callable[[Callable[[Connection], Any]], Awaitable[Any]]

# Bytes per call into a thread: with 64 KiB, reading is five times slower.
CHUNK = 1024 * 1024

# How much of a file is kept for indexing while it arrives: all of most text files.
HEAD_BYTES = 10_000

# Another process may still be receiving a younger file; no upload pauses for an hour.
STALE_SECONDS = 3600

# The name of the shared value with the location of the contents, if they are in a bucket.
LOCATION = "blobs.json"


class BlobsUnavailable(OSError):
    """Content storage is temporarily unavailable."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EAGAIN, message)


class UnexpectedEnd(OSError):
    """A content ended before the bytes that were to be read."""

    def __init__(self) -> None:
        super().__init__(errno.EIO, "a content is shorter than it should be")


class ContentLost(FileNotFoundError):
    """A stored content is missing, or is shorter than it should be."""

    def __init__(self, sha1: str) -> None:
        super().__init__(errno.ENOENT, "missing or incomplete", sha1)
        self.sha1 = sha1


def log_lost(error: ContentLost) -> None:
    """Tell the administrator, in one line, of a content that could not be read."""
    log.error(
        "content %s is missing or incomplete: `cmsfs service check` tells whose files it is of; they need it"
        " from a backup, or another upload of the same bytes",
        error.sha1,
    )


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """A listing's entry for a content: size, and time of modification in microseconds."""

    sha1: str
    size: int
    modified: int


class BlobReader(abc.ABC):
    """Reads a content sequentially; blocking, and not thread-safe."""

    @abc.abstractmethod
    def read(self, size: int) -> bytes:
        """The next bytes, at most `size`; empty at the end.  Raises `OSError`."""

    @abc.abstractmethod
    def close(self) -> None: ...

    def read_exactly(self, size: int) -> bytes:
        """The next `size` bytes.  Raises `UnexpectedEnd` if there are fewer, or another `OSError`."""
        found = []
        while size > 0:
            data = self.read(size)
            if not data:
                raise UnexpectedEnd
            found.append(data)
            size -= len(data)
        return found[0] if len(found) == 1 else b"".join(found)


class BlobStore(abc.ABC):
    """Storage of contents by SHA-1."""

    def __init__(self, incoming: Path) -> None:
        self.incoming = incoming

    @abc.abstractmethod
    def put(self, sha1: str, spool: Path, file: int) -> None:
        """Store a received content durably; overwrites an existing blob, which repairs a damaged one.

        The content is in the file `spool`, open as `file`; it is moved or deleted.  Blocking.
        """

    @abc.abstractmethod
    def open(self, sha1: str, first: int = 0, end: int | None = None) -> BlobReader:
        """Open a content from `first` to before `end`; blocking.  Raises `ContentLost`.

        An open reader stays readable if the content is removed.
        """

    async def read_soon(self, sha1: str, first: int, end: int) -> bytes | None:
        """A few bytes of a content that are in memory or come from a disk within some 0.1 ms; None otherwise,
        and if they are not there."""
        return None

    @abc.abstractmethod
    def size(self, sha1: str) -> int:
        """The size of a stored content; blocking.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def stored(self, prefix: str) -> Iterator[StoredBlob]:
        """List the stored contents whose SHA-1 begins with these two digits; blocking."""

    @abc.abstractmethod
    def local_copy(self, sha1: str) -> AbstractAsyncContextManager[Path]:
        """A content as a file below `local_folder`, while the context lasts.  Raises `FileNotFoundError`."""

    @property
    @abc.abstractmethod
    def local_folder(self) -> Path:
        """The folder of the files that `local_copy` returns."""

    @abc.abstractmethod
    def set_aside(self, conn: Connection, sha1: str, *, now: int) -> None:
        """Set aside a content without versions; call it in the write transaction that found that."""

    @abc.abstractmethod
    def bring_back(self, conn: Connection, sha1: str) -> None:
        """Ensure that a content is stored and not set aside; call it in the transaction that references it.

        Raises `FileNotFoundError` if it is missing.
        """

    def ensure(self, conn: Connection, sha1: str) -> None:
        """Like `bring_back`, for a content just received; if it is missing, the client has to retry."""
        try:
            self.bring_back(conn, sha1)
        except FileNotFoundError as error:
            # A process that started while the database was unreachable swept it as a leftover.
            raise BlobsUnavailable("the received content was swept before it was referenced") from error

    @abc.abstractmethod
    async def drop_aside(self, read: Read, write: Write, *, before: int) -> int:
        """Permanently remove contents set aside before a time, unless they have a version again.

        Returns how many were removed.
        """

    @abc.abstractmethod
    def sweep(self, conn: Connection) -> int:
        """Remove unreferenced contents that a crash left; only if no other process has the store open."""

    @asynccontextmanager
    async def receive(self) -> AsyncIterator["IncomingBlob"]:
        """Receive a content; discarded at the end of the context unless it was kept."""
        incoming = IncomingBlob(self)
        try:
            yield incoming
        finally:
            # Deleting gigabytes takes a while, so it runs in a thread, even if cancelled.
            if incoming.is_open:
                with trio.CancelScope(shield=True):
                    await threads.run_sync(incoming.close)

    def keep_bytes(self, data: bytes) -> str:
        """Store a small content durably and return its SHA-1; blocking."""
        incoming = IncomingBlob(self)
        try:
            return incoming.keep_now(data)
        finally:
            incoming.close()

    @abc.abstractmethod
    def check_reachable(self) -> None:
        """Check within seconds that the storage is reachable; blocking.  Raises `OSError`."""

    @property
    def redirects_downloads(self) -> bool:
        """Whether downloads are redirected to presigned URLs."""
        return False

    def presigned_url(self, sha1: str, response_headers: Mapping[str, str]) -> str | None:
        """A short-lived URL to download a content directly; None if the storage has none.

        `response_headers` override headers of the response.
        """
        return None

    async def read_head(self, sha1: str, size: int) -> bytes:
        """The first bytes of a content of this size, for search."""

        def read() -> bytes:
            with contextlib.closing(self.open(sha1, 0, min(size, HEAD_BYTES))) as reader:
                return reader.read(HEAD_BYTES)

        return await threads.run_sync(read)

    def sweep_incoming(self, *, exclusive: bool) -> int:
        """Remove incomplete received files; without exclusive access only stale ones.  Returns how many."""
        return sweep_folder(self.incoming, exclusive=exclusive)


def sweep_folder(folder: Path, *, exclusive: bool) -> int:
    """Remove leftover files in a folder and below it; without exclusive access only stale ones.

    Returns how many were removed.
    """
    removed = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False):
                removed += sweep_folder(Path(entry.path), exclusive=exclusive)
            elif exclusive or clock.time() - entry.stat().st_mtime > STALE_SECONDS:
                Path(entry.path).unlink()
                removed += 1
    return removed


def has_version(conn: Connection, sha1: str) -> bool:
    """Whether a version references a content."""
    return conn.execute("SELECT 1 FROM version WHERE sha1 = ?", (sha1,)).fetchone() is not None


def referenced_sizes(read: Read, prefix: str) -> dict[str, int]:
    """The sizes of the referenced contents whose SHA-1 begins with a prefix, by SHA-1."""
    sql = "SELECT sha1, max(size) AS size FROM version WHERE sha1 >= ? AND sha1 < ?||'g' GROUP BY sha1"
    return {row["sha1"]: row["size"] for row in read(sql, prefix, prefix)}


def referenced(conn: Connection, prefix: str) -> set[str]:
    """The referenced contents whose SHA-1 begins with a prefix."""
    sql = "SELECT DISTINCT sha1 FROM version WHERE sha1 >= ? AND sha1 < ?||'g'"
    return {row["sha1"] for row in conn.execute(sql, (prefix, prefix))}


class IncomingBlob:
    """A content being received: `write` it, then `keep` it.  Construct with `BlobStore.receive`."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._path = blobs.incoming / f"{os.getpid()}-{chance.uuid4().hex}"
        self._file = -1  # -1 before the first data, and after the file was kept or discarded
        self._hash = hashlib.sha1(usedforsecurity=False)
        self._pending: list[bytes] = []
        self._pending_size = 0
        self.size = 0
        self.head = b""  # the first bytes, for search

    @property
    def is_open(self) -> bool:
        """Whether there is a file on disk that was not kept."""
        return self._file >= 0

    def close(self) -> None:
        """Discard the file if it was not kept."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()

    async def write(self, chunk: bytes) -> None:
        """Append bytes.  Cancelled: the content is incomplete and must be discarded."""
        self._pending.append(chunk)
        self._pending_size += len(chunk)
        if self._pending_size >= CHUNK:
            await threads.run_sync(self._drain)

    async def reset(self) -> None:
        """Discard the bytes received so far and start over: they were not the content."""
        self._pending.clear()
        self._pending_size, self.size, self.head = 0, 0, b""
        self._hash = hashlib.sha1(usedforsecurity=False)
        if self._file >= 0:
            os.lseek(self._file, 0, os.SEEK_SET)
            await threads.run_sync(os.ftruncate, self._file, 0)

    async def keep(self, check: Callable[[str], None] | None = None) -> str:
        """Store the content durably and return its SHA-1.

        `check` is called with the SHA-1 first, in the thread; if it raises, nothing is stored.
        """

        def run() -> str:
            self._drain()
            if check is not None:
                check(self._hash.hexdigest())
            return self.keep_now()

        return await threads.run_sync(run)

    async def sha1(self) -> str:
        """The SHA-1 of the bytes received so far."""
        return await threads.run_sync(self.sha1_now)

    def sha1_now(self) -> str:
        """`sha1`, blocking."""
        self._drain()
        return self._hash.hexdigest()

    def append_part(self, opener: Callable[[], BlobReader], size: int) -> None:
        """Append `size` bytes of a reader; blocking.  `OSError`: the content is incomplete."""
        with contextlib.closing(opener()) as reader:
            self.append_from(reader, size)

    def append_from(self, reader: BlobReader, size: int) -> None:
        """Append `size` bytes of an open reader; blocking.  `OSError`: the content is incomplete."""
        while size > 0:
            data = reader.read_exactly(min(size, CHUNK))
            size -= len(data)
            self._append(data)

    def _append(self, data: bytes) -> None:
        self._pending.append(data)
        self._drain()

    def move_to(self, place: Callable[[Path, int], None]) -> None:
        """Let `place` store the open file elsewhere than among the blobs; blocking.

        `place` moves or deletes the file.
        """
        self._drain()
        place(self._path, self._file)
        self._close_file()

    def _close_file(self) -> None:
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
        """`keep`, blocking; appends `data` first."""
        self._pending.append(data)
        self._drain()
        sha1 = self._hash.hexdigest()
        self._blobs.put(sha1, self._path, self._file)
        self._close_file()
        return sha1
