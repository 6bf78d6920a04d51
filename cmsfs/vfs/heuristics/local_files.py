"""Local-only names: which match the patterns, and what that means for the tree.

Programs put files beside a document that mean nothing to anybody else: locks, swap files, half-written new
versions.  They behave like any file here, outlive a restart, and never reach the service.  A node is
`local` because of its name, because it is a symbolic link, or because it is in a local folder.

Rule: what the service knows never becomes local; so a rename cannot take anything away from the service.
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
    """The patterns of the configuration: shell patterns for the last part of a path, in any case."""

    def __init__(self, patterns: Iterable[str]) -> None:
        parts = [fnmatch.translate(pattern.casefold()) for pattern in patterns]
        self._pattern = re.compile("|".join(parts) or r"\Z.")

    def matches(self, name: str) -> bool:
        return self._pattern.match(name.casefold()) is not None

    def covers(self, parent: Node, name: str, kind: NodeKind) -> bool:
        """Whether something new of this kind, made there under this name, is local."""
        return bool(parent.local) or kind is NodeKind.SYMLINK or self.matches(name)


def check_stays_reachable(conn: Connection, node: Node, folder: Node) -> None:
    """Raise EXDEV if a rename would take something that the service knows into a local folder.

    Programs then copy and delete, as between two disks: the copy is local, and what the service has goes to
    its trash.
    """
    if folder.is_shelf and node.parent == folder.ino:
        return
    if folder.local and _is_known(conn, node.ino):
        raise errno_map.oserror(errno.EXDEV, node.name)


def update_locality(
    conn: Connection, local_names: LocalFiles, node: Node, folder: Node, *, due_ns: int
) -> None:
    """A node is in this folder now: whatever it is to be local or not, it and all below it become."""
    covered = local_names.covers(folder, node.name, node.kind)
    if covered and not node.local and not _is_known(conn, node.ino):
        for below in tree.subtree(conn, node.ino):
            node_rows.set_local(conn, below, 1)
            ops.drop(conn, below, *ops.OpKind)
    elif node.local and not covered:
        make_remote(conn, local_names, node.ino, due_ns=due_ns)


def make_remote(conn: Connection, local_names: LocalFiles, ino: Ino, *, due_ns: int) -> None:
    """From now on the service is to have the node, and what is below it unless that is local by itself."""
    for below in tree.subtree(conn, ino):
        node = tree.get(conn, below)
        assert node.parent is not None
        if below != ino and local_names.covers(tree.get(conn, node.parent), node.name, node.kind):
            continue
        node_rows.set_local(conn, below, 0)
        kind = ops.OpKind.MKDIR if node.is_folder else ops.OpKind.UPLOAD
        ops.record(conn, below, kind, due_ns=due_ns)
        description_tags.queue_local(conn, below, due_ns=due_ns)


def reapply_patterns(conn: Connection, local_names: LocalFiles) -> int:
    """Bring every local node in line with patterns that were changed while nothing ran; how many surfaced.

    What a new pattern covers and is not at the service yet becomes local when it is next renamed or made.
    """
    surfaced = 0
    for row in conn.execute("SELECT ino FROM node WHERE local AND parent IS NOT NULL").fetchall():
        node = tree.get(conn, row["ino"])
        assert node.parent is not None
        if (
            node.local
            and not node.is_shelf
            and not local_names.covers(tree.get(conn, node.parent), node.name, node.kind)
        ):
            make_remote(conn, local_names, node.ino, due_ns=0)
            surfaced += 1
    return surfaced


def _is_known(conn: Connection, ino: Ino) -> bool:
    """Whether the service has heard, or is hearing right now, of the node or of something below it."""
    return any(not ops.was_never_sent(conn, tree.get(conn, below)) for below in tree.subtree(conn, ino))
