"""Deletes folders with everything in them as one operation.

`rm -r` deletes item by item, and each deletion is recorded.  If a folder and everything that the service has
in it are to be deleted, only the folder's operation is sent, and the others end with it.  The service checks
that the folder contains nothing else (`cmsfs.models.content.known_tree`).

An operation that failed this way is not tried this way again: then its items are deleted one by one, and each
of its subfolders is tried as a whole.

Rule: anything that prevents a plain deletion (bytes that another file needs, a request without a response, a
held deletion) keeps the folders above it from being deleted as a whole; for the service, so do locks.
"""

from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.models.content import known_tree
from cmsfs.replica.merge import deletions
from cmsfs.replica.nodes import Ino, Node
from cmsfs.replica.rows import in_flight, node_rows, op_rows

# Operations that end with the deletion of the folder that contains their item at the service.
GOES_WITH_FOLDER = """
    op.kind = 'trash' AND EXISTS (
      SELECT 1 FROM node AS n JOIN node AS f ON f.kind = 'folder' AND f.remote_id = n.base_parent
        JOIN op AS o ON o.ino = f.ino AND o.kind = 'trash' AND o.state <> 'held' AND o.attempts = 0
      WHERE n.ino = op.ino AND f.parent IS NULL)
"""

_BELOW = """
  WITH RECURSIVE below(ino, kind, remote_id) AS (
    SELECT ino, kind, remote_id FROM node WHERE base_parent = ?1
    UNION ALL SELECT n.ino, n.kind, n.remote_id FROM below AS b JOIN node AS n ON n.base_parent = b.remote_id
      WHERE b.kind = 'folder')
  SELECT n.ino, n.kind, n.remote_id, n.etag,
    (SELECT count(*) FROM op AS o WHERE o.ino = n.ino AND o.state = 'running') AS running,
    n.parent IS NULL
      AND EXISTS (SELECT 1 FROM op AS o WHERE o.ino = n.ino AND o.kind = 'trash' AND o.state <> 'held')
      AND NOT EXISTS (SELECT 1 FROM op AS o WHERE o.ino = n.ino AND o.kind NOT IN ('move', 'trash'))
      AND NOT EXISTS (SELECT 1 FROM unheard AS u WHERE u.ino = n.ino OR u.remote_id = n.remote_id)
      AND NOT EXISTS (SELECT 1 FROM node AS m JOIN op AS o ON o.ino = m.ino AND o.kind = 'upload'
        WHERE m.sha1 = n.base_sha1 AND m.ino <> n.ino)
      AND NOT EXISTS (SELECT 1 FROM draft AS d JOIN node AS m ON m.draft = d.id
        WHERE d.base_sha1 = n.base_sha1 AND m.ino <> n.ino AND m.base_sha1 IS NOT n.base_sha1) AS goes
  FROM below AS b JOIN node AS n ON n.ino = b.ino
"""


@dataclass(frozen=True, slots=True)
class Below:
    """What the service is known to have in a folder that is to be deleted.

    `is_busy`: an operation in it is running.  `goes`: all of it is to be deleted, and nothing prevents that.
    """

    items: list[tuple[Ino, str, str, str | None]]  # inode, type, id, etag
    is_busy: bool
    goes: bool

    @property
    def digest(self) -> str:
        return known_tree.digest((kind, item_id, etag) for _, kind, item_id, etag in self.items)


def below(conn: Connection, folder: Node) -> Below:
    """Return what would be deleted with a folder."""
    rows = conn.execute(_BELOW, (folder.remote_id,)).fetchall()
    return Below(
        [(row["ino"], row["kind"], row["remote_id"], row["etag"]) for row in rows],
        any(row["running"] for row in rows),
        all(row["goes"] for row in rows),
    )


def end(conn: Connection, found: Below) -> None:
    """Complete the deletions of items that the service has deleted with their folder.

    Sequences stay: items deleted with their folder are restored with it, unchanged.
    """
    for ino, kind, item_id, _ in found.items:
        if deletions.is_detached_as(conn, ino, kind, item_id):
            node_rows.leave_base_folder(conn, ino)
            op_rows.delete_kinds(conn, ino, "move", "trash")
            in_flight.resolve(conn, ino, item_id)
