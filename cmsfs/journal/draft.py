"""Drafts: bytes being written, as an overlay on the content that they started from.

A draft is a sparse file and a set of extents; what the extents do not cover shows the base content, and
beyond the base, zeros.  So changing ten bytes of a large file neither downloads nor copies it.  When the
last writer is gone and the settle time has passed the draft is sealed: holes are filled from the base,
the file is fsynced and hashed, and from then on it *is* content (`cmsfs.cache.blocks`).

Calls that change a draft are ordered by its lock, under which nothing but the local disk is awaited.
Rules: `record` is what makes a write survive the process; whoever acknowledges a close calls it first.
What takes bytes away that the row speaks of is on the disk as a row before the file is cut; what adds
bytes is recorded after they are in the file.  Where the row has the bytes, too, it counts after a crash.
"""

import errno
import functools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs import crashpoints, durability
from cmsfs.crashpoints import Point
from cmsfs.journal import draft_rows
from cmsfs.journal.draft_files import DraftFiles
from cmsfs.journal.extents import Extents
from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import clock, threads
from cmsfs.wakeup import LockGuard, Signal

# A round trip to a thread costs 85 µs: worth it if the copy into the page cache takes about as long.
THREAD_FROM = 128 * 1024

# Drafts up to this size are also kept in their rows, so one fsync of the log makes many of them durable.
ROW_BYTES = 16 * 1024

# Commits a transaction durably.
Commit = Callable[[Callable[[Connection], int]], Awaitable[int]]


class DraftVersion:
    """Stands for the bytes of a draft, also when the draft has left memory or has become content."""

    __slots__ = ("__weakref__", "content")

    def __init__(self) -> None:
        self.content: tuple[str, int] | None = None


