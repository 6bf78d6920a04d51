"""SQLite under trio: short reads and short transactions on the event loop, all others in a worker thread.

A point read takes 6 µs on the loop and 80 µs through a thread, so bounded reads run on the loop.  A
transaction of a few statements takes 60 µs on the loop and 300 µs through a thread, with four context
switches, so the changes of a single file system call are committed on the loop too.  Such a commit only
appends to the write-ahead log and does not wait for the disk.  Everything that does wait runs in a thread:
WAL checkpoints (20 ms), durable commits, and transactions that start while the log is being fsynced.  The
loop does not wait for a long transaction either: other writers are suspended.  `write_back` does most of a
checkpoint without suspending anybody.  Used by the replica and by the embedded service.

A transaction that promises nothing yet (a file that is being made and not closed) may stay open until the
next one, which is committed together with it: `write_lazily`.

Rules: after `await db.write(f)` returns, reads on the loop see what `f` did.  Transactions run one at a time,
in the order of their requests, wherever they run.  None is left open while a thread uses a connection for
which it matters: whoever begins that calls `settle`.
"""

import errno
import logging
import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import trio

from cmsfs import database_files, process_env
from cmsfs.runtime import threads
from cmsfs.wakeup import LockGuard, Signal

log = logging.getLogger(__name__)

T = TypeVar("T")

Connection = sqlite3.Connection
DamageFound = sqlite3.DatabaseError
Row = sqlite3.Row

# With `write_back` and much room on the disk, a checkpoint is due only when the log is this many times as
# long.  `write_back` restarts it earlier, but not often: transactions are suspended for three fsyncs.
MOST_LOGS = 16
RESTARTED_LOGS = 8

# Check the log's length every so many transactions: each check is a system call, and a short transaction
# adds only about ten pages.
_CHECK_LOG_EVERY = 16

# On a full disk the log must not grow: checkpoint every so many transactions.
_CHECKPOINT_EVERY_WHEN_FULL = 4

# Small, because a long read scans a table only once and several may run at a time.
LONG_READ_CACHE_KIB = 4 * 1024


