"""The store: database, blobs and clock, opened together.

`open_store` is how `cmsfs serve`, `cmsfs demo`, the daemon's embedded service and every test get one.
The same folder may be open in several processes at once; each holds a shared lock on it, and whoever
finds itself alone sweeps out what a crash left behind.

Rule: every change goes through `write`, which is durable when it returns.
"""

import fcntl
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import trio

from cmsfs import errors, sqlite
from cmsfs.runtime import clock, threads
from cmsfs.service.storage import (
    attempt_limits,
    blobs,
    commit_queue,
    derived_files,
    folder_blobs,
    parts,
    signed_urls,
    upgrade,
)

log = logging.getLogger(__name__)

T = TypeVar("T")

# How reads are handed around: a function that runs a statement and gives its rows, on the loop
# (`Database.rows`) or on a thread's connection (`reader`).
Read = Callable[..., list[sqlite.Row]]

VERSION = upgrade.VERSION


def reader(conn: sqlite.Connection) -> Read:
    """Reads on a connection, for code that works on the loop and inside transactions alike."""
    return lambda sql, *args: conn.execute(sql, args).fetchall()


class Store:
    """Construct with `open_store`."""

    def __init__(self, root: Path, db: sqlite.Database, blob_store: blobs.BlobStore) -> None:
        self.root = root
        self.db = db
        self.blobs = blob_store
        self.parts = parts.Parts(root / "sessions")
        self.renditions = derived_files.DerivedFiles(root / "renditions")
        self.addresses = signed_urls.SignedUrls(root / "addresses.key")
        self.attempts = attempt_limits.AttemptLimits()
        self.written = trio.Event()  # set, and replaced, after each change of this process
        self._commits = commit_queue.CommitQueue(db)
        self._last = 0
        self._clock = threading.Lock()

    def now(self) -> int:
        """This moment in microseconds, later than every moment given before."""
        with self._clock:
            self._last = max(self._last + 1, clock.time_ns() // 1000)
            return self._last

    def read(self, sql: str, *args: Any) -> list[sqlite.Row]:
        """A point read on the loop."""
        return self.db.rows(sql, *args)

    async def query(self, fn: Callable[[Read], T]) -> T:
        """A long read in a thread."""
        return await self.db.query(lambda conn: fn(reader(conn)))

    async def write(self, txn: Callable[[sqlite.Connection], T]) -> T:
        """A change, whole or not at all, and durable when this returns; see commit_queue.py."""
        result = await self._commits.write(txn)
        written, self.written = self.written, trio.Event()
        written.set()
        return result


@asynccontextmanager
async def open_store(root: Path, blobs_url: str | None = None, *, sweep: bool = True) -> AsyncIterator[Store]:
    """The store in `root`, made if it is new, readable by this user only; with the contents at `blobs_url`.

    `sweep` has what a crash left removed, if no other process has the store open.

    Raises `UserError` if the folder cannot be used, or the contents are elsewhere.
    """
    try:
        for name in ("", "blobs", "incoming", "aside", "sessions", "renditions"):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise errors.UserError(f"{root} cannot hold the service's data: {error.strerror}.") from error
    try:
        blob_store = await _open_blobs(root, blobs_url)
        alone = _is_alone(lock)
        async with sqlite.open_database(
            root / "service.db", upgrade.schema(), version=VERSION, upgrades=upgrade.upgrades()
        ) as db:
            store = Store(root, db, blob_store)
            if alone and sweep:
                await db.write(derived_files.forget)
            if sweep:
                await db.query(lambda conn: _sweep(store, conn, alone=alone))
            await threads.run_sync(fcntl.flock, lock, fcntl.LOCK_SH)
            try:
                yield store
            finally:
                store.parts.close()
    finally:
        os.close(lock)


async def _open_blobs(root: Path, url: str | None) -> blobs.BlobStore:
    if url is None and not (root / "blobs.json").exists():
        return folder_blobs.FolderBlobs(root / "blobs", root / "incoming", root / "aside")
    try:
        from cmsfs.service.storage import s3_blobs
    except ImportError as error:
        said = "Contents in a bucket need the library obstore: pip install 'cmsfs[server-s3]'."
        raise errors.UserError(said) from error
    return await threads.run_sync(s3_blobs.open_blobs, root, url)


def _is_alone(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _sweep(store: Store, conn: sqlite.Connection, *, alone: bool) -> None:
    def parts_of(session: str) -> set[str] | None:
        living = "SELECT 1 FROM upload_session WHERE id = ? AND expires_at > ? AND committed = 0"
        if conn.execute(living, (session, store.now())).fetchone() is None:
            return None
        rows = conn.execute("SELECT file FROM upload_part WHERE session = ?", (session,))
        return {row["file"] for row in rows}

    removed = store.blobs.sweep_incoming(alone=alone) + store.parts.sweep(parts_of, alone=alone)
    if alone:
        removed += store.blobs.sweep(conn)
        removed += store.renditions.sweep(lambda prefix: blobs.named(conn, prefix))
    if removed:
        log.info("removed %d contents and parts that nothing names", removed)
