"""Arbitrary `user.*` xattrs that programs set.

They are kept on this machine, since the service has no place for them, and stay with the file over renames
and restarts.
"""

import errno
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import xattr_rows
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

# All attributes of one node together: what the kernel can list.  Tags and addresses are a few hundred bytes.
MAX_BYTES = 64 * 1024


def find(db: Database, ino: Ino, name: str) -> bytes | None:
    row = db.row("SELECT value FROM xattr WHERE ino = ? AND name = ?", ino, name)
    return None if row is None else bytes(row["value"])


def at(conn: Connection, ino: Ino, name: str) -> bytes | None:
    """As `find`, as this transaction sees it."""
    row = conn.execute("SELECT value FROM xattr WHERE ino = ? AND name = ?", (ino, name)).fetchone()
    return None if row is None else bytes(row["value"])


def names(db: Database, ino: Ino) -> list[str]:
    return [row["name"] for row in db.rows("SELECT name FROM xattr WHERE ino = ? ORDER BY name", ino)]


def check(name: str, value: bytes) -> None:
    """Raise the `OSError` (E2BIG) for a value that is too large for any node."""
    if len(value) > MAX_BYTES:
        raise errno_map.oserror(errno.E2BIG, name)


def store(conn: Connection, ino: Ino, name: str, value: bytes) -> None:
    """Set an attribute.  Raises `OSError` (ENOSPC) when the node has too many."""
    xattr_rows.put(conn, ino, name, value)
    row = conn.execute("SELECT sum(length(name) + length(value)) FROM xattr WHERE ino = ?", (ino,)).fetchone()
    if row[0] > MAX_BYTES:
        raise errno_map.oserror(errno.ENOSPC, name)


def remove(conn: Connection, ino: Ino, name: str) -> None:
    """Remove an attribute.  Raises `OSError` (ENODATA) if there is none of that name."""
    if not xattr_rows.remove(conn, ino, name):
        raise errno_map.oserror(errno.ENODATA, name)
