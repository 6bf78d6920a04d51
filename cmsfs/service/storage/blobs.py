"""Where contents are kept: the port to bytes under their SHA-1, streamed in and out.

A content arrives in a file of the folder `incoming` (an `IncomingBlob`) and is `put` in its place when it is
complete.  Used by uploads (in), downloads, archives and the indexing (out); all of it works in threads, a
mebibyte at a time.  Contents are kept in a folder (`folder_blobs.py`) or in a bucket (`s3/s3_blobs.py`).

A content that lost its last version is set aside first: an upload of the same bytes may have put it in place
already and only be about to name it, and then has it brought back.  Both happen inside write transactions,
of which there is one at a time over all processes.

Rule: a content is where it stays, durably, before a row names it; what no row names goes only after it was
set aside, or when no other process has the store open (see store.py).
"""

import abc
import contextlib
import errno
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection, Row
from typing import Any

import trio

from cmsfs.runtime import chance, clock, threads

# Reads on the loop, and changes that are durable: `Store.read` and `Store.write`.
Read = Callable[..., list[Row]]
Write = Callable[[Callable[[Connection], Any]], Awaitable[Any]]

# One hop into a thread a mebibyte: 64 KiB a hop reads at a fifth of the rate.
CHUNK = 1024 * 1024

# How much of a file is looked at while it arrives: all of most texts.
HEAD_BYTES = 10_000

# Another process may be receiving this file right now; nobody is silent for an hour in mid-upload.
STALE_SECONDS = 3600

# Under this name a store has noted in which bucket its bytes are, if they are in one.
NOTE = "blobs.json"


class BlobsUnavailable(OSError):
    """Contents are kept where nobody answers now; later somebody may."""

    def __init__(self, said: str) -> None:
        super().__init__(errno.EAGAIN, said)


@dataclass(frozen=True, slots=True)
class StoredBlob:
    """What a listing says of a content: how long it is, and when it came, in microseconds."""

    sha1: str
    size: int
    modified: int


class BlobReader(abc.ABC):
    """Bytes of a content in their order; for threads, one at a time."""

    @abc.abstractmethod
    def read(self, size: int) -> bytes:
        """The next bytes, at most so many; none: there are no more.  Raises `OSError`."""

    @abc.abstractmethod
    def close(self) -> None: ...

    def read_exactly(self, size: int) -> bytes:
        """The next bytes, so many.  Raises `OSError` if there are fewer."""
        found = []
        while size > 0:
            data = self.read(size)
            if not data:
                raise OSError(errno.EIO, "a content is shorter than it should be")
            found.append(data)
            size -= len(data)
        return found[0] if len(found) == 1 else b"".join(found)


