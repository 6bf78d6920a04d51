"""Conflict copies: a local item whose name an item of the service has gets another name.

Rule: a name that exists at the service is never taken by a local item; that gets a conflict name.
"""

import socket
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import op_rows
from cmsfs.runtime import clock


def make_conflict_copy(conn: Connection, node: Node, changes: list[Change]) -> str:
    """Rename a node to a conflict copy in its folder; return the new name."""
    assert node.parent is not None
    parent = node.parent
    name = free_name(conn, parent, node.name)
    tree.place(conn, node.ino, parent, name)
    if node.remote_id is not None:
        # The service has it under the old name: record a rename.
        op_rows.record_once(conn, node.ino, "move")
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, name))
    return name


def free_name(conn: Connection, parent: Ino, name: str) -> str:
    """Return a free name for a conflict copy of a file of this name in a folder."""
    return naming.conflict_name(
        name,
        socket.gethostname(),
        clock.date_today(),
        taken=lambda candidate: tree.child_at(conn, parent, candidate) is not None,
    )
