"""Local-only files that programs left behind, and for how long they have been idle.

Age is counted in days on which the drive was in use, so that a corrected clock does not make files old.  For
each file its last change is recorded, and the day of use when that change was first seen.

Rule: removes only files that were recorded before and have not changed since.
"""

import json
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# Maximum number of local-only files and folders that are examined, and that are removed at once.
MAX_EXAMINED = 10_000
AT_ONCE = 1000

_LOCAL = """
  SELECT ino, mtime_ns, ctime_ns FROM node
  WHERE local AND local <> 2 AND parent IS NOT NULL AND kind <> 'symlink' ORDER BY ino DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class LeftoverFile:
    """A leftover file; `since` is the day of use from which on it is unchanged."""

    ino: Ino
    mtime_ns: int
    ctime_ns: int
    since: int


async def scan(db: Database, *, days: int) -> list[LeftoverFile]:
    """Record the existing files; return those unchanged for `days` days of use."""

    def txn(conn: Connection) -> list[LeftoverFile]:
        record = json.loads(kv_store.at(conn, kv_store.LEFTOVERS) or "{}")
        date = int(clock.time()) // 86400
        # One more day, no matter how far and in which direction the clock has moved.
        day = record.get("day", 0) + (date != record.get("date", date))
        noted = {one[0]: LeftoverFile(*one) for one in record.get("seen", [])}
        seen = []
        for ino, mtime_ns, ctime_ns in conn.execute(_LOCAL, (MAX_EXAMINED,)).fetchall():
            old = noted.get(ino)
            unchanged = old is not None and (old.mtime_ns, old.ctime_ns) == (mtime_ns, ctime_ns)
            seen.append(old if old is not None and unchanged else LeftoverFile(ino, mtime_ns, ctime_ns, day))
        new = {"day": day, "date": date, "seen": [(s.ino, s.mtime_ns, s.ctime_ns, s.since) for s in seen]}
        kv_store.put(conn, kv_store.LEFTOVERS, json.dumps(new, separators=(",", ":")))
        return [one for one in seen if day - one.since >= days][:AT_ONCE]

    return await db.write(txn)


def remove(conn: Connection, stale: list[LeftoverFile]) -> list[Change]:
    """Remove these files and empty folders from the tree, unless they have changed since."""
    changes = []
    for one in stale:
        node = tree.find_at(conn, one.ino)
        if node is None or node.parent is None or not node.local or tree.has_children(conn, one.ino):
            continue
        if (node.mtime_ns, node.ctime_ns) != (one.mtime_ns, one.ctime_ns):
            continue
        tree.detach(conn, one.ino)
        changes.append(Change(ChangeKind.GONE, one.ino, node.parent, node.name))
    return changes
