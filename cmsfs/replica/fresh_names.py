"""Names that an inode has just got, by which programs may still mean another file, or none.

Which file is meant by who removes or replaces a name nobody tells: the kernel hears of a change a moment
after it, when a call in the same folder has ended, and a program has looked a moment before at what it
replaces.  So what a transaction has put under a name is fresh there for a minute, unless somebody opens it by
that name.

Transactions run in the writer's thread, lookups on the loop; each step is one look into a dict, which the
interpreter's lock makes whole.
"""

import time
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database

MOMENT_SECONDS = 60.0

# What is older is forgotten when so many have come.
_MANY = 1024

_Place = tuple[Ino | None, str]


class FreshNames:
    """What is fresh, for the transactions of one database."""

    def __init__(self) -> None:
        self._places: dict[Ino, tuple[_Place, float]] = {}
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

    def _note(self, ino: Ino, parent: Ino | None, name: str) -> None:
        self._noted += 1
        if not self._noted % _MANY:
            for old in [one for one, (_, since) in list(self._places.items()) if _is_past(since)]:
                self._places.pop(old, None)
                self.known.discard(old)
        self.known.discard(ino)
        self._places[ino] = ((parent, name), time.monotonic())

    def _is_fresh(self, ino: Ino, parent: Ino | None, name: str) -> bool:
        found = self._places.get(ino)
        return found is not None and found[0] == (parent, name) and not _is_past(found[1])


def _is_past(since: float) -> bool:
    return time.monotonic() - since >= MOMENT_SECONDS


def note(conn: Connection, ino: Ino) -> None:
    """The node has got its name in this transaction, by news and not by a program."""
    conn.execute("SELECT note_fresh(ino, parent, name) FROM node WHERE ino = ?", (ino,)).fetchone()


def is_fresh(conn: Connection, node: Node) -> bool:
    """Whether somebody who removes or replaces what has the node's name may mean another file, or none."""
    return bool(conn.execute("SELECT is_fresh(?, ?, ?)", (node.ino, node.parent, node.name)).fetchone()[0])
