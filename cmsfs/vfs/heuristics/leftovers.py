"""Local-only files that programs left behind, and for how long they have been idle.

Days are those on which the drive was in use, counted one by one: a clock that was wrong and is set right
makes nothing old.  Noted of each file is when it was last changed, and on which of these days that was seen.

Rule: nothing is removed here but what was looked at before and has not changed since.
"""

import json
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# Files and folders on this machine only that are looked at, and those that go at once.
LOOKED_AT = 10_000
AT_ONCE = 1000

_LOCAL = """
  SELECT ino, mtime_ns, ctime_ns FROM node
  WHERE local AND local <> 2 AND parent IS NOT NULL AND kind <> 'symlink' ORDER BY ino DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class LeftoverFile:
    """A leftover file, and since which day of use it is unchanged."""

    ino: Ino
    mtime_ns: int
    ctime_ns: int
    since: int


async def scan(db: Database, *, days: int) -> list[LeftoverFile]:
    """Note what is there; what nobody has touched on so many days of use."""

    def txn(conn: Connection) -> list[LeftoverFile]:
        record = json.loads(kv_store.at(conn, kv_store.LEFTOVERS) or "{}")
        date = int(clock.time()) // 86400
        # One more, however far the clock has gone, and in whichever direction.
        day = record.get("day", 0) + (date != record.get("date", date))
        noted = {one[0]: LeftoverFile(*one) for one in record.get("seen", [])}
        seen = []
        for ino, mtime_ns, ctime_ns in conn.execute(_LOCAL, (LOOKED_AT,)).fetchall():
            old = noted.get(ino)
            unchanged = old is not None and (old.mtime_ns, old.ctime_ns) == (mtime_ns, ctime_ns)
            seen.append(old if old is not None and unchanged else LeftoverFile(ino, mtime_ns, ctime_ns, day))
        new = {"day": day, "date": date, "seen": [(s.ino, s.mtime_ns, s.ctime_ns, s.since) for s in seen]}
        kv_store.put(conn, kv_store.LEFTOVERS, json.dumps(new, separators=(",", ":")))
        return [one for one in seen if day - one.since >= days][:AT_ONCE]

    return await db.write(txn)


def remove(conn: Connection, stale: list[LeftoverFile]) -> list[Change]:
    """Take these files and empty folders out of the tree, unless they were touched since."""
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
