"""Drafts: bytes being written, as an overlay on the content that they started from.

A draft is a sparse file and a set of extents; what the extents do not cover shows the base content, and
beyond the base, zeros.  So changing ten bytes of a large file neither downloads nor copies it.  When the
last writer is gone and the settle time has passed the draft is sealed: holes are filled from the base,
the file is fsynced and hashed, and from then on it *is* content (`cmsfs.cache.blocks`).

Calls that change a draft are ordered by its lock, under which nothing but the local disk is awaited.
Rules: `record` is what makes a write survive the process; whoever acknowledges a close calls it first.
What takes bytes away that the row speaks of is on the disk as a row before the file is cut; what adds
bytes is recorded after they are in the file.
"""

import errno
import functools
import os
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from sqlite3 import Connection
from weakref import WeakValueDictionary

import trio

from cmsfs import crashpoints, durability
from cmsfs.crashpoints import Point
from cmsfs.journal import draft_rows
from cmsfs.journal.draft_files import DraftFiles
from cmsfs.journal.extents import Extents
from cmsfs.replica import tree
from cmsfs.replica.nodes import Content, Ino
from cmsfs.replica.rows import node_rows
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal

# A thread hop costs 85 µs: worth it when the copy into the page cache takes about as long.
THREAD_FROM = 128 * 1024

# Commits a transaction and returns when it is on the disk.
Commit = Callable[[Callable[[Connection], int]], Awaitable[int]]


