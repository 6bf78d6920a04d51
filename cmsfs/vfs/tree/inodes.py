"""Reference counts of inodes: kernel lookups and open handles.

Rule: a count is raised with no await before the reply that hands out the inode, since the kernel may
forget it at once.  The root is never counted.
"""

from array import array

from cmsfs.replica.fresh_names import FreshNames
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.replica.open_inodes import OpenInodes

# Inode numbers are rows of one table: close together, and those of a folder mostly side by side.
_PAGE_BITS = 10
_PAGE = 1 << _PAGE_BITS
_MOST = 0xFFFF


class Inodes(OpenInodes):
    """Lookup and open counts of every inode that has any."""

    def __init__(self) -> None:
        super().__init__()
        self._lookups = _Counts()
        # Transactions look at it, too.
        self.fresh = FreshNames()
        # Folders of which the kernel was told that a name is not in them.
        self._denied: set[Ino] = set()

    def looked_up(self, ino: Ino) -> None:
        if ino != ROOT:
            self._lookups.raise_(ino)

    def forgotten(self, ino: Ino, count: int) -> None:
        self._lookups.lower(ino, count)
        if not self._lookups.get(ino):
            self._denied.discard(ino)

    def denied(self, folder: Ino) -> None:
        """A name was asked for that is not in this folder: the kernel may remember that."""
        self._denied.add(folder)

    def lookups(self, ino: Ino) -> int:
        return self._lookups.get(ino)

    def is_used(self, ino: Ino) -> bool:
        """Whether the kernel or a handle may still speak of this inode."""
        return self._lookups.get(ino) > 0 or self.opens(ino) > 0

    def is_known(self, ino: Ino) -> bool:
        """Whether the kernel may remember anything of this inode, or of names in it."""
        return ino == ROOT or self._lookups.get(ino) > 0

    def has_denied(self, ino: Ino) -> bool:
        """Whether the kernel may remember of a name that it is not in this folder."""
        return ino in self._denied

    def totals(self) -> tuple[int, int]:
        """Inodes with lookups, inodes with open handles."""
        return self._lookups.used, len(self)


class _Counts:
    """A count for each number, two bytes each: after a walk over a drive the kernel holds a lookup of
    everything it met, and a dict of a million numbers is 75 MB."""

    def __init__(self) -> None:
        self.used = 0
        self._pages: dict[int, array[int]] = {}
        self._in_page: dict[int, int] = {}
        # What a page cannot hold: the rest of a count that went on and on.
        self._beyond: dict[int, int] = {}

    def get(self, number: int) -> int:
        page = self._pages.get(number >> _PAGE_BITS)
        if page is None:
            return 0
        count = page[number & (_PAGE - 1)]
        return count if count < _MOST else count + self._beyond.get(number, 0)

    def raise_(self, number: int) -> None:
        place = number >> _PAGE_BITS
        page = self._pages.get(place)
        if page is None:
            page = self._pages[place] = array("H", bytes(2 * _PAGE))
            self._in_page[place] = 0
        count = page[number & (_PAGE - 1)]
        if count == _MOST:
            self._beyond[number] = self._beyond.get(number, 0) + 1
            return
        page[number & (_PAGE - 1)] = count + 1
        if not count:
            self._in_page[place] += 1
            self.used += 1

    def lower(self, number: int, by: int) -> None:
        """Lower a count, to nothing at the least."""
        before = self.get(number)
        if not before:
            return
        place = number >> _PAGE_BITS
        left = max(before - by, 0)
        self._beyond.pop(number, None)
        if left > _MOST:
            self._beyond[number] = left - _MOST
        self._pages[place][number & (_PAGE - 1)] = min(left, _MOST)
        if not left:
            self.used -= 1
            self._in_page[place] -= 1
            if not self._in_page[place]:
                del self._pages[place], self._in_page[place]
