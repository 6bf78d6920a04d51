"""Reconciles the cache's table with its files at start.

Whatever a killed process or a power cut left between a file and its row is put right here, before
anything is read.  Bitmaps outlive a killed process, since the page cache does; after a power cut
neither a bitmap nor a complete content can be trusted, because the cache is never synced.

A row is written seconds after the blocks that it tells of.  What lies under a draft is looked at itself,
therefore: nobody else may have those bytes any more.

Rule: nothing of the drafts folder is ever deleted: what has no place in the table is reported.
"""

import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cmsfs import sqlite
from cmsfs.cache import bitmap, content_files, content_table, local_contents
from cmsfs.runtime import clock

log = logging.getLogger(__name__)

_SHA1 = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What was found.  `lost`, `damaged` and `orphans` concern bytes that only this disk has."""

    lost: list[str] = field(default_factory=list)  # dirty contents without a file
    damaged: list[str] = field(default_factory=list)  # dirty contents whose file has another size
    orphans: list[Path] = field(default_factory=list)  # files of contents in the drafts folder, without a row
    settled: list[str] = field(
        default_factory=list
    )  # clean contents found in the drafts folder, now in the cache
    dropped: list[str] = field(
        default_factory=list
    )  # cached contents that are not, or not surely, here any more
    unverified: list[str] = field(default_factory=list)  # complete contents, hashed before they are read


class _Plan:
    """The changes to the table, collected while the folders are walked."""

    def __init__(self, found: RecoveryReport) -> None:
        self.found = found
        self.remove: list[str] = []
        self.save: list[content_table.ContentRow] = []
        self.used = 0


async def recover(
    db: sqlite.Database, store: content_files.ContentFiles, bases: Mapping[str, int], *, distrust: bool
) -> tuple[RecoveryReport, int]:
    """Make rows and files agree; what was found, and the bytes that cached contents take up.

    With `distrust` (an unclean stop, and another boot since) the bytes in the files may not be what
    was written.  `bases`: the SHA-1 and size of contents that lie under drafts.  Interrupted: may be
    repeated.
    """

    def examine(conn: sqlite.Connection) -> _Plan:
        return _examine(content_table.everything(conn), store, bases, distrust=distrust)

    plan = await db.query(examine)

    def txn(conn: sqlite.Connection) -> None:
        content_table.remove(conn, plan.remove)
        content_table.save(conn, plan.save)

    if plan.remove or plan.save:
        await db.write(txn)
    return plan.found, plan.used


def _examine(
    table: list[content_table.ContentRow],
    store: content_files.ContentFiles,
    bases: Mapping[str, int],
    *,
    distrust: bool,
) -> _Plan:
    plan = _Plan(RecoveryReport())
    table = _with_whole_bases(table, store, bases, plan)
    cached = _cached_files(store.root)
    drafted = {path.name: path for path in store.dirty_root.iterdir() if _SHA1.fullmatch(path.name)}
    for row in table:
        draft = drafted.pop(row.sha1, None)
        file = cached.pop(row.sha1, None)
        if row.dirty:
            _examine_dirty(row, plan, store, draft=draft, file=file)
            if distrust and row.verified:
                plan.save.append(_changed(row, bits=None, verified=False))
                plan.found.unverified.append(row.sha1)
            continue
        if draft is not None and _is_whole(draft, row.size):
            # Uploaded and not settled, or adopted and not recorded: both times the bytes are whole.
            local_contents.move_across(draft, store.cached(row.sha1), store.new_copy())
            plan.found.settled.append(row.sha1)
            row = _changed(row, bits=None, verified=row.verified)
            plan.save.append(row)
            file = store.cached(row.sha1)
        elif draft is not None:
            plan.found.orphans.append(draft)
        _examine_clean(row, plan, file, distrust=distrust)
    plan.found.orphans.extend(sorted(drafted.values()))
    for path in cached.values():
        path.unlink()
    return plan


def _with_whole_bases(
    table: list[content_table.ContentRow],
    store: content_files.ContentFiles,
    bases: Mapping[str, int],
    plan: _Plan,
) -> list[content_table.ContentRow]:
    """The rows, with those of bases that are here whole though no row says so."""
    rows = {row.sha1: row for row in table}
    for sha1, size in bases.items():
        row = rows.get(sha1)
        if row is not None and (row.dirty or row.bits is None):
            continue
        try:
            fd = os.open(store.cached(sha1), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        try:
            is_whole = os.fstat(fd).st_size == size and content_files.hash_open(fd) == sha1
        except OSError as error:
            log.warning("a cached content cannot be read from the disk: %s", error)
            is_whole = False
        finally:
            os.close(fd)
        if is_whole:
            used_at = int(clock.time())
            found = content_table.ContentRow(
                sha1, size, None, True, False, row is not None and row.pinned, used_at
            )
            rows[sha1] = found
            plan.save.append(found)
    return list(rows.values())


def _examine_dirty(
    row: content_table.ContentRow,
    plan: _Plan,
    store: content_files.ContentFiles,
    *,
    draft: Path | None,
    file: Path | None,
) -> None:
    if draft is None and file is not None and file.stat().st_size == row.size:
        draft = store.dirty(row.sha1)
        local_contents.move_across(file, draft, store.dirty_root / f"{row.sha1}.copy")
        file = None
    if draft is None and row.size:
        plan.found.lost.append(row.sha1)
    elif draft is not None and draft.stat().st_size != row.size:
        plan.found.damaged.append(row.sha1)
    if file is not None:
        file.unlink()


def _is_whole(draft: Path, size: int) -> bool:
    # A second name means that the draft it was made from is there and may be written again.
    found = draft.stat()
    return found.st_size == size and found.st_nlink == 1


def _examine_clean(row: content_table.ContentRow, plan: _Plan, file: Path | None, *, distrust: bool) -> None:
    here = bitmap.present_bytes(row.bits, row.size)
    sound = row.bits is None or bitmap.fits(row.bits, row.size)
    if file is None and (not row.size or (row.pinned and sound and not here)):
        return
    if (
        file is None
        or file.stat().st_size != row.size
        or not here
        or not sound
        or (distrust and row.bits is not None)
    ):
        plan.remove.append(row.sha1)
        plan.found.dropped.append(row.sha1)
        if file is not None:
            file.unlink()
        return
    plan.used += here
    if row.bits is None and (distrust or not row.verified):
        plan.found.unverified.append(row.sha1)
        if row.verified:
            plan.save.append(_changed(row, bits=None, verified=False))


def _cached_files(root: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for entry in root.iterdir():
        if content_files.is_left_over(entry.name):
            entry.unlink()
        elif entry.is_dir():
            found |= {path.name: path for path in entry.iterdir() if _SHA1.fullmatch(path.name)}
    return found


def _changed(
    row: content_table.ContentRow, *, bits: bytes | None, verified: bool
) -> content_table.ContentRow:
    return content_table.ContentRow(row.sha1, row.size, bits, verified, row.dirty, row.pinned, row.used_at)
