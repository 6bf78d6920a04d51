"""Where a remote item goes in the local tree: its folder and name."""

import itertools
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import bulk_insert
from cmsfs.replica.merge.bulk_insert import ROOT_ID
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind, Remote
from cmsfs.replica.sharing import shares

# More of one name in one folder are looked at anew each time.
MOST_ADDITIONS = 3


def is_in_place(conn: Connection, node: Node, remote: Remote) -> bool:
    """Whether the node is where the item is, and has the name that belongs to it."""
    if node.parent is None or tree.at_service(conn, node.parent).remote_id != remote.parent_id:
        return False
    found = shares.rules(conn) if remote.parent_id == ROOT_ID else shares.Rules()
    on_shelf = tree.get(conn, node.parent).is_shelf
    if remote.user_id("owned_by") is not None and on_shelf != (
        shares.is_shared(found, remote) and not found.in_root
    ):
        return False
    name = shares.told_name(found, remote, node.parent)
    return node.name in (name, naming.link_beside(name, remote.id))


def keeps_addition(conn: Connection, node: Node, remote: Remote, parent: Ino, name: str) -> bool:
    """Whether the node goes on being called as it was, with an addition to the name that it would have: what
    others share in the root, until the drive begins anew (`name_conflicts.restore_name`)."""
    if parent != ROOT or node.parent != ROOT or not shares.is_shared(shares.rules(conn), remote):
        return False
    return node.name in itertools.islice(naming.additions(name, remote.id), MOST_ADDITIONS)


def place_of(
    conn: Connection, remote: Remote, changes: list[Change], *, on_shelf: bool = False
) -> tuple[Ino | None, str]:
    """The folder that the item is in here, as a placeholder if it is not known yet (None: in no folder of
    ours), and what it is called there if nothing is in its way.

    `on_shelf`: it is where what others share is; there it stays where its owner is not told.
    """
    if remote.parent_id is None:
        return None, shares.told_name(shares.Rules(), remote, 0)
    if remote.parent_id != ROOT_ID:
        folder = tree.remote_at(conn, NodeKind.FOLDER, remote.parent_id)
        parent = folder.ino if folder is not None else bulk_insert.placeholder(conn, remote)
        return parent, shares.told_name(shares.Rules(), remote, parent)
    found = shares.rules(conn)
    parent = ROOT
    if shares.is_shared(found, remote) or (on_shelf and remote.user_id("owned_by") is None):
        parent = ROOT if found.in_root else shares.shelf(conn, changes)
    return parent, shares.told_name(found, remote, parent)
