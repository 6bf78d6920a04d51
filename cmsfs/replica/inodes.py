"""What the kernel and programs hold of inodes: lookups, open handles, and names that are fresh.

Handles and names are there for transactions, too.

What the service says is applied in the writer's thread, while the loop opens files.  A transaction that is
about to give other bytes to an inode asks `examine`, and leaves one that is open alone.  Between its question
and its commit the file may be opened: so the loop counts first and looks then whether it was asked about, and
the transaction marks first and looks at the count then.  Whatever the order, one of the two sees the other
(each step is one look into a dict or a set, which the interpreter's lock makes whole):

    the transaction sees the handle     it leaves the inode as it is
    the handle sees the question        it waits for the end of the transaction and takes what is there then

Rules: no await between `try_open` and the read of the row.  A lookup is counted with no await before
the reply that hands out the inode, since the kernel may forget it at once.  The root is never counted.
"""

from array import array
from base64 import b64decode, b64encode
from collections import Counter
from sqlite3 import Connection
from typing import Any

from cmsfs.replica.nodes import ROOT, Ino, Node
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# The kernel hears of a change a moment after it.
MOMENT_SECONDS = 60.0
_MANY = 4096

# What is older is forgotten when so many names have come.
_MANY_NAMES = 1024

_Place = tuple[Ino | None, str]

# Inode numbers are rows of one table: close together, and those of a folder mostly side by side.
_PAGE_BITS = 10
_PAGE = 1 << _PAGE_BITS
_MOST = 0xFFFF


class Inodes:
    """Lookup and open counts of every inode that has any."""

    def __init__(self) -> None:
        self._lookups = _Counts()
        self._opens: Counter[Ino] = Counter()
        self._examined: set[Ino] = set()
        # Closed inodes that were given other bytes, and not opened since.
        self._news: dict[Ino, float] = {}
        # Open inodes of which the answer to `open` told the kernel that their bytes are others.
        self._refreshed: set[Ino] = set()
        # Folders of which the kernel was told that a name is not in them.
        self._denied: set[Ino] = set()
        # Transactions look at it, too.
        self.fresh = FreshNames()

    def attach(self, db: Database) -> None:
        """Let the transactions of this database ask here."""
        db.define("is_open", self._examine, arguments=1)
        db.ended = self._examined.clear
        self.fresh.attach(db)

    # ---- lookups ----

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
        return ino in self._opens or self._lookups.get(ino) > 0

    def is_known(self, ino: Ino) -> bool:
        """Whether the kernel may remember anything of this inode, or of names in it."""
        return ino == ROOT or self._lookups.get(ino) > 0

    def has_denied(self, ino: Ino) -> bool:
        """Whether the kernel may remember of a name that it is not in this folder."""
        return ino in self._denied

    def totals(self) -> tuple[int, int]:
        """Inodes with lookups, inodes with open handles."""
        return self._lookups.used, len(self._opens)

    # ---- handles, on the loop ----

    def opened(self, ino: Ino) -> None:
        """Count a handle, whatever a transaction does: on what is open, or new, or has no bytes."""
        self._opens[ino] += 1

    def try_open(self, ino: Ino) -> bool:
        """Count a handle; False, and it is not counted, if the transaction that runs at this moment has asked
        about the inode: to be tried again when that has ended."""
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
        """How many handles are open on an inode; from any thread."""
        return self._opens.get(ino, 0)

    def tell_news(self, ino: Ino, *, is_news: bool) -> tuple[bool, bool]:
        """Before the answer to `open`: whether it is to tell the kernel that the bytes are others than it
        knows, and whether the answer to one whose handle is still there has told it so.

        They are others if `is_news`, or if a transaction has given others to the inode since it was last
        open, a moment ago.
        """
        was_told = ino in self._refreshed
        if self._news.pop(ino, None) is not None or is_news:
            self._refreshed.add(ino)
            return True, was_told
        return False, was_told

    def is_refreshed(self, ino: Ino) -> bool:
        """Whether the kernel was told by an `open` whose handle is still there; from any thread."""
        return ino in self._refreshed

    # ---- for the next process that serves the same mount ----

    def handed_over(self) -> dict[str, Any]:
        """What the kernel holds of inodes; open handles are counted anew by whoever reopens them."""
        return {
            "lookups": self._lookups.packed(),
            "denied": list(self._denied),
            "news": list(self._news.items()),
            "refreshed": list(self._refreshed),
            "fresh": self.fresh.packed(),
        }

    def take_over(self, given: dict[str, Any]) -> None:
        """Go on from what another process has `handed_over`."""
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
            # The kernel has heard of the older ones.
            for old in [one for one, at in list(self._news.items()) if now - at > MOMENT_SECONDS]:
                self._news.pop(old, None)
        return False


