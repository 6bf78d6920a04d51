"""SQLite under trio: short reads and short transactions on the event loop, all others in a worker thread.

A point read takes 6 µs on the loop and 80 µs through a thread, so bounded reads stay here.  A transaction of
a few statements takes 60 µs on the loop and 300 µs through a thread, with four context switches: what a call
of a program changes is committed here, too.  Such a commit appends to the write-ahead log and does no more:
it does not wait for the disk.  What does is in a thread: writing the log back (a checkpoint, 20 ms), a
durable commit, and whatever is written while the log is being fsynced.  Nor does the loop wait for a long
transaction: whoever writes meanwhile is suspended.  Used by the replica and by the embedded service.

Rules: after `await db.write(f)` returns, reads on the loop see what `f` did.  Transactions run one after
another, in the order in which they were asked for, wherever they run.
"""

import errno
import logging
import os
import resource
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import trio

from cmsfs import database_files, durability, process_env
from cmsfs.runtime import threads
from cmsfs.wakeup import Signal, Taken

log = logging.getLogger(__name__)

T = TypeVar("T")

Connection = sqlite3.Connection
DamageFound = sqlite3.DatabaseError
Row = sqlite3.Row

# The log is written back when it has become so long: 4 MiB.
LOG_PAGES = 1000
_FRAME_BYTES = 4096 + 24

# A short transaction adds some ten pages to the log; to look at its length takes a system call.
_LOOK_EVERY = 16

# On a full disk the log is not cut, and its length says nothing: it is written back after so many
# transactions.
_WRITE_BACK_EVERY_WHEN_FULL = 4

# Long reads go through a table once, and there may be several of them.
LONG_READ_CACHE_KIB = 4 * 1024


