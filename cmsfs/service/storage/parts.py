"""Parts of unfinished uploads on disk, and how they are joined into one content.

`sessions/<session>/<part>` is a part, on disk before its row.  An `Assembly` reads the parts in order into
a content; it works while a commit waits for it and rests between two commits, so that no task has to be
kept for it.  Called by upload_sessions.py; what a crash left is swept by store.py.

Rule: parts stay until the file's row is written; whatever dies in between, the commit can be sent again.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import trio

from cmsfs import durability
from cmsfs.runtime import clock, threads
from cmsfs.service.storage import blobs


class Parts:
    """The directory, and the assemblies that were begun."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._assemblies: dict[str, Assembly] = {}

    def path(self, session: str, part: str = "") -> Path:
        return self.root / session / part

    def make(self, session: str) -> None:
        """The folder of a new session, durably; for a thread."""
        self.path(session).mkdir(mode=0o700)
        durability.sync(self.root)

    async def remove(self, *sessions: str) -> None:
        """Forget sessions that are over, and their parts."""
        for session in sessions:
            self.drop(session)
            await threads.run_sync(lambda path: shutil.rmtree(path, True), self.path(session))

    def assembly(self, session: str, kept: blobs.BlobStore, names: list[str]) -> "Assembly":
        """The assembly of a session whose parts are all there, begun if it is not."""
        if session not in self._assemblies:
            paths = [self.path(session, name) for name in names]
            self._assemblies[session] = Assembly(blobs.IncomingBlob(kept), paths)
        return self._assemblies[session]

    def drop(self, session: str) -> None:
        """Drop what is half assembled; it is begun anew when the commit is sent again."""
        if (assembly := self._assemblies.pop(session, None)) is not None:
            assembly.close()

    def close(self) -> None:
        for session in list(self._assemblies):
            self.drop(session)

    def sweep(self, known: Callable[[str], set[str] | None], *, alone: bool) -> int:
        """Remove what no row names: `known` gives a session's parts, None for one that is over.

        With other processes around, a folder may be older than its row, and a part than its.
        """
        removed = 0
        for folder in os.scandir(self.root):
            names = known(folder.name)
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

    def __init__(self, incoming: blobs.IncomingBlob, paths: list[Path]) -> None:
        self.incoming = incoming
        self.busy = False
        self._left = paths
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
                await threads.run_sync(self.incoming.append_file, self._left[0])
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
            if self._closed:
                self.incoming.close()

    def close(self) -> None:
        """Discard what was not kept, when the thread that is at work has finished."""
        self._closed = True
        if not self.busy:
            self.incoming.close()
