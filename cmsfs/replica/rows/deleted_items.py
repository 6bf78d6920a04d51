"""The `deleted` table: items that were deleted at the service, with the sequence numbers of that.

An item's node goes soon after the item; news from before, of an event stream that is read page by page or of
a search index that lags, would show the item again, also after a restart.
"""

from sqlite3 import Connection

from cmsfs.replica.nodes import ItemKey, NodeKind
from cmsfs.sqlite import Database

# Limit of remembered deletions; the oldest are forgotten first.
REMEMBERED = 10_000


def all_of(db: Database) -> dict[ItemKey, int]:
    """Return the sequence numbers of the deletions by item, the oldest first."""
    rows = db.rows("SELECT kind, remote_id, sequence FROM deleted ORDER BY id")
    return {(NodeKind(row["kind"]), row["remote_id"]): row["sequence"] for row in rows}


def note(conn: Connection, key: ItemKey, sequence: int) -> None:
    """Record the deletion of an item, in place of an earlier one."""
    conn.execute(
        "INSERT OR REPLACE INTO deleted(kind, remote_id, sequence) VALUES (?, ?, ?)", (*key, sequence)
    )
    conn.execute("DELETE FROM deleted WHERE id <= (SELECT max(id) FROM deleted) - ?", (REMEMBERED,))


def forget(conn: Connection, key: ItemKey) -> None:
    """Forget the deletion of an item."""
    conn.execute("DELETE FROM deleted WHERE kind = ? AND remote_id = ?", key)


def forget_all(conn: Connection) -> None:
    """Forget all deletions."""
    conn.execute("DELETE FROM deleted")
