"""rename(2): the changes inside the caller's transaction.

`save_patterns` decides which node keeps the identity at the service when a file is replaced, `local_files`
whether the renamed node is local-only.
"""

import errno
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.replica import inodes, tree
from cmsfs.replica import naming as replica_naming
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.vfs import errno_map
from cmsfs.vfs.heuristics import local_files, save_patterns
from cmsfs.vfs.heuristics.local_files import LocalFiles
from cmsfs.vfs.tree import naming, shared_folder

# renameat2(2)
NOREPLACE = 1
EXCHANGE = 2


@dataclass(frozen=True, slots=True)
class Rename:
    """The arguments of a rename call."""

    old_parent: Ino
    old_name: str
    parent: Ino
    name: str
    flags: int


@dataclass(frozen=True, slots=True)
class Moved:
    """The nodes of a rename: those with the old and the new name, and the two folders."""

    node: Node | None
    target: Node | None
    old: Node
    new: Node


def apply(
    conn: Connection,
    call: Rename,
    nodes: Moved,
    local_names: LocalFiles,
    *,
    due_ns: int,
    now_ns: int,
    was_born_here: bool,
    left: Ino | None = None,
) -> Ino | None:
    """Perform a rename; return the node that it replaced, if any.

    `was_born_here`: the file was created on this drive a short while ago (`save_patterns.replace`); `left`:
    the node that had the new name until a moment ago.
    """
    node, target, old, new = nodes.node, nodes.target, nodes.old, nodes.new
    if node is None or node.name != call.old_name:
        raise errno_map.oserror(errno.ENOENT, call.old_name)
    if call.flags & EXCHANGE:
        shared_folder.check_exchange(old, new)
        _exchange(conn, node, call, nodes, local_names, due_ns=due_ns, now_ns=now_ns)
        return None
    if target is not None and target.ino == node.ino:
        target = None
    shared_folder.check_rename(node, target, old, new, call.name, local_names, is_save=left is not None)
    if target is not None:
        _check_replaceable(conn, node, target, call)
    if node.is_folder and tree.is_below(conn, call.parent, node.ino):
        raise errno_map.oserror(errno.EINVAL, call.name)
    local_files.check_stays_reachable(conn, node, new)
    _check_stays_link(node, call.name)
    if target is not None and save_patterns.stepped_aside(conn, target):
        target = None
    if target is not None:
        tree.detach(conn, target.ino)
        save_patterns.replace(conn, node, target, due_ns=due_ns, was_born_here=was_born_here)
    is_fresh = inodes.is_fresh(conn, node)
    if node.parent == call.parent:
        node_rows.rename(conn, node.ino, call.name)
    else:
        tree.place(conn, node.ino, call.parent, call.name)
    if is_fresh:
        # The program may mean another file, also by the name that it chose: a backup, which it removes next.
        inodes.note_fresh(conn, node.ino)
    # It may have taken the target's identity.
    placed = node._replace(parent=new.ino, name=call.name) if target is None else tree.get(conn, node.ino)
    local_files.update_locality(conn, local_names, placed, new, due_ns=due_ns)
    ops.record_move(conn, placed, due_ns=due_ns)
    if target is None:
        save_patterns.bring_back(conn, local_names, node.ino, left, due_ns=due_ns)
    for ino in {call.old_parent, call.parent}:
        tree.touch(conn, ino, now_ns)
    return target.ino if target is not None else None


def _check_replaceable(conn: Connection, node: Node, target: Node, call: Rename) -> None:
    if target.name != call.name or call.flags & NOREPLACE:
        raise naming.name_clash(call.name, target.name)
    if target.is_folder and not node.is_folder:
        raise errno_map.oserror(errno.EISDIR, call.name)
    if node.is_folder and not target.is_folder:
        raise errno_map.oserror(errno.ENOTDIR, call.name)
    if target.is_folder and tree.has_children(conn, target.ino):
        raise errno_map.oserror(errno.ENOTEMPTY, call.name)


def _check_stays_link(node: Node, name: str) -> None:
    """Raise EXDEV if a web link would get a name without the suffix of web links.

    Programs then copy and delete, as between file systems: the copy is a file, the web link is deleted.
    """
    if node.kind is NodeKind.LINK and replica_naming.link_name(name) is None:
        raise errno_map.oserror(errno.EXDEV, name)


def _exchange(
    conn: Connection,
    node: Node,
    call: Rename,
    nodes: Moved,
    local_names: LocalFiles,
    *,
    due_ns: int,
    now_ns: int,
) -> None:
    target = nodes.target
    if target is None or target.name != call.name:
        raise errno_map.oserror(errno.ENOENT, call.name)
    if tree.is_below(conn, call.parent, node.ino) or tree.is_below(conn, call.old_parent, target.ino):
        raise errno_map.oserror(errno.EINVAL, call.name)
    local_files.check_stays_reachable(conn, node, nodes.new)
    local_files.check_stays_reachable(conn, target, nodes.old)
    _check_stays_link(node, call.name)
    _check_stays_link(target, call.old_name)
    fresh = [one.ino for one in (node, target) if inodes.is_fresh(conn, one)]
    tree.detach(conn, node.ino)
    tree.place(conn, target.ino, call.old_parent, call.old_name)
    tree.place(conn, node.ino, call.parent, call.name)
    for ino in fresh:
        inodes.note_fresh(conn, ino)
    for ino, folder in ((node.ino, nodes.new), (target.ino, nodes.old)):
        local_files.update_locality(conn, local_names, tree.get(conn, ino), folder, due_ns=due_ns)
        ops.record_move(conn, tree.get(conn, ino), due_ns=due_ns)
    for ino in {call.old_parent, call.parent}:
        tree.touch(conn, ino, now_ns)
