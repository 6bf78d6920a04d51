"""The store: database, blobs and clock, opened together.

`open_store` is how `cmsfs serve`, `cmsfs demo`, the daemon's embedded service and every test get one.
The same store may be open in several processes at once, which know of each other (shared/folder.py); whoever
finds itself alone sweeps out what a crash left behind.  The database is a file in the store's folder, or on a
PostgreSQL server; bytes are in the folder or in a bucket.  With both elsewhere the folder is a spool.

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
from cmsfs.service.storage import blobs, commit_queue, derived_files, engine, folder_blobs, parts, upgrade
from cmsfs.service.storage.database_url import checked_url
from cmsfs.service.storage.shared import folder, moments

log = logging.getLogger(__name__)

T = TypeVar("T")

# How reads are handed around: a function that runs a statement and gives its rows, on the loop
# (`Database.rows`) or on a thread's connection (`reader`).
Read = Callable[..., list[sqlite.Row]]

VERSION = upgrade.VERSION


def reader(conn: sqlite.Connection) -> Read:
    """Reads on a connection, for code that works on the loop and inside transactions alike."""
    return lambda sql, *args: conn.execute(sql, args).fetchall()


@dataclass(frozen=True, slots=True)
class Bytes:
    """Where a store has what is not in its database."""

    blobs: blobs.BlobStore
    parts: parts.Parts
    renditions: derived_files.DerivedFiles


class Store:
    """Construct with `open_store`."""

    def __init__(
        self,
        root: Path,
        db: engine.Engine,
        kept: Bytes,
        *,
        shared: engine.Together,
        clock: moments.Moments,
    ) -> None:
        self.root = root
        self.db = db
        self.blobs = kept.blobs
        self.shared = shared
        self.parts = kept.parts
        self.renditions = kept.renditions
        self.addresses = shared.addresses
        self.attempts = shared.attempts
        self.now = clock.now
        # Set, and replaced, after each change of this process, and of others where those are told.
        self.written = trio.Event()
        self._commits = commit_queue.CommitQueue(db)

    def read(self, sql: str, *args: Any) -> list[sqlite.Row]:
        """A point read on the loop."""
        return self.db.rows(sql, *args)

    async def query(self, fn: Callable[[Read], T]) -> T:
        """A long read in a thread."""
        return await self.db.query(lambda conn: fn(reader(conn)))

    async def write(self, txn: Callable[[sqlite.Connection], T]) -> T:
        """A change, whole or not at all, and durable when this returns; see commit_queue.py."""
        result = await self._commits.write(txn)
        self.tell()
        return result

    def tell(self) -> None:
        """Something was written: wake whoever waits for that."""
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
    only: bool = False,
) -> AsyncIterator[Store]:
    """The store in `root`, made if it is new, readable by this user only.

    Its contents are at `blobs_url` and its database at `database_url`, if these are given.

    `redirects` has downloads answered by addresses in the bucket.  `sweep` has what a crash left removed, if
    no other process has the store open.  With `only`, none has it open as long as this lasts.

    Raises `UserError` if the folder or the database cannot be used, the contents are elsewhere, or, with
    `only`, another process has the store open.
    """
    try:
        for name in ("", "blobs", "incoming", "aside", "sessions", "renditions"):
            folder = root / name
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise errors.UserError(f"{root} cannot hold the service's data: {error.strerror}.") from error
    clock = moments.Moments()
    async with AsyncExitStack() as stack:
        shared: engine.Together
        db: engine.Engine
        if database_url is None:
            shared, db = await _open_file(root, stack)
        else:
            shared, db = await _open_server(database_url, clock, stack)
        kept = await _open_bytes(root, blobs_url, db, shared, redirects=redirects)
        store = Store(root, db, kept, shared=shared, clock=clock)
        shared.heard = store.tell
        stack.callback(store.parts.close)
        alone = shared.is_alone()
        if only and not alone:
            where = root if database_url is None else "the database"
            raise errors.UserError(f"A service has {where} open; stop it first.")
        if alone and sweep:
            await db.write(derived_files.forget)
        if sweep:
            await db.query(lambda conn: _sweep(store, conn, alone=alone))
        if not only:
            await shared.open_to_others()
        yield store


async def _open_file(root: Path, stack: AsyncExitStack) -> tuple[engine.Together, engine.Engine]:
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
    """Raises `UserError` where the library is not installed."""
    try:
        importlib.import_module("cmsfs.service.storage.postgres.database")
    except ImportError as error:
        said = "A PostgreSQL database needs the library psycopg: pip install 'cmsfs[server-postgres]'."
        raise errors.UserError(said) from error


async def _open_server(
    url: str, clock: moments.Moments, stack: AsyncExitStack
) -> tuple[engine.Together, engine.Engine]:
    load_postgres()
    from cmsfs.service.storage.postgres import database, shared_database

    db = await stack.enter_async_context(database.open_database(checked_url(url), clock))
    return shared_database.SharedDatabase(db, clock), db


async def _open_bytes(
    root: Path, url: str | None, db: engine.Engine, shared: engine.Together, *, redirects: bool
) -> Bytes:
    if redirects and url is None:
        raise errors.UserError("Downloads can be redirected to a bucket only: give --blobs.")
    if url is None and shared.value(blobs.NOTE) is None and not (root / blobs.NOTE).exists():
        return Bytes(
            folder_blobs.FolderBlobs(root / "blobs", root / "incoming", root / "aside"),
            parts.FolderParts(root / "sessions"),
            derived_files.FolderDerivedFiles(root / "renditions"),
        )
    try:
        from cmsfs.service.storage.s3 import claim, s3_blobs, s3_derived_files, s3_parts
    except ImportError as error:
        said = "Contents in a bucket need the library obstore: pip install 'cmsfs[server-s3]'."
        raise errors.UserError(said) from error
    bucket = await claim.open_bucket(root, url, db, shared)
    fetched = root / "fetched"
    fetched.mkdir(exist_ok=True, mode=0o700)
    return Bytes(
        s3_blobs.S3Blobs(bucket, root / "incoming", fetched, signer=bucket.signer() if redirects else None),
        s3_parts.S3Parts(bucket, root / "sessions"),
        s3_derived_files.S3DerivedFiles(bucket, root / "renditions"),
    )


def _sweep(store: Store, conn: sqlite.Connection, *, alone: bool) -> None:
    removed = store.blobs.sweep_incoming(alone=alone)
    removed += store.parts.sweep(reader(conn), now=store.now(), alone=alone)
    if alone:
        removed += store.blobs.sweep(conn)
    removed += store.renditions.sweep(lambda prefix: blobs.named(conn, prefix), alone=alone)
    if removed:
        log.info("removed %d contents and parts that nothing names", removed)
