"""How long a node must be kept: the kernel's lookups and our open handles, counted in memory.

Rule: a count is raised with no await before the reply that hands out the inode, since the kernel may
forget it at once.  The root is never counted.
"""

from collections import Counter

from cmsfs.replica.nodes import ROOT, Ino


class Inodes:
    """Lookup and open counts of every inode that has any."""

    def __init__(self) -> None:
        self._lookups: Counter[Ino] = Counter()
        self._opens: Counter[Ino] = Counter()

    def looked_up(self, ino: Ino) -> None:
        if ino != ROOT:
            self._lookups[ino] += 1

    def forgotten(self, ino: Ino, count: int) -> None:
        self._lower(self._lookups, ino, count)

    def opened(self, ino: Ino) -> None:
        self._opens[ino] += 1

    def closed(self, ino: Ino) -> None:
        self._lower(self._opens, ino, 1)

    def lookups(self, ino: Ino) -> int:
        return self._lookups.get(ino, 0)

    def opens(self, ino: Ino) -> int:
        return self._opens.get(ino, 0)

    def is_used(self, ino: Ino) -> bool:
        """Whether the kernel or a handle may still speak of this inode."""
        return ino in self._lookups or ino in self._opens

    def totals(self) -> tuple[int, int]:
        """Inodes with lookups, inodes with open handles."""
        return len(self._lookups), len(self._opens)

    @staticmethod
    def _lower(counter: Counter[Ino], ino: Ino, count: int) -> None:
        left = counter.get(ino, 0) - count
        if left > 0:
            counter[ino] = left
        else:
            counter.pop(ino, None)
