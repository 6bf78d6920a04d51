"""Conflict copies: what only we have gives up a name that somebody else's has.

Rule: a name of the service is never taken by something that only we have; that gets a conflict name.
"""

import socket
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import op_rows
from cmsfs.runtime import clock


def make_conflict_copy(conn: Connection, node: Node, changes: list[Change]) -> str:
    """Have a node step aside: it becomes a conflict copy in its folder, of the name that is returned."""
    assert node.parent is not None
    parent = node.parent
    name = free_name(conn, parent, node.name)
    tree.place(conn, node.ino, parent, name)
    if node.remote_id is not None:
        # It is known under a place; being called something else there is a rename to send.
        op_rows.record_once(conn, node.ino, "move")
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, name))
    return name


def free_name(conn: Connection, parent: Ino, name: str) -> str:
    """What a conflict copy of a file of this name is called in a folder."""
    return naming.conflict_name(
        name,
        socket.gethostname(),
        clock.date_today(),
        taken=lambda candidate: tree.child_at(conn, parent, candidate) is not None,
    )
