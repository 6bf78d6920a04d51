"""Removes nodes whose items were deleted at the service or are no longer shared with us.

Runs inside the caller's transaction; the changes are published after its commit.

Rule: contents and folders that are not uploaded stay.
"""

import logging
from sqlite3 import Connection

from cmsfs.replica import tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import bulk_insert, lineages, local_work, placement
from cmsfs.replica.nodes import ROOT, Ino, ItemKey, Node, NodeKind
from cmsfs.replica.rows import in_flight, node_rows, op_rows, past_versions
from cmsfs.replica.sharing import lost_access, offers, shares

log = logging.getLogger(__name__)

# Limit of the items in a deleted folder whose deletion is remembered, too.
CHANGED_BELOW = 1000


def remove_gone(conn: Connection, ino: Ino, *, sequence: int = 0) -> list[Change]:
    """Remove a node that the service no longer has (or shows to us); unsent contents below it stay.

    `sequence` is that of the deletion, if reported: older updates are ignored from now on.  A folder with
    unsent changes below it is kept and will be created again, and so is one into which an item is being moved
    that the service still has elsewhere.
    """
    changes: list[Change] = []
    inos = tree.subtree(conn, ino)
    elsewhere = _elsewhere(conn, inos)
    is_lost = shares.is_shared_node(conn, tree.get(conn, ino)) or tree.get(conn, ino).is_lost
    for below in reversed(inos):
        if below not in elsewhere:
            remove_gone_node(conn, tree.get(conn, below), changes, is_lost=is_lost)
    ignore_older(conn, ino, sequence)
    shares.remove_if_empty(conn, changes)
    return changes


def ignore_older(conn: Connection, ino: Ino, sequence: int) -> None:
    """Ignore updates of the node's item from before its deletion, which had this sequence, from now on."""
    conn.execute(
        "UPDATE node SET sequence = max(sequence, ?) WHERE ino = ? AND remote_id IS NOT NULL", (sequence, ino)
    )


def unlist_base_folder(conn: Connection, node: Node) -> Ino | None:
    """Mark the folder that the service had the node in as not listed completely, and return it; None: the
    root, or unknown.

    For a node that was not found: the folder may be away with it, and come back with it unchanged, which
    nobody reports.
    """
    folder = tree.remote_at(conn, NodeKind.FOLDER, node.base_parent or "")
    if folder is None or folder.parent is None:
        return None
    tree.mark_unlisted(conn, folder.ino)
    return folder.ino


def remove_below(conn: Connection, folder: Ino) -> list[Change]:
    """Remove what is below a folder whose local deletion has reached the service: items that had reappeared
    in it, because they were changed there, are gone as well; unsent contents among them are shown again."""
    changes: list[Change] = []
    inos = tree.subtree(conn, folder)
    elsewhere = _elsewhere(conn, inos)
    for below in reversed(inos[1:]):
        if below not in elsewhere:
            remove_gone_node(conn, tree.get(conn, below), changes)
    take_out(conn, tree.get(conn, folder), changes)
    return changes


def items_below(conn: Connection, folder: Ino, *, is_new_too: bool) -> list[tuple[ItemKey, int]]:
    """Return the items below a folder, with their sequences: those that have changed since they were created,
    at most a thousand, or, if `is_new_too`, all."""
    rows = conn.execute(
        "WITH RECURSIVE below(ino) AS (SELECT ino FROM node WHERE parent = ?1"
        "  UNION ALL SELECT node.ino FROM below JOIN node ON node.parent = below.ino)"
        " SELECT kind, remote_id, sequence FROM below JOIN node USING (ino)"
        " WHERE remote_id IS NOT NULL AND (sequence > 0 OR ?2) LIMIT ?3",
        (folder, is_new_too, -1 if is_new_too else CHANGED_BELOW),
    )
    return [((NodeKind(row["kind"]), row["remote_id"]), row["sequence"]) for row in rows]


def take_out(conn: Connection, folder: Node, changes: list[Change]) -> None:
    """Move what is left in a folder that is gone, and was deleted here, to the closest folder above it that
    is there: programs see nothing in it, and nothing can be sent to it."""
    _drop_symlinks(conn, folder.ino, changes)
    if tree.has_children(conn, folder.ino):
        above = _closest_above(conn, folder)
        placement.take_along(conn, folder.ino, above, changes)
        log.info(
            "%s was deleted; unsent changes in it are kept in %s",
            folder.name,
            tree.get(conn, above).name or "/",
        )


def take_all_out(conn: Connection) -> None:
    """Do so for each folder that the service does not know, and that has no name to be created under."""
    rows = conn.execute(
        "SELECT ino FROM node WHERE kind = 'folder' AND parent IS NULL AND remote_id IS NULL AND ino > 2"
    )
    for row in rows.fetchall():
        take_out(conn, tree.get(conn, row["ino"]), [])


