"""Contents that the service has as a version of an item, and that something here needs.

A backup that an editor leaves consists of an older version of the document; what was moved over another file
has its bytes in the item that is surplus since.  They can be downloaded from there, or restored with it.
"""

from sqlite3 import Connection

from cmsfs.replica.nodes import Node
from cmsfs.sqlite import Database


def find(db: Database, sha1: str, *, besides: str | None = None) -> tuple[str, str | None] | None:
    """Return id and version of an item at the service with this content, other than the one `besides`; None
    if none is known.

    This includes an item that was replaced and is still to be deleted, and one that has it as an older
    version.
    """
    row = db.row(
        "SELECT remote_id, version FROM node WHERE sha1 = ?1 AND base_sha1 = ?1 AND remote_id IS NOT NULL"
        "  AND parent IS NOT NULL AND remote_id IS NOT ?2"
        " UNION ALL SELECT remote_id, version FROM node WHERE base_sha1 = ?1 AND parent IS NULL"
        "  AND base_parent IS NOT NULL AND remote_id IS NOT NULL AND remote_id IS NOT ?2"
        " UNION ALL SELECT remote_id, version FROM past WHERE sha1 = ?1 AND remote_id IS NOT ?2 LIMIT 1",
        sha1,
        besides,
    )
    return (row["remote_id"], row["version"]) if row else None


def is_kept(conn: Connection, sha1: str) -> bool:
    """Whether the service is known to have these contents as an older version of an item."""
    return conn.execute("SELECT 1 FROM past WHERE sha1 = ?", (sha1,)).fetchone() is not None


def keep(conn: Connection, sha1: str, remote_id: str, version: str | None) -> None:
    """Record that the service has these contents as an older version of this item; something here needs
    them."""
    conn.execute(
        "INSERT OR REPLACE INTO past(sha1, remote_id, version) VALUES (?, ?, ?)", (sha1, remote_id, version)
    )


def keep_needed(conn: Connection, gone: Node) -> None:
    """Record it of the base version of a node whose item is gone, and may be restored, if anything else here
    needs these contents."""
    conn.execute(
        "INSERT OR IGNORE INTO past(sha1, remote_id, version) SELECT ?1, ?2, ?3"
        " WHERE EXISTS (SELECT 1 FROM node WHERE sha1 = ?1 AND ino <> ?4)"
        " OR EXISTS (SELECT 1 FROM draft WHERE base_sha1 = ?1)",
        (gone.base_sha1, gone.remote_id, gone.version, gone.ino),
    )


def forget_unused(conn: Connection) -> None:
    """Delete the rows that nothing here needs any more."""
    conn.execute(
        "DELETE FROM past WHERE NOT EXISTS (SELECT 1 FROM node WHERE node.sha1 = past.sha1)"
        " AND NOT EXISTS (SELECT 1 FROM draft WHERE draft.base_sha1 = past.sha1)"
    )