class Database:
    """A database file: reads see the last commit, writes are functions run in one transaction each.

    Construct with `open_database`.
    """

    def __init__(self, path: Path, reader: Connection, writer: Connection) -> None:
        self.path = path
        self._log = Path(f"{path}-wal")
        self._reader = reader
        self._writer = writer
        self._writing = trio.Lock()
        # The connection to read on: the writer's, since each commit of another one costs a connection the
        # pages that it has in memory; unless a thread has it, and may be amid a transaction.
        self._nearest = writer
        # Pulsed after each transaction of ours, for whoever would look again and again otherwise.
        self.written = Signal()
        # How many fsyncs of the log are under way.
        self._syncing = 0
        self._long_reads = trio.CapacityLimiter(4)
        self._idle: list[Connection] = []
        self._most_log = _log_pages() * _FRAME_BYTES
        # At which length the log is to be written back.
        self._trim_at = self._most_log
        # How many transactions there were since it was looked at.
        self._unlooked = _LOOK_EVERY
        # Whether the log, once it is cut, may have no room on the disk to grow again.
        self._is_disk_full = False
        # Says that; called before each transaction, where it runs, to see that there is room for it.
        self.make_room: Callable[[], bool] | None = None
        # Called after each transaction, where it ran, whether it was committed or rolled back.
        self.ended: Callable[[], None] | None = None

    def define(self, name: str, function: Callable[..., Any], *, arguments: int) -> None:
        """Let transactions call this from SQL.  It runs where the transaction does."""
        self._writer.create_function(name, arguments, function)

    def row(self, sql: str, *args: Any) -> Row | None:
        """The first row, here and now; only for indexed, bounded queries."""
        found: Row | None = self._nearest.execute(sql, args).fetchone()
        return found

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """All rows, here and now; only for indexed, bounded queries."""
        return self._nearest.execute(sql, args).fetchall()

    def version(self) -> int:
        """A number that is another one after every commit, whoever made it."""
        # Of a connection that never commits: its own commits do not change what it counts.
        found: int = self._reader.execute("PRAGMA data_version").fetchone()[0]
        return found

    async def write(self, txn: Callable[[Connection], T], *, durable: bool = False) -> T:
        """Run `txn` inside one transaction in a thread, commit, and return what it returned.

        With `durable` the commit is on disk (fsync) when this returns, and with it every earlier
        commit; otherwise it survives a killed process but not a power cut.  An exception out of `txn`
        rolls back and is raised here; a full disk is an `OSError` (ENOSPC).  Cancelled: before the start
        nothing happens; once running, the transaction is finished first.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        async with Taken(self._writing):
            result = await self._run_away(txn, durable)
        self.written.pulse()
        return result

    async def write_short(self, txn: Callable[[Connection], T]) -> T:
        """As `write`, for a transaction of a few indexed statements: on the loop, where that cannot wait for
        the disk."""
        await trio.lowlevel.checkpoint_if_cancelled()
        async with Taken(self._writing):
            most = _WRITE_BACK_EVERY_WHEN_FULL if self._is_disk_full else _LOOK_EVERY
            if self._syncing or (self._unlooked >= most and self._is_log_due()):
                result = await self._run_away(txn)
            else:
                result = self._run(txn)
        self.written.pulse()
        return result

    async def query(self, fn: Callable[[Connection], T]) -> T:
        """Run an unbounded read in a worker thread on a read-only connection."""
        return await threads.run_sync(self._read, fn, limiter=self._long_reads)

    async def write_back(self) -> None:
        """Write the log back now: what the last process left of it may be all the room that there is."""
        async with self._writing:
            self._is_disk_full = self.make_room is not None and self.make_room()
            await threads.run_sync(self._trim)

    async def sync_log(self) -> None:
        """Bring every commit so far to the disk.

        They are all in the log (or, after it was written back, which fsyncs by itself, in the database file).
        """
        with self.log_syncing():
            await threads.run_sync(self.fsync_log)

    @contextmanager
    def log_syncing(self) -> Iterator[None]:
        """While this lasts a thread may `fsync_log`: the loop does not write to the log, where it would wait
        for the disk, too."""
        self._syncing += 1
        try:
            yield
        finally:
            self._syncing -= 1

    def fsync_log(self) -> None:
        """As `sync_log`, in this thread, inside of `log_syncing`."""
        with suppress(FileNotFoundError):
            durability.sync(self._log)

    async def _run_away(self, txn: Callable[[Connection], T], durable: bool = False) -> T:
        self._nearest = self._reader
        try:
            return await threads.run_sync(self._run, txn, durable, True)
        finally:
            self._nearest = self._writer

    def _run(self, txn: Callable[[Connection], T], durable: bool = False, in_thread: bool = False) -> T:
        """The transaction; where the loop does not wait for it, the log is then written back if it is due."""
        conn = self._writer
        self._is_disk_full = self.make_room is not None and self.make_room()
        self._unlooked += 1
        if durable:
            conn.execute("PRAGMA synchronous=FULL")
        try:
            conn.execute("BEGIN IMMEDIATE")
            result = txn(conn)
            conn.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path)) from error
            raise
        finally:
            # SQLite has rolled back by itself where the disk failed it.
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            if self.ended is not None:
                self.ended()
            if durable:
                conn.execute("PRAGMA synchronous=NORMAL")
            if in_thread and self._is_log_due():
                self._trim()
        return result

    def _is_log_due(self) -> bool:
        """Whether the log is to be begun, or to be written back."""
        if self._is_disk_full:
            return self._unlooked >= _WRITE_BACK_EVERY_WHEN_FULL
        self._unlooked = 0
        return not 0 < self._log_length() < self._trim_at

    def _log_length(self) -> int:
        # The file is cut to what is in it when it is begun anew.
        try:
            return self._log.stat().st_size
        except FileNotFoundError:
            return 0

    def _trim(self) -> None:
        """Write the log back, and begin it anew.

        The next commit would fsync its beginning, for which the loop must not wait: so that is done here.
        """
        self._unlooked = 0
        try:
            self._writer.execute(f"PRAGMA journal_size_limit={-1 if self._is_disk_full else 0}")
            _, frames, done = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames == done:
                version = self._writer.execute("PRAGMA user_version").fetchone()[0]
                self._writer.execute(f"PRAGMA user_version={version}")
        except sqlite3.Error as error:
            log.info("the write-ahead log of %s could not be written back: %s", self.path, error)
        # Where readers keep it in use it goes on as long as it is, and is written back later again.
        self._trim_at = self._log_length() + self._most_log

    def _read(self, fn: Callable[[Connection], T]) -> T:
        try:
            conn = self._idle.pop()
        except IndexError:
            conn = database_files.connect(self.path, read_only=True, cache_kib=LONG_READ_CACHE_KIB)
        try:
            return fn(conn)
        finally:
            self._idle.append(conn)

    def limit_log(self, nbytes: int) -> None:
        """Have the log written back before it is much longer; to be called before the first write."""
        self._most_log = min(_log_pages(), max(16, nbytes // 4096)) * _FRAME_BYTES
        self._trim_at = self._most_log

    def close(self) -> None:
        """Close every connection; the caller has stopped using the database."""
        for conn in (*self._idle, self._reader, self._writer):
            conn.close()
        self._idle.clear()


def _log_pages() -> int:
    """How long the log becomes before it is written back; shorter where files may not become as large."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return LOG_PAGES if limit < 0 else max(16, min(LOG_PAGES, limit // 8192 // 2))


@asynccontextmanager
async def open_database(
    path: Path, schema: str, *, version: int = 1, upgrades: Mapping[int, database_files.Upgrade] | None = None
) -> AsyncIterator[Database]:
    """A database at `path`, made with `schema` if it is new, readable by this user only.

    `upgrades` has, for each older version, what makes the next one of it; all of it runs in one transaction.
    Raises `UserError` if the file is not a database or has a format that no upgrade leads on from.
    """
    process_env.private_folder(path.parent)
    if not path.exists():
        path.touch(mode=0o600)
    reader, writer = await threads.run_sync(database_files.prepare, path, schema, version, upgrades or {})
    db = Database(path, reader, writer)
    try:
        yield db
    finally:
        db.close()