class Draft:
    """The draft of one node.  Get it from `Drafts`, which has one object per draft."""

    def __init__(
        self,
        draft_id: int,
        ino: Ino,
        path: Path | str,
        base: tuple[str, int] | None,
        busy: set[Ino] | None = None,
        commit: Commit | None = None,
        opened: DraftFiles | None = None,
        version: DraftVersion | None = None,
    ) -> None:
        self._busy = set() if busy is None else busy
        self._commit = commit
        self.id = draft_id
        self.ino = ino
        self.base_sha1: str | None = base[0] if base else None
        self.base_total = base[1] if base else 0
        self.base_size = self.base_total
        self.size = self.base_total
        self.extents = Extents()
        self.writers = 0
        # When the bytes last changed; None: not since the node's time was set.
        self.mtime_ns: int | None = None
        # Counts changes of the bytes, so that code working without the lock can detect them.
        self.generation = 0
        self.sealed = False
        self.dropped = False
        self.lock = trio.Lock()
        # Set when the draft has ended (`content` is then what it became, None: it was dropped), and pulsed
        # when sealing failed, so that writing continues.  Waiters check the state again.
        self.replaced = Signal()
        self.version = DraftVersion() if version is None else version
        self._opened = opened if opened is not None else DraftFiles()
        self._file = self._opened.file(str(path))
        # Releases what `acquire` has borrowed.
        self.release = functools.partial(self._opened.give_back, self._file)
        # The generation that the row describes.
        self.recorded_to = -1
        # The generation that is on disk; None: unknown.
        self.synced_to: int | None = None
        # The end of the file's bytes according to the row.
        self._recorded_end = 0
        # Whether the row also has the bytes, so that the file need not be fsynced.
        self.in_row = False
        self._is_next_in_row = False
        # Protects what `record` reads, which runs in the database's thread.
        self._state = self._file.lock

    @property
    def path(self) -> Path:
        return self._file.path

    def count_writers(self, by: int) -> None:
        """Change the number of handles open for writing; the draft is not sealed while there are any."""
        self.writers += by
        if self.writers > 0:
            self._busy.add(self.ino)
        else:
            self._busy.discard(self.ino)

    def became(self, sha1: str, size: int) -> None:
        """Mark the draft as turned into content; later writes go to another draft."""
        self.version.content = (sha1, size)
        self._busy.discard(self.ino)

    @property
    def content(self) -> tuple[str, int] | None:
        """SHA-1 and size of the content that it became."""
        return self.version.content

    # ---- file descriptor ----

    def acquire(self) -> int:
        """The open file; pair with `release`.

        Raises `FileNotFoundError` for a draft that is no more: what it was, its node says.
        """
        # What has been written must be there: an empty file in its place would be zeros for bytes.
        return self._opened.borrow(self._file, create=not self.extents.end)

    # ---- bytes ----

    async def write(self, offset: int, data: bytes | memoryview) -> int | None:
        """Put `data` at `offset`; the number of bytes written, which is less if the disk has no room for all.

        None if the draft is sealed: what comes after it is written to once it is `replaced`.
        Cancelled: the bytes may be in the file, and count only if they are.
        """
        async with LockGuard(self.lock):
            if self.sealed:
                return None
            with self._state:
                if not self._file.is_made and offset + len(data) <= ROW_BYTES:
                    self._wrote(offset, data)
                    return len(data)
            fd = self._opened.borrow(self._file, create=not self.extents.end)  # as `acquire`
            try:
                if len(data) >= THREAD_FROM:
                    written = await threads.run_sync(_pwrite_all, fd, data, offset)
                    with self._state:
                        self._wrote(offset, data[:written])
                else:
                    # A thread that copies the bytes into the row sees the file before or after this write.
                    with self._state:
                        written = _pwrite_all(fd, data, offset)
                        self._wrote(offset, data[:written])
            except OSError:
                # Some of the bytes may be in the file, and who has read it without the lock must know.
                with self._state:
                    self.generation += 1
                raise
            finally:
                self.release()
        return written

    def _wrote(self, offset: int, data: bytes | memoryview) -> None:
        end = offset + len(data)
        self.extents.add(offset, end)
        self.size = max(self.size, end)
        if (small := self._file.small) is not None:
            if end <= ROW_BYTES:
                small.extend(bytes(max(0, offset - len(small))))
                small[offset:end] = data
            else:
                self._file.small = None
        self.generation, self.mtime_ns = self.generation + 1, clock.time_ns()

    async def truncate(self, size: int) -> bool:
        """Cut or lengthen (with zeros) to `size`; False if the draft is sealed, as `write`.

        Bytes that the row speaks of are cut off there first, durably: or else a crash would show what lies
        below them, the content that they had replaced.
        """
        async with self.lock:
            if self.sealed:
                return False
            before = (Extents(self.extents), self.base_size, self.size)
            with self._state:
                self.extents.clip(size)
                self.base_size = min(self.base_size, size)
                self.size = size
                self.generation, self.mtime_ns = self.generation + 1, clock.time_ns()
            try:
                if size < self._recorded_end and self._commit is not None:
                    await self._commit(self.record)
                    self.in_row = self._is_next_in_row
                    crashpoints.reached(Point.CUT_RECORDED)
            except BaseException:
                with self._state:
                    self.extents, self.base_size, self.size = before
                    self.generation, self.mtime_ns = self.generation + 1, clock.time_ns()
                raise
            if size < before[2]:
                # Bytes beyond the end must not reappear when the file grows again.
                self._cut(size)
        return True

    def _cut(self, size: int) -> None:
        with self._state:
            if self._file.small is not None:
                del self._file.small[size:]
            if not self._file.is_made:
                return
        fd = self.acquire()
        try:
            if os.fstat(fd).st_size > size:
                os.ftruncate(fd, size)
        finally:
            self.release()

    async def fill(self, offset: int, data: bytes | bytearray) -> None:
        """Fill holes with bytes of the base; bytes written meanwhile are kept."""
        async with self.lock:
            fd = self.acquire()
            try:
                for start, end, where in list(self.pieces(offset, len(data))):
                    if where == "base":
                        written = _pwrite_all(fd, memoryview(data)[start - offset : end - offset], start)
                        with self._state:
                            self.extents.add(start, start + written)
                            self.synced_to = None
                        if written < end - start:
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                self.release()

    def pieces(self, offset: int, length: int) -> list[tuple[int, int, str]]:
        """Return the sources of a range, up to the size: runs `(start, end, "draft" | "base" | "zero")`."""
        result: list[tuple[int, int, str]] = []
        for start, end, held in self.extents.pieces(offset, min(offset + length, self.size)):
            if held:
                result.append((start, end, "draft"))
                continue
            if start < self.base_size:
                result.append((start, min(end, self.base_size), "base"))
            if end > self.base_size:
                result.append((max(start, self.base_size), end, "zero"))
        return result

    def read_held(self, start: int, end: int) -> bytes:
        """Return the bytes of a run of the draft's file."""
        if (small := self._file.small) is not None:
            data = bytes(small[start:end])
        else:
            fd = self.acquire()
            try:
                data = os.pread(fd, end - start, start)
            finally:
                self.release()
        if len(data) < end - start:
            if not self.extents.covers(start, end):
                return data.ljust(end - start, b"\0")  # it has been cut since the caller looked
            raise OSError(errno.EIO, f"{self.path} has fewer bytes than were written")
        return data

    def holes(self) -> list[tuple[int, int]]:
        """Return the ranges that still come from the base."""
        return [(start, end) for start, end, where in self.pieces(0, self.size) if where == "base"]

    # ---- durability ----

    @property
    def is_recorded(self) -> bool:
        """Whether the row is up to date with the file."""
        return self.recorded_to == self.generation

    def record(self, conn: Connection, *, is_synced: bool = False) -> int:
        """Save the draft's state to its row and its node's size, inside the caller's transaction.

        After the commit a killed process does not lose it; pass the returned generation to `recorded` then.
        It is an earlier generation if nothing was written, because the row had the bytes and they no longer
        fit: then fsync the file, which has them, and call again with `is_synced`.
        """
        with self._state:
            fits_row = not self.base_size and self.extents.end <= ROW_BYTES
            if self.in_row and not (fits_row or is_synced):
                # Only the row has made the bytes durable: before it records that they, and later ones, are in
                # the file only, the file and its name must be fsynced.
                return self.recorded_to
            generation, size, base_size = self.generation, self.size, self.base_size
            extents, self._recorded_end = self.extents.to_json(), self.extents.end
            data = self._read_all() if fits_row else None
            self._is_next_in_row = data is not None
        draft_rows.set_held(conn, self.id, extents=extents, size=size, base_size=base_size, data=data)
        node_rows.note_written(conn, self.ino, self.id, size=size, mtime_ns=self.mtime_ns)
        return generation

    def recorded(self, generation: int) -> None:
        """Note that the transaction of the `record` that returned this number is committed."""
        if generation > self.recorded_to:
            self.recorded_to, self.in_row = generation, self._is_next_in_row

    def _read_all(self) -> bytes:
        """Return the file's bytes; from any thread."""
        if not self.extents.end:
            return b""
        if self._file.small is not None:
            return bytes(self._file.small[: self.extents.end])
        fd = durability.open_file(self.path, os.O_RDONLY)
        try:
            data = os.pread(fd, self.extents.end, 0)
        finally:
            os.close(fd)
        if len(data) < self.extents.end:
            raise OSError(errno.EIO, f"{self.path} has fewer bytes than were written")
        return data

    def note_fileless(self) -> None:
        """Note that only the row has the bytes, for `Drafts.make_files`."""
        if not self._file.is_made:
            self._opened.fileless.add(self.id)

    def in_memory(self) -> bytes | None:
        """Return all bytes, if they are in memory and the row only."""
        if self._file.small is None or self._file.is_made:
            return None
        return bytes(self._file.small[: self.size]).ljust(self.size, b"\0")

    def make_file(self) -> None:
        """Write the bytes to the file if they are in memory and the row only; from any thread."""
        self._file.make()

    def stays(self) -> None:
        """Note that sealing failed: writers that wait for it continue with this draft."""
        self.sealed = False
        self.replaced.pulse()

    def fsync(self, *, size: int | None = None) -> None:
        """Fsync the file in the calling thread, after giving it at least this size."""
        generation = self.generation
        try:
            # Opened by name: a group may be larger than the pool of descriptors.
            fd = self._file.open_made()
        except FileNotFoundError:
            # Nothing was written to it, or it has become content, which is on disk.
            if not self.dropped and self.extents.end:
                raise
            return
        try:
            if size and os.fstat(fd).st_size < size:
                # Not cut in any case: it may have been written to since the caller looked.
                os.posix_fallocate(fd, 0, size)
            os.fsync(fd)
        finally:
            os.close(fd)
        self.synced_to = generation


def _pwrite_all(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write as much as there is space for; return how much.  Raises `OSError` if nothing fits."""
    view, done = memoryview(data), 0
    while done < len(view):
        try:
            done += os.pwrite(fd, view[done:], offset + done)
        except OSError:
            if not done:
                raise
            # Report the bytes that were written: otherwise they would count as zeros.
            break
    return done
