"""Lock files of office applications: finds the document that each belongs to.

While a document is open, LibreOffice keeps `.~lock.NAME#` beside it, and Microsoft Office `~$NAME`, for long
names without their first two characters.  Lock files are local-only (`local_files`); a `Watcher` is notified
when they appear and disappear, that is, when documents are opened and closed.
"""

from typing import Protocol

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.sqlite import Database

_LIBREOFFICE = (".~lock.", "#")
_OFFICE = "~$"

# The number of characters of a name that Office replaces by its own two.
_REPLACED = 2


class Watcher(Protocol):
    """Notified which documents are open; never waits, never fails."""

    def appeared(self, parent: Ino, name: str) -> None:
        """A lock file has been created."""

    def vanished(self, parent: Ino, name: str) -> None:
        """A lock file has been removed."""


def is_lock_file(name: str) -> bool:
    """Whether this is the name of a lock file of an office application."""
    return name.startswith(_OFFICE) or (name.startswith(_LIBREOFFICE[0]) and name.endswith(_LIBREOFFICE[1]))


def document(db: Database, parent: Ino, name: str) -> Node | None:
    """Return the document beside a lock file; None if there is none, or `name` is not a lock file."""
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
    # If two names differ only in their first two characters, the document is ambiguous.
    return tree.find(db, rows[0]["ino"]) if len(rows) == 1 else None


def _file(db: Database, parent: Ino, name: str) -> Node | None:
    node = tree.find_child(db, parent, name)
    return node if node is not None and node.kind is NodeKind.FILE and not node.local else None
