"""Renaming, and what it means for the identity of files at the service.

Programs save by writing a new file and renaming it over the old one.  Sent as it happens, that would
delete the old file with its history, links and retention.  So a file that takes the place of another
takes over its identity too, and its bytes become the next version.

Everything here runs inside one transaction of the caller.
"""

import errno
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Kind, Node
from cmsfs.vfs import naming, oserrors

# renameat2(2)
NOREPLACE = 1
EXCHANGE = 2


@dataclass(frozen=True, slots=True)
class Rename:
    """A call of rename: what, where to, and how."""

    old_parent: Ino
    old_name: str
    parent: Ino
    name: str
    flags: int


def apply(conn: Connection, call: Rename, *, due_ns: int, was_born_here: bool) -> Ino | None:
    """Carry out a rename; the node that lost its place to it, if any.

    `was_born_here` says that the file was made on this drive a short while ago: then it is the new
    version of what it replaces, even if it has been uploaded as a file of its own meanwhile.
    """
    node = _child(conn, call.old_parent, call.old_name)
    target = tree.child_at(conn, call.parent, call.name)
    if call.flags & EXCHANGE:
        _exchange(conn, node, target, call, due_ns=due_ns)
        return None
    if target is not None and target.ino == node.ino:
        target = None
    if target is not None:
        _check_replaceable(conn, node, target, call)
    if node.is_folder and tree.is_below(conn, call.parent, node.ino):
        raise oserrors.oserror(errno.EINVAL, call.name)
    if target is not None:
        _replace(conn, node, target, due_ns=due_ns, was_born_here=was_born_here)
    tree.place(conn, node.ino, call.parent, call.name)
    ops.record_move(conn, node.ino, due_ns=due_ns)
    for folder in {call.old_parent, call.parent}:
        tree.touch(conn, folder, ops.now_ns())
    return target.ino if target is not None else None


def _child(conn: Connection, parent: Ino, name: str) -> Node:
    node = tree.child_at(conn, parent, name)
    if node is None or node.name != name:
        raise oserrors.oserror(errno.ENOENT, name)
    return node


def _check_replaceable(conn: Connection, node: Node, target: Node, call: Rename) -> None:
    if target.name != call.name or call.flags & NOREPLACE:
        raise naming.told_clash(call.name, target.name)
    if target.is_folder and not node.is_folder:
        raise oserrors.oserror(errno.EISDIR, call.name)
    if node.is_folder and not target.is_folder:
        raise oserrors.oserror(errno.ENOTDIR, call.name)
    if target.is_folder and tree.has_children(conn, target.ino):
        raise oserrors.oserror(errno.ENOTEMPTY, call.name)


def _replace(conn: Connection, node: Node, target: Node, *, due_ns: int, was_born_here: bool) -> None:
    tree.detach(conn, target.ino)
    files = node.kind is Kind.FILE and target.kind is Kind.FILE
    is_new = node.remote_id is None or (was_born_here and _is_whole_here(conn, node))
    if files and target.remote_id is not None and is_new:
        _take_over(conn, node, target, due_ns=due_ns)
        return
    ops.record_removal(conn, target.ino, due_ns=due_ns)


def _is_whole_here(conn: Connection, node: Node) -> bool:
    """Whether every byte of the file is on this disk.

    If not, its newest version is somebody else's, or lies under what is written: then it is more than our
    way to save the other, and the service alone has what would have to be sent.
    """
    base = conn.execute("SELECT base_sha1 AS sha1 FROM draft WHERE id = ?", (node.draft,)).fetchone()
    sha1 = base["sha1"] if base is not None else node.sha1
    if sha1 is None or not node.size:
        return True
    return (
        conn.execute("SELECT 1 FROM content WHERE sha1 = ? AND bitmap IS NULL", (sha1,)).fetchone()
        is not None
    )


def _take_over(conn: Connection, node: Node, target: Node, *, due_ns: int) -> None:
    surplus = None
    if node.remote_id is not None:
        # It had become a file of its own at the service already: that one goes to the trash.
        surplus = tree.insert(conn, None, node.name, Kind.FILE, now_ns=ops.now_ns())
        ops.hand_over(conn, node.ino, surplus)
    ops.hand_over(conn, target.ino, node.ino)
    ops.record(conn, node.ino, ops.OpKind.UPLOAD, due_ns=due_ns)
    if surplus is not None:
        ops.record(conn, surplus, ops.OpKind.TRASH, due_ns=due_ns)


def _exchange(conn: Connection, node: Node, target: Node | None, call: Rename, *, due_ns: int) -> None:
    if target is None or target.name != call.name:
        raise oserrors.oserror(errno.ENOENT, call.name)
    if tree.is_below(conn, call.parent, node.ino) or tree.is_below(conn, call.old_parent, target.ino):
        raise oserrors.oserror(errno.EINVAL, call.name)
    tree.detach(conn, node.ino)
    tree.place(conn, target.ino, call.old_parent, call.old_name)
    tree.place(conn, node.ino, call.parent, call.name)
    for ino in (node.ino, target.ino):
        ops.record_move(conn, ino, due_ns=due_ns)
    for folder in {call.old_parent, call.parent}:
        tree.touch(conn, folder, ops.now_ns())
