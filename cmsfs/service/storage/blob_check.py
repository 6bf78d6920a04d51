"""Compares database and contents for `cmsfs service check`: finds missing, damaged and orphaned contents.

It may run beside a service.  A content of the last hour may be about to be referenced, and one that the
sweeper has noted is about to be removed: neither is an orphan.  It also checks the parts of unfinished
uploads, and derived files of contents that are gone.

Rule: a repair neither deletes nor writes contents.  An orphan is set aside, as the sweeper does, and comes
back if an upload references it; a referenced content that is set aside is brought back.  An upload that lacks
a part is ended, so that its client starts over, and derived files without a content are removed.
"""

import hashlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from sqlite3 import Connection

from cmsfs.runtime import threads
from cmsfs.service.storage import blobs, parts, store

RECENT = 3_600 * 1_000_000

# Rows per transaction.
_BATCH = 100

_BEING_REMOVED = "SELECT sha1 FROM orphan UNION ALL SELECT sha1 FROM aside"
_FILES = """
  SELECT version.id AS version, item.id AS file, item.name, account.login FROM version
    JOIN item ON item.id = version.file JOIN account ON account.id = item.owner WHERE version.sha1 = ?
    ORDER BY version.id LIMIT 10
"""
_PARTS = "SELECT upload_part.file, upload_part.size FROM upload_part WHERE session = ?"


@dataclass(frozen=True, slots=True)
class BrokenBlob:
    """A referenced content that is missing or damaged, with some of its files."""

    sha1: str
    size: int
    files: list[dict[str, object]]


@dataclass(slots=True)
class BlobReport:
    """What the check found and repaired."""

    contents: int = 0
    size: int = 0
    missing: list[BrokenBlob] = field(default_factory=list)
    damaged: list[BrokenBlob] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    brought_back: int = 0
    set_aside: int = 0
    uploads: int = 0
    broken_uploads: list[str] = field(default_factory=list)
    stray_parts: int = 0
    stray_derived: int = 0


class BlobCheck:
    """One check of a store.  `read_all`: verify every content's SHA-1; `repair`: make the safe repairs."""

    def __init__(self, opened: store.Store, *, read_all: bool, repair: bool) -> None:
        self._store = opened
        self._read_all = read_all
        self._repair = repair
        self._report = BlobReport()

    async def run(self, progress: Callable[[int], None]) -> BlobReport:
        """Run the check; `progress` gets how many of 256 steps are done.  Raises `BlobsUnavailable`."""
        for number in range(256):
            progress(number)
            await self._check_prefix(f"{number:02x}")
        if self._repair:
            for start in range(0, len(self._report.orphans), _BATCH):
                batch = self._report.orphans[start : start + _BATCH]
                self._report.set_aside += await self._store.write(partial(self._set_aside, batch))
        await self._check_uploads()
        return self._report

    async def _check_prefix(self, prefix: str) -> None:
        # List first: a content that is put and referenced afterwards is looked up again.
        listed = await threads.run_sync(self._list_stored, prefix)
        referenced, being_removed = await self._store.query(lambda read: _rows(read, prefix))
        self._report.contents += len(referenced)
        self._report.size += sum(referenced.values())
        for sha1, size in referenced.items():
            if sha1 not in listed:
                await self._handle_missing(sha1, size)
            elif listed[sha1].size != size or (self._read_all and not await self._is_intact(sha1)):
                await self._record_broken(self._report.damaged, sha1, size)
        recent = self._store.now() - RECENT
        for one in listed.values():
            if one.sha1 not in referenced and one.sha1 not in being_removed and one.modified < recent:
                self._report.orphans.append(one.sha1)
        await self._check_derived_files(prefix, referenced.keys() | being_removed)

    async def _check_derived_files(self, prefix: str, known: set[str]) -> None:
        found = await threads.run_sync(lambda: list(self._store.renditions.stored(prefix)))
        recent = self._store.now() - RECENT
        stray = [one for one in found if one.sha1 not in known and one.modified < recent]
        self._report.stray_derived += len(stray)
        if stray and self._repair:
            await threads.run_sync(self._store.renditions.remove, stray)

    async def _check_uploads(self) -> None:
        now = self._store.now()
        known = await self._store.query(partial(parts.live_parts, now=now))
        # List second: a part is stored before its row is written.
        found = await threads.run_sync(lambda: set(self._store.parts.stored(now + RECENT)))
        present = {(session, part) for session, part in found if part}
        self._report.uploads = len(known)
        for session, names in known.items():
            if any((session, name) not in present for name in names) and await self._lacks_parts(session):
                self._report.broken_uploads.append(session)
        old = await threads.run_sync(lambda: set(self._store.parts.stored(now - RECENT)))
        stray = {(session, part) for session, part in old if part not in known.get(session, set()) | {""}}
        self._report.stray_parts = len(stray)
        if self._repair:
            await self._store.parts.sweep_abandoned(self._store.query, now=now)
            for session in self._report.broken_uploads:
                await self._store.write(partial(_end_upload, session))
                await self._store.parts.remove(session)

    async def _lacks_parts(self, session: str) -> bool:
        """Whether a part that a row still references cannot be opened."""
        rows = await self._store.query(lambda read: read(_PARTS, session))

        def any_missing() -> bool:
            for row in rows:
                try:
                    self._store.parts.open(session, row["file"], row["size"]).close()
                except FileNotFoundError:
                    return True
            return False

        return await threads.run_sync(any_missing)

    def _list_stored(self, prefix: str) -> dict[str, blobs.StoredBlob]:
        return {one.sha1: one for one in self._store.blobs.stored(prefix)}

    async def _handle_missing(self, sha1: str, size: int) -> None:
        if await threads.run_sync(self._exists, sha1):
            return
        if self._repair:
            with suppress(FileNotFoundError):
                await self._store.write(lambda conn: self._store.blobs.bring_back(conn, sha1))
            if await threads.run_sync(self._exists, sha1):
                self._report.brought_back += 1
                return
        await self._record_broken(self._report.missing, sha1, size)

    def _exists(self, sha1: str) -> bool:
        try:
            self._store.blobs.size(sha1)
        except FileNotFoundError:
            return False
        return True

    async def _is_intact(self, sha1: str) -> bool:
        def read() -> str | None:
            digest = hashlib.sha1(usedforsecurity=False)
            try:
                with closing(self._store.blobs.open(sha1)) as reader:
                    while data := reader.read(blobs.CHUNK):
                        digest.update(data)
            except FileNotFoundError:
                return None
            return digest.hexdigest()

        return await threads.run_sync(read) == sha1

    async def _record_broken(self, found: list[BrokenBlob], sha1: str, size: int) -> None:
        """Record a broken content with its files; skipped if they were deleted meanwhile."""
        files = await self._store.query(lambda read: [dict(row) for row in read(_FILES, sha1)])
        if files:
            found.append(BrokenBlob(sha1, size, files))

    def _set_aside(self, sha1s: list[str], conn: Connection) -> int:
        unreferenced = [sha1 for sha1 in sha1s if not blobs.has_version(conn, sha1)]
        for sha1 in unreferenced:
            self._store.blobs.set_aside(conn, sha1, now=self._store.now())
        return len(unreferenced)


def _end_upload(session: str, conn: Connection) -> None:
    conn.execute("DELETE FROM upload_session WHERE id = ? AND committed = 0", (session,))


def _rows(read: store.Read, prefix: str) -> tuple[dict[str, int], set[str]]:
    """The referenced contents with their sizes, and those that the sweeper is removing."""
    return blobs.referenced_sizes(read, prefix), {row["sha1"] for row in read(_BEING_REMOVED)}