class Database:
    """A database file: reads see the last commit, writes are functions run in one transaction each.

    Construct with `open_database`.
    """

    def __init__(self, path: Path, reader: Connection, writer: Connection) -> None:
        self.path = path
        self._log = database_files.WriteAheadLog(path)
        self._reader = reader
        self._writer = writer
        self._write_lock = trio.Lock()
        # The connection for reads on the loop: normally the writer, because a commit on one connection
        # invalidates the page cache of every other; the reader while a thread uses the writer.
        self._loop_conn = writer
        # Pulsed after each of our transactions, so that nobody needs to poll.
        self.written = Signal()
        # Number of transactions that have ended: what was read at the same number is still so.
        self.ended = 0
        # Number of fsyncs of the log in progress.
        self._log_syncs = 0
        self._long_reads = trio.CapacityLimiter(4)
        self._idle_readers: list[Connection] = []
        self._max_log_bytes = database_files.max_log_bytes()
        # Length of the log, in bytes, at which a checkpoint is due, and at which `write_back` is.
        self._checkpoint_at = self._write_back_at = self._max_log_bytes
        self._backfiller: Connection | None = None
        # Whether a lazy `write_short` has left a transaction open, on the loop; and what was done in it, each
        # with its result.
        self.is_open = False
        self._left_open: list[tuple[Callable[[Connection], Any], Any]] = []
        # Whether the disk has so much room that no commit fails for lack of it, and that the log may become
        # longer until `write_back` is called, which somebody does twice a second.
        self.has_much_room: Callable[[], bool] = lambda: False
        # Transactions since the log's length was last checked.
        self._txns_since_check = _CHECK_LOG_EVERY
        # Whether a truncated log may be unable to grow again for lack of disk space.
        self._is_disk_full = False
        # Called before each transaction, in its thread, to make room for it; returns `_is_disk_full`.
        self.make_room: Callable[[], bool] | None = None
        # Called after each transaction, in its thread, whether it was committed or rolled back.
        self.on_transaction_end: Callable[[], None] | None = None

    def create_function(self, name: str, function: Callable[..., Any], *, arguments: int) -> None:
        """Register a function that transactions may call from SQL; it runs in the transaction's thread."""
        self._writer.create_function(name, arguments, function)

    def row(self, sql: str, *args: Any) -> Row | None:
        """Return the first row, reading on the loop; only for indexed, bounded queries."""
        found: Row | None = self._loop_conn.execute(sql, args).fetchone()
        return found

    def rows(self, sql: str, *args: Any) -> list[Row]:
        """Return all rows, reading on the loop; only for indexed, bounded queries."""
        return self._loop_conn.execute(sql, args).fetchall()

    def version(self) -> int:
        """Return a number that changes with every commit, of this process or another."""
        self.settle()
        # Asked on a connection that never commits: `data_version` ignores a connection's own commits.
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
        async with LockGuard(self._write_lock):
            result = await self._run_in_thread(txn, durable)
        self.written.pulse()
        return result

    async def write_short(self, txn: Callable[[Connection], T], *, lazily: bool = False) -> T:
        """Like `write`, for a transaction of a few indexed statements: on the loop unless it could then wait
        for the disk.

        With `lazily` a killed process may lose it until the next transaction, `settle`, or `sync_log`.  If
        that fails to commit, `txn` is called once more: it has to do and return the same.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        async with LockGuard(self._write_lock):
            most = _CHECKPOINT_EVERY_WHEN_FULL if self._is_disk_full else _CHECK_LOG_EVERY
            if self._log_syncs or (self._txns_since_check >= most and self._is_checkpoint_due()):
                result = await self._run_in_thread(txn)
            else:
                # What was answered must not fail later for lack of room.
                result = self._run(txn, False, False, lazily and self.has_much_room())
        self.written.pulse()
        return result

    def settle(self) -> None:
        """Commit the transaction that was left open, if there is one; on the loop.  If that fails, it stays
        open."""
        if not self.is_open:
            return
        try:
            self._writer.execute("COMMIT")
            self._left_open.clear()
        except sqlite3.OperationalError as error:
            raise self._failure(error) from error
        finally:
            self._reopen()

    async def query(self, fn: Callable[[Connection], T]) -> T:
        """Run an unbounded read in a worker thread on a read-only connection."""
        self.settle()
        return await threads.run_sync(self._read, fn, limiter=self._long_reads)

    async def checkpoint_log(self) -> None:
        """Checkpoint the log now: on a full disk, the log of the previous process may hold the last space."""
        async with self._write_lock:
            self.settle()
            self._is_disk_full = self.make_room is not None and self.make_room()
            await threads.run_sync(self._checkpoint)

    async def sync_log(self) -> None:
        """Make every commit so far durable by fsyncing the log.

        Commits that are no longer in the log are in the database file, which the checkpoint fsynced.
        """
        with self.log_syncing():
            await threads.run_sync(self.fsync_log)

    @contextmanager
    def log_syncing(self) -> Iterator[None]:
        """Keep the loop from writing to the log, so that it does not wait for an fsync that a thread does
        with `fsync_log`, of all commits so far."""
        self.settle()
        self._log_syncs += 1
        try:
            yield
        finally:
            self._log_syncs -= 1

    def fsync_log(self) -> None:
        """Like `sync_log`, but in the calling thread; call it inside `log_syncing`."""
        self._log.sync()

    async def write_back(self) -> None:
        """Write the log back into the database while transactions go on, if it has become long enough.

        Call it when the log has just been synced.  Transactions suspend only for the rest, and only once the
        log is very long: it then starts anew.
        """
        if self._is_disk_full or self._log.length() < self._write_back_at:
            return
        # In a thread, too, since a transaction may now restart the log, which waits for the disk.
        with self.log_syncing():
            is_whole = await threads.run_sync(self._write_back)
            if is_whole or self._log.length() >= RESTARTED_LOGS * self._max_log_bytes:
                async with LockGuard(self._write_lock):
                    await self._in_thread(self._checkpoint)

    def _write_back(self) -> bool:
        """Return whether nothing is left in the log."""
        try:
            if self._backfiller is None:
                self._backfiller = database_files.connect(self.path, read_only=False, cache_kib=64)
            busy, frames, done = self._backfiller.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            log.info("the write-ahead log of %s could not be written back: %s", self.path, error)
            busy = 1
        self._write_back_at = self._log.length() + self._max_log_bytes
        return not busy and bool(frames == done)

    async def _run_in_thread(self, txn: Callable[[Connection], T], durable: bool = False) -> T:
        return await self._in_thread(partial(self._run, txn, durable, True))

    async def _in_thread(self, work: Callable[[], T]) -> T:
        """Use the writing connection in a thread."""
        self.settle()
        self._loop_conn = self._reader
        try:
            return await threads.run_sync(work)
        finally:
            self._loop_conn = self._writer

    def _run(
        self,
        txn: Callable[[Connection], T],
        durable: bool = False,
        in_thread: bool = False,
        lazily: bool = False,
    ) -> T:
        """Run the transaction, together with one that was left open; in a thread, then checkpoint the log if
        that is due."""
        conn = self._writer
        joined, is_done = self.is_open, False
        self._is_disk_full = self.make_room is not None and self.make_room()
        self._txns_since_check += 1
        if durable:
            conn.execute("PRAGMA synchronous=FULL")
        try:
            conn.execute("SAVEPOINT joined" if joined else "BEGIN IMMEDIATE")
            result = txn(conn)
            is_done = True
            if not lazily:
                conn.execute("COMMIT")
                self._left_open.clear()
            else:
                if joined:
                    conn.execute("RELEASE joined")
                self._left_open.append((txn, result))
        except sqlite3.OperationalError as error:
            raise self._failure(error) from error
        finally:
            # After a disk error SQLite has already rolled back by itself.
            if conn.in_transaction and not is_done and joined:
                conn.execute("ROLLBACK TO joined")
                conn.execute("RELEASE joined")
            elif conn.in_transaction and not (is_done and lazily):
                conn.execute("ROLLBACK")
            self._reopen()
            self.ended += 1
            if self.on_transaction_end is not None:
                self.on_transaction_end()
            if durable:
                conn.execute("PRAGMA synchronous=NORMAL")
            if in_thread and self._is_checkpoint_due():
                self._checkpoint()
        return result

    def _reopen(self) -> None:
        """Do anew what was left open if it was rolled back, because a commit failed: who asked for it was
        told that it is done, and goes on with the numbers of the new rows."""
        conn = self._writer
        try:
            if self._left_open and not conn.in_transaction:
                self.ended += 1
                conn.execute("BEGIN IMMEDIATE")
                if any(txn(conn) != result for txn, result in self._left_open):
                    raise sqlite3.IntegrityError("a transaction had another result")
        except Exception:
            log.exception("what was not committed yet is lost")
            self._left_open.clear()
            if conn.in_transaction:
                conn.execute("ROLLBACK")
        self.is_open = conn.in_transaction

    def _failure(self, error: sqlite3.OperationalError) -> Exception:
        """Return what to raise for an error of SQLite."""
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_FULL:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        return error

    def _is_checkpoint_due(self) -> bool:
        """Whether the log is empty (the next commit would fsync its header) or long enough to checkpoint."""
        if self._is_disk_full:
            return self._txns_since_check >= _CHECKPOINT_EVERY_WHEN_FULL
        self._txns_since_check = 0
        length = self._log.length()
        if self._checkpoint_at <= length < MOST_LOGS * self._max_log_bytes:
            return not self.has_much_room()
        return not 0 < length < self._checkpoint_at

    def _checkpoint(self) -> None:
        """Checkpoint the log and restart it.

        The first commit to a restarted log fsyncs its header, and the loop must not wait for that: so this
        makes that commit, which rewrites `user_version`.
        """
        self._txns_since_check = 0
        try:
            # Cut only where room is getting short.
            most = -1 if self._is_disk_full or self.has_much_room() else self._max_log_bytes
            self._writer.execute(f"PRAGMA journal_size_limit={most}")
            busy, frames, done = self._writer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
            if frames == done and not busy:
                version = self._writer.execute("PRAGMA user_version").fetchone()[0]
                self._writer.execute(f"PRAGMA user_version={version}")
        except sqlite3.Error as error:
            log.info("the write-ahead log of %s could not be written back: %s", self.path, error)
        # If readers prevented the restart, the log keeps growing until the next attempt.
        self._checkpoint_at = self._write_back_at = self._log.length() + self._max_log_bytes

    def _read(self, fn: Callable[[Connection], T]) -> T:
        try:
            conn = self._idle_readers.pop()
        except IndexError:
            conn = database_files.connect(self.path, read_only=True, cache_kib=LONG_READ_CACHE_KIB)
        try:
            return fn(conn)
        finally:
            self._idle_readers.append(conn)

    def limit_log_size(self, nbytes: int) -> None:
        """Checkpoint the log when it reaches about `nbytes`; call before the first write."""
        self._max_log_bytes = min(database_files.max_log_bytes(), max(database_files.LEAST_LOG_BYTES, nbytes))
        self._checkpoint_at = self._write_back_at = self._max_log_bytes

    def close(self) -> None:
        """Close every connection; the caller has stopped using the database."""
        try:
            self.settle()
        finally:
            for conn in (*self._idle_readers, self._backfiller, self._reader, self._writer):
                if conn is not None:
                    conn.close()
            self._idle_readers.clear()
            self._log.close()


@asynccontextmanager
async def open_database(
    path: Path,
    schema: str,
    *,
    version: int = 1,
    upgrades: Mapping[int, database_files.Upgrade] | None = None,
    page_bytes: int = database_files.PAGE_BYTES,
) -> AsyncIterator[Database]:
    """Open the database at `path`, created with `schema` and pages of this size if it is new, readable by
    this user only.

    `upgrades` maps each older version to its migration to the next; all of them run in one transaction.
    Raises `UserError` if the file is not a database or has a version without an upgrade path.
    """
    process_env.private_folder(path.parent)
    if not path.exists():
        path.touch(mode=0o600)
    reader, writer = await threads.run_sync(
        database_files.prepare, path, schema, version, upgrades or {}, page_bytes
    )
    db = Database(path, reader, writer)
    try:
        yield db
    finally:
        db.close()
