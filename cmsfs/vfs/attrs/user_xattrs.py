"""Arbitrary `user.*` extended attributes that programs set.

They are stored locally, because the service does not support them, and stay with the file across renames and
restarts.
"""

import errno
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import xattr_rows
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

# Total size of a node's attributes, the kernel's limit of a listing.  Typical tags have a few hundred bytes.
MAX_BYTES = 64 * 1024


def find(db: Database, ino: Ino, name: str) -> bytes | None:
    row = db.row("SELECT value FROM xattr WHERE ino = ? AND name = ?", ino, name)
    return None if row is None else bytes(row["value"])


def at(conn: Connection, ino: Ino, name: str) -> bytes | None:
    """Return the same as `find`, inside the caller's transaction."""
    row = conn.execute("SELECT value FROM xattr WHERE ino = ? AND name = ?", (ino, name)).fetchone()
    return None if row is None else bytes(row["value"])


def names(db: Database, ino: Ino) -> list[str]:
    return [row["name"] for row in db.rows("SELECT name FROM xattr WHERE ino = ? ORDER BY name", ino)]


def check(name: str, value: bytes) -> None:
    """Raise `OSError` (E2BIG) if a value exceeds the limit of a node."""
    if len(value) > MAX_BYTES:
        raise errno_map.oserror(errno.E2BIG, name)


def store(conn: Connection, ino: Ino, name: str, value: bytes) -> None:
    """Set an attribute.  Raises `OSError` (ENOSPC) if the node's attributes become too large."""
    xattr_rows.put(conn, ino, name, value)
    row = conn.execute("SELECT sum(length(name) + length(value)) FROM xattr WHERE ino = ?", (ino,)).fetchone()
    if row[0] > MAX_BYTES:
        raise errno_map.oserror(errno.ENOSPC, name)


def remove(conn: Connection, ino: Ino, name: str) -> None:
    """Remove an attribute.  Raises `OSError` (ENODATA) if there is none with this name."""
    if not xattr_rows.remove(conn, ino, name):
        raise errno_map.oserror(errno.ENODATA, name)
