"""Lock files of office applications: which document each belongs to.

While a document is open, LibreOffice keeps `.~lock.NAME#` beside it and Microsoft Office `~$NAME`, of a long
name without its first two characters.  They live on this machine only (`local_files`); whoever wants to know
that a document is being worked on is told of their coming and going.
"""

from typing import Protocol

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.sqlite import Database

_LIBREOFFICE = (".~lock.", "#")
_OFFICE = "~$"

# What Office replaces of a name by its own two characters.
_REPLACED = 2


class Watcher(Protocol):
    """Notified which documents are open; never waits, never fails."""

    def appeared(self, parent: Ino, name: str) -> None:
        """A lock file is there now."""

    def vanished(self, parent: Ino, name: str) -> None:
        """A lock file is no longer there."""


def is_lock_file(name: str) -> bool:
    """Whether an application says by a file of this name that it has a document open."""
    return name.startswith(_OFFICE) or (name.startswith(_LIBREOFFICE[0]) and name.endswith(_LIBREOFFICE[1]))


def document(db: Database, parent: Ino, name: str) -> Node | None:
    """The file beside it that a lock file stands for; None if there is none, or `name` is no lock file."""
    if name.startswith(_LIBREOFFICE[0]) and name.endswith(_LIBREOFFICE[1]):
        return _file(db, parent, name.removeprefix(_LIBREOFFICE[0]).removesuffix(_LIBREOFFICE[1]))
    if not name.startswith(_OFFICE):
        return None
    rest = name.removeprefix(_OFFICE)
    if (found := _file(db, parent, rest)) is not None:
        return found
    rows = db.rows(
        "SELECT ino FROM node WHERE parent = ? AND kind = 'file' AND NOT local AND substr(name, ?) = ?",
        parent,
        _REPLACED + 1,
        rest,
    )
    # Of two that differ in their first two characters nobody can tell.
    return tree.find(db, rows[0]["ino"]) if len(rows) == 1 else None


def _file(db: Database, parent: Ino, name: str) -> Node | None:
    node = tree.find_child(db, parent, name)
    return node if node is not None and node.kind is NodeKind.FILE and not node.local else None
