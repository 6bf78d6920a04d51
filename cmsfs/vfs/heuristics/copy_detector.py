"""Detects file copies: which files a program was reading when it created another.

Bytes alone say nothing: two files may be equal without one having come from the other.  The kernel does not
tell that a file is being copied (`copy_file_range` arrives as reads and writes), but it says which thread
asks, and programs that copy read and write in one.

Rule: this is evidence, kept in memory; whoever wants to know after a restart hears of each copy that is
closed (`copied`).  Without it bytes are sent.
"""

import os
from collections import OrderedDict
from collections.abc import Callable

from cmsfs.replica.nodes import Ino

# Files of which it is remembered; what is pushed later than this many others is sent.
REMEMBERED = 10_000


class CopyDetector:
    """Observes opens and releases; tells which files another may be a copy of."""

    def __init__(self) -> None:
        self._readers: dict[int, tuple[int, Ino]] = {}  # by handle: thread and file
        self._sources: OrderedDict[Ino, frozenset[Ino]] = OrderedDict()
        self._writers: dict[int, Ino] = {}  # by handle, of files that may be copies
        self.copied: Callable[[Ino, frozenset[Ino]], None] = lambda ino, sources: None

    def opened(self, thread: int, fh: int, ino: Ino, flags: int) -> None:
        """A thread (0: one that the kernel cannot name) has opened or made a file."""
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
        """The files that it may be a copy of, if its bytes are theirs."""
        return self._sources.get(ino, frozenset())

    def _note(self, ino: Ino, found: frozenset[Ino]) -> None:
        self._sources.pop(ino, None)
        if not found - {ino}:
            return  # whoever writes to it now is not copying
        self._sources[ino] = found - {ino}
        while len(self._sources) > REMEMBERED:
            self._sources.popitem(last=False)
