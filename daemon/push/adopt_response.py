"""Applies the service's response to an operation, whatever changed locally in the meantime.

Meanwhile the node may have been renamed, deleted, written again, or given the identity of another item
(a new file renamed over an old one).  So an answer is never written to "the node of the task" but to the
node that stands for the item now; an item that nothing stands for any more is surplus and goes.

Rule: everything here runs inside the transaction that ends the operation.
"""

from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.replica import naming, tree
from cmsfs.replica.merge import apply_remote
from cmsfs.replica.nodes import Ino, Node, NodeKind, Remote
from cmsfs.replica.rows import node_rows


def adopt(conn: Connection, ino: Ino, answer: Remote) -> Node:
    """The answer to making or replacing an item for the node `ino`; the node that has the item now."""
    there = tree.remote_at(conn, answer.kind, answer.id)
    if there is not None:
        apply_remote.adopt(conn, there.ino, answer)
        return tree.get(conn, there.ino)
    now = tree.get(conn, ino)
    may_be_link = now.parent is None or naming.link_name(now.name) is not None
    if now.remote_id is None and (may_be_link or answer.kind is not NodeKind.LINK):
        apply_remote.adopt(conn, ino, answer)
        return tree.get(conn, ino)
    # The node stands for another item by now, and the bytes are on their way there too; or it has a name that
    # only a file can have.
    surplus = tree.insert(conn, None, answer.name, answer.kind, now_ns=answer.mtime_ns)
    apply_remote.adopt(conn, surplus, answer)
    node_rows.set_content(conn, surplus, sha1=answer.sha1, size=answer.size)
    ops.record(conn, surplus, ops.OpKind.TRASH, due_ns=ops.now_ns())
    return tree.get(conn, surplus)
