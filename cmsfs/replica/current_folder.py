"""The folder in which programs change things: its row is read once, and not again for each of their changes.

A new file, a rename or a removal changes nothing of its folder but the times, and closing the file not even
those.  After each of them the kernel asks for the folder's attributes, and the next change for its row.

Rule: what is remembered holds while `Database.ended` is the same.  A transaction of which it is known what it
did to the folder takes it along (`keep`); any other ends it.
"""

from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database


class CurrentFolder:
    """The folder that was asked for last."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._node: Node | None = None
        self._is_listed: bool | None = None
        self._ended = -1

    def find(self, ino: Ino) -> Node | None:
        """As `tree.find`."""
        if self._is_known(ino):
            return self._node
        node = tree.find(self._db, ino)
        if node is not None and node.is_folder:
            self._node, self._is_listed, self._ended = node, None, self._db.ended
        return node

    def is_listed(self, ino: Ino) -> bool:
        """As `tree.is_listed`."""
        if not self._is_known(ino):
            return tree.is_listed(self._db, ino)
        if self._is_listed is None:
            self._is_listed = tree.is_listed(self._db, ino)
        return self._is_listed

    def keep(self, began: int, touched: Ino, at_ns: int) -> None:
        """Remember it beyond a transaction that began when as many had ended, and that has changed nothing of
        folders but the times of this one; if it is a file, nothing at all."""
        if self._node is None or self._ended != began or self._db.ended != began + 1:
            return
        self._ended = self._db.ended
        if touched == self._node.ino:
            self._node = self._node._replace(mtime_ns=at_ns, ctime_ns=at_ns)

    def _is_known(self, ino: Ino) -> bool:
        return self._node is not None and self._node.ino == ino and self._ended == self._db.ended
