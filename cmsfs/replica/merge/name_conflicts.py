"""Two nodes with one name: which one is renamed, and when it gets its name back.

The service tells of changes one by one, so for a while two of its items may be due at one name here.

Rule: what is one's own never gives way to what others share; that gets an addition to its name, and so does
the later of two of those, by their ids: the same on every drive, whatever the order of the news.

Rule: a name of the service is never taken by something that only we have; that gets a conflict name.

Rule: what only we have does not go because a program meant the file that had its name a moment ago.
"""

import itertools
import socket
from datetime import date
from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica import fresh_names, naming, tree
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.replica.merge import pending_ops
from cmsfs.replica.nodes import COLUMNS, ROOT, Ino, Node, NodeKind, Remote, node_from_row
from cmsfs.replica.sharing import shares

_IN_ROOT = (
    f"SELECT {COLUMNS} FROM node WHERE parent = ? AND base_parent = ? AND remote_id IS NOT NULL"
    " AND base_name IS NOT NULL"
)


def place_detached(
    conn: Connection, ino: Ino, remote: Remote, parent: Ino, name: str, changes: list[Change]
) -> str:
    """Put a detached node at its place under this name, or another one if somebody goes before it; whoever
    has the name and goes behind it makes way.  The name that it got."""
    holder = tree.child_at(conn, parent, name)
    if holder is None or holder.ino == ino:
        _put(conn, ino, parent, name, changes)
        return name
    if holder.is_shelf:
        shares.yield_name(conn, holder, changes)
    elif shares.is_shared(shares.rules(conn), remote) or shares.is_shared_node(conn, holder):
        return _by_rank(conn, ino, parent, name, changes)
    else:
        name = make_way(conn, holder, remote, parent, name, changes)
    _put(conn, ino, parent, name, changes)
    return name


def _put(conn: Connection, ino: Ino, parent: Ino, name: str, changes: list[Change]) -> None:
    tree.place(conn, ino, parent, name)
    changes.append(Change(ChangeKind.ENTRY, ino, parent, name))


def _by_rank(conn: Connection, ino: Ino, parent: Ino, told: str, changes: list[Change]) -> str:
    """The first of its names that nobody has who goes before it.

    One order for all, in which everybody takes the first name that is left, has one outcome, in whatever
    order they come.
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
    """Who goes before whom where what others share is in question: what is one's own before all of that,
    which has the order of its ids."""
    if not shares.is_shared_node(conn, node):
        return (False, 0, "", "")
    number = node.remote_id or ""
    return (True, int(number) if number.isdecimal() else 0, number, node.kind)


def _told(conn: Connection, node: Node, parent: Ino) -> str:
    """What a node that the service knows is called, if nobody goes before it."""
    assert node.base_name is not None
    found, at_root = shares.rules(conn), parent == ROOT
    return naming.file_name(
        node.kind,
        node.base_name,
        at_root=at_root,
        foreign=shares.is_shared_node(conn, node),
        reserved=found.reserved if at_root else (),
    )


def make_way(
    conn: Connection, holder: Node, remote: Remote, parent: Ino, name: str, changes: list[Change]
) -> str:
    """Of two of one owner: free the name, or choose another one for the newcomer; the newcomer's name."""
    ours = pending_ops.pending(conn, holder.ino) & {"upload", "mkdir", "move"} or holder.draft is not None
    if ours or holder.remote_id is None:
        # Ours is not at the service (yet) and theirs is: theirs keeps the name.
        make_conflict_copy(conn, holder, changes)
        return name
    if holder.kind is NodeKind.LINK or remote.kind is NodeKind.LINK:
        # `x` the link is shown as `x.url`; a file that is really called so keeps its name.
        if remote.kind is NodeKind.LINK:
            return naming.link_beside(name, remote.id)
        aside = naming.link_beside(holder.name, holder.remote_id)
    else:
        # The holder's own move or deletion has not been heard yet; it waits under a name of its own.
        aside = naming.distinct(holder.name, f"id {holder.remote_id}")
    tree.detach(conn, holder.ino)
    changes.append(Change(ChangeKind.ENTRY, holder.ino, parent, holder.name))
    # Something else may really be called so.
    free = itertools.chain([aside], naming.additions(holder.name, holder.remote_id))
    aside = next(one for one in free if tree.child_at(conn, parent, one) is None)
    _put(conn, holder.ino, parent, aside, changes)
    return name


def make_conflict_copy(conn: Connection, node: Node, changes: list[Change]) -> str:
    """Have a node step aside: it becomes a conflict copy in its folder, of the name that is returned."""
    assert node.parent is not None
    parent = node.parent
    name = free_name(conn, parent, node.name)
    tree.place(conn, node.ino, parent, name)
    if node.remote_id is not None:
        # It is known under a place; being called something else there is a rename to send.
        pending_ops.record(conn, node.ino, "move")
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, node.name))
    changes.append(Change(ChangeKind.ENTRY, node.ino, parent, name))
    return name


def free_name(conn: Connection, parent: Ino, name: str) -> str:
    """What a conflict copy of a file of this name is called in a folder."""
    return naming.conflict_name(
        name,
        socket.gethostname(),
        date.today(),
        taken=lambda candidate: tree.child_at(conn, parent, candidate) is not None,
    )


def restore_name(
    conn: Connection, parent: Ino, name: str, changes: list[Change], *, at_once: bool = False
) -> None:
    """A name is free: who made way for somebody who has left since is called by it again.

    It may have been told of before it made way, and then nothing tells of it a second time.  What others
    share in the root waits until the drive begins anew: a name that programs go by, and save a file by
    removing it and making it again, does not come to mean a colleague's file under their hands.
    `at_once`: it does not wait.
    """
    if tree.child_at(conn, parent, name) is not None:
        return
    before = naming.distinct(name, "id \0").split("\0")[0]
    key = wire_names.name_key(f"{before}0")[:-1]
    rows = conn.execute(
        f"SELECT {COLUMNS} FROM node WHERE parent = ? AND name_key >= ? AND name_key < ?"
        " AND remote_id IS NOT NULL AND base_name IS NOT NULL",
        (parent, key, f"{key}\U0010ffff"),
    ).fetchall()
    at_service = tree.at_service(conn, parent).remote_id
    waiting = [
        node
        for node in map(node_from_row, rows)
        if node.base_parent == at_service
        and wire_names.name_key(_told(conn, node, parent)) == wire_names.name_key(name)
        and naming.is_shown_as(node)
        and "move" not in pending_ops.pending(conn, node.ino)
        and (at_once or parent != ROOT or not shares.is_shared_node(conn, node))
    ]
    if not waiting:
        return
    first = min(waiting, key=lambda node: _rank(conn, node))
    changes.append(Change(ChangeKind.ENTRY, first.ino, parent, first.name))
    _put(conn, first.ino, parent, _told(conn, first, parent), changes)
    fresh_names.note(conn, first.ino)
    restore_name(conn, parent, first.name, changes, at_once=at_once)


def restore_all_names(conn: Connection, changes: list[Change]) -> None:
    """The drive begins: what others share in the root has the names that are free."""
    for node in map(node_from_row, conn.execute(_IN_ROOT, (ROOT, wire_names.ROOT_ID)).fetchall()):
        if node.name != node.base_name and shares.is_shared_node(conn, node):
            restore_name(conn, ROOT, _told(conn, node, ROOT), changes, at_once=True)
