"""The store: database, blobs and clock, opened together.

`cmsfs serve`, `cmsfs demo`, the daemon's embedded service and every test get one from `open_store`.  Several
processes may have the same store open and coordinate through it (shared/folder.py, or PostgreSQL); a process
that is the only one removes what a crash left behind.  The database is a file in the store's folder, or on a
PostgreSQL server; contents are in the folder, or in a bucket.  With both elsewhere the folder is only a
spool.

Rule: every change goes through `write`, which is durable when it returns.
"""

import importlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import trio

from cmsfs import errors, sqlite
from cmsfs.service.storage import (
    blobs,
    commit_queue,
    derived_files,
    engine,
    folder_blobs,
    folder_claim,
    parts,
    upgrade,
)
from cmsfs.service.storage.database_url import checked_url
from cmsfs.service.storage.shared import folder, moments

log = logging.getLogger(__name__)

T = TypeVar("T")

# The type of a read function: it runs a statement and returns its rows, on the event loop (`Database.rows`)
# or on a thread's connection (`reader`).
Read = Callable[..., list[sqlite.Row]]

VERSION = upgrade.VERSION

# The shared value with the first event position that clients may continue from (renumber.py).
FIRST_POSITION = "first_position"


def reader(conn: sqlite.Connection) -> Read:
    """A read function on a connection, for code that runs both on the loop and inside transactions."""
    return lambda sql, *args: conn.execute(sql, args).fetchall()


@dataclass(frozen=True, slots=True)
class FileStorage:
    """The parts of a store outside its database."""

    blobs: blobs.BlobStore
    parts: parts.Parts
    renditions: derived_files.DerivedFiles


class Store:
    """Construct with `open_store`."""

    def __init__(
        self,
        root: Path,
        db: engine.Engine,
        files: FileStorage,
        *,
        shared: engine.StoreCoordination,
        clock: moments.StoreClock,
    ) -> None:
        self.root = root
        self.db = db
        self.blobs = files.blobs
        self.shared = shared
        self.parts = files.parts
        self.renditions = files.renditions
        self.url_signer = shared.url_signer
        self.attempts = shared.attempts
        self.now = clock.now
        # Event positions before this one are of what a restored backup has undone; 0: there are none.
        self.first_position = int(shared.value(FIRST_POSITION) or 0)
        # Set and replaced after each write of this process, and of others if notifications arrive.
        self.written = trio.Event()
        self._commits = commit_queue.CommitQueue(db)

    def read(self, sql: str, *args: Any) -> list[sqlite.Row]:
        """A point read on the loop."""
        return self.db.rows(sql, *args)

    async def query(self, fn: Callable[[Read], T]) -> T:
        """A long read in a thread."""
        return await self.db.query(lambda conn: fn(reader(conn)))

    async def write(self, txn: Callable[[sqlite.Connection], T]) -> T:
        """Run a write transaction; durable when this returns.  See commit_queue.py."""
        result = await self._commits.write(txn)
        self.notify_written()
        return result

    def notify_written(self) -> None:
        """Wake the tasks that wait for `written`."""
        written, self.written = self.written, trio.Event()
        written.set()


@asynccontextmanager
async def open_store(
    root: Path,
    blobs_url: str | None = None,
    *,
    database_url: str | None = None,
    redirects: bool = False,
    sweep: bool = True,
    exclusive: bool = False,
) -> AsyncIterator[Store]:
    """Open the store in `root`; a new one is created, accessible to this user only.

    Its contents are at `blobs_url` and its database at `database_url`, if given.

    `redirects`: redirect downloads to presigned URLs of the bucket.  `sweep`: remove what a crash left
    behind, if no other process has the store open.  `exclusive`: keep other processes out while the store is
    open.

    Raises `UserError` if the folder or the database cannot be used, the contents are elsewhere, or, with
    `exclusive`, another process has the store open.
    """
    try:
        for name in ("", "blobs", "incoming", "aside", "sessions", "renditions"):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise errors.UserError(f"{root} cannot hold the service's data: {error.strerror}.") from error
    clock = moments.StoreClock()
    async with AsyncExitStack() as stack:
        shared, db = await open_database(root, database_url, clock, stack)
        files = await _open_files(root, blobs_url, db, shared, redirects=redirects)
        store = Store(root, db, files, shared=shared, clock=clock)
        shared.on_remote_write = store.notify_written
        stack.callback(store.parts.close)
        has_exclusive_lock = shared.try_exclusive()
        if exclusive and not has_exclusive_lock:
            where = root if database_url is None else "the database"
            raise errors.UserError(f"A service has {where} open; stop it first.")
        if has_exclusive_lock and sweep:
            await db.write(derived_files.delete_orphan_rows)
        if sweep:
            await db.query(lambda conn: _sweep(store, conn, exclusive=has_exclusive_lock))
        if not exclusive:
            await shared.open_shared()
        yield store


