"""Directory snapshots: readdir shows the names that existed when the directory was opened.

A name may get another inode while the directory is read: a new one by a save, an older one by a rename.  In
any order of rows, such a name could appear twice or never.  So the names are taken when the reading starts,
and their nodes are looked up when the entries are returned.

Rule: a position is the inode number of the entry when the snapshot was taken, and entries are sorted by it.
So it identifies the same entry until the directory is rewound, also in a snapshot of another process.
"""

from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from sqlite3 import Connection
from typing import Any

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database

PAGE = 256

# Up to this many entries are read on the event loop; more in a thread.
_SHORT = 1000

_NAMES = "SELECT ino, name FROM node WHERE parent = ? ORDER BY ino LIMIT ?"


@dataclass(slots=True)
class Snapshot:
    """The names in a folder at one moment; takes 12 bytes per entry besides the name."""

    inos: "array[int]"
    names: bytes  # separated by NUL
    ends: "array[int]"

    @classmethod
    def of(cls, rows: list[tuple[Ino, str]]) -> "Snapshot":
        names = [_raw(name) for _, name in rows]
        ends = array("q", accumulate([len(name) + 1 for name in names]))
        return cls(array("q", [ino for ino, _ in rows]), b"\0".join([b"", *names, b""]), ends)

    def name(self, place: int) -> str:
        begin = self.ends[place - 1] + 1 if place else 1
        return self.names[begin : self.ends[place]].decode("utf-8", "surrogatepass")

    def has(self, name: str) -> bool:
        return b"\0" + _raw(name) + b"\0" in self.names


class Snapshots:
    """The snapshots of open folders, by handle."""

    def __init__(self, db: Database, hides: Callable[[Node], bool] = lambda node: False) -> None:
        """`hides` returns whether a node is not listed."""
        self._db = db
        self._hides = hides
        self._taken: dict[int, Snapshot] = {}

    async def entries(self, fh: int, folder: Ino, after: int) -> list[tuple[str, Node, int]]:
        """Return up to a page of entries after the position `after`, with their positions; 0 rewinds."""
        if after == 0 or fh not in self._taken:
            nodes = tree.children(self._db, folder, limit=PAGE + 1)
            if len(nodes) <= PAGE:
                # Names and nodes at once, as most folders are read.
                self._taken[fh] = Snapshot.of([(node.ino, node.name) for node in nodes])
                if after == 0:
                    return [(node.name, node, node.ino) for node in nodes if not self._hides(node)]
            else:
                self._taken[fh] = await self._take(folder)
        snapshot = self._taken[fh]
        found: list[tuple[str, Node, int]] = []
        first = bisect_right(snapshot.inos, after)
        while not found and first < len(snapshot.inos):
            last = min(first + PAGE, len(snapshot.inos))
            page = self._page(snapshot, folder, first, last)
            found = [line for line in page if not self._hides(line[1])]
            first = last
        return found

    def dropped(self, fh: int) -> None:
        """Discard the snapshot of a closed folder."""
        self._taken.pop(fh, None)

    def packed(self) -> list[list[Any]]:
        """Return the snapshots as JSON values."""
        return [
            [fh, b64encode(one.inos.tobytes()).decode(), b64encode(one.names).decode(), one.ends.tolist()]
            for fh, one in self._taken.items()
        ]

    def unpack(self, packed: list[list[Any]]) -> None:
        """Continue with the snapshots of another process."""
        for fh, inos, names, ends in packed:
            self._taken[fh] = Snapshot(array("q", b64decode(inos)), b64decode(names), array("q", ends))

    async def _take(self, folder: Ino) -> Snapshot:
        rows = self._db.rows(_NAMES, folder, _SHORT)
        if len(rows) < _SHORT:
            return Snapshot.of([(row["ino"], row["name"]) for row in rows])

        def read(conn: Connection) -> Snapshot:
            return Snapshot.of([(row[0], row[1]) for row in conn.execute(_NAMES, (folder, -1))])

        return await self._db.query(read)

    def _page(
        self, snapshot: Snapshot, folder: Ino, first: int, last: int
    ) -> Iterator[tuple[str, Node, int]]:
        inos = snapshot.inos[first:last]
        # Both the rows and the snapshot are sorted by inode number.
        there = {node.ino: node for node in tree.children(self._db, folder, after=inos[0] - 1, upto=inos[-1])}
        for place in range(first, last):
            ino = snapshot.inos[place]
            name, node = snapshot.name(place), there.get(ino)
            if node is not None and node.name == name:
                yield name, node, ino
            elif (other := tree.find_child(self._db, folder, name)) is not None:
                yield name, other, ino
            elif node is not None and not snapshot.has(node.name):
                yield node.name, node, ino


def _raw(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")
