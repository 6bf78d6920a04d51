"""Truncation by name (`open` with O_TRUNC, truncate(2)): which file the program means.

The kernel truncates the inode that currently has the name, but the program may have listed the folder a
moment before, when the name belonged to another file or to none.  So if a remote change has just given the
name to a file (`replica.inodes`), the file's unsent contents are kept, as when the name is removed or
replaced: the file becomes a conflict copy, and the name belongs to a new empty file.
"""

import errno
import logging
from sqlite3 import Connection

from cmsfs.journal import ops
from cmsfs.journal.drafts import Drafts
from cmsfs.replica import inodes, tree
from cmsfs.replica.changes import Change
from cmsfs.replica.merge import local_work, name_conflicts
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.heuristics.mass_changes import MassChanges
from cmsfs.vfs.tree.context import TreeContext
from cmsfs.vfs.tree.entries import Entries
from cmsfs.vfs.tree.files import FileIO

log = logging.getLogger(__name__)


class Truncations:
    """Truncations of files by their inodes."""

    def __init__(
        self, context: TreeContext, files: FileIO, entries: Entries, mass_changes: MassChanges | None
    ) -> None:
        self._files = files
        self._entries = entries
        self._fresh = context.inodes.fresh
        self._publish = context.publish
        self._mass_changes = mass_changes

    async def truncate(self, ino: Ino, size: int, fh: int | None = None) -> None:
        """Set the length of a file, whether open or not.

        Raises `OSError`: ESTALE if the name that was looked up belongs to another file now; EBUSY, once, if
        the file has unsent contents that the program may not have seen.
        """
        if fh is None and (ino in self._fresh.known or self._files.is_stale(ino)):
            await self.keep_unseen(ino, size)
        await self._files.truncate(ino, size, fh)
        if self._mass_changes is not None:
            self._mass_changes.opened(ino)

    async def keep_unseen(self, ino: Ino, size: int) -> None:
        """Before a truncation, keep unsent contents that the program may not know.  Raises as `truncate`."""
        due, changes = self._entries.due(), list[Change]()

        def txn(conn: Connection) -> Node | None:
            node = _at_name(conn, ino)
            if node is None or not inodes.is_fresh(conn, node) or not local_work.has_only_copy(conn, node):
                return None
            if not size:
                _make_empty(conn, node, changes, due_ns=due)
            return node

        node = await self._entries.change(txn)
        if node is None:
            return
        if not size:
            self._publish(changes)
            if node.ino == ino:
                raise errno_map.oserror(errno.ESTALE, f"{node.name} is another file now")
            return  # opening the inode that has lost the name raises ESTALE
        draft = self._files.live_draft(node)
        if node.ino == ino and size < (draft.size if draft is not None else node.size):
            if ino in self._fresh.known:
                self._fresh.opened(ino)
            log.warning(
                "a file with pending changes had just been moved to the name %r; it was not truncated: "
                "repeat the command if that file is meant",
                node.name,
            )
            raise errno_map.oserror(errno.EBUSY, node.name)


def _at_name(conn: Connection, ino: Ino) -> Node | None:
    """Return the file that has the name of an inode: another one if a remote change has taken the name."""
    node = tree.find_at(conn, ino)
    if node is not None and node.parent is None:
        row = conn.execute("SELECT parent, name FROM lineage WHERE ino = ?", (ino,)).fetchone()
        node = tree.child_at(conn, row["parent"], row["name"]) if row is not None else None
    return node if node is not None and not node.is_folder else None


def _make_empty(conn: Connection, node: Node, changes: list[Change], *, due_ns: int) -> None:
    """Make the node a conflict copy, and give its name to a new empty file, which is sent later."""
    assert node.parent is not None
    copy = name_conflicts.make_conflict_copy(conn, node, changes)
    log.info("a file had just been moved to the name %r; its pending changes are kept in %r", node.name, copy)
    mode, now = node.mode & 0o7777, clock.time_ns()
    empty = tree.insert(
        conn, node.parent, node.name, NodeKind.FILE, now_ns=now, mode=mode, local=bool(node.local)
    )
    if not node.local:
        ops.record(conn, empty, ops.OpKind.UPLOAD, due_ns=due_ns)
    Drafts.insert(conn, empty, None)
    tree.touch(conn, node.parent, now)
