"""Local-only files: matches names against the patterns, and marks nodes of the tree as local-only.

Programs create temporary files beside a document: locks, swap files, partially written new versions.  On the
drive they behave like other files and survive a restart, but they are never uploaded.  A node is `local`
because of its name, because it is a symbolic link, or because it is in a local folder.

Rule: items that the service knows never become local, so that a rename cannot remove them from the service.
"""

import errno
import fnmatch
import re
from collections.abc import Iterable
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import node_rows
from cmsfs.vfs import errno_map
from cmsfs.vfs.attrs import description_tags


class LocalFiles:
    """The configured patterns: case-insensitive shell patterns for file names."""

    def __init__(self, patterns: Iterable[str]) -> None:
        parts = [fnmatch.translate(pattern.casefold()) for pattern in patterns]
        self._pattern = re.compile("|".join(parts) or r"\Z.")

    def matches(self, name: str) -> bool:
        return self._pattern.match(name.casefold()) is not None

    def covers(self, parent: Node, name: str, kind: NodeKind) -> bool:
        """Whether a new node of this kind and name in this folder is local."""
        return bool(parent.local) or kind is NodeKind.SYMLINK or self.matches(name)


def check_stays_reachable(conn: Connection, node: Node, folder: Node) -> None:
    """Raise EXDEV if a rename would move an item that the service knows into a local folder.

    Programs then copy and delete, as between file systems: the copy is local, and the item is moved to the
    service's trash.
    """
    if folder.is_shelf and node.parent == folder.ino:
        return
    if folder.local and _is_known(conn, node.ino):
        raise errno_map.oserror(errno.EXDEV, node.name)


def update_locality(
    conn: Connection, local_names: LocalFiles, node: Node, folder: Node, *, due_ns: int
) -> None:
    """Update whether a node that was moved to this folder, and everything below it, is local."""
    covered = local_names.covers(folder, node.name, node.kind)
    if covered and not node.local and not _is_known(conn, node.ino):
        for below in tree.subtree(conn, node.ino):
            node_rows.set_local(conn, below, 1)
            ops.drop(conn, below, *ops.OpKind)
    elif node.local and not covered:
        make_remote(conn, local_names, node, due_ns=due_ns)


def make_remote(conn: Connection, local_names: LocalFiles, node: Node, *, due_ns: int) -> None:
    """Make a node non-local and queue its upload, with everything below it that is not local itself."""
    _make_one_remote(conn, node, due_ns=due_ns)
    for ino in tree.subtree(conn, node.ino)[1:] if node.is_folder else ():
        below = tree.get(conn, ino)
        assert below.parent is not None
        if not local_names.covers(tree.get(conn, below.parent), below.name, below.kind):
            _make_one_remote(conn, below, due_ns=due_ns)


def _make_one_remote(conn: Connection, node: Node, *, due_ns: int) -> None:
    node_rows.set_local(conn, node.ino, 0)
    # What was sent for it before it became local is its item again.
    ops.drop(conn, node.ino, ops.OpKind.TRASH)
    kind = ops.OpKind.MKDIR if node.is_folder else ops.OpKind.UPLOAD
    ops.record(conn, node.ino, kind, due_ns=due_ns)
    description_tags.queue_local(conn, node._replace(local=0), due_ns=due_ns)


def reapply_patterns(conn: Connection, local_names: LocalFiles) -> int:
    """Apply changed patterns to all local nodes; return how many are no longer local.

    Nodes that only a new pattern covers, and that are not uploaded yet, become local at their next rename.
    """
    changed = 0
    for row in conn.execute("SELECT ino FROM node WHERE local AND parent IS NOT NULL").fetchall():
        node = tree.get(conn, row["ino"])
        assert node.parent is not None
        if (
            node.local
            and not node.is_shelf
            and not local_names.covers(tree.get(conn, node.parent), node.name, node.kind)
        ):
            make_remote(conn, local_names, node, due_ns=0)
            changed += 1
    return changed


def _is_known(conn: Connection, ino: Ino) -> bool:
    """Whether the node or a node below it was sent, or is being sent, to the service."""
    return any(not ops.was_never_sent(conn, tree.get(conn, below)) for below in tree.subtree(conn, ino))
