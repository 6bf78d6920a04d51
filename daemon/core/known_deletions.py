"""The deletions that a drive knows of: states of the items from before are ignored.

They are asked for with every item of a page, so that they are in memory; and they are in the database
(`replica.rows.deleted_items`), since older news may come after a restart, too.
"""

from collections import OrderedDict
from sqlite3 import Connection

from cmsfs.replica.nodes import ItemKey
from cmsfs.replica.rows import deleted_items
from cmsfs.sqlite import Database


class KnownDeletions:
    """Deleted items and the sequence numbers of their deletions."""

    def __init__(self, db: Database) -> None:
        self._sequences = OrderedDict(deleted_items.all_of(db))

    def __bool__(self) -> bool:
        return bool(self._sequences)

    def sequence(self, key: ItemKey) -> int | None:
        """Return the sequence number of the item's deletion; None if none is known."""
        return self._sequences.get(key)

    def is_later(self, key: ItemKey, sequence: int) -> bool:
        """Whether the item was deleted after its state with this number."""
        return sequence < self._sequences.get(key, -1)

    def note(self, conn: Connection, key: ItemKey, sequence: int) -> None:
        """Record a deletion, unless a later one of the item is known."""
        sequence = max(sequence, self._sequences.get(key, -1))
        deleted_items.note(conn, key, sequence)
        self._sequences[key] = sequence
        self._sequences.move_to_end(key)
        while len(self._sequences) > deleted_items.REMEMBERED:
            self._sequences.popitem(last=False)

    def forget(self, conn: Connection, key: ItemKey) -> None:
        """Forget the deletion of an item."""
        deleted_items.forget(conn, key)
        self._sequences.pop(key, None)

    def forget_all(self, conn: Connection) -> None:
        """Forget all deletions."""
        deleted_items.forget_all(conn)
        self._sequences.clear()
