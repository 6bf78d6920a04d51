"""Detects programs that walk the tree, and whether they should wait for the running enumeration.

For a program that waits, a folder is listed by itself: one round trip or several.  An enumeration returns two
hundred items per request and has several requests in flight: `find` over a thousand folders finishes sooner
if it waits for the enumeration.

A walk is recognised by its speed, one folder after the other with hardly a pause; no user clicks that fast.
The longer it has lasted, the longer it may wait.

Rule: a program never waits longer than walking on would take, as far as can be known; after waiting in vain
it must walk again before it waits again.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.sqlite import Database
from cmsfs.wakeup import Signal

# A program that lists the next folder later than this does not walk.
HASTE_SECONDS = 0.5

# Each folder of the walk so far allows this much waiting.
SECONDS_A_STEP = 1.0

# Number of folders that is no walk yet: a file manager reads a few to show their contents.
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
        """Count items received."""
        self._came += count
        self.moved()

    def moved(self) -> None:
        """Wake waiters to check again."""
        self._moved.pulse()

    async def news(self) -> None:
        await self._moved.wait()

    @property
    def seconds_left(self) -> float:
        """Estimate the remaining time at the rate so far; infinite if unknown."""
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
        """Context of an enumeration of everything below this folder; it reports `total` and `took`."""
        one = RunningEnumeration(folder)
        self._running.append(one)
        try:
            yield one
        finally:
            self._running.remove(one)
            one.moved()

    @property
    def is_walk(self) -> bool:
        """Whether a program has just listed a folder by itself, and may list the next one now."""
        return bool(self._steps) and trio.current_time() - self._last <= HASTE_SECONDS

    def stepped(self, began: float) -> None:
        """Record that a folder was listed by itself, starting at `began` (trio's time)."""
        now = trio.current_time()
        self._steps += 1
        self._walked_seconds += now - began
        self._last = now

    async def wait(self, folder: Ino, progress: Callable[[], None]) -> None:
        """Return when an enumeration has listed the folder, or it should be listed by itself.

        `progress` is called whenever the enumeration progresses.  Cancelled: no effect.
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
        """Return the enumeration that will list this folder first."""
        above = {folder}
        node = tree.find(self._db, folder)
        while node is not None and node.parent is not None and node.ino != ROOT:
            above.add(node.parent)
            node = tree.find(self._db, node.parent)
        found = [one for one in self._running if one.folder in above]
        return min(found, key=lambda one: one.seconds_left, default=None)

    def _walk_seconds(self, folder: Ino) -> float:
        """Estimate how long the walk would take through this folder and its siblings, one by one."""
        node = tree.find(self._db, folder)
        if node is None or node.parent is None or not self._steps:
            return 0.0
        return tree.count_unlisted(self._db, node.parent) * self._walked_seconds / self._steps