class Draft:
    """The draft of one node.  `Drafts` hands them out, one object for a draft at a time."""

    def __init__(
        self,
        draft_id: int,
        ino: Ino,
        path: Path,
        base: tuple[str, int] | None,
        busy: set[Ino] | None = None,
        commit: Commit | None = None,
        opened: DraftFiles | None = None,
    ) -> None:
        self._busy = set() if busy is None else busy
        self._commit = commit
        self.id = draft_id
        self.ino = ino
        self.path = path
        self.base_sha1: str | None = base[0] if base else None
        self.base_total = base[1] if base else 0
        self.base_size = self.base_total
        self.size = self.base_total
        self.extents = Extents()
        self.writers = 0
        # When the bytes last changed; None: not since the node's time was set.
        self.mtime_ns: int | None = None
        # Counts changes of the bytes: whoever works on them unlocked sees whether they moved on.
        self.generation = 0
        self.sealed = False
        self.dropped = False
        self.lock = trio.Lock()
        # Set when the draft is no more, `content` then says what it became (None: it was dropped); and when
        # its sealing has failed, so that it is written on.  Whoever has waited looks again.
        self.replaced = Signal()
        self.content: tuple[str, int] | None = None
        self._opened = opened if opened is not None else DraftFiles()
        self._file = self._opened.file(path)
        self._recorded = -1
        # The generation that is on the disk; None: not known.
        self._synced: int | None = None
        # Up to where the row says that the file holds bytes.
        self._recorded_end = 0
        # What the row is written from is read by the thread of the database.
        self._state = threading.Lock()

    def count_writers(self, by: int) -> None:
        """More or fewer handles are open for writing; while there are any, the draft is not sealed."""
        self.writers += by
        if self.writers > 0:
            self._busy.add(self.ino)
        else:
            self._busy.discard(self.ino)

    def became(self, sha1: str, size: int) -> None:
        """The draft is content from now on; whoever writes on does so to another draft."""
        self.content = (sha1, size)
        self._busy.discard(self.ino)

    # ---- file descriptor ----

    def acquire(self) -> int:
        """The open file; pair with `release`.

        Raises `FileNotFoundError` for a draft that is no more: what it was, its node says.
        """
        # What has been written must be there: an empty file in its place would be zeros for bytes.
        return self._opened.borrow(self._file, create=not self.extents.end)

    def release(self) -> None:
        self._opened.give_back(self._file)

    # ---- bytes ----

    async def write(self, offset: int, data: bytes | memoryview) -> int | None:
        """Put `data` at `offset`; the number of bytes written, which is less if the disk has no room for all.

        None if the draft is sealed: what comes after it is written to once it is `replaced`.
        Cancelled: the bytes may be in the file, and count only if they are.
        """
        async with self.lock:
            if self.sealed:
                return None
            fd = self.acquire()
            try:
                if len(data) >= THREAD_FROM:
                    written = await trio.to_thread.run_sync(_pwrite_all, fd, data, offset)
                else:
                    written = _pwrite_all(fd, data, offset)
                with self._state:
                    self.extents.add(offset, offset + written)
                    self.size = max(self.size, offset + written)
                    self._changed()
            finally:
                self.release()
        return written

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
                self._changed()
            try:
                if size < self._recorded_end and self._commit is not None:
                    await self._commit(self.record)
                    crashpoints.reached(Point.CUT_RECORDED)
            except BaseException:
                with self._state:
                    self.extents, self.base_size, self.size = before
                    self._changed()
                raise
            if size < before[2]:
                # Bytes beyond the end must not come back when the file grows again.
                self._cut(size)
        return True

    def _cut(self, size: int) -> None:
        fd = self.acquire()
        try:
            if os.fstat(fd).st_size > size:
                os.ftruncate(fd, size)
        finally:
            self.release()

    def _changed(self) -> None:
        self.generation += 1
        self.mtime_ns = time.time_ns()

    async def fill(self, offset: int, data: bytes | bytearray) -> None:
        """Put bytes of the base where the draft still shows the base; what was written meanwhile stays."""
        async with self.lock:
            fd = self.acquire()
            try:
                for start, end, where in list(self.pieces(offset, len(data))):
                    if where == "base":
                        written = _pwrite_all(fd, memoryview(data)[start - offset : end - offset], start)
                        with self._state:
                            self.extents.add(start, start + written)
                        if written < end - start:
                            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                self.release()

    def pieces(self, offset: int, length: int) -> list[tuple[int, int, str]]:
        """Where the bytes of a range are: runs `(start, end, "draft" | "base" | "zero")`, up to the size."""
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
        """The bytes of a run that the draft file holds."""
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
        """Ranges that still come from the base."""
        return [(start, end) for start, end, where in self.pieces(0, self.size) if where == "base"]

    # ---- durability ----

    @property
    def is_recorded(self) -> bool:
        """Whether the row says what the file holds."""
        return self._recorded == self.generation

    def record(self, conn: Connection) -> int:
        """Write what the draft holds into its row and its node's size, inside the caller's transaction.

        From the commit on, a killed process does not lose it; hand the number to `recorded` then.
        """
        with self._state:
            generation, size, base_size = self.generation, self.size, self.base_size
            extents, self._recorded_end = self.extents.to_json(), self.extents.end
        draft_rows.set_held(conn, self.id, extents=extents, size=size, base_size=base_size)
        node_rows.note_written(conn, self.ino, self.id, size=size, mtime_ns=self.mtime_ns)
        return generation

    def recorded(self, generation: int) -> None:
        """The transaction of the `record` that returned this number is committed."""
        self._recorded = max(self._recorded, generation)

    def stays(self) -> None:
        """Its sealing has ended without making it content: whoever waits for that writes on here."""
        self.sealed = False
        self.replaced.pulse()

    def fsync(self) -> None:
        """Wait, in this thread, until the bytes are on the disk."""
        generation = self.generation
        try:
            # By its name: a group may be larger than the pool.
            durability.sync(self.path)
        except FileNotFoundError:
            # Nothing was written to it, or it is content by now, which is on the disk.
            if not self.dropped and self.extents.end:
                raise
            return
        self._synced = generation

    @property
    def is_synced(self) -> bool:
        """Whether the bytes are on the disk as they are now."""
        return self._synced == self.generation


