"""The inodes that programs have open, for use inside transactions.

What the service says is applied in the writer's thread, while the loop opens files.  A transaction that is
about to give other bytes to an inode asks `examine`, and leaves one that is open alone.  Between its question
and its commit the file may be opened: so the loop counts first and looks then whether it was asked about, and
the transaction marks first and looks at the count then.  Whatever the order, one of the two sees the other
(each step is one look into a dict or a set, which the interpreter's lock makes whole):

    the transaction sees the handle     it leaves the inode as it is
    the handle sees the question        it waits for the end of the transaction and takes what is there then

Rule: `opened` before `is_examined`, and no await between the last `is_examined` and the read of the row.
"""

import time
from collections import Counter
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database

# The kernel hears of a change a moment after it.
MOMENT_SECONDS = 60.0
_MANY = 4096


class OpenInodes:
    """Open handles of each inode that has any."""

    def __init__(self) -> None:
        self._opens: Counter[Ino] = Counter()
        self._examined: set[Ino] = set()
        # Closed inodes that were given other bytes, and not opened since.
        self._news: dict[Ino, float] = {}
        # Open inodes of which the answer to `open` told the kernel that their bytes are others.
        self._refreshed: set[Ino] = set()

    def attach(self, db: Database) -> None:
        """Let the transactions of this database ask here."""
        db.define("is_open", self._examine, arguments=1)
        db.ended = self._examined.clear

    # ---- the loop's side ----

    def opened(self, ino: Ino) -> None:
        self._opens[ino] += 1

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

    def is_examined(self, ino: Ino) -> bool:
        """Whether the transaction that runs at this moment has asked about the inode."""
        return ino in self._examined

    def take_news(self, ino: Ino) -> bool:
        """Whether a transaction has given other bytes to the inode since it was last open, a moment ago."""
        return self._news.pop(ino, None) is not None

    def refreshed(self, ino: Ino) -> None:
        """The answer to `open` tells the kernel that the inode has other bytes than it knows."""
        self._refreshed.add(ino)

    def is_refreshed(self, ino: Ino) -> bool:
        """Whether the kernel was told by an `open` whose handle is still there; from any thread."""
        return ino in self._refreshed

    def __len__(self) -> int:
        return len(self._opens)

    # ---- the writer's side ----

    def _examine(self, ino: Ino) -> bool:
        self._examined.add(ino)
        if ino in self._opens:
            return True
        self._news[ino] = now = time.monotonic()
        if len(self._news) > _MANY:
            # The kernel has heard of the older ones.
            for old in [one for one, at in list(self._news.items()) if now - at > MOMENT_SECONDS]:
                self._news.pop(old, None)
        return False


def is_open(conn: Connection, ino: Ino) -> bool:
    """Whether somebody has the inode open; who opens it later waits for the end of this transaction."""
    return bool(conn.execute("SELECT is_open(?)", (ino,)).fetchone()[0])
