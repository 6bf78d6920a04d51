"""Keeps local mode bits and user xattrs of items that are not in the tree now, by item id.

The service cannot store them: an item that was trashed and restored, or unshared and shared again, would lose
them with its row.  They are kept for a time (`attribute_retention_days`), and applied to the item's new row
when it is seen again.
"""

import json
from collections.abc import Iterable
from sqlite3 import Connection

from cmsfs.replica import pins
from cmsfs.replica.nodes import FILE_MODE, FOLDER_MODE, Ino, NodeKind
from cmsfs.replica.rows import xattr_rows
from cmsfs.runtime import clock

_EXECUTE = 0o111

_KEEP = f"""
  INSERT OR REPLACE INTO kept(kind, remote_id, mode, sha1, attributes, pinned_at, kept_at)
  SELECT n.kind, n.remote_id, n.mode, n.base_sha1,
    (SELECT json_group_array(json_array(name, hex(value))) FROM xattr WHERE ino = n.ino), p.pinned_at, ?2
  FROM node AS n LEFT JOIN pin AS p ON p.ino = n.ino
  WHERE n.ino = ?1 AND n.remote_id IS NOT NULL AND (p.ino IS NOT NULL
    OR n.mode <> CASE n.kind WHEN 'folder' THEN {FOLDER_MODE} ELSE {FILE_MODE} END
    OR EXISTS (SELECT 1 FROM xattr WHERE ino = n.ino))
"""

_FOUND = """
  SELECT n.ino, n.kind, n.remote_id, n.sha1, k.mode, k.sha1 AS was, k.attributes, k.pinned_at
  FROM json_each(?) AS j CROSS JOIN node AS n ON n.ino = j.value
  JOIN kept AS k ON k.kind = n.kind AND k.remote_id = n.remote_id
"""


def keep(conn: Connection, ino: Ino) -> None:
    """Keep the local attributes of a node whose row is about to be deleted."""
    conn.execute(_KEEP, (ino, int(clock.time())))


def drop(conn: Connection, ino: Ino) -> None:
    """Drop the kept attributes of a node whose row stays after all."""
    sql = "DELETE FROM kept WHERE (kind, remote_id) = (SELECT kind, remote_id FROM node WHERE ino = ?)"
    conn.execute(sql, (ino,))


def restore(conn: Connection, inos: Iterable[Ino]) -> None:
    """Apply the kept attributes of their items to these new rows."""
    if conn.execute("SELECT 1 FROM kept LIMIT 1").fetchone() is None:
        return
    for row in conn.execute(_FOUND, (json.dumps(list(inos)),)).fetchall():
        # Only unchanged contents keep the execute bit: nobody here made other contents executable.
        same = row["kind"] != NodeKind.FILE or row["sha1"] == row["was"]
        mode = row["mode"] if same else row["mode"] & ~_EXECUTE
        conn.execute("UPDATE node SET mode = ? WHERE ino = ?", (mode, row["ino"]))
        attributes = [(name, bytes.fromhex(value)) for name, value in json.loads(row["attributes"])]
        xattr_rows.put_missing(conn, row["ino"], attributes)
        if row["pinned_at"] is not None:
            pins.add(conn, row["ino"], at=row["pinned_at"])
        conn.execute("DELETE FROM kept WHERE kind = ? AND remote_id = ?", (row["kind"], row["remote_id"]))


def forget(conn: Connection, *, days: int) -> int:
    """Delete what was kept longer than this; return how many items."""
    return conn.execute("DELETE FROM kept WHERE kept_at < ?", (clock.time() - days * 86_400,)).rowcount
