"""Where a remote item goes in the local tree: its folder and name; and of two nodes that are due at one
name, which one is renamed, and when it gets its name back.

The service reports changes one by one, so for a while two of its items may claim the same name here.

Rule: one's own items take precedence over shared ones, which get a suffix; of two shared items, the one with
the later id does: the same on every drive, whatever the order of the updates.

Rule: a local item is not deleted because a program meant the file that had its name a moment ago.
"""

import itertools
from sqlite3 import Connection, Row

from cmsfs.models import wire_names
from cmsfs.replica import inodes, naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import bulk_insert, name_conflicts
from cmsfs.replica.merge.bulk_insert import ROOT_ID
from cmsfs.replica.nodes import COLUMNS, ROOT, Ino, Node, NodeKind, Remote, node_from_row
from cmsfs.replica.sharing import shares

# Items of one name in one folder beyond this number are checked again each time.
MOST_ADDITIONS = 3

_IN_ROOT = (
    f"SELECT {COLUMNS} FROM node WHERE parent = ? AND base_parent = ? AND remote_id IS NOT NULL"
    " AND base_name IS NOT NULL"
)


def is_in_place(conn: Connection, node: Node, remote: Remote) -> bool:
    """Whether the node has the item's place, and the name that belongs to it."""
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
    """Whether the node keeps its current name, with a suffix: shared items in the root do until the drive is
    mounted again (`restore_name`)."""
    if parent != ROOT or node.parent != ROOT or not shares.is_shared(shares.rules(conn), remote):
        return False
    return node.name in itertools.islice(naming.additions(name, remote.id), MOST_ADDITIONS)


def place_of(
    conn: Connection, remote: Remote, changes: list[Change], *, before: Ino | None = None
) -> tuple[Ino | None, str]:
    """Return the item's local folder, as a placeholder if it is not known yet (None: it has none), and its
    name there if that is free.

    `before`: its current folder; in the folder for shared items it stays if its owner is unknown.
    """
    if remote.parent_id is None:
        return None, shares.told_name(shares.Rules(), remote, 0)
    if remote.parent_id != ROOT_ID:
        folder = tree.remote_at(conn, NodeKind.FOLDER, remote.parent_id)
        parent = folder.ino if folder is not None else bulk_insert.placeholder(conn, remote)
        return parent, shares.told_name(shares.Rules(), remote, parent)
    found = shares.rules(conn)
    parent = ROOT
    is_shared = shares.is_shared(found, remote)
    if not is_shared and before is not None and remote.user_id("owned_by") is None:
        is_shared = tree.get(conn, before).is_shelf
    if is_shared:
        parent = ROOT if found.in_root else shares.shelf(conn, changes)
    return parent, shares.told_name(found, remote, parent)


# ---- several of one name ----------------------------------------------------------------------


def place_detached(
    conn: Connection, ino: Ino, remote: Remote, parent: Ino, name: str, changes: list[Change]
) -> str:
    """Put a detached node at its place under this name, or under another one if an item with precedence has
    it; an item with lower precedence is renamed.  Returns the node's name."""
    holder = tree.child_at(conn, parent, name)
    if holder is None or holder.ino == ino:
        _put(conn, ino, parent, name, changes)
        return name
    if holder.is_shelf:
        shares.yield_name(conn, holder, changes)
    elif shares.is_shared(shares.rules(conn), remote) or shares.is_shared_node(conn, holder):
        return _by_rank(conn, ino, parent, name, changes)
    else:
        name = make_way(conn, holder, remote.kind, remote.id, name, changes)
    _put(conn, ino, parent, name, changes)
    return name


def _put(conn: Connection, ino: Ino, parent: Ino, name: str, changes: list[Change]) -> None:
    tree.place(conn, ino, parent, name)
    changes.append(Change(ChangeKind.ENTRY, ino, parent, name))


def _by_rank(conn: Connection, ino: Ino, parent: Ino, told: str, changes: list[Change]) -> str:
    """Return the first of its names that no item with precedence has.

    With one total order, in which each item takes the first free name, the result does not depend on the
    order of arrival.
    """
    node = tree.get(conn, ino)
    assert node.remote_id is not None
    rank = _rank(conn, node)
    for name in itertools.chain([told], naming.additions(told, node.remote_id)):
        holder = tree.child_at(conn, parent, name)
        if holder is None:
            _put(conn, ino, parent, name, changes)
            return name
        if holder.is_shelf or _rank(conn, holder) < rank:
            continue
        tree.detach(conn, holder.ino)
        changes.append(Change(ChangeKind.ENTRY, holder.ino, parent, holder.name))
        _put(conn, ino, parent, name, changes)
        _by_rank(conn, holder.ino, parent, _told(conn, holder, parent), changes)
        return name
    raise AssertionError("names do not end")


def _rank(conn: Connection, node: Node) -> tuple[bool, int, str, str]:
    """Return the precedence for name clashes with shared items: one's own first, then shared ones by id."""
    if not shares.is_shared_node(conn, node):
        return (False, 0, "", "")
    number = node.remote_id or ""
    return (True, int(number) if number.isdecimal() else 0, number, node.kind)


