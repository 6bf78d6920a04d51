"""Which inodes are in use: the kernel's lookup counts, open handles, and fresh names.

Transactions can query handles and names, too.

Remote updates are applied in the writer's thread, while the event loop opens files.  A transaction that is
about to replace an inode's contents calls `examine`, and does not touch an inode that is open.  The file may
be opened between this call and the commit: so the loop first counts the handle and then checks for a mark,
while the transaction first marks the inode and then checks the count.  In any order, one of the two sees the
other (each step is one access to a dict or a set, which is atomic under the interpreter's lock):

    the transaction sees the handle     it leaves the inode as it is
    the handle sees the mark            it waits for the end of the transaction and opens the new state

Rules: no await between `try_open` and the read of the row.  A lookup is counted without an await before the
reply that returns the inode, since the kernel may forget it at once.  The root is never counted.
"""

from array import array
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable
from sqlite3 import Connection
from typing import Any

from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# The kernel is notified of a change shortly after it; names and contents count as new for this long.
MOMENT_SECONDS = 60.0
_MANY = 4096

# Expired names are dropped when there are this many.
_MANY_NAMES = 1024

_Place = tuple[Ino | None, str]

# Inode numbers are row ids of one table: dense, and mostly contiguous within a folder.
_PAGE_BITS = 10
_PAGE = 1 << _PAGE_BITS
_MOST = 0xFFFF


