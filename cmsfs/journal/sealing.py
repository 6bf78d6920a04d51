"""Sealing: turns a draft that is no longer written into content, identified by its SHA-1.

Called by the push just before an upload.  The steps: fill the holes from the base, fsync, hash (a large draft
mostly has been, see `early_hashes`), link the file as content, commit, and unlink the draft once the commit
is durable (with the next group).  A crash between any two steps leaves either the unchanged draft or the
content with a second name; `recovery` tells which.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from sqlite3 import Connection

import trio

from cmsfs import crashpoints
from cmsfs.cache import bitmap, content_table
from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.cache.local_contents import LocalFile
from cmsfs.crashpoints import Point
from cmsfs.journal import draft_rows, entropy
from cmsfs.journal.draft import Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.replica.nodes import Content, Ino
from cmsfs.replica.rows import node_rows
from cmsfs.runtime import threads

log = logging.getLogger(__name__)

# Bytes read, downloaded and hashed at a time: one request per hole of this size, not per block.
PIECE = 4 * 1024 * 1024

# Drafts up to this size are sealed together, and their bytes are passed on to the upload.
SMALL = 64 * 1024

# Blocks of a base that are downloaded in parallel: 64 MiB.
FETCHED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Sealed:
    """The content that a node's draft became, with its bytes if it is `SMALL`."""

    ino: Ino
    sha1: str
    size: int
    data: bytes | None
    looks_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class _Candidate:
    draft: Draft
    # Of its file, which is acquired; None if the draft is in memory only.
    fd: int | None
    generation: int
    size: int
    # Whether some of it may not be on disk yet.
    fsync: bool
    data: bytes = b""
    # Of all its bytes, if it is known already.
    sha1: str | None = None


# Called inside the transaction in which these drafts become content.
Note = Callable[[Connection, Sequence[Sealed]], None]


class _Dropped(Exception):
    """The file was deleted while its draft was being sealed."""


