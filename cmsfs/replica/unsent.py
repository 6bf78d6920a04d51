"""What the service does not have yet, as the tree must know it; the journal above owns the table `op`."""

from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node


def record(conn: Connection, ino: Ino, kind: str) -> None:
    """Have something sent at once."""
    conn.execute("INSERT OR IGNORE INTO op(ino, kind, not_before) VALUES (?, ?, 0)", (ino, kind))


def pending(conn: Connection, ino: Ino) -> set[str]:
    """The kinds of changes of a node that are still to be sent."""
    return {row[0] for row in conn.execute("SELECT kind FROM op WHERE ino = ?", (ino,))}


def has_bytes(conn: Connection, node: Node) -> bool:
    """Whether the node has bytes that only we have."""
    return node.draft is not None or "upload" in pending(conn, node.ino)


def below(conn: Connection, ino: Ino) -> bool:
    """Whether there are bytes or folders at the node or below it that the service does not have."""
    for one in tree.subtree(conn, ino):
        if pending(conn, one) & {"upload", "mkdir"} or tree.get(conn, one).draft is not None:
            return True
    return False
