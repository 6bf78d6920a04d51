"""Directory snapshots: readdir shows the names that existed when the directory was opened.

A name may change hands while somebody reads: a save puts another inode there, a rename an older one.  In
whatever order rows were read, such a name would come twice or never.  So the names are taken when the reading
begins, and what is behind each is looked up as it is handed out.

Rule: a position is the number of the inode that was listed there, and the list is in the order of those.  So
it means the same entry until the reading begins anew, also in a list that another process has made.
"""

from array import array
from base64 import b64decode, b64encode
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sqlite3 import Connection
from typing import Any

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database

PAGE = 256

# Up to so many are read on the loop; more in a thread.
_SHORT = 1000

_NAMES = "SELECT ino, name FROM node WHERE parent = ? ORDER BY ino LIMIT ?"


@dataclass(slots=True)
class Snapshot:
    """The names of a folder at one moment; 12 bytes a name and the name."""

    inos: "array[int]"
    names: bytes  # each between zeros
    ends: "array[int]"

    @classmethod
    def of(cls, rows: list[tuple[Ino, str]]) -> "Snapshot":
        inos, ends, names = array("q"), array("q"), bytearray(b"\0")
        for ino, name in rows:
            inos.append(ino)
            names += _raw(name)
            ends.append(len(names))
            names += b"\0"
        return cls(inos, bytes(names), ends)

    def name(self, place: int) -> str:
        begin = self.ends[place - 1] + 1 if place else 1
        return self.names[begin : self.ends[place]].decode("utf-8", "surrogatepass")

    def has(self, name: str) -> bool:
        return b"\0" + _raw(name) + b"\0" in self.names


class Snapshots:
    """The listings that are being read, by the handle of each."""

    def __init__(self, db: Database, hides: Callable[[Node], bool] = lambda node: False) -> None:
        """`hides`: what is not listed."""
        self._db = db
        self._hides = hides
        self._taken: dict[int, Snapshot] = {}

    async def entries(self, fh: int, folder: Ino, after: int) -> list[tuple[str, Node, int]]:
        """Up to a page of entries behind the position `after`, with the position of each; 0 begins anew."""
        if after == 0 or fh not in self._taken:
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
        """The folder was closed."""
        self._taken.pop(fh, None)

    def packed(self) -> list[list[Any]]:
        """The listings, as JSON has them."""
        return [
            [fh, b64encode(one.inos.tobytes()).decode(), b64encode(one.names).decode(), one.ends.tolist()]
            for fh, one in self._taken.items()
        ]

    def unpack(self, packed: list[list[Any]]) -> None:
        """Go on with listings of another process."""
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
        # Rows of a folder are in the order of their numbers, here as in the list.
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