def is_open(conn: Connection, ino: Ino) -> bool:
    """Whether somebody has the inode open; who opens it later waits for the end of this transaction."""
    return bool(conn.execute("SELECT is_open(?)", (ino,)).fetchone()[0])


class FreshNames:
    """Names that an inode has just got, by which programs may still mean another file, or none.

    Which file is meant by who removes or replaces a name nobody tells: the kernel hears of a change a moment
    after it, when a call in the same folder has ended, and a program has looked a moment before at what it
    replaces.  So what a transaction has put under a name is fresh there for a minute, unless somebody opens
    it by that name.  Each step is one look into a dict, which the interpreter's lock makes whole.
    """

    def __init__(self) -> None:
        self._places: dict[Ino, tuple[_Place, float]] = {}
        # When inodes got a name, whether or not somebody has opened them by it.
        self._named: dict[Ino, float] = {}
        # Of these, what the kernel has been told of there, and nobody has opened since.
        self.known: set[Ino] = set()
        self._noted = 0

    def attach(self, db: Database) -> None:
        """Let the transactions of this database note and ask here."""
        db.define("note_fresh", self._note, arguments=3)
        db.define("is_fresh", self._is_fresh, arguments=3)

    def looked_up(self, ino: Ino, parent: Ino, name: str) -> None:
        """The kernel is told that this inode is what has this name."""
        found = self._places.get(ino)
        if found is not None and found[0] == (parent, name):
            self.known.add(ino)

    def listed(self, ino: Ino) -> None:
        """The kernel is told of this inode by a listing, at the place that it has."""
        if ino in self._places:
            self.known.add(ino)

    def opened(self, ino: Ino) -> None:
        """Somebody has opened the inode, one of `known`: by this name."""
        self.known.discard(ino)
        self._places.pop(ino, None)

    def was_named_now(self, ino: Ino) -> bool:
        """Whether the kernel may still know the inode by a name that it had before."""
        since = self._named.get(ino)
        return since is not None and not _is_past(since)

    def packed(self) -> list[list[Any]]:
        """As JSON has it.  The clock is the machine's, and goes on in another process."""
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
    """The node has got its name in this transaction, by news and not by a program."""
    conn.execute("SELECT note_fresh(ino, parent, name) FROM node WHERE ino = ?", (ino,)).fetchone()


def is_fresh(conn: Connection, node: Node) -> bool:
    """Whether somebody who removes or replaces what has the node's name may mean another file, or none."""
    return bool(conn.execute("SELECT is_fresh(?, ?, ?)", (node.ino, node.parent, node.name)).fetchone()[0])


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

    def packed(self) -> dict[str, Any]:
        """As JSON has it: a page of counts is some bytes in base64."""
        pages = {str(place): b64encode(page.tobytes()).decode() for place, page in self._pages.items()}
        return {"pages": pages, "beyond": list(self._beyond.items())}

    def unpack(self, packed: dict[str, Any]) -> None:
        for place, text in packed["pages"].items():
            page = self._pages[int(place)] = array("H", b64decode(text))
            count = self._in_page[int(place)] = sum(1 for one in page if one)
            self.used += count
        self._beyond.update(dict(packed["beyond"]))