class Inodes:
    """Lookup and open counts of every inode that has any."""

    def __init__(self) -> None:
        self._lookups = _Counts()
        self._opens: Counter[Ino] = Counter()
        self._examined: set[Ino] = set()
        # Closed inodes whose contents were replaced, and which were not opened since.
        self._news: dict[Ino, float] = {}
        # Open inodes for which the reply to `open` told the kernel that the contents have changed.
        self._refreshed: set[Ino] = set()
        # Folders for which the kernel may have negative dentries.
        self._denied: set[Ino] = set()
        # Also used by transactions.
        self.fresh = FreshNames()

    def attach(self, db: Database) -> None:
        """Register the SQL functions that transactions of this database use."""
        db.create_function("is_open", self._examine, arguments=1)
        db.on_transaction_end = self._examined.clear
        self.fresh.attach(db)

    # ---- lookups ----

    def looked_up(self, ino: Ino) -> None:
        if ino != ROOT:
            self._lookups.raise_(ino)

    def listed(self, inos: Iterable[Ino]) -> None:
        """Count lookups of these inodes, which a directory listing returns to the kernel, each at its current
        place."""
        for ino in inos:
            self._lookups.raise_(ino)
        self.fresh.listed(inos)

    def forgotten(self, ino: Ino, count: int) -> None:
        self._lookups.lower(ino, count)
        if not self._lookups.get(ino):
            self._denied.discard(ino)

    def denied(self, folder: Ino) -> None:
        """Record a failed lookup in this folder: the kernel may cache it as a negative dentry."""
        self._denied.add(folder)

    def lookups(self, ino: Ino) -> int:
        return self._lookups.get(ino)

    def is_used(self, ino: Ino) -> bool:
        """Whether the kernel or a handle may still refer to this inode."""
        return ino in self._opens or self._lookups.get(ino) > 0

    def is_known(self, ino: Ino) -> bool:
        """Whether the kernel may have cached anything of this inode, or of names in it."""
        return ino == ROOT or self._lookups.get(ino) > 0

    def has_denied(self, ino: Ino) -> bool:
        """Whether the kernel may have negative dentries in this folder."""
        return ino in self._denied

    def totals(self) -> tuple[int, int]:
        """Return the numbers of inodes with lookups and of inodes with open handles."""
        return self._lookups.used, len(self._opens)

    # ---- handles, on the loop ----

    def opened(self, ino: Ino) -> None:
        """Count a handle regardless of transactions: for an inode that is already open, new or without
        contents."""
        self._opens[ino] += 1

    def try_open(self, ino: Ino) -> bool:
        """Count a handle; False, without counting it, if the running transaction has examined the inode:
        retry when it has ended."""
        self._opens[ino] += 1
        if ino not in self._examined:
            return True
        self.closed(ino)
        return False

    def closed(self, ino: Ino) -> None:
        left = self._opens.get(ino, 0) - 1
        if left > 0:
            self._opens[ino] = left
        else:
            self._opens.pop(ino, None)
            self._refreshed.discard(ino)

    def opens(self, ino: Ino) -> int:
        """Return the number of open handles of an inode; callable from any thread."""
        return self._opens.get(ino, 0)

    def tell_news(self, ino: Ino, *, is_news: bool) -> tuple[bool, bool]:
        """Called before the reply to `open`: whether the reply has to tell the kernel that the contents have
        changed, and whether the reply to an earlier `open`, whose handle is still open, has told it.

        They have changed if `is_news`, or if a transaction replaced them since the inode was last open,
        within `MOMENT_SECONDS`.
        """
        was_told = ino in self._refreshed
        if self._news.pop(ino, None) is not None or is_news:
            self._refreshed.add(ino)
            return True, was_told
        return False, was_told

    def is_refreshed(self, ino: Ino) -> bool:
        """Whether the reply to an `open` whose handle is still open told the kernel; callable from any
        thread."""
        return ino in self._refreshed

    # ---- handover to the next process that serves the same mount ----

    def handed_over(self) -> dict[str, Any]:
        """Export the kernel's references; open handles are not included: the next process reopens and counts
        them."""
        return {
            "lookups": self._lookups.packed(),
            "denied": list(self._denied),
            "news": list(self._news.items()),
            "refreshed": list(self._refreshed),
            "fresh": self.fresh.packed(),
        }

    def take_over(self, given: dict[str, Any]) -> None:
        """Import what the previous process exported with `handed_over`."""
        self._lookups.unpack(given["lookups"])
        self._denied.update(given["denied"])
        self._news.update(dict(given["news"]))
        self._refreshed.update(given["refreshed"])
        self.fresh.unpack(given["fresh"])

    # ---- handles, in the writer's thread ----

    def _examine(self, ino: Ino) -> bool:
        self._examined.add(ino)
        if ino in self._opens:
            return True
        self._news[ino] = now = clock.monotonic()
        if len(self._news) > _MANY:
            # The kernel has been notified of the older ones.
            for old in [one for one, at in list(self._news.items()) if now - at > MOMENT_SECONDS]:
                self._news.pop(old, None)
        return False


def is_open(conn: Connection, ino: Ino) -> bool:
    """Whether the inode is open; if it is opened later, the open waits for the end of this transaction."""
    return bool(conn.execute("SELECT is_open(?)", (ino,)).fetchone()[0])