class Sealer:
    """Turns drafts into content."""

    def __init__(
        self,
        drafts: Drafts,
        blocks: BlockCache,
        fetcher: Fetcher,
        commit: GroupCommit,
        suspicious: Callable[[Sealed], None] = lambda sealed: None,
    ) -> None:
        """`suspicious` is called with sealed contents that look encrypted or are empty."""
        self._suspicious = suspicious
        self._group = commit
        self._drafts = drafts
        self._blocks = blocks
        self._fetcher = fetcher

    async def seal(
        self,
        draft: Draft,
        *,
        while_open: Callable[[], bool] = lambda: False,
        note: Note = lambda conn, sealed: None,
    ) -> Sealed | None:
        """Turn the draft into its node's content and return that; None if it is being written again or was
        dropped.

        `while_open` decides whether to seal its current state although it is open for writing: the next write
        then starts another draft.  Cancelled: the draft is unchanged and may be sealed again.  Raises
        whatever downloading the base raises.
        """
        if draft.base_size and draft.holes():
            await self._fill_holes(draft)
        async with draft.lock:
            one = _candidate(draft)
        try:
            one = replace(one, sha1=await self._drafts.hashes.of(draft, one.generation))
            (found,) = await threads.run_sync(_read_all, [one])
            crashpoints.reached(Point.SEAL_HASHED)
            async with draft.lock:
                is_changed = draft.generation != one.generation
                if (is_changed or draft.writers) and not while_open():
                    return None
                if is_changed and not draft.holes():
                    # It is being written all the time: read it again while its writers wait.
                    one = _candidate(draft)
                    draft.release()
                    (found,) = await threads.run_sync(_read_all, [one])
                # atomic: no await between the check and the mark, so no writer slips in between
                if draft.dropped or draft.generation != one.generation:
                    return None
                draft.sealed = True
            # From here to the commit nothing waits but for the local disk.
            with trio.CancelScope(shield=True):
                became = await self._commit([(draft, found)], note)
            return became[0] if became else None
        finally:
            draft.release()

    async def seal_small(self, drafts: Iterable[Draft], note: Note) -> list[Sealed]:
        """Seal those of these drafts that are small, complete and closed; return their contents.  Their names
        and rows reach the disk together.  The other drafts stay unchanged, for `seal`.

        Cancelled or failed: all are unchanged.
        """
        taken: list[_Candidate] = []
        try:
            for draft in filter(_is_small, drafts):
                taken.append(_in_memory(draft) or _candidate(draft))
            found = await threads.run_sync(_read_all, taken) if taken else []
        finally:
            for one in taken:
                if one.fd is not None:
                    one.draft.release()
        crashpoints.reached(Point.SEAL_HASHED)
        ready: dict[str, tuple[Draft, Sealed]] = {}
        # atomic: no await between the check and the mark, so no writer slips in between
        for one, sealed in zip(taken, found, strict=True):
            draft = one.draft
            if _is_small(draft) and draft.generation == one.generation and sealed.sha1 not in ready:
                draft.sealed = True
                ready[sealed.sha1] = (draft, sealed)
        if not ready:
            return []
        # From here to the commit nothing waits but for the local disk.
        became: list[Sealed] = []
        with trio.CancelScope(shield=True):
            became += await self._commit(list(ready.values()), note)
        return became

    async def _commit(self, ready: Sequence[tuple[Draft, Sealed]], note: Note) -> list[Sealed]:
        became: list[Sealed] = []

        def txn(conn: Connection) -> list[Sealed]:
            done = []
            for draft, sealed in ready:
                try:
                    _become_content(conn, draft, sealed)
                except _Dropped:
                    continue
                done.append(sealed)
            note(conn, done)
            return done

        files = [LocalFile(one.sha1, one.size, draft.path) for draft, one in ready if one.size]
        try:
            became = await self._blocks.adopt_dirty(files, txn)
            crashpoints.reached(Point.SEAL_COMMITTED)
        finally:
            for draft, sealed in ready:
                if sealed in became:
                    draft.became(sealed.sha1, sealed.size)
                    if sealed.looks_encrypted or not sealed.size:
                        self._suspicious(sealed)
                    # Until the commit is durable, recovery must find the draft unchanged.
                    self._group.unlink(self._drafts.gone(draft.id))
                else:
                    # The draft may be written again, and the content's name refers to the same file.
                    self._blocks.disown_dirty(sealed.sha1)
                    draft.stays()
        return became

    async def _fill_holes(self, draft: Draft) -> None:
        base = self._drafts.base(draft)
        if base is None:
            return
        self._blocks.open(base.sha1, base.size)
        try:
            await self._fetch_whole_base(base)
            while holes := draft.holes():
                start, end = holes[0]
                end = min(end, start + PIECE)
                data = await self._blocks.read(base, start, end - start, self._fetcher)
                await draft.fill(start, data)
        finally:
            self._blocks.close(base.sha1)

    async def _fetch_whole_base(self, base: Content) -> None:
        """Download a whole base content, so that it is verified before parts of it become part of a draft.

        If that is impossible, for lack of disk space or because the service has other bytes by now, the parts
        that are needed are used unverified.
        """
        count, doubts = bitmap.blocks(base.size), self._blocks.doubts[base.sha1]
        try:
            for first in range(0, count, FETCHED_AT_ONCE):
                await self._fetcher.blocks(base, first, min(first + FETCHED_AT_ONCE, count) - 1)
        except OSError as error:
            if self._blocks.doubts[base.sha1] != doubts:
                raise
            log.info("%s cannot be downloaded completely: %s", base.sha1, error)


def _is_small(draft: Draft) -> bool:
    """Whether a draft can be sealed with others: it is small, has no writers and no holes."""
    if draft.sealed or draft.dropped or draft.writers or draft.lock.locked():
        return False
    return draft.size <= SMALL and not draft.holes()