class Drafts:
    """All drafts of an account: made, found again after a restart, dropped."""

    def __init__(self, db: Database, root: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        # Since when each holds bytes that are unsent, as far as this process knows.
        self._begun: dict[int, float] = {}
        self._db = db
        self.root = root
        # Whoever uses a draft keeps it in memory; all others are as their rows say.
        self._live: WeakValueDictionary[int, Draft] = WeakValueDictionary()
        self._opened = DraftFiles()
        self._commit: Commit = functools.partial(db.write, durable=True)
        # Nodes whose drafts are open for writing; read from other threads too, which a set allows.
        self.busy: set[Ino] = set()
        # Nodes whose unsent bytes were appended to what the service had (`O_APPEND`), and what that was.
        self.appended: dict[Ino, Content] = {}

    def path(self, draft_id: int) -> Path:
        return self.root / f"{draft_id}.draft"

    @staticmethod
    def insert(conn: Connection, ino: Ino, base: tuple[str, int] | None, *, cut_ns: int | None = None) -> int:
        """The row of a new draft of `ino` over `base` (SHA-1, size), inside the caller's transaction; its id.

        `cut_ns`: the file is empty from this time on.  Hand the id to `started` after the commit.
        """
        sha1, size = base or (None, 0)
        draft_id = draft_rows.insert(conn, base_sha1=sha1, base_total=size)
        node_rows.set_draft(conn, ino, draft_id, size=None if cut_ns is None else 0, mtime_ns=cut_ns)
        return draft_id

    @staticmethod
    def insert_empty(conn: Connection) -> int:
        """As `insert`, of a file that is made in this transaction, with this draft."""
        return draft_rows.insert(conn, base_sha1=None, base_total=0)

    def started(self, draft_id: int, ino: Ino, base: tuple[str, int] | None) -> Draft:
        """The draft whose row was just committed."""
        if (draft := self._live.get(draft_id)) is not None:
            return draft  # somebody has found the row before whoever made it was told
        draft = Draft(draft_id, ino, self.path(draft_id), base, self.busy, self._commit, self._opened)
        draft._recorded = draft.generation
        self._live[draft_id] = draft
        self._begun[draft_id] = self.clock()
        return draft

    def find(self, draft_id: int) -> Draft | None:
        """The draft of this id, loaded from its row if nobody has it yet."""
        if draft := self._live.get(draft_id):
            return draft
        row = self._db.row(
            "SELECT d.*, n.ino FROM draft d JOIN node n ON n.draft = d.id WHERE d.id = ?", draft_id
        )
        if row is None:
            return None
        base = (row["base_sha1"], row["base_total"]) if row["base_sha1"] is not None else None
        draft = Draft(draft_id, row["ino"], self.path(draft_id), base, self.busy, self._commit, self._opened)
        draft.base_size, draft.size = row["base_size"], row["size"]
        draft.extents = Extents.from_json(row["extents"])
        draft._recorded_end = draft.extents.end
        draft._recorded = draft.generation
        self._live[draft_id] = draft
        return draft

    def base(self, draft: Draft) -> Content | None:
        """The content under a draft, with where the service has it as of now."""
        if draft.base_sha1 is None:
            return None
        row = self._db.row("SELECT remote_id, version, base_sha1 FROM node WHERE ino = ?", draft.ino)
        # The service has it if it is still the version that the node is based on.
        there = row is not None and row["base_sha1"] == draft.base_sha1 and row["remote_id"] is not None
        if row is not None and there:
            return Content(draft.base_sha1, draft.base_total, row["remote_id"], row["version"])
        # It may have been renamed over another file and have taken over that one's identity.
        where = tree.find_bytes(self._db, draft.base_sha1) or (None, None)
        return Content(draft.base_sha1, draft.base_total, *where)

    def close(self) -> None:
        """Close the files that nobody uses."""
        self._opened.close()

    def age(self, draft_id: int) -> float:
        """For how many seconds it has been written to; from any thread."""
        now = self.clock()
        return now - self._begun.setdefault(draft_id, now)

    def size(self, draft_id: int, recorded: int) -> int:
        """What has been written to it, also since it was last `recorded`; from any thread."""
        draft = self._live.get(draft_id)
        return draft.size if draft is not None else recorded

    def is_busy(self, ino: Ino) -> bool:
        """Whether the node's draft is open for writing."""
        return ino in self.busy

    @staticmethod
    def delete(conn: Connection, draft_id: int) -> None:
        """Delete a draft's row, inside the caller's transaction; follow it by `gone`."""
        node_rows.forget_draft(conn, draft_id)
        draft_rows.delete(conn, draft_id)

    def gone(self, draft_id: int) -> Path:
        """The row is deleted: forget the object; the file, for the caller to unlink."""
        self._begun.pop(draft_id, None)
        # Also if nobody has it any more: an open file takes up its room after it is removed.
        self._opened.retire(self._opened.file(self.path(draft_id)))
        draft = self._live.pop(draft_id, None)
        if draft is not None:
            draft.dropped = True
            draft.replaced.set()
        return self.path(draft_id)


def _pwrite_all(fd: int, data: bytes | memoryview, offset: int) -> int:
    """Write as much as there is room for; how much.  Raises `OSError` if there is none."""
    view, done = memoryview(data), 0
    while done < len(view):
        try:
            done += os.pwrite(fd, view[done:], offset + done)
        except OSError:
            if not done:
                raise
            # What is in the file must be known of: elsewhere it would be taken for zeros.
            break
    return done