async def open_database(
    root: Path, url: str | None, clock: moments.StoreClock, stack: AsyncExitStack
) -> tuple[engine.StoreCoordination, engine.Engine]:
    """Open the database of a store, at a URL or in its folder, until the stack is unwound.

    Raises `UserError` if it cannot be used.
    """
    return await (_open_file(root, stack) if url is None else _open_server(url, clock, stack))


async def _open_file(root: Path, stack: AsyncExitStack) -> tuple[engine.StoreCoordination, engine.Engine]:
    folder_claim.check_unclaimed(root)
    try:
        shared = folder.SharedFolder(root)
    except OSError as error:
        raise errors.UserError(f"{root} cannot hold the service's data: {error.strerror}.") from error
    stack.callback(shared.close)
    db = await stack.enter_async_context(
        sqlite.open_database(
            root / "service.db", upgrade.schema(), version=VERSION, upgrades=upgrade.upgrades()
        )
    )
    return shared, db


def load_postgres() -> None:
    """Import the PostgreSQL engine.  Raises `UserError` if the library is not installed."""
    try:
        importlib.import_module("cmsfs.service.storage.postgres.database")
    except ImportError as error:
        message = "A PostgreSQL database needs the library psycopg: pip install 'cmsfs[server-postgres]'."
        raise errors.UserError(message) from error


def load_s3() -> None:
    """Import what keeps contents in a bucket.  Raises `UserError` if the library is not installed."""
    try:
        importlib.import_module("cmsfs.service.storage.s3.claim")
    except ImportError as error:
        message = "Contents in a bucket need the library obstore: pip install 'cmsfs[server-s3]'."
        raise errors.UserError(message) from error


async def _open_server(
    url: str, clock: moments.StoreClock, stack: AsyncExitStack
) -> tuple[engine.StoreCoordination, engine.Engine]:
    load_postgres()
    from cmsfs.service.storage.postgres import database, shared_database

    db = await stack.enter_async_context(database.open_database(checked_url(url), clock))
    return shared_database.SharedDatabase(db, clock), db


async def _open_files(
    root: Path, url: str | None, db: engine.Engine, shared: engine.StoreCoordination, *, redirects: bool
) -> FileStorage:
    if redirects and url is None:
        raise errors.UserError("Downloads can be redirected to a bucket only: give --blobs.")
    if url is None and shared.value(blobs.LOCATION) is None and not (root / blobs.LOCATION).exists():
        if shared.receives_notifications:  # the database is elsewhere
            await folder_claim.claim_folder(root, db, shared)
        return FileStorage(
            folder_blobs.FolderBlobs(root / "blobs", root / "incoming", root / "aside"),
            parts.FolderParts(root / "sessions"),
            derived_files.FolderDerivedFiles(root / "renditions"),
        )
    load_s3()
    from cmsfs.service.storage.s3 import claim, s3_blobs, s3_derived_files, s3_parts

    bucket = await claim.open_bucket(root, url, db, shared)
    fetched = root / "fetched"
    fetched.mkdir(exist_ok=True, mode=0o700)
    return FileStorage(
        s3_blobs.S3Blobs(bucket, root / "incoming", fetched, signer=bucket.signer() if redirects else None),
        s3_parts.S3Parts(bucket, root / "sessions"),
        s3_derived_files.S3DerivedFiles(bucket, root / "renditions"),
    )


def _sweep(store: Store, conn: sqlite.Connection, *, exclusive: bool) -> None:
    removed = store.blobs.sweep_incoming(exclusive=exclusive)
    removed += store.parts.sweep(reader(conn), now=store.now(), exclusive=exclusive)
    if exclusive:
        removed += store.blobs.sweep(conn)
    removed += store.renditions.sweep(lambda prefix: blobs.referenced(conn, prefix), exclusive=exclusive)
    if removed:
        log.info("removed %d unreferenced contents and parts", removed)