class FreshNames:
    """Names that an inode got recently, by which programs may still mean another file, or none.

    A request to remove or replace a name does not say which file is meant: the kernel is notified of a change
    only after a running call in the same folder has ended, and a program has looked at the file some time
    before it replaces it.  So a name set by a transaction is fresh for a minute, unless the file is opened by
    that name.  Each step is one access to a dict, which is atomic under the interpreter's lock.
    """

    def __init__(self) -> None:
        self._places: dict[Ino, tuple[_Place, float]] = {}
        # When each inode got its name, whether or not it was opened by it.
        self._named: dict[Ino, float] = {}
        # Those of them that the kernel has looked up there, and that were not opened since.
        self.known: set[Ino] = set()
        self._noted = 0

    def attach(self, db: Database) -> None:
        """Register the SQL functions that transactions of this database use."""
        db.create_function("note_fresh", self._note, arguments=3)
        db.create_function("is_fresh", self._is_fresh, arguments=3)
        db.create_function("not_fresh", self.opened, arguments=1)

    def looked_up(self, ino: Ino, parent: Ino, name: str) -> None:
        """Called when a lookup of this name returns the inode to the kernel."""
        found = self._places.get(ino)
        if found is not None and found[0] == (parent, name):
            self.known.add(ino)

    def listed(self, inos: Iterable[Ino]) -> None:
        """Called when a directory listing returns these inodes to the kernel, each at its current place."""
        if self._places:
            self.known.update([ino for ino in inos if ino in self._places])

    def opened(self, ino: Ino) -> None:
        """Called when one of the `known` inodes is opened: by this name; or when a program chose the name."""
        self.known.discard(ino)
        self._places.pop(ino, None)

    def was_named_now(self, ino: Ino) -> bool:
        """Whether the kernel may still have the inode cached under an earlier name."""
        since = self._named.get(ino)
        return since is not None and not _is_past(since)

    def packed(self) -> list[list[Any]]:
        """Return a JSON-serializable form.  Times are of the machine's clock, valid in another process."""
        return [
            [ino, parent, name, since, ino in self.known]
            for ino, ((parent, name), since) in self._places.items()
        ]

    def unpack(self, packed: list[list[Any]]) -> None:
        for ino, parent, name, since, is_known in packed:
            self._places[ino] = ((parent, name), since)
            if is_known:
                self.known.add(ino)

    def _note(self, ino: Ino, parent: Ino | None, name: str) -> None:
        self._noted += 1
        if not self._noted % _MANY_NAMES:
            for old in [one for one, (_, since) in list(self._places.items()) if _is_past(since)]:
                self._places.pop(old, None)
                self.known.discard(old)
            for old in [one for one, since in list(self._named.items()) if _is_past(since)]:
                self._named.pop(old, None)
        self.known.discard(ino)
        now = clock.monotonic()
        self._places[ino], self._named[ino] = ((parent, name), now), now

    def _is_fresh(self, ino: Ino, parent: Ino | None, name: str) -> bool:
        found = self._places.get(ino)
        return found is not None and found[0] == (parent, name) and not _is_past(found[1])


def _is_past(since: float) -> bool:
    return clock.monotonic() - since >= MOMENT_SECONDS


def note_fresh(conn: Connection, ino: Ino) -> None:
    """Record that the node got its name in this transaction, from a remote update and not from a program."""
    conn.execute("SELECT note_fresh(ino, parent, name) FROM node WHERE ino = ?", (ino,)).fetchone()


def note_chosen(conn: Connection, ino: Ino) -> None:
    """Record that a program chose the node's name, although a remote update brought it."""
    conn.execute("SELECT not_fresh(?)", (ino,)).fetchone()


def is_fresh(conn: Connection, node: Node) -> bool:
    """Whether a program that removes or replaces the node's name may mean another file, or none."""
    return bool(conn.execute("SELECT is_fresh(?, ?, ?)", (node.ino, node.parent, node.name)).fetchone()[0])


class _Counts:
    """A counter for each number, in two bytes each: after a walk over the drive the kernel holds a lookup of
    every item, and a dict of a million numbers takes 75 MB."""

    def __init__(self) -> None:
        self.used = 0
        self._pages: dict[int, array[int]] = {}
        self._in_page: dict[int, int] = {}
        # The part of a count that exceeds two bytes.
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
        """Decrease a count, but not below zero."""
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

    def packed(self) -> dict[str, Any]:
        """Return a JSON-serializable form: pages of counts in base64."""
        pages = {str(place): b64encode(page.tobytes()).decode() for place, page in self._pages.items()}
        return {"pages": pages, "beyond": list(self._beyond.items())}

    def unpack(self, packed: dict[str, Any]) -> None:
        for place, text in packed["pages"].items():
            page = self._pages[int(place)] = array("H", b64decode(text))
            count = self._in_page[int(place)] = sum(1 for one in page if one)
            self.used += count
        self._beyond.update(dict(packed["beyond"]))
