"""Parts of unfinished uploads, and how they are assembled into one content.

Parts are kept in a folder (`sessions/<session>/<part>`) or in a bucket (`s3/s3_parts.py`).  An `Assembly`
appends the parts in order to a content; it makes progress only while a commit request waits for it, so it
needs no background task.  Called by upload_sessions.py.

Rules: a part is stored durably before its row is written.  Parts are kept until the file's row is written, so
that after any crash the commit can be repeated, at another process too.
"""

import abc
import contextlib
import os
import shutil
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import trio

from cmsfs import durability
from cmsfs.runtime import clock, threads
from cmsfs.service.storage import blobs, folder_blobs

# The type of `Store.query`.
Query = Callable[[Callable[[blobs.Read], Any]], Awaitable[Any]]

_LIVE_PARTS = """
  SELECT s.id, p.file FROM upload_session AS s LEFT JOIN upload_part AS p ON p.session = s.id
    WHERE s.expires_at > ? AND s.committed = 0
"""


class Parts(abc.ABC):
    """Storage of parts, and this process's assemblies."""

    def __init__(self) -> None:
        self._assemblies: dict[str, Assembly] = {}

    @abc.abstractmethod
    def create_session(self, session: str) -> None:
        """Prepare durably for the parts of a new session; blocking."""

    @abc.abstractmethod
    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        """Store a received part durably; blocking.

        May raise `FileNotFoundError` if the session has ended.
        """

    @abc.abstractmethod
    def drop_part(self, session: str, part: str) -> None:
        """Remove a part; blocking."""

    @abc.abstractmethod
    def open(self, session: str, part: str, size: int) -> blobs.BlobReader:
        """Open a part of this size; blocking.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def stored(self, before: int) -> Iterator[tuple[str, str]]:
        """List pairs of session and part that were stored before a time; blocking.

        A part of '' stands for the session itself.
        """

    @abc.abstractmethod
    def _remove(self, session: str) -> None:
        """Remove all parts of a session; blocking."""

    def sweep(self, read: blobs.Read, *, now: int, exclusive: bool) -> int:
        """At startup, remove local parts that no row references; blocking.  Returns how many.

        Without exclusive access, recent ones are kept: another process may be about to write their rows.
        """
        return 0

    async def sweep_abandoned(self, query: Query, *, now: int) -> int:
        """Remove parts that no row references, and that are too old for a row to follow; returns how many."""
        before = now - blobs.STALE_SECONDS * 1_000_000
        found = await threads.run_sync(lambda: list(self.stored(before)))
        if not found:
            return 0
        known = await query(partial(live_parts, now=now))
        ended = {session for session, _ in found if session not in known}
        stray = [
            (session, part) for session, part in found if part and part not in known.get(session, {part})
        ]
        for session in ended:
            await threads.run_sync(self._remove, session)
        for session, part in stray:
            await threads.run_sync(self.drop_part, session, part)
        return len(ended) + len(stray)

    async def remove(self, *sessions: str) -> None:
        """Remove ended sessions and their parts; if storage is unavailable, the sweeper does it later."""
        for session in sessions:
            self.drop_assembly(session)
            with contextlib.suppress(blobs.BlobsUnavailable):
                await threads.run_sync(self._remove, session)

    def assembly(self, session: str, kept: blobs.BlobStore, parts: Sequence[tuple[str, int]]) -> "Assembly":
        """Get or start the assembly of a session whose parts have all arrived, given with their sizes."""
        for other, made in list(self._assemblies.items()):
            # The client may have repeated its commit at another process.
            if not made.is_busy and clock.monotonic() - made.last_used > blobs.STALE_SECONDS:
                self.drop_assembly(other)
        if session not in self._assemblies:
            openers = [(partial(self.open, session, part, size), size) for part, size in parts]
            self._assemblies[session] = Assembly(blobs.IncomingBlob(kept), openers)
        return self._assemblies[session]

    def drop_assembly(self, session: str) -> None:
        """Discard an unfinished assembly; it starts over when the commit is repeated."""
        if (assembly := self._assemblies.pop(session, None)) is not None:
            assembly.close()

    def close(self) -> None:
        for session in list(self._assemblies):
            self.drop_assembly(session)


def live_parts(read: blobs.Read, *, now: int) -> dict[str, set[str]]:
    """The referenced parts, by session, of the sessions that are neither expired nor committed."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in read(_LIVE_PARTS, now):
        found[row["id"]] |= {row["file"]} - {None}
    return found


