"""Sealing: a draft that is no longer written becomes content, identified by its SHA-1.

Called by the push just before an upload.  Order of the steps: fill the holes from the base, fsync, hash,
link the file to its place as content, commit, and unlink the draft once the commit is durable (with the
next group).  A crash between any two of them leaves the draft as it was, or the content with a second name;
`recovery` tells which.
"""

import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import trio

from cmsfs import crashpoints
from cmsfs.cache import bitmap
from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.crashpoints import Point
from cmsfs.journal.draft import Draft
from cmsfs.journal.drafts import Drafts
from cmsfs.journal.group_commit import GroupCommit
from cmsfs.replica.nodes import Content, Ino
from cmsfs.replica.rows import node_rows
from cmsfs.sqlite import Database

log = logging.getLogger(__name__)

# Read, fetched and hashed at a time: a request for each hole of this size, not for each block of one.
PIECE = 4 * 1024 * 1024

# A draft of no more than this is sealed together with others, and whoever sends it is given its bytes.
SMALL = 64 * 1024

# Blocks of a base that are fetched side by side: 64 MiB.
FETCHED_AT_ONCE = 512


@dataclass(frozen=True, slots=True)
class Sealed:
    """The content that a draft became."""

    sha1: str
    size: int


@dataclass(frozen=True, slots=True)
class SmallFile:
    """A node whose small draft became content."""

    ino: Ino
    sha1: str
    data: bytes


@dataclass(frozen=True, slots=True)
class _Candidate:
    draft: Draft
    fd: int
    generation: int
    size: int
    # Whether the disk may not have it all.
    fsync: bool


class _Dropped(Exception):
    """The file was deleted while its draft was on its way to being content."""


class Sealer:
    """Turns drafts into content."""

    def __init__(
        self,
        db: Database,
        drafts: Drafts,
        blocks: BlockCache,
        fetcher: Fetcher,
        commit: GroupCommit,
    ) -> None:
        self._db = db
        self._group = commit
        self._drafts = drafts
        self._blocks = blocks
        self._fetcher = fetcher

    async def seal(self, draft: Draft, *, while_open: bool = False) -> Sealed | None:
        """Make the draft content of its node and return what it became; None if it is being written again
        or was dropped.

        `while_open` takes what is there now although somebody has it open for writing: the next write begins
        another draft.

        Cancelled: the draft is as it was and may be sealed again.  Raises what fetching the base raises.
        """
        await self._fill_holes(draft)
        fd = draft.acquire()
        try:
            async with draft.lock:
                generation = draft.generation
                os.ftruncate(fd, draft.size)
            sha1 = await trio.to_thread.run_sync(_fsync_and_hash, fd)
            crashpoints.reached(Point.SEAL_HASHED)
            async with draft.lock:
                if while_open and draft.generation != generation and not draft.holes():
                    # It is written to all the time: now its writers wait, for what has changed meanwhile.
                    os.ftruncate(fd, draft.size)
                    generation, sha1 = draft.generation, await trio.to_thread.run_sync(_fsync_and_hash, fd)
                # atomic: no await between the check and the mark, so no writer slips in between
                if draft.dropped or draft.generation != generation or (draft.writers and not while_open):
                    return None
                draft.sealed = True
            # From here to the commit nothing waits but for the local disk.
            with trio.CancelScope(shield=True):
                await self._commit(draft, sha1)
            return Sealed(sha1, draft.size)
        except _Dropped:
            return None
        finally:
            draft.release()

    async def seal_small(
        self, drafts: Iterable[Draft], note: Callable[[Connection, Sequence[SmallFile]], None]
    ) -> list[SmallFile]:
        """Seal those of these drafts that are small, whole and closed; what they became.  Names and rows of
        all of them reach the disk together.  The other drafts are as they were, for `seal`.

        `note` is called with them inside the transaction.  Cancelled, or failed: all are as they were.
        """
        taken: list[_Candidate] = []
        try:
            for draft in filter(_is_small, drafts):
                taken.append(_candidate(draft))
            found = await trio.to_thread.run_sync(_read_all, taken) if taken else []
        finally:
            for one in taken:
                one.draft.release()
        crashpoints.reached(Point.SEAL_HASHED)
        ready: dict[str, tuple[Draft, SmallFile]] = {}
        # atomic: no await between the check and the mark, so no writer slips in between
        for one, (sha1, data) in zip(taken, found, strict=True):
            draft = one.draft
            if _is_small(draft) and draft.generation == one.generation and sha1 not in ready:
                draft.sealed = True
                ready[sha1] = (draft, SmallFile(draft.ino, sha1, data))
        if not ready:
            return []
        # From here to the commit nothing waits but for the local disk.
        became: list[SmallFile] = []
        with trio.CancelScope(shield=True):
            became += await self._commit_small(list(ready.values()), note)
        return became

    async def _commit_small(
        self,
        ready: Sequence[tuple[Draft, SmallFile]],
        note: Callable[[Connection, Sequence[SmallFile]], None],
    ) -> list[SmallFile]:
        became: list[SmallFile] = []

        def txn(conn: Connection) -> list[SmallFile]:
            done = []
            for draft, small in ready:
                try:
                    self._become_content(conn, draft, small.sha1, len(small.data))
                except _Dropped:
                    continue
                done.append(small)
            note(conn, done)
            return done

        try:
            await self._blocks.adopt_linked(
                [(small.sha1, len(small.data), draft.path) for draft, small in ready if small.data]
            )
            crashpoints.reached(Point.SEAL_ADOPTED)
            became = await self._db.write(txn)
            crashpoints.reached(Point.SEAL_COMMITTED)
        finally:
            for draft, small in ready:
                if small in became:
                    draft.became(small.sha1, len(small.data))
                    # The commit is not on the disk yet: until it is, the draft must be found as it was.
                    self._group.unlink(self._drafts.gone(draft.id))
                else:
                    # The draft may be written again, and the content's name is of the same file.
                    self._blocks.disown_dirty(small.sha1)
                    draft.stays()
        return became

    async def _fill_holes(self, draft: Draft) -> None:
        base = self._drafts.base(draft)
        if base is None or not draft.holes():
            return
        self._blocks.open(base.sha1, base.size)
        try:
            await self._have_whole(base)
            while holes := draft.holes():
                start, end = holes[0]
                end = min(end, start + PIECE)
                data = await self._blocks.read(base, start, end - start, self._fetcher)
                await draft.fill(start, data)
        finally:
            self._blocks.close(base.sha1)

    async def _have_whole(self, base: Content) -> None:
        """Fetch all of a base, so that it is checked before anything of it goes into a draft, for good.

        Where that cannot be had, for want of room or since the service has other bytes by now, what is needed
        of it is taken unchecked.
        """
        count, doubts = bitmap.blocks(base.size), self._blocks.doubts[base.sha1]
        try:
            for first in range(0, count, FETCHED_AT_ONCE):
                await self._fetcher.blocks(base, first, min(first + FETCHED_AT_ONCE, count) - 1)
        except OSError as error:
            if self._blocks.doubts[base.sha1] != doubts:
                raise
            log.info("%s cannot be downloaded completely: %s", base.sha1, error)

    async def _commit(self, draft: Draft, sha1: str) -> None:
        size = draft.size
        second_name = draft.path.with_suffix(".sealed")
        adopted = False
        try:
            if size:
                await trio.to_thread.run_sync(_link, draft.path, second_name)
                await self._blocks.adopt_dirty(sha1, size, second_name)
                adopted = True
                crashpoints.reached(Point.SEAL_ADOPTED)
            await self._db.write(lambda conn: self._become_content(conn, draft, sha1, size))
        except BaseException:
            try:
                if adopted:
                    # The draft may be written again, and this name is of the same file.
                    self._blocks.disown_dirty(sha1)
                second_name.unlink(missing_ok=True)
            finally:
                draft.stays()
            raise
        crashpoints.reached(Point.SEAL_COMMITTED)
        draft.became(sha1, size)
        # The commit is not on the disk yet: until it is, the draft must be found as it was.
        self._group.unlink(self._drafts.gone(draft.id))

    def _become_content(self, conn: Connection, draft: Draft, sha1: str, size: int) -> None:
        row = conn.execute(
            "SELECT sha1 FROM node WHERE ino = ? AND draft = ?", (draft.ino, draft.id)
        ).fetchone()
        if row is None:
            raise _Dropped
        if not draft.is_recorded:
            draft.record(conn, is_synced=True)  # its time, beside the bytes
        if size:
            self._blocks.record_dirty(conn, sha1, size)
        node_rows.set_content(conn, draft.ino, sha1=sha1, size=size)
        Drafts.delete(conn, draft.id)
        if row["sha1"] is not None and row["sha1"] != sha1:
            release_content(conn, row["sha1"])


