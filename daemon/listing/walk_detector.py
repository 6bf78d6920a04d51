"""Detects programs that walk the tree, and whether they should wait for the running enumeration.

For whoever waits a folder is listed by itself: a round trip, or several.  An enumeration brings two hundred
items with a request and has several requests under way: `find` over a thousand folders is through sooner when
it waits for that.

A walk is recognised by its haste, one folder after the other with hardly a moment between; nobody who clicks
is so fast.  The longer it has gone on, the longer it may wait.

Rule: nobody waits longer than walking on would take, as far as can be known; who waited in vain has to walk
anew before it waits again.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal

# Who comes for the next folder later than this does not walk.
HASTE_SECONDS = 0.5

# For every folder that was walked through it is worth waiting so long.
SECONDS_A_STEP = 1.0

# So many folders are no walk yet: a file manager looks into a few to show what is in them.
FIRST_STEPS = 4


class RunningEnumeration:
    """An enumeration of everything below a folder, in progress."""

    def __init__(self, folder: Ino) -> None:
        self.folder = folder
        self.total: int | None = None  # items still to come when it began; None: not known yet
        self._came = 0
        self._began = trio.current_time()
        self._moved = Signal()

    def took(self, count: int) -> None:
        """So many items came."""
        self._came += count
        self.moved()

    def moved(self) -> None:
        """Have those who wait look again."""
        self._moved.pulse()

    async def news(self) -> None:
        await self._moved.wait()

    @property
    def seconds_left(self) -> float:
        """At the rate of before; infinite: nobody knows."""
        if self.total is None or not self._came:
            return math.inf
        elapsed = trio.current_time() - self._began
        return elapsed * max(self.total - self._came, 0) / self._came


class WalkDetector:
    """Tracks running enumerations and walking programs."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._running: list[RunningEnumeration] = []
        self._steps = 0
        self._walked_seconds = 0.0
        self._last = -math.inf

    @contextmanager
    def enumerating(self, folder: Ino) -> Iterator[RunningEnumeration]:
        """While everything below this folder is on its way; told about it by `total` and `took`."""
        one = RunningEnumeration(folder)
        self._running.append(one)
        try:
            yield one
        finally:
            self._running.remove(one)
            one.moved()

    def stepped(self, began: float) -> None:
        """A folder was listed by itself, since then (trio's time)."""
        now = trio.current_time()
        self._steps += 1
        self._walked_seconds += now - began
        self._last = now

    async def wait(self, folder: Ino, progress: Callable[[], None]) -> None:
        """Return when the folder is known by an enumeration, or is better listed by itself.

        `progress` is called whenever the enumeration gets on.  Cancelled: nothing has happened.
        """
        now = trio.current_time()
        if now - self._last > HASTE_SECONDS:
            self._steps, self._walked_seconds = 0, 0.0
        if self._steps < FIRST_STEPS:
            return
        end = now + self._steps * SECONDS_A_STEP
        waited = False
        while not tree.is_listed(self._db, folder):
            one = self._best(folder)
            left = math.inf if one is None else one.seconds_left
            if one is None or trio.current_time() + left > end or left > self._walk_seconds(folder):
                if waited:
                    self._steps, self._walked_seconds = 0, 0.0
                return
            waited = True
            with trio.move_on_at(end):
                await one.news()
            progress()
        self._last = trio.current_time()

    def _best(self, folder: Ino) -> RunningEnumeration | None:
        """The enumeration that will be the first to bring this folder."""
        above = {folder}
        node = tree.find(self._db, folder)
        while node is not None and node.parent is not None and node.ino != ROOT:
            above.add(node.parent)
            node = tree.find(self._db, node.parent)
        found = [one for one in self._running if one.folder in above]
        return min(found, key=lambda one: one.seconds_left, default=None)

    def _walk_seconds(self, folder: Ino) -> float:
        """How long the walk would take through this folder and those beside it, one by one."""
        node = tree.find(self._db, folder)
        if node is None or node.parent is None or not self._steps:
            return 0.0
        return tree.count_unlisted(self._db, node.parent) * self._walked_seconds / self._steps
