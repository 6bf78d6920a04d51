"""Two nodes and one name: who makes way for whom, and who gets the name back.

The service tells of changes one by one, so for a while two of its items may be due at one name here.

Rule: a name of the service is never taken by something that only we have; that gets a conflict name.

Rule: what only we have does not go because a program meant the file that had its name a moment ago.
"""

import socket
import time
from datetime import date
from sqlite3 import Connection

from cmsfs.models import names
from cmsfs.replica import naming, tree, unsent
from cmsfs.replica.changes import Change, What
from cmsfs.replica.nodes import Ino, Kind, Node, Remote

# For so long a program, or a person before a window, may still go by the names as they were.
MOMENT_SECONDS = 10.0


def make_way(
    conn: Connection, holder: Node, remote: Remote, parent: Ino, name: str, changes: list[Change]
) -> str:
    """Free the name, or choose another one for the newcomer; the newcomer's name."""
    ours = unsent.pending(conn, holder.ino) & {"upload", "mkdir", "move"} or holder.draft is not None
    if ours or holder.remote_id is None:
        # Ours is not at the service (yet) and theirs is: theirs keeps the name.
        step(conn, holder, changes)
        return name
    if holder.kind is Kind.LINK or remote.kind is Kind.LINK:
        # `x` the link is shown as `x.url`; a file that is really called so keeps its name.
        if remote.kind is Kind.LINK:
            return naming.link_beside(name, remote.id)
        aside = naming.link_beside(holder.name, holder.remote_id)
    else:
        # The holder's own move or deletion has not been heard yet; it waits under a name of its own.
        aside = naming.distinct(holder.name, f"id {holder.remote_id}")
    tree.place(conn, holder.ino, parent, aside)
    changes.append(Change(What.ENTRY, holder.ino, parent, holder.name))
    changes.append(Change(What.ENTRY, holder.ino, parent, aside))
    return name


def step(conn: Connection, node: Node, changes: list[Change]) -> str:
    """Have a node step aside: it becomes a conflict copy in its folder, of the name that is returned."""
    assert node.parent is not None
    parent = node.parent
    name = free_name(conn, parent, node.name)
    tree.place(conn, node.ino, parent, name)
    if node.remote_id is not None:
        # It is known under a place; being called something else there is a rename to send.
        unsent.record(conn, node.ino, "move")
    changes.append(Change(What.ENTRY, node.ino, parent, node.name))
    changes.append(Change(What.ENTRY, node.ino, parent, name))
    return name


def free_name(conn: Connection, parent: Ino, name: str) -> str:
    """What a conflict copy of a file of this name is called in a folder."""
    return naming.conflict_name(
        name,
        socket.gethostname(),
        date.today(),
        taken=lambda candidate: tree.child_at(conn, parent, candidate) is not None,
    )


def give_back(conn: Connection, parent: Ino, name: str, changes: list[Change]) -> None:
    """A name is free: who made way for somebody who has left since is called by it again.

    It may have been told of before it made way, and then nothing tells of it a second time.
    """
    before = naming.distinct(name, "id \0").split("\0")[0]
    key = names.name_key(f"{before}0")[:-1]
    rows = conn.execute(
        "SELECT n.ino, n.name, n.kind, n.remote_id, n.base_name"
        " FROM node AS n JOIN node AS p ON p.ino = n.parent"
        " WHERE n.parent = ? AND n.name_key >= ? AND n.name_key < ? AND n.base_parent = p.remote_id",
        (parent, key, f"{key}\U0010ffff"),
    ).fetchall()
    for row in rows:
        told = naming.file_name(Kind(row["kind"]), row["base_name"])
        made_way = row["name"] == naming.distinct(told, f"id {row['remote_id']}")
        if not made_way or tree.child_at(conn, parent, told) is not None:
            continue
        if "move" not in unsent.pending(conn, row["ino"]):
            tree.place(conn, row["ino"], parent, told)
            note_brought(conn, row["ino"])
            changes.append(Change(What.ENTRY, row["ino"], parent, row["name"]))
            changes.append(Change(What.ENTRY, row["ino"], parent, told))
            return


def note_brought(conn: Connection, ino: Ino) -> None:
    """News have brought the node to a name; if it has bytes that only we have, that is remembered a while."""
    if unsent.has_bytes(conn, tree.get(conn, ino)):
        conn.execute("CREATE TEMP TABLE IF NOT EXISTS brought(ino INTEGER PRIMARY KEY, at REAL NOT NULL)")
        conn.execute("DELETE FROM brought WHERE at < ?", (time.monotonic() - MOMENT_SECONDS,))
        conn.execute("INSERT OR REPLACE INTO brought VALUES (?, ?)", (ino, time.monotonic()))


def was_brought(conn: Connection, node: Node) -> bool:
    """Whether somebody who removes or replaces what has this name may mean another file.

    Which file a program means the kernel does not tell, and it hears of a change a moment after it.
    """
    known = conn.execute("SELECT 1 FROM sqlite_temp_master WHERE name = 'brought'").fetchone()
    if known is None or not unsent.has_bytes(conn, node):
        return False
    row = conn.execute("SELECT at FROM brought WHERE ino = ?", (node.ino,)).fetchone()
    return row is not None and time.monotonic() - row[0] < MOMENT_SECONDS
