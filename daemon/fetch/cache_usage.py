"""Reports how much of the cache belongs to which folder.

Rule: the query walks up from every cached content to the folder; run it in a thread.
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
    """Return the cached bytes of each item of a folder, including everything below it.

    Contents that several files share are counted for each of them.
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
    """Return the direct child of the folder that contains a node, or is the node."""
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