def _candidate(draft: Draft) -> _Candidate:
    fd = draft.acquire()
    try:
        is_cut = os.fstat(fd).st_size != draft.size
        if is_cut:
            os.ftruncate(fd, draft.size)
    except BaseException:
        draft.release()
        raise
    return _Candidate(draft, fd, draft.generation, draft.size, is_cut or draft.synced_to != draft.generation)


def _in_memory(draft: Draft) -> _Candidate | None:
    """Return the candidate without making its file, which then happens in the thread."""
    data = draft.in_memory()
    return None if data is None else _Candidate(draft, None, draft.generation, len(data), True, data)


def _read_all(taken: Sequence[_Candidate]) -> list[Sealed]:
    """Fsync each file, and hash it unless that is done; return the contents that they would become."""
    found = []
    for one in taken:
        if one.fd is None:
            # If it is written to meanwhile, its file has other bytes, and none of it counts.
            if one.data:
                one.draft.fsync(size=one.size)
            data = one.data
        else:
            if one.fsync:
                os.fsync(one.fd)
            data = os.pread(one.fd, min(one.size, PIECE if one.sha1 is None else entropy.HEAD), 0)
        sha1 = _sha1(one, data) if one.sha1 is None else one.sha1
        kept = data if one.size <= SMALL else None
        is_strange = entropy.looks_encrypted(data[: entropy.HEAD])
        found.append(Sealed(one.draft.ino, sha1, one.size, kept, is_strange))
    return found


def _sha1(one: _Candidate, first: bytes) -> str:
    digest = hashlib.sha1(first, usedforsecurity=False)
    offset = len(first)
    while chunk := os.pread(one.fd, PIECE, offset) if one.fd is not None and one.size > PIECE else b"":
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()


def _become_content(conn: Connection, draft: Draft, sealed: Sealed) -> None:
    row = conn.execute("SELECT sha1 FROM node WHERE ino = ? AND draft = ?", (draft.ino, draft.id)).fetchone()
    if row is None:
        raise _Dropped
    if draft.recorded_to != draft.generation:
        draft.record(conn, is_synced=True)  # saves its modification time, too
    if sealed.size:
        content_table.record_dirty(conn, sealed.sha1, sealed.size)
    node_rows.replace_draft(conn, draft.ino, sha1=sealed.sha1, size=sealed.size)
    draft_rows.delete(conn, draft.id)
    if row["sha1"] is not None and row["sha1"] != sealed.sha1:
        release_content(conn, row["sha1"])


def release_content(conn: Connection, sha1: str) -> bool:
    """Allow eviction of a content if no node still has to upload it; return whether that is so."""
    if is_unsent(conn, sha1):
        return False
    content_table.mark_clean(conn, sha1)
    return True


def drop_unneeded(conn: Connection, contents: Iterable[str]) -> list[str]:
    """Mark as clean, and return, those of these contents of deleted files that were pending upload and are no
    longer referenced.

    Pass them to `BlockCache.drop_clean` after the commit.
    """
    return [
        sha1
        for sha1 in contents
        if conn.execute("SELECT 1 FROM content WHERE sha1 = ? AND dirty = 1", (sha1,)).fetchone()
        and not conn.execute("SELECT 1 FROM node WHERE sha1 = ?", (sha1,)).fetchone()
        and not conn.execute("SELECT 1 FROM draft WHERE base_sha1 = ?", (sha1,)).fetchone()
        and release_content(conn, sha1)
    ]


def is_unsent(conn: Connection, sha1: str) -> bool:
    """Whether a node has these bytes, as its content or as its draft's base, and the service does not."""
    found = conn.execute(
        "SELECT 1 FROM node WHERE sha1 = ?1 AND base_sha1 IS NOT ?1"
        " UNION ALL SELECT 1 FROM draft d JOIN node n ON n.draft = d.id"
        "  WHERE d.base_sha1 = ?1 AND n.base_sha1 IS NOT ?1 LIMIT 1",
        (sha1,),
    ).fetchone()
    return found is not None
