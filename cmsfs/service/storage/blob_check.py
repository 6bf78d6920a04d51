"""Compares rows and contents: what is missing, damaged, or named by nothing; behind `cmsfs service check`.

It may run beside a service.  What has come within the last hour may be about to be named, and what the
sweeper knows of is about to go: neither is an orphan.  It looks at the parts of unfinished uploads, too, and
at what was derived of contents that are gone.

Rule: a repair removes no content and writes no bytes.  What no row names is set aside, as the sweeper does
it, and comes back if an upload names it; what is set aside and has a row is brought back.  An upload that
lacks a part ends, so that its client begins anew, and what was derived of nothing is removed.
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

# Rows in one transaction.
_BATCH = 100

_LEAVING = "SELECT sha1 FROM orphan UNION ALL SELECT sha1 FROM aside"
_FILES = """
  SELECT version.id AS version, item.id AS file, item.name, account.login FROM version
    JOIN item ON item.id = version.file JOIN account ON account.id = item.owner WHERE version.sha1 = ?
    ORDER BY version.id LIMIT 10
"""
_PARTS = "SELECT upload_part.file, upload_part.size FROM upload_part WHERE session = ?"


@dataclass(frozen=True, slots=True)
class BrokenBlob:
    """A content that rows name and that is not what they say; of them some."""

    sha1: str
    size: int
    files: list[dict[str, object]]


@dataclass(slots=True)
class BlobReport:
    """What was found, and done about it."""

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
    """One look at a store.  `read_all`: every content is read to its end; `repair`: what is safe is done."""

    def __init__(self, opened: store.Store, *, read_all: bool, repair: bool) -> None:
        self._store = opened
        self._read_all = read_all
        self._repair = repair
        self._report = BlobReport()

    async def run(self, progress: Callable[[int], None]) -> BlobReport:
        """`progress` hears how much of 256 is done.  Raises `BlobsUnavailable`."""
        for number in range(256):
            progress(number)
            await self._look(f"{number:02x}")
        if self._repair:
            for start in range(0, len(self._report.orphans), _BATCH):
                batch = self._report.orphans[start : start + _BATCH]
                self._report.set_aside += await self._store.write(partial(self._set_aside, batch))
        await self._look_at_uploads()
        return self._report

    async def _look(self, prefix: str) -> None:
        # The listing comes first: what is named after it is asked for again.
        listed = await threads.run_sync(self._listed, prefix)
        named, leaving = await self._store.query(lambda read: _rows(read, prefix))
        self._report.contents += len(named)
        self._report.size += sum(named.values())
        for sha1, size in named.items():
            if sha1 not in listed:
                await self._see_to_missing(sha1, size)
            elif listed[sha1].size != size or (self._read_all and not await self._is_whole(sha1)):
                await self._note(self._report.damaged, sha1, size)
        recent = self._store.now() - RECENT
        for one in listed.values():
            if one.sha1 not in named and one.sha1 not in leaving and one.modified < recent:
                self._report.orphans.append(one.sha1)
        await self._look_at_derived(prefix, named.keys() | leaving)

    async def _look_at_derived(self, prefix: str, known: set[str]) -> None:
        found = await threads.run_sync(lambda: list(self._store.renditions.stored(prefix)))
        recent = self._store.now() - RECENT
        stray = [one for one in found if one.sha1 not in known and one.modified < recent]
        self._report.stray_derived += len(stray)
        if stray and self._repair:
            await threads.run_sync(self._store.renditions.remove, stray)

    async def _look_at_uploads(self) -> None:
        now = self._store.now()
        known = await self._store.query(partial(parts.living, now=now))
        # What is acknowledged is there first, so the listing comes second.
        found = await threads.run_sync(lambda: set(self._store.parts.stored(now + RECENT)))
        there = {(session, part) for session, part in found if part}
        self._report.uploads = len(known)
        for session, names in known.items():
            if any((session, name) not in there for name in names) and await self._lacks_parts(session):
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
        """Whether a part of an upload cannot be read that a row names still."""
        rows = await self._store.query(lambda read: read(_PARTS, session))

        def look() -> bool:
            for row in rows:
                try:
                    self._store.parts.open(session, row["file"], row["size"]).close()
                except FileNotFoundError:
                    return True
            return False

        return await threads.run_sync(look)

    def _listed(self, prefix: str) -> dict[str, blobs.StoredBlob]:
        return {one.sha1: one for one in self._store.blobs.stored(prefix)}

    async def _see_to_missing(self, sha1: str, size: int) -> None:
        if await threads.run_sync(self._is_there, sha1):
            return
        if self._repair:
            with suppress(FileNotFoundError):
                await self._store.write(lambda conn: self._store.blobs.bring_back(conn, sha1))
            if await threads.run_sync(self._is_there, sha1):
                self._report.brought_back += 1
                return
        await self._note(self._report.missing, sha1, size)

    def _is_there(self, sha1: str) -> bool:
        try:
            self._store.blobs.size(sha1)
        except FileNotFoundError:
            return False
        return True

    async def _is_whole(self, sha1: str) -> bool:
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

    async def _note(self, found: list[BrokenBlob], sha1: str, size: int) -> None:
        """Tell which files have a content; none: they were deleted meanwhile."""
        files = await self._store.query(lambda read: [dict(row) for row in read(_FILES, sha1)])
        if files:
            found.append(BrokenBlob(sha1, size, files))

    def _set_aside(self, sha1s: list[str], conn: Connection) -> int:
        alone = [sha1 for sha1 in sha1s if not blobs.has_version(conn, sha1)]
        for sha1 in alone:
            self._store.blobs.set_aside(conn, sha1, now=self._store.now())
        return len(alone)


def _end_upload(session: str, conn: Connection) -> None:
    conn.execute("DELETE FROM upload_session WHERE id = ? AND committed = 0", (session,))


def _rows(read: store.Read, prefix: str) -> tuple[dict[str, int], set[str]]:
    """What is named, with its size, and what the sweeper knows of."""
    return blobs.sizes(read, prefix), {row["sha1"] for row in read(_LEAVING)}
