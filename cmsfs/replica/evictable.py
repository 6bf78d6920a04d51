"""Finds the cached contents of an item that could be evicted.

Rule: `measure` walks everything below the item; call it in a thread.  The cache checks again before it
evicts, against the current state.
"""

from dataclasses import dataclass, field
from sqlite3 import Connection

from cmsfs.replica import pins
from cmsfs.replica.nodes import Ino

_FILES = """
  WITH RECURSIVE below(ino) AS (
    SELECT ?1 UNION ALL SELECT n.ino FROM node AS n JOIN below AS b ON n.parent = b.ino
  )
  SELECT n.sha1, c.sha1 IS NOT NULL AS known, c.pinned,
         n.local OR n.draft IS NOT NULL OR n.base_sha1 IS NOT n.sha1 OR c.dirty IS 1
         OR EXISTS (SELECT 1 FROM draft AS d WHERE d.base_sha1 = n.sha1) AS unsent
  FROM below AS b JOIN node AS n ON n.ino = b.ino LEFT JOIN content AS c ON c.sha1 = n.sha1
  WHERE n.kind = 'file' AND n.size > 0
"""


@dataclass(slots=True)
class Evictable:
    """The evictable contents, each with its number of files below the item; and the numbers of files whose
    contents must stay."""

    contents: dict[str, int] = field(default_factory=dict)
    marked: list[str] = field(default_factory=list)  # of these, what is still marked as pinned
    unsent: int = 0
    pinned: int = 0


def measure(conn: Connection, ino: Ino) -> Evictable:
    """Classify all contents of an item and of everything below it."""
    found, kept = Evictable(), pins.pinned_contents(conn)
    for row in conn.execute(_FILES, (ino,)):
        if row["unsent"]:
            found.unsent += 1
        elif not row["known"]:
            continue
        elif row["sha1"] in kept:
            found.pinned += 1
        else:
            if row["pinned"] and row["sha1"] not in found.contents:
                found.marked.append(row["sha1"])
            found.contents[row["sha1"]] = found.contents.get(row["sha1"], 0) + 1
    return found
