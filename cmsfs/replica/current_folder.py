"""The folder in which programs change things, and the file that they made or asked for last: what was read of
them once is not read again for each call.

A new file, a rename or a removal changes nothing of its folder but the times, and closing the file not even
those.  After each of them the kernel asks for the folder's attributes, and the next change for its row.
Programs look a name up before they make it, and then set mode and times of the file one after the other
(`cp -a`, `tar`), each of which the kernel answers with the file's attributes.

Rule: what is remembered holds while `Database.ended` is the same.  A transaction of which it is known what it
did to the folder and the file takes it along (`keep`); any other ends it.
"""

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database


class CurrentFolder:
    """The folder and the file that were asked for last, and the name that was not there."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._node: Node | None = None
        self._is_listed: bool | None = None
        self._path: str | None = None
        self._file: Node | None = None
        self._absent: tuple[Ino, str] | None = None
        self._ended = -1

    def find(self, ino: Ino) -> Node | None:
        """As `tree.find`."""
        self._forget_outdated()
        if self._node is not None and self._node.ino == ino:
            return self._node
        if self._file is not None and self._file.ino == ino:
            return self._file
        node = tree.find(self._db, ino)
        if node is not None and node.is_folder:
            self._node, self._is_listed, self._path = node, None, None
        elif node is not None:
            self._file = node
        return node

    def find_clash(self, parent: Ino, name: str) -> Node | None:
        """As `tree.find_clash`."""
        if self.is_absent(parent, name):
            return None
        node = tree.find_clash(self._db, parent, name)
        if node is None:
            self._absent = parent, name
        elif not node.is_folder:
            self._file = node
        return node

    def is_absent(self, parent: Ino, name: str) -> bool:
        """Whether it is known that the folder has no child with this name, ignoring case."""
        self._forget_outdated()
        return self._absent == (parent, name)

    def is_listed(self, ino: Ino) -> bool:
        """As `tree.is_listed`."""
        if not self._is_current(ino):
            return tree.is_listed(self._db, ino)
        if self._is_listed is None:
            self._is_listed = tree.is_listed(self._db, ino)
        return self._is_listed

    def path(self, ino: Ino) -> str | None:
        """As `tree.path`, without the first `/`; None for a detached folder, and for one that is not the one
        asked for last."""
        if not self._is_current(ino):
            return None
        if self._path is None:
            self._path = tree.path(self._db, ino)
        return self._path[1:] if self._path.startswith("/") else None

    def keep(
        self, began: int, touched: Ino, at_ns: int, *, was: Node | None = None, now: Node | None = None
    ) -> None:
        """Remember the folder beyond a transaction that began when as many had ended, and that has changed
        nothing of folders but the times of this one; if it is a file, nothing at all.

        `was`, `now`: the file before and after it, if it has changed nothing else; `was` as `find` returned
        it.
        """
        if self._ended != began or self._db.ended != began + 1:
            return
        self._ended = self._db.ended
        self._file, self._absent = (now if self._file is was else None), None
        if self._node is not None and touched == self._node.ino:
            self._node = self._node._replace(mtime_ns=at_ns, ctime_ns=at_ns)

    def _is_current(self, ino: Ino) -> bool:
        self._forget_outdated()
        return self._node is not None and self._node.ino == ino

    def _forget_outdated(self) -> None:
        if self._ended != self._db.ended:
            self._ended = self._db.ended
            self._node = self._file = self._absent = None
