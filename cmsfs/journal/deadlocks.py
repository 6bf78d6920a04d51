"""Breaks deadlocks of the journal: operations that wait for each other's names.

`step_aside` claims one whose item gets another name for the time being, so that the others can proceed.
"""

from sqlite3 import Connection

from cmsfs.journal import queue
from cmsfs.journal.ops import COLUMNS, Op, OpKind
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import op_rows

# Deletions of files whose bytes may be those of a file that is still to be uploaded: few, even while a
# program removes many files.
_TRASH_OF_NEEDED_BYTES = f"""
  SELECT {COLUMNS} FROM op WHERE state = 'ready' AND kind = 'trash'
    AND EXISTS (SELECT 1 FROM op AS o WHERE o.state = 'ready' AND o.kind = 'upload')
    AND EXISTS (
      SELECT 1 FROM node AS n WHERE n.ino = op.ino AND n.kind <> 'folder' AND n.remote_id IS NOT NULL
        AND (EXISTS (SELECT 1 FROM node AS m WHERE m.sha1 = n.base_sha1 AND m.ino <> n.ino)
          OR EXISTS (SELECT 1 FROM draft AS d WHERE d.base_sha1 = n.base_sha1)))
  ORDER BY seq
"""


def step_aside(conn: Connection) -> queue.Task | None:
    """Break a deadlock: claim an operation whose item must be renamed out of the way.

    The caller renames the item at the service to an unused name, within its folder, or, if the task has a
    parent, in that: a deleted folder waits until it has left.  It records that as the item's base name and
    gives the operation back: then the others can proceed.
    """
    rows = conn.execute(f"SELECT {COLUMNS} FROM op WHERE state = 'ready' AND kind = 'move' ORDER BY seq")
    for row in rows.fetchall():
        op = queue.op_of(row)
        node = tree.get(conn, op.ino)
        if node.parent is None or node.remote_id is None or queue.is_running(conn, op.ino):
            continue
        if cycle := _cycle_of(conn, op, node):
            op_rows.run(conn, op.seq)
            must_leave = any(other.parent is None for other in cycle)
            return queue.Task(op, node, _nearest_at_service(conn, node.parent) if must_leave else None)
    return _trash_in_the_way(conn)


def _nearest_at_service(conn: Connection, ino: Ino) -> Node:
    """Return the nearest folder, this one or above it, that the service has already."""
    folder = tree.at_service(conn, ino)
    while folder.remote_id is None and folder.parent is not None:
        folder = tree.at_service(conn, folder.parent)
    return folder


def _trash_in_the_way(conn: Connection) -> queue.Task | None:
    """Claim the deletion of a file that has the bytes and the name which a new file needs.

    Once renamed, it keeps the bytes until the new file is uploaded.
    """
    for row in conn.execute(_TRASH_OF_NEEDED_BYTES).fetchall():
        op = queue.op_of(row)
        node = tree.get(conn, op.ino)
        if queue.is_running(conn, op.ino):
            continue
        heir = queue.needs_bytes_of(conn, node)
        upload = conn.execute(
            f"SELECT {COLUMNS} FROM op WHERE ino = ? AND kind = 'upload' AND state = 'ready'", (heir,)
        ).fetchone()
        if heir is None or upload is None or queue.is_running(conn, heir):
            continue
        wanting = tree.get(conn, heir)
        # A node that was deleted meanwhile needs no name.
        if (
            wanting.parent is not None
            and queue.waits_for(conn, queue.op_of(upload), wanting, queue.parent_of(conn, wanting))
            == node.ino
        ):
            op_rows.run(conn, op.seq)
            return queue.Task(op, node, None)
    return None


def _cycle_of(conn: Connection, op: Op, node: Node) -> list[Node]:
    """Return the nodes that wait for each other, from the one that this operation waits for to its own; none
    if it is not among those."""
    cycle: dict[Ino, Node] = {}
    current = queue.waits_for(conn, op, node, queue.parent_of(conn, node))
    while current is not None and current not in cycle and not queue.is_running(conn, current):
        cycle[current] = other = tree.get(conn, current)
        if current == node.ino:
            return list(cycle.values())
        if other.parent is None:
            kinds: tuple[OpKind, ...] = (OpKind.TRASH,)
        else:
            # The operation that gives it a place: new folders and files wait for names, too.
            kinds = (OpKind.MOVE,) if other.remote_id is not None else queue.CREATING_KINDS
        marks = ",".join("?" * len(kinds))
        row = conn.execute(
            f"SELECT {COLUMNS} FROM op WHERE ino = ? AND kind IN ({marks})", (current, *kinds)
        ).fetchone()
        if row is None:
            break
        current = queue.waits_for(conn, queue.op_of(row), other, queue.parent_of(conn, other))
    return []
