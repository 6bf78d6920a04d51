"""Records which items each program has changed recently, to separate one program's changes from all others.

Rule: a trace tells that a program changed an item, not how: the journal knows that.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import NamedTuple

from cmsfs.replica.nodes import Ino, ItemKey
from cmsfs.runtime import clock
from cmsfs.vfs.heuristics.callers import CallingProgram

# Maximum number of items whose last program is remembered.
REMEMBERED = 20_000


class Trace(NamedTuple):
    """When a program changed an item; with the item's key at the service if the drive may forget the node."""

    at: float
    program: str
    key: ItemKey | None


class Traces:
    """Which program changed which item; for followed programs, everything that they change (`found`).

    `on_found` is called whenever `found` grows; `fresh` has what was added since it was last emptied.
    """

    def __init__(self) -> None:
        self.on_found: Callable[[], None] = lambda: None
        self.found: dict[Ino, ItemKey | None] = {}
        self.fresh: dict[Ino, ItemKey | None] = {}
        self._latest: OrderedDict[Ino, Trace] = OrderedDict()
        self._followed: frozenset[str] = frozenset()

    def note(self, ino: Ino, caller: CallingProgram, key: ItemKey | None = None) -> None:
        """Record that a program changes an item."""
        if caller.name in self._followed:
            self._find(ino, key)
            if self.fresh:
                self.on_found()
            return
        self._latest[ino] = Trace(clock.monotonic(), caller.name, key)
        if len(self._latest) > REMEMBERED:
            self._latest.popitem(last=False)

    def follow(self, programs: Collection[str], *, since: float) -> None:
        """Follow these programs: keep what they have changed since `since` (monotonic), and all they change
        from now on."""
        new = frozenset(programs) - self._followed
        self._followed |= new
        for ino, trace in list(self._latest.items()):
            if trace.program in new and trace.at >= since:
                self._find(ino, trace.key)
                del self._latest[ino]
        self.on_found()

    def restore(self, programs: Collection[str], found: dict[Ino, ItemKey | None]) -> None:
        """Continue as before a restart."""
        self._followed |= frozenset(programs)
        self.found |= found

    def forget(self) -> None:
        """Stop following all programs."""
        self._followed, self.found, self.fresh = frozenset(), {}, {}

    def _find(self, ino: Ino, key: ItemKey | None) -> None:
        if ino in self.found and (key is None or self.found[ino] == key):
            return
        self.found[ino] = self.fresh[ino] = key
