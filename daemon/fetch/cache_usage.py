"""How much of the cache belongs to which folder.

Rule: one look climbs from every cached content to the folder that is asked about; it is a read for a thread.
"""

from collections import Counter
from sqlite3 import Connection

from cmsfs.cache import bitmap
from cmsfs.replica.nodes import Ino

_CACHED = """
  SELECT n.ino, n.parent, c.size, c.bitmap FROM content AS c JOIN node AS n ON n.sha1 = c.sha1
  WHERE n.parent IS NOT NULL
"""


def below(conn: Connection, folder: Ino) -> Counter[Ino]:
    """The bytes on this disk of each item of a folder, with all that is below it.

    Bytes that several files have are counted for each of them.
    """
    found: Counter[Ino] = Counter()
    known: dict[Ino, Ino | None] = {}
    for row in conn.execute(_CACHED).fetchall():
        nbytes = bitmap.present_bytes(row["bitmap"], row["size"])
        if nbytes and (item := _item(conn, row["ino"], row["parent"], folder, known)) is not None:
            found[item] += nbytes
    return found


def _item(
    conn: Connection, ino: Ino, parent: Ino | None, folder: Ino, known: dict[Ino, Ino | None]
) -> Ino | None:
    """The item of the folder that a node is, or is below."""
    way: list[Ino] = []
    found: Ino | None = None
    while parent is not None:
        if parent == folder:
            found = ino
            break
        if ino in known:
            found = known[ino]
            break
        way.append(ino)
        row = conn.execute("SELECT parent FROM node WHERE ino = ?", (parent,)).fetchone()
        ino, parent = parent, None if row is None else row["parent"]
    known |= dict.fromkeys(way, found)
    return found