def _told(conn: Connection, node: Node, parent: Ino) -> str:
    """Return the name of a remote node if no item has precedence."""
    assert node.base_name is not None
    found, at_root = shares.rules(conn), parent == ROOT
    return naming.file_name(
        node.kind,
        node.base_name,
        at_root=at_root,
        foreign=shares.is_shared_node(conn, node),
        reserved=found.reserved if at_root else (),
    )


def take_along(conn: Connection, old: Ino, new: Ino, changes: list[Change]) -> None:
    """Move the contents of one folder to another one, which may have items of the same names."""
    for row in conn.execute(f"SELECT {COLUMNS} FROM node WHERE parent = ? ORDER BY ino", (old,)).fetchall():
        node = node_from_row(row)
        name = node.name
        if (holder := tree.child_at(conn, new, name)) is not None:
            if node.remote_id is None:
                name = name_conflicts.free_name(conn, new, name)
            else:
                name = make_way(conn, holder, node.kind, node.remote_id, name, changes)
        _put(conn, node.ino, new, name, changes)
        inodes.note_fresh(conn, node.ino)


def make_way(
    conn: Connection, holder: Node, kind: NodeKind, remote_id: str, name: str, changes: list[Change]
) -> str:
    """For two items of one owner: free the name, or choose another one for the new item, of this kind; return
    the new item's name."""
    parent = holder.parent
    assert parent is not None
    ours = tree.pending(conn, holder.ino) & {"upload", "mkdir", "move"} or holder.draft is not None
    if ours or holder.remote_id is None:
        # The holder is not at the service (yet), the new item is: that keeps the name.
        name_conflicts.make_conflict_copy(conn, holder, changes)
        return name
    if NodeKind.LINK in (holder.kind, kind):
        # The link `x` is shown as `x.url`; a file with that very name keeps it.
        if kind is NodeKind.LINK:
            return naming.link_beside(name, remote_id)
        aside = naming.link_beside(holder.name, holder.remote_id)
    else:
        # The holder's own move or deletion was not reported yet; until then it gets a temporary name.
        aside = naming.distinct(holder.name, f"id {holder.remote_id}")
    tree.detach(conn, holder.ino)
    changes.append(Change(ChangeKind.ENTRY, holder.ino, parent, holder.name))
    # Another item may have that very name.
    free = itertools.chain([aside], naming.additions(holder.name, holder.remote_id))
    aside = next(one for one in free if tree.child_at(conn, parent, one) is None)
    _put(conn, holder.ino, parent, aside, changes)
    return name


def restore_name(
    conn: Connection, parent: Ino, name: str, changes: list[Change], *, at_once: bool = False
) -> None:
    """Rename an item back to its name, which is free again.

    Its own update may have come before it was renamed, and is not sent again.  Shared items in the root wait
    until the drive is mounted again: programs save a file by removing and creating it, and the name must not
    refer to a colleague's file in between.  `at_once`: do not wait.
    """
    if tree.child_at(conn, parent, name) is not None:
        return
    rows: list[Row] = []
    for tag in ("id \0", "link \0"):
        before = naming.distinct(name, tag).split("\0")[0]
        key = wire_names.name_key(f"{before}0")[:-1]
        rows += conn.execute(
            f"SELECT {COLUMNS} FROM node WHERE parent = ? AND name_key >= ? AND name_key < ?"
            " AND remote_id IS NOT NULL AND base_name IS NOT NULL",
            (parent, key, f"{key}\U0010ffff"),
        )
    at_service = tree.at_service(conn, parent).remote_id
    waiting = [
        node
        for node in map(node_from_row, rows)
        if node.base_parent == at_service
        and wire_names.name_key(_told(conn, node, parent)) == wire_names.name_key(name)
        and naming.is_shown_as(node)
        and "move" not in tree.pending(conn, node.ino)
        and (at_once or parent != ROOT or not shares.is_shared_node(conn, node))
    ]
    if not waiting:
        return
    first = min(waiting, key=lambda node: _rank(conn, node))
    changes.append(Change(ChangeKind.ENTRY, first.ino, parent, first.name))
    _put(conn, first.ino, parent, _told(conn, first, parent), changes)
    inodes.note_fresh(conn, first.ino)
    restore_name(conn, parent, first.name, changes, at_once=at_once)


def restore_base_name(conn: Connection, node: Node, changes: list[Change]) -> None:
    """Rename an item back to the name that the service had this node's item under, and has not any more.

    A name that is free here only, since the item was removed or renamed here, is not given to another item
    before the service has that too: programs replace a file by removing it and making it anew.
    """
    if node.base_parent is None or node.base_name is None:
        return
    folder = tree.remote_at(conn, NodeKind.FOLDER, node.base_parent)
    if folder is not None and (folder.ino, node.base_name) != (node.parent, node.name):
        restore_name(conn, folder.ino, _told(conn, node, folder.ino), changes)


def restore_all_names(conn: Connection, changes: list[Change]) -> None:
    """At the start of the drive, rename shared items in the root back to names that are free."""
    for node in map(node_from_row, conn.execute(_IN_ROOT, (ROOT, wire_names.ROOT_ID)).fetchall()):
        if node.name != node.base_name and shares.is_shared_node(conn, node):
            restore_name(conn, ROOT, _told(conn, node, ROOT), changes, at_once=True)
