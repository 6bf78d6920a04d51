"""Which items each program has changed lately, so that what one of them did can be told from all else.

Rule: a trace says that a program was there, not what it did: the journal knows that.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import NamedTuple

from cmsfs.replica.nodes import Ino, ItemKey
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics.callers import CallingProgram

# Items whose last program is remembered, while nobody is followed.
REMEMBERED = 20_000


class Trace(NamedTuple):
    """When a program changed an item, and what the service calls that, where the drive may forget it."""

    at: float
    program: str
    key: ItemKey | None


class Traces:
    """What was changed, by whom; of programs that are followed all that they change (`found`).

    `told` is called whenever there is more in `found`; `fresh` is what came since it was last emptied.
    """

    def __init__(self) -> None:
        self.told: Callable[[], None] = lambda: None
        self.found: dict[Ino, ItemKey | None] = {}
        self.fresh: dict[Ino, ItemKey | None] = {}
        self._latest: OrderedDict[Ino, Trace] = OrderedDict()
        self._followed: frozenset[str] = frozenset()

    def note(self, ino: Ino, caller: CallingProgram, key: ItemKey | None = None) -> None:
        """A program changes an item."""
        if caller.name in self._followed:
            self._find(ino, key)
            if self.fresh:
                self.told()
            return
        self._latest[ino] = Trace(clock.monotonic(), caller.name, key)
        if len(self._latest) > REMEMBERED:
            self._latest.popitem(last=False)

    def follow(self, programs: Collection[str], *, since: float) -> None:
        """Keep what these have changed since then (seconds of the monotonic clock), and what they will."""
        new = frozenset(programs) - self._followed
        self._followed |= new
        for ino, trace in list(self._latest.items()):
            if trace.program in new and trace.at >= since:
                self._find(ino, trace.key)
                del self._latest[ino]
        self.told()

    def take_up(self, programs: Collection[str], found: dict[Ino, ItemKey | None]) -> None:
        """Go on as before a restart."""
        self._followed |= frozenset(programs)
        self.found |= found

    def forget(self) -> None:
        """Follow nobody any more."""
        self._followed, self.found, self.fresh = frozenset(), {}, {}

    def _find(self, ino: Ino, key: ItemKey | None) -> None:
        if ino in self.found and (key is None or self.found[ino] == key):
            return
        self.found[ino] = self.fresh[ino] = key