class FolderParts(Parts):
    """Parts in the folder `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def path(self, session: str, part: str = "") -> Path:
        return self.root / session / part

    def create_session(self, session: str) -> None:
        self.path(session).mkdir(mode=0o700)
        durability.sync(self.root)

    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        def place(spool: Path, file: int) -> None:
            os.fsync(file)
            spool.rename(self.path(session, part))
            durability.sync(self.path(session))

        incoming.move_to(place)

    def drop_part(self, session: str, part: str) -> None:
        self.path(session, part).unlink(missing_ok=True)

    def open(self, session: str, part: str, size: int) -> blobs.BlobReader:
        return folder_blobs.FileReader(self.path(session, part), 0, size)

    def stored(self, before: int) -> Iterator[tuple[str, str]]:
        for folder in os.scandir(self.root):
            with contextlib.suppress(FileNotFoundError):
                if folder.stat().st_mtime * 1e6 < before:
                    yield folder.name, ""
                for entry in os.scandir(folder.path):
                    if entry.stat().st_mtime * 1e6 < before:
                        yield folder.name, entry.name

    def _remove(self, session: str) -> None:
        shutil.rmtree(self.path(session), ignore_errors=True)

    def sweep(self, read: blobs.Read, *, now: int, exclusive: bool) -> int:
        removed = 0
        known = live_parts(read, now=now)
        for folder in os.scandir(self.root):
            names = known.get(folder.name)
            if names is None:
                if exclusive or clock.time() - folder.stat().st_mtime > blobs.STALE_SECONDS:
                    shutil.rmtree(folder.path, ignore_errors=True)
                    removed += 1
            elif exclusive:
                for entry in os.scandir(folder.path):
                    if entry.name not in names:
                        Path(entry.path).unlink()
                        removed += 1
        return removed


class Assembly:
    """A content being assembled from parts.  Construct with `Parts.assembly`."""

    def __init__(
        self, incoming: blobs.IncomingBlob, parts: Sequence[tuple[Callable[[], blobs.BlobReader], int]]
    ) -> None:
        self.incoming = incoming
        self.is_busy = False
        self.last_used = clock.monotonic()
        self._remaining = list(parts)
        self._kept_sha1: str | None = None
        self._is_closed = False

    async def advance(self, seconds: float) -> bool:
        """Append parts for about `seconds`, at least one; returns whether the content is complete.

        `OSError`: the assembly is unusable.  Cancelled: the current part is finished, and the next call
        continues after it.
        """
        deadline = trio.current_time() + seconds
        with self._mark_busy():
            while self._remaining:
                await threads.run_sync(self.incoming.append_part, *self._remaining[0])
                # atomic: no await until the part is removed from the list
                del self._remaining[0]
                if trio.current_time() >= deadline:
                    break
        return not self._remaining and not self._is_closed

    async def sha1(self) -> str:
        """The SHA-1 of the complete content."""
        with self._mark_busy():
            return await self.incoming.sha1()

    async def keep(self) -> str:
        """Store the complete content durably as a blob and return its SHA-1."""
        if self._kept_sha1 is None:
            with self._mark_busy():
                self._kept_sha1 = await self.incoming.keep()
        return self._kept_sha1

    @contextlib.contextmanager
    def _mark_busy(self) -> Iterator[None]:
        self.is_busy = True
        try:
            yield
        finally:
            self.is_busy = False
            self.last_used = clock.monotonic()
            if self._is_closed:
                self.incoming.close()

    def close(self) -> None:
        """Discard the content if it was not kept, once a running thread has finished."""
        self._is_closed = True
        if not self.is_busy:
            self.incoming.close()
