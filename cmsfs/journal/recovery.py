"""Recovers the journal at start, however the last run ended.

What a crash can leave behind, and how it is repaired:

  an operation marked running          sent again; a repeated upload is recognised by its SHA-1
  a draft never closed                 kept and uploaded as it is: no better version of its bytes exists
  a draft whose name a remote change   given a name again, and uploaded under it
    has taken
  unsent contents in a deleted folder  shown in a folder above it, and uploaded there
  a draft row longer than its file     (power cut) truncated to the bytes on disk, as on any local disk
  a draft row that has the bytes, too  its file is written from the row, since it was never fsynced; without a
                                       file, that is made later
  bytes in a draft that no row holds   zeroed: writes that were not recorded, or a recorded truncation
  a draft's second name, no commit     unlinked; the draft is complete under its own name
  a draft file without a row           moved to `recovered/`
  an unneeded detached node            deleted with its draft
"""

import errno
import logging
import os
from collections.abc import Collection, Set
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from cmsfs.cache import content_table
from cmsfs.journal import draft_rows, ops
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.extents import Extents
from cmsfs.replica import kv_store, tree
from cmsfs.replica.merge import deletions, lineages
from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import copy_sources, node_rows, op_rows, past_versions
from cmsfs.runtime import threads
from cmsfs.sqlite import Database

log = logging.getLogger(__name__)

WIPE_BYTES = 1024 * 1024

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class LastRun:
    """How the last run of the daemon ended."""

    clean: bool
    same_boot: bool


async def begin(db: Database) -> LastRun:
    """Record that the state is in use from now on, and return how the last use ended.

    Call `note_recovered` once everything that this asks for is done: until then another start, after a crash
    of this one, is told the same.
    """
    last = LastRun(
        clean=kv_store.get(db, kv_store.CLEAN) != "0",
        same_boot=kv_store.get(db, kv_store.BOOT_ID) in (None, _boot_id()),
    )
    await db.write(lambda conn: kv_store.put(conn, kv_store.CLEAN, "0"), durable=True)
    return last


async def note_recovered(db: Database) -> None:
    """Record that nothing from before this boot is trusted any more without having been checked."""
    boot_id = _boot_id()
    if kv_store.get(db, kv_store.BOOT_ID) != boot_id:
        await db.write(lambda conn: kv_store.put(conn, kv_store.BOOT_ID, boot_id))


async def end(db: Database) -> None:
    """Record a clean shutdown."""
    await db.write(lambda conn: kv_store.put(conn, kv_store.CLEAN, "1"), durable=True)


async def recover(db: Database, drafts: Drafts, recovered: Path, held: Collection[Ino] = ()) -> int:
    """Repair journal and drafts; return the number of pending operations.

    `held`: inodes that programs still have open, because another process served them until now.
    Run it before anything else uses them, and before `BlockCache.recover` reads the drafts folder.
    """

    def txn(conn: Connection) -> tuple[int, set[str]]:
        op_rows.reset_running(conn)
        lineages.name_all_displaced(conn, held)
        deletions.take_all_out(conn)
        _drop_unneeded(conn, held)
        keep = {
            _repair_draft(conn, drafts, row["id"]) for row in conn.execute("SELECT id FROM draft").fetchall()
        }
        tree.discard_detached(conn, held)
        past_versions.forget_unused(conn)
        copy_sources.forget_unused(conn)
        due = conn.execute("SELECT count(*) FROM op").fetchone()[0]
        return due, keep

    due, keep = await db.write(txn, durable=True)
    recorded = await db.query(lambda conn: content_table.recorded(conn, _content_names(drafts.root)))
    await threads.run_sync(_sort_files, drafts.root, recovered, keep, recorded)
    return due


def _drop_unneeded(conn: Connection, held: Collection[Ino]) -> None:
    """Delete drafts of files that were unlinked while open, since their handles no longer exist."""
    rows = conn.execute(
        "SELECT d.id, n.ino FROM draft d LEFT JOIN node n ON n.draft = d.id"
        " WHERE n.ino IS NULL OR n.parent IS NULL"
    )
    for row in rows.fetchall():
        if row["ino"] not in held:
            Drafts.delete(conn, row["id"])


def _repair_draft(conn: Connection, drafts: Drafts, draft_id: int) -> str:
    """Truncate a draft to what its file contains, and queue its upload; return the name of its file."""
    path = drafts.path(draft_id)
    row = conn.execute(
        "SELECT d.*, n.ino FROM draft d JOIN node n ON n.draft = d.id WHERE d.id = ?", (draft_id,)
    ).fetchone()
    extents = Extents.from_json(row["extents"])
    if row["data"]:
        if path.exists():
            _write_start(path, row["data"])
        else:
            # Made later: on a full disk there is no room for it before something is uploaded.
            drafts.note_fileless(draft_id)
    there = path.stat().st_size if path.exists() else 0
    held = max((end for _, end in extents), default=0)
    if held > max(there, len(row["data"] or b"")):
        extents.clip(there)
        # Without the bytes the recorded size is wrong, unless the base is longer.
        size = max(there, min(row["base_size"], row["size"]))
        log.warning("draft %d has %d of %d bytes after the power failed", draft_id, there, row["size"])
        draft_rows.set_held(conn, draft_id, extents=extents.to_json(), size=size)
        node_rows.set_size(conn, row["ino"], size)

    if there:
        _wipe(path, extents, row["base_size"])
    if ops.OpKind.UPLOAD not in ops.pending(conn, row["ino"]):
        ops.record(conn, row["ino"], ops.OpKind.UPLOAD, due_ns=0)
    return path.name


def _write_start(path: Path, data: bytes) -> None:
    """Make sure that a draft's file starts with these bytes."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.pread(fd, len(data), 0) != data:
            os.pwrite(fd, data, 0)
    finally:
        os.close(fd)


def _wipe(path: Path, extents: Extents, base_size: int) -> None:
    """Zero what is outside the extents of a draft's file: without a base, those ranges must read as zeros."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if os.fstat(fd).st_size > extents.end:
            os.ftruncate(fd, extents.end)
        for start, end, held in extents.pieces(base_size, extents.end):
            if not held:
                _zero(fd, start, end)
    finally:
        os.close(fd)


def _zero(fd: int, start: int, end: int) -> None:
    while start < end:
        try:
            start = os.lseek(fd, start, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return  # only a hole up to the end
        stop = min(os.lseek(fd, start, os.SEEK_HOLE), end, start + WIPE_BYTES)
        if start < stop:
            os.pwrite(fd, bytes(stop - start), start)
        start = max(start, stop)
        if stop >= end:
            return


def _content_names(root: Path) -> list[str]:
    return [path.name for path in root.iterdir() if path.suffix == ""]


def _sort_files(root: Path, recovered: Path, keep: set[str], recorded: Set[str]) -> None:
    """Move draft files without a row to `recovered`, and unlink second names that were not committed;
    `recorded`: contents that were."""
    for path in root.glob("*.sealed"):
        path.unlink()
    for name in _content_names(root):
        if name not in recorded and (root / name).stat().st_nlink > 1:
            (root / name).unlink()
    for path in root.glob("*.draft"):
        if path.name in keep:
            continue
        found = path.stat()
        if found.st_nlink > 1 or found.st_size == 0:
            # It became content, stored under its SHA-1.
            path.unlink()
        else:
            path.rename(recovered / path.name)
            log.info("moved an orphaned draft to %s", recovered)
    for name in _content_names(root):
        # Still two names: the draft exists, so its sealing was never committed.
        if (root / name).stat().st_nlink > 1:
            (root / name).unlink()


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return f"pid namespace {os.getpid()}"