class BlobStore(abc.ABC):
    """Contents by SHA-1, and what may be asked of them."""

    def __init__(self, incoming: Path) -> None:
        self.incoming = incoming

    @abc.abstractmethod
    def put(self, sha1: str, spool: Path, file: int) -> None:
        """Give a content that has arrived its place, durably, over an equal one too: a damaged one is healed.

        It is in the file `spool`, open as `file`, which has another name afterwards or none.  For a thread.
        """

    @abc.abstractmethod
    def open(self, sha1: str, first: int = 0, end: int | None = None) -> BlobReader:
        """A content from one byte to before another; for a thread.  Raises `FileNotFoundError`.

        What is being read stays readable, though the content be removed.
        """

    @abc.abstractmethod
    def size(self, sha1: str) -> int:
        """How long a content is that is in its place; for a thread.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def stored(self, prefix: str) -> Iterator[StoredBlob]:
        """The contents in their places whose SHA-1 begins with two digits; for a thread."""

    @abc.abstractmethod
    def at_hand(self, sha1: str) -> AbstractAsyncContextManager[Path]:
        """A content as a file below `readable` while the context lasts.  Raises `FileNotFoundError`."""

    @property
    @abc.abstractmethod
    def readable(self) -> Path:
        """The folder that `at_hand` names files of."""

    @abc.abstractmethod
    def set_aside(self, conn: Connection, sha1: str, *, now: int) -> None:
        """A content has no version any more; inside the write transaction that saw that."""

    @abc.abstractmethod
    def bring_back(self, conn: Connection, sha1: str) -> None:
        """See that a content is in its place; inside the write transaction that names it.

        Raises `FileNotFoundError` if it is nowhere.
        """

    def ensure(self, conn: Connection, sha1: str) -> None:
        """As `bring_back`, for a content that has just arrived: whoever sent it is asked to send it again."""
        try:
            self.bring_back(conn, sha1)
        except FileNotFoundError as error:
            # A process that started while the database was out of reach took it for left behind.
            raise BlobsUnavailable("what had arrived was swept before it was named") from error

    @abc.abstractmethod
    async def drop_aside(self, read: Read, write: Write, *, before: int) -> int:
        """Remove for good what was set aside before a moment; what has a version again stays."""

    @abc.abstractmethod
    def sweep(self, conn: Connection) -> int:
        """Remove what a crash left and no row names; while no other process has the store open."""

    @asynccontextmanager
    async def receive(self) -> AsyncIterator["IncomingBlob"]:
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

    @abc.abstractmethod
    def reach(self) -> None:
        """Look whether contents can be had at all, in seconds; for a thread.  Raises `OSError`."""

    @property
    def redirects(self) -> bool:
        """Whether clients are given addresses of contents."""
        return False

    def address(self, sha1: str, answer: Mapping[str, str]) -> str | None:
        """Where a content can be had for a moment without asking here; `answer` are headers of the answer.

        None: nowhere.
        """
        return None

    async def beginning(self, sha1: str, size: int) -> bytes:
        """The first bytes of a content of so many, for search."""

        def read() -> bytes:
            with contextlib.closing(self.open(sha1, 0, min(size, HEAD_BYTES))) as reader:
                return reader.read(HEAD_BYTES)

        return await threads.run_sync(read)

    def sweep_incoming(self, *, alone: bool) -> int:
        """Remove what was left half arrived; with other processes around, only what is stale."""
        return sweep_folder(self.incoming, alone=alone)


def sweep_folder(folder: Path, *, alone: bool) -> int:
    """Remove the files that a crash left in a folder, or below it; how many."""
    removed = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False):
                removed += sweep_folder(Path(entry.path), alone=alone)
            elif alone or clock.time() - entry.stat().st_mtime > STALE_SECONDS:
                Path(entry.path).unlink()
                removed += 1
    return removed


def has_version(conn: Connection, sha1: str) -> bool:
    """Whether a row names a content."""
    return conn.execute("SELECT 1 FROM version WHERE sha1 = ?", (sha1,)).fetchone() is not None


def sizes(read: Read, prefix: str) -> dict[str, int]:
    """The contents that rows name, of those whose SHA-1 begins so, and how long they are."""
    sql = "SELECT sha1, max(size) AS size FROM version WHERE sha1 >= ? AND sha1 < ?||'g' GROUP BY sha1"
    return {row["sha1"]: row["size"] for row in read(sql, prefix, prefix)}


def named(conn: Connection, prefix: str) -> set[str]:
    """The contents that rows name, of those whose SHA-1 begins so."""
    sql = "SELECT DISTINCT sha1 FROM version WHERE sha1 >= ? AND sha1 < ?||'g'"
    return {row["sha1"] for row in conn.execute(sql, (prefix, prefix))}


class IncomingBlob:
    """A content that is arriving: `write` it, then `keep` it.  Construct with `BlobStore.receive`."""

    def __init__(self, blobs: BlobStore) -> None:
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
        return await threads.run_sync(self.sha1_now)

    def sha1_now(self) -> str:
        """`sha1`, for a thread."""
        self._drain()
        return self._hash.hexdigest()

    def append_part(self, opener: Callable[[], BlobReader], size: int) -> None:
        """Take so many bytes; for a thread.  Raises `OSError`: the content is incomplete then."""
        with contextlib.closing(opener()) as reader:
            self.append_from(reader, size)

    def append_from(self, reader: BlobReader, size: int) -> None:
        """Take bytes of another content; for a thread.  Raises `OSError`: the content is incomplete then."""
        while size > 0:
            data = reader.read_exactly(min(size, CHUNK))
            size -= len(data)
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._pending.append(data)
        self._drain()

    def hand_to(self, place: Callable[[Path, int], None]) -> None:
        """Have the file, which is open, put somewhere else than among the blobs; for a thread.

        It has another name afterwards or none.
        """
        self._drain()
        place(self._path, self._file)
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
        sha1 = self._hash.hexdigest()
        self._blobs.put(sha1, self._path, self._file)
        self._put_down()
        return sha1