def _closest_above(conn: Connection, folder: Node) -> Ino:
    passed: set[Ino] = set()
    above: Node | None = folder
    while above is not None and above.ino not in passed and above.base_parent is not None:
        passed.add(above.ino)
        above = tree.remote_at(conn, NodeKind.FOLDER, above.base_parent)
        if above is not None and tree.is_below(conn, above.ino, ROOT):
            return above.ino
    return ROOT


def _elsewhere(conn: Connection, subtree: list[Ino]) -> set[Ino]:
    """Return the nodes of a subtree that the service still has in other folders, with everything below
    them."""
    found: set[Ino] = set()
    for ino in subtree[1:]:
        node = tree.get(conn, ino)
        if node.parent in found or _is_elsewhere(conn, node):
            found.add(ino)
    return found


def _is_elsewhere(conn: Connection, node: Node) -> bool:
    """Whether the node is in another folder at the service than locally."""
    if node.remote_id is None or node.parent is None or "move" not in tree.pending(conn, node.ino):
        return False
    return tree.at_service(conn, node.parent).remote_id != node.base_parent


def remove_gone_node(conn: Connection, node: Node, changes: list[Change], *, is_lost: bool = False) -> None:
    """Remove one such node; its descendants must be removed first.  `is_lost`: we have lost access to it."""
    if node.remote_id is None:
        return
    if node.is_folder:
        _drop_symlinks(conn, node.ino, changes)
        if node.parent is None and not is_lost:
            take_out(conn, node, changes)
    has_children = node.is_folder and tree.has_children(conn, node.ino)
    is_sought = not node.is_folder and not is_lost and _may_have_another(conn, node)
    if has_children or is_sought or local_work.has_bytes(conn, node):
        lost_access.keep(conn, node) if is_lost else local_work.recreate(conn, node)
        return
    if is_lost:
        lost_access.note_wipe(conn)
    if node.base_parent == bulk_insert.ROOT_ID:
        offers.forget(conn, node.kind, node.remote_id)
    op_rows.delete_all(conn, node.ino)
    tree.mark_unlisted(conn, node.ino)
    if node.base_sha1 is not None and not is_lost:
        past_versions.keep_needed(conn, node)
    # The sequence stays: an item trashed with its folder is restored with it, unchanged.
    node_rows.leave_base_folder(conn, node.ino)
    if node.parent is not None:
        # Programs that have it open may continue writing.
        lineages.displace(conn, node, is_lost=is_lost)
        tree.detach(conn, node.ino)
        changes.append(Change(ChangeKind.GONE, node.ino, node.parent, node.name))
        placement.restore_name(conn, node.parent, node.name, changes)
    placement.restore_base_name(conn, node, changes)


def _may_have_another(conn: Connection, node: Node) -> bool:
    """Whether an item that was sent for a file deleted here, before it took over this one, may be there."""
    return node.parent is None and in_flight.is_pending(conn, node.ino)


def _drop_symlinks(conn: Connection, folder: Ino, changes: list[Change]) -> None:
    """Remove the symbolic links of a removed folder, unless something else is left in it."""
    rows = conn.execute("SELECT ino, name, kind FROM node WHERE parent = ?", (folder,)).fetchall()
    if all(row["kind"] == NodeKind.SYMLINK for row in rows):
        for row in rows:
            tree.detach(conn, row["ino"])
            changes.append(Change(ChangeKind.GONE, row["ino"], folder, row["name"]))


def is_detached_as(conn: Connection, ino: Ino, kind: str, item_id: str) -> bool:
    """Whether the node is detached and still has this item."""
    found = conn.execute(
        "SELECT 1 FROM node WHERE ino = ? AND parent IS NULL AND kind = ? AND remote_id = ?",
        (ino, kind, item_id),
    )
    return found.fetchone() is not None


def mark_deleted(
    conn: Connection, ino: Ino, *, sent: int = 0, seen: int = 0, is_certain: bool = True
) -> None:
    """Record that the service has executed our deletion: a page that still lists the node is older and
    ignored; unless it is not `is_certain`, as the service does not show the item for another reason.

    `sent`: the sequence that it had when the deletion was sent; `seen`: when it was looked at before that, if
    it had changed since the last news.
    """
    # Once reported, the deletion has its number: a higher one would be that of a restore.
    conn.execute(
        "UPDATE node SET base_parent = NULL, sequence = CASE WHEN base_parent IS NULL"
        " THEN max(sequence, max(?1, ?2) + ?3) ELSE max(sequence, ?2) + ?3 END WHERE ino = ?4",
        (sent, seen, int(is_certain), ino),
    )
