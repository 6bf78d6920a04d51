"""Resolves concurrent folder moves that would form a cycle: the service's move stays, ours is undone.

`P` was moved into `Q` here while somebody moved `Q` into `P`.  The service would reject our move, and two
folders inside each other would not be reachable from the root.

Rule: the service's place wins; the locally moved folder returns to its place at the service, with its
contents.
"""

import logging
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import name_conflicts
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import op_rows

log = logging.getLogger(__name__)


def is_open(conn: Connection, folder: Ino, into: Ino, changes: list[Change]) -> bool:
    """Whether a folder can be put into another one, after undoing a local move that would form a cycle."""
    while tree.is_below(conn, into, folder):
        if not _take_back_one(conn, folder, into, changes):
            return False
    return True


def _take_back_one(conn: Connection, folder: Ino, into: Ino, changes: list[Change]) -> bool:
    node = tree.get(conn, into)
    while node.ino != folder:
        if "move" in tree.pending(conn, node.ino) and take_back(conn, node, changes):
            return True
        if node.parent is None:
            return False
        node = tree.get(conn, node.parent)
    return False


def take_back(conn: Connection, node: Node, changes: list[Change]) -> bool:
    """Move a node back to its place at the service; False if that place does not exist here now."""
    home = tree.remote_at(conn, NodeKind.FOLDER, node.base_parent) if node.base_parent is not None else None
    if home is None or node.base_name is None or tree.is_below(conn, home.ino, node.ino):
        return False
    op_rows.delete_kinds(conn, node.ino, "move")
    name = naming.file_name(node.kind, node.base_name)
    holder = tree.child_at(conn, home.ino, name)
    if holder is not None and holder.ino != node.ino:
        name = name_conflicts.free_name(conn, home.ino, name)
        op_rows.record_once(conn, node.ino, "move")
    tree.place(conn, node.ino, home.ino, name)
    if node.parent is not None:
        changes.append(Change(ChangeKind.ENTRY, node.ino, node.parent, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, home.ino, name))
    log.warning("a local folder move was undone: its destination was moved into it remotely")
    return True


def moving_above(conn: Connection, folder: Node) -> Ino | None:
    """Return a folder from here up to the root with a pending move; None if there is none.

    Held moves do not count: the contents of such a folder are uploaded to its place at the service.
    """
    sql = "SELECT 1 FROM op WHERE ino = ? AND kind = 'move' AND state <> 'held'"
    current = folder
    while current.parent is not None:
        if conn.execute(sql, (current.ino,)).fetchone() is not None:
            return current.ino
        current = tree.get(conn, current.parent)
    return None


def between(conn: Connection, folder: Ino, top: Ino) -> list[Node]:
    """Return the service's folders from `folder` up to `top`, which it is below, without that."""
    found: list[Node] = []
    above: Ino | None = folder
    while above is not None and above != top:
        node = tree.get(conn, above)
        if node.remote_id is not None:
            found.append(node)
        above = node.parent
    return found
