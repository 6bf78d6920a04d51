"""Lost access: items that are no longer shared with us leave the tree, which is not a deletion.

Unsent changes stay in place: their operations are held, with their contents, and are sent to the same item
when it is accessible again.  Such a node is *lost*: it has its item's id, but no folder at the service.

Rule: shared items are never created again as one's own, unless the user copies them.
"""

from sqlite3 import Connection

from cmsfs.replica import kv_store, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import node_rows, op_rows
from cmsfs.replica.sharing import shares
from cmsfs.runtime import clock

REASON = (
    "You have no access to it any more. It is kept here, and goes by itself when you have access again."
    " Copy it elsewhere to keep it as your own, or give it up with `cmsfs discard`."
)

# Attached, with an item, but in no folder of the service.
_LOST = "parent IS NOT NULL AND remote_id IS NOT NULL AND etag IS NOT NULL AND base_parent IS NULL"


def keep(conn: Connection, node: Node) -> None:
    """Keep a node for unsent changes of it or of its contents; call it for descendants first."""
    node_rows.leave_base_folder(conn, node.ino)
    op_rows.delete_kinds(conn, node.ino, "touch", "trash")
    for ino in tree.subtree(conn, node.ino):
        op_rows.hold_waiting(conn, ino, error=REASON)


def regain(conn: Connection, node: Node, parent_id: str | None) -> None:
    """The item is accessible again, in this folder: release its held operations."""
    conn.execute("UPDATE node SET base_parent = ? WHERE ino = ?", (parent_id, node.ino))
    tree.mark_unlisted(conn, node.ino)
    waiting = [node.ino]
    while waiting:
        ino = waiting.pop()
        op_rows.release_held_for(conn, ino, error=REASON)
        # Items created in it exist only here and are released with it; remote ones regain access by
        # themselves.
        rows = conn.execute("SELECT ino FROM node WHERE parent = ? AND remote_id IS NULL", (ino,))
        waiting += [row["ino"] for row in rows]


def highest_lost(conn: Connection, limit: int) -> list[Node]:
    """Return the topmost lost nodes; call it in a thread."""
    rows = conn.execute(
        f"SELECT ino FROM node WHERE {_LOST} AND ino > 2 ORDER BY ino LIMIT ?", (limit * 10,)
    ).fetchall()
    found = [tree.get(conn, row["ino"]) for row in rows]
    return [one for one in found if one.parent is not None and not tree.get(conn, one.parent).is_lost][:limit]


def remove_if_empty(conn: Connection, folder: Ino | None, changes: list[Change]) -> None:
    """Remove a lost folder if it is empty, then its lost ancestors."""
    while folder is not None:
        node = tree.get(conn, folder)
        if not node.is_lost or not node.is_folder or tree.has_children(conn, folder):
            break
        tree.mark_unlisted(conn, folder)
        tree.detach(conn, folder)
        assert node.parent is not None
        changes.append(Change(ChangeKind.GONE, folder, node.parent, node.name))
        folder = node.parent
    shares.remove_if_empty(conn, changes)


def note_wipe(conn: Connection) -> None:
    """Request, across restarts, the wiping of contents that may no longer be read (`daemon.sharing.wipe`)."""
    kv_store.put(conn, kv_store.WIPE, str(clock.time_ns()))