def _is_small(draft: Draft) -> bool:
    """Whether a draft can be sealed with others: nobody writes to it, and nothing of it is elsewhere."""
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
    return _Candidate(draft, fd, draft.generation, draft.size, is_cut or not draft.is_synced)


def _read_all(taken: Sequence[_Candidate]) -> list[tuple[str, bytes]]:
    """SHA-1 and bytes of each file, which are on the disk then."""
    found = []
    for one in taken:
        if one.fsync:
            os.fsync(one.fd)
        data = os.pread(one.fd, one.size, 0)
        found.append((hashlib.sha1(data, usedforsecurity=False).hexdigest(), data))
    return found


def _link(path: Path, second_name: Path) -> None:
    second_name.unlink(missing_ok=True)
    os.link(path, second_name)


def release_content(conn: Connection, sha1: str) -> bool:
    """Let content be evicted if no node still has to upload it; whether it may be now."""
    if is_unsent(conn, sha1):
        return False
    BlockCache.mark_clean(conn, sha1)
    return True


def drop_unneeded(conn: Connection, contents: Iterable[str]) -> list[str]:
    """Of contents whose file was deleted: those that were still to be sent and that nothing has any more.

    They are marked as clean; hand them to `BlockCache.drop_clean` after the commit.
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
    """Whether some node's only copy of these bytes is here: as its content or as the base of its draft."""
    found = conn.execute(
        "SELECT 1 FROM node WHERE sha1 = ?1 AND base_sha1 IS NOT ?1"
        " UNION ALL SELECT 1 FROM draft d JOIN node n ON n.draft = d.id"
        "  WHERE d.base_sha1 = ?1 AND n.base_sha1 IS NOT ?1 LIMIT 1",
        (sha1,),
    ).fetchone()
    return found is not None


def _fsync_and_hash(fd: int) -> str:
    os.fsync(fd)
    digest = hashlib.sha1(usedforsecurity=False)
    offset = 0
    while chunk := os.pread(fd, PIECE, offset):
        digest.update(chunk)
        offset += len(chunk)
    return digest.hexdigest()
