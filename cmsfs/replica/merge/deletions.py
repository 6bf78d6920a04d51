"""Removes nodes whose items were deleted at the service or are no longer shared with us.

Inside a caller's transaction; the changes are published after its commit.

Rule: bytes and folders that only we have stay.
"""

from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import bulk_insert, lineages, local_work, placement
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows, op_rows
from cmsfs.replica.sharing import lost_access, offers, shares


def remove_gone(conn: Connection, ino: Ino, *, sequence: int = 0) -> list[Change]:
    """The service no longer has this node (or shows it to us); what it held that only we have stays.

    `sequence` is that of the deletion, if it was told: what is older than it is ignored from now on.  A
    folder with unsent work below becomes a folder of ours to be made again, and so does one into which
    something is being moved that the service still has elsewhere.
    """
    changes: list[Change] = []
    inos = tree.subtree(conn, ino)
    elsewhere = _elsewhere(conn, inos)
    is_lost = shares.is_shared_node(conn, tree.get(conn, ino)) or tree.get(conn, ino).is_lost
    for below in reversed(inos):
        if below not in elsewhere:
            remove_gone_node(conn, tree.get(conn, below), changes, is_lost=is_lost)
    conn.execute(
        "UPDATE node SET sequence = max(sequence, ?) WHERE ino = ? AND remote_id IS NOT NULL", (sequence, ino)
    )
    shares.remove_if_empty(conn, changes)
    return changes


def remove_below(conn: Connection, folder: Ino) -> list[Change]:
    """A folder that was deleted here is gone at the service: so is what came back into it meanwhile, for it
    had been changed there."""
    changes: list[Change] = []
    inos = tree.subtree(conn, folder)
    elsewhere = _elsewhere(conn, inos)
    for below in reversed(inos[1:]):
        if below not in elsewhere:
            remove_gone_node(conn, tree.get(conn, below), changes)
    return changes


def _elsewhere(conn: Connection, subtree: list[Ino]) -> set[Ino]:
    """Of a folder and all below it: what the service still has in other folders, with all below that."""
    found: set[Ino] = set()
    for ino in subtree[1:]:
        node = tree.get(conn, ino)
        if node.parent in found or _is_elsewhere(conn, node):
            found.add(ino)
    return found


def _is_elsewhere(conn: Connection, node: Node) -> bool:
    """Whether the service has the node in another folder than it is in here."""
    if node.remote_id is None or node.parent is None or "move" not in tree.pending(conn, node.ino):
        return False
    return tree.at_service(conn, node.parent).remote_id != node.base_parent


def remove_gone_node(conn: Connection, node: Node, changes: list[Change], *, is_lost: bool = False) -> None:
    """One node of those; what is below it comes first.  `is_lost`: with what others shared."""
    if node.remote_id is None:
        return
    if node.is_folder:
        _drop_symlinks(conn, node.ino, changes)
    if local_work.has_bytes(conn, node) or (node.is_folder and tree.has_children(conn, node.ino)):
        lost_access.keep(conn, node) if is_lost else local_work.recreate(conn, node)
        return
    if is_lost:
        lost_access.note_wipe(conn)
    if node.base_parent == bulk_insert.ROOT_ID:
        offers.forget(conn, node.kind, node.remote_id)
    op_rows.delete_all(conn, node.ino)
    tree.mark_unlisted(conn, node.ino)
    # The sequence stays: what went with its folder comes back with it, unchanged.
    node_rows.leave_base_folder(conn, node.ino)
    if node.parent is not None:
        # Who has it open may go on writing.
        lineages.displace(conn, node, is_lost=is_lost)
        tree.detach(conn, node.ino)
        changes.append(Change(ChangeKind.GONE, node.ino, node.parent, node.name))
        placement.restore_name(conn, node.parent, node.name, changes)


def _drop_symlinks(conn: Connection, folder: Ino, changes: list[Change]) -> None:
    """A folder that goes takes its symbolic links along, unless something else is left in it."""
    rows = conn.execute("SELECT ino, name, kind FROM node WHERE parent = ?", (folder,)).fetchall()
    if all(row["kind"] == NodeKind.SYMLINK for row in rows):
        for row in rows:
            tree.detach(conn, row["ino"])
            changes.append(Change(ChangeKind.GONE, row["ino"], folder, row["name"]))


def is_detached_as(conn: Connection, ino: Ino, kind: str, item_id: str) -> bool:
    """Whether the node is in no folder here, and stands for this item still."""
    found = conn.execute(
        "SELECT 1 FROM node WHERE ino = ? AND parent IS NULL AND kind = ? AND remote_id = ?",
        (ino, kind, item_id),
    )
    return found.fetchone() is not None


def mark_deleted(conn: Connection, ino: Ino) -> None:
    """The service deleted the node as we asked: a page that still shows it is older, and is ignored."""
    conn.execute("UPDATE node SET sequence = sequence + 1, base_parent = NULL WHERE ino = ?", (ino,))
