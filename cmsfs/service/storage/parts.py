"""Parts of unfinished uploads, and how they are joined into one content.

They are kept in a folder (`sessions/<session>/<part>`) or in a bucket (`s3/s3_parts.py`).  An `Assembly`
reads the parts in order into a content; it works while a commit waits for it and rests between two commits,
so that no task has to be kept for it.  Called by upload_sessions.py.

Rules: a part is where it stays, durably, before its row.  Parts stay until the file's row is written;
whatever dies in between, the commit can be sent again, to another process, too.
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

# A long read in a thread: `Store.query`.
Query = Callable[[Callable[[blobs.Read], Any]], Awaitable[Any]]

_LIVING = """
  SELECT s.id, p.file FROM upload_session AS s LEFT JOIN upload_part AS p ON p.session = s.id
    WHERE s.expires_at > ? AND s.committed = 0
"""


class Parts(abc.ABC):
    """Where parts are, and the assemblies that this process has begun."""

    def __init__(self) -> None:
        self._assemblies: dict[str, Assembly] = {}

    @abc.abstractmethod
    def make(self, session: str) -> None:
        """Prepare for the parts of a new session, durably; for a thread."""

    @abc.abstractmethod
    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        """Give a part that has arrived its place, durably; for a thread.

        Raises `FileNotFoundError` if it is seen that the session is over.
        """

    @abc.abstractmethod
    def drop_part(self, session: str, part: str) -> None:
        """Remove a part; for a thread."""

    @abc.abstractmethod
    def open(self, session: str, part: str, size: int) -> blobs.BlobReader:
        """A part of so many bytes; for a thread.  Raises `FileNotFoundError`."""

    @abc.abstractmethod
    def stored(self, before: int) -> Iterator[tuple[str, str]]:
        """What came before a moment: sessions, each with one of its parts, or with ''; for a thread."""

    @abc.abstractmethod
    def _remove(self, session: str) -> None:
        """Remove all parts of a session; for a thread."""

    def sweep(self, read: blobs.Read, *, now: int, alone: bool) -> int:
        """At a start: remove what no row names from this machine; for a thread.

        With other processes around, a folder may be older than its row, and a part than its.
        """
        return 0

    async def sweep_abandoned(self, query: Query, *, now: int) -> int:
        """Remove what no row names, and nobody can be about to name."""
        before = now - blobs.STALE_SECONDS * 1_000_000
        found = await threads.run_sync(lambda: list(self.stored(before)))
        if not found:
            return 0
        known = await query(partial(living, now=now))
        over = {session for session, _ in found if session not in known}
        stray = [
            (session, part) for session, part in found if part and part not in known.get(session, {part})
        ]
        for session in over:
            await threads.run_sync(self._remove, session)
        for session, part in stray:
            await threads.run_sync(self.drop_part, session, part)
        return len(over) + len(stray)

    async def remove(self, *sessions: str) -> None:
        """Forget sessions that are over, and their parts.  What cannot be removed now is swept later."""
        for session in sessions:
            self.drop(session)
            with contextlib.suppress(blobs.BlobsUnavailable):
                await threads.run_sync(self._remove, session)

    def assembly(self, session: str, kept: blobs.BlobStore, parts: Sequence[tuple[str, int]]) -> "Assembly":
        """The assembly of a session whose parts are all there, begun if it is not; each part has a size."""
        for other, made in list(self._assemblies.items()):
            # Its commit was sent again to another process.
            if not made.busy and clock.monotonic() - made.used > blobs.STALE_SECONDS:
                self.drop(other)
        if session not in self._assemblies:
            openers = [(partial(self.open, session, part, size), size) for part, size in parts]
            self._assemblies[session] = Assembly(blobs.IncomingBlob(kept), openers)
        return self._assemblies[session]

    def drop(self, session: str) -> None:
        """Drop what is half assembled; it is begun anew when the commit is sent again."""
        if (assembly := self._assemblies.pop(session, None)) is not None:
            assembly.close()

    def close(self) -> None:
        for session in list(self._assemblies):
            self.drop(session)


def living(read: blobs.Read, *, now: int) -> dict[str, set[str]]:
    """The parts that rows name, by the sessions that are not over."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in read(_LIVING, now):
        found[row["id"]] |= {row["file"]} - {None}
    return found


class FolderParts(Parts):
    """The folder `root`."""

    def __init__(self, root: Path) -> None:
        super().__init__()
        self.root = root

    def path(self, session: str, part: str = "") -> Path:
        return self.root / session / part

    def make(self, session: str) -> None:
        self.path(session).mkdir(mode=0o700)
        durability.sync(self.root)

    def keep(self, session: str, part: str, incoming: blobs.IncomingBlob) -> None:
        def place(spool: Path, file: int) -> None:
            os.fsync(file)
            spool.rename(self.path(session, part))
            durability.sync(self.path(session))

        incoming.hand_to(place)

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

    def sweep(self, read: blobs.Read, *, now: int, alone: bool) -> int:
        removed = 0
        known = living(read, now=now)
        for folder in os.scandir(self.root):
            names = known.get(folder.name)
            if names is None:
                if alone or clock.time() - folder.stat().st_mtime > blobs.STALE_SECONDS:
                    shutil.rmtree(folder.path, ignore_errors=True)
                    removed += 1
            elif alone:
                for entry in os.scandir(folder.path):
                    if entry.name not in names:
                        Path(entry.path).unlink()
                        removed += 1
        return removed


class Assembly:
    """One content in the making.  Construct with `Parts.assembly`."""

    def __init__(
        self, incoming: blobs.IncomingBlob, parts: Sequence[tuple[Callable[[], blobs.BlobReader], int]]
    ) -> None:
        self.incoming = incoming
        self.busy = False
        self.used = clock.monotonic()
        self._left = list(parts)
        self._kept: str | None = None
        self._closed = False

    async def advance(self, seconds: float) -> bool:
        """Work for about so long, one part at least; whether the content is complete.

        Raises `OSError`: the assembly is spoilt.  Cancelled: the part at hand is finished, and the next call
        goes on behind it.
        """
        give_up = trio.current_time() + seconds
        with self._at_work():
            while self._left:
                await threads.run_sync(self.incoming.append_part, *self._left[0])
                # atomic: no await until the part is struck off
                del self._left[0]
                if trio.current_time() >= give_up:
                    break
        return not self._left and not self._closed

    async def sha1(self) -> str:
        """The SHA-1 of the complete content."""
        with self._at_work():
            return await self.incoming.sha1()

    async def keep(self) -> str:
        """Put the complete content among the blobs, durably, and return its SHA-1."""
        if self._kept is None:
            with self._at_work():
                self._kept = await self.incoming.keep()
        return self._kept

    @contextlib.contextmanager
    def _at_work(self) -> Iterator[None]:
        self.busy = True
        try:
            yield
        finally:
            self.busy = False
            self.used = clock.monotonic()
            if self._closed:
                self.incoming.close()

    def close(self) -> None:
        """Discard what was not kept, when the thread that is at work has finished."""
        self._closed = True
        if not self.busy:
            self.incoming.close()
