"""Detects file copies: which files a program was reading when it created another.

Equal contents do not prove a copy.  The kernel does not report that a file is being copied
(`copy_file_range` arrives as reads and writes), but it reports the calling thread, and copying programs read
and write in the same thread.

Rule: this is evidence in memory; to keep it over a restart, handle `copied`, which is called for each closed
copy.  Without evidence the contents are uploaded.
"""

import os
from collections import OrderedDict
from collections.abc import Callable

from cmsfs.replica.nodes import Ino

# Maximum number of remembered files; the contents of older ones are uploaded.
REMEMBERED = 10_000


class CopyDetector:
    """Observes opens and releases; returns which files a file may be a copy of."""

    def __init__(self) -> None:
        self._readers: dict[int, tuple[int, Ino]] = {}  # by handle: thread and file
        self._sources: OrderedDict[Ino, frozenset[Ino]] = OrderedDict()
        self._writers: dict[int, Ino] = {}  # by handle, of files that may be copies
        self.copied: Callable[[Ino, frozenset[Ino]], None] = lambda ino, sources: None

    def opened(self, thread: int, fh: int, ino: Ino, flags: int) -> None:
        """Record that a thread (0: unknown) has opened or created a file."""
        if not thread:
            return
        if flags & (os.O_WRONLY | os.O_RDWR):
            self._note(ino, frozenset(one for who, one in self._readers.values() if who == thread))
            if ino in self._sources:
                self._writers[fh] = ino
        else:
            self._readers[fh] = (thread, ino)

    def released(self, fh: int) -> None:
        self._readers.pop(fh, None)
        if (ino := self._writers.pop(fh, None)) is not None and (found := self._sources.get(ino)):
            self.copied(ino, found)

    def sources(self, ino: Ino) -> frozenset[Ino]:
        """Return the files that a file may be a copy of, if their contents are equal."""
        return self._sources.get(ino, frozenset())

    def _note(self, ino: Ino, found: frozenset[Ino]) -> None:
        self._sources.pop(ino, None)
        if not found - {ino}:
            return  # the writing thread reads no other file: not a copy
        self._sources[ino] = found - {ino}
        while len(self._sources) > REMEMBERED:
            self._sources.popitem(last=False)
