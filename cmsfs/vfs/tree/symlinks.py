"""Symbolic links, which are local-only.

The service has none.  Rejecting them would break common programs: `npm install` links every program of
`node_modules/.bin`, `python -m venv` its interpreter and `lib64`, and git would check out links as text
files.  The targets of such links are mostly on this machine anyway, so links are stored locally.
"""

import errno
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import node_rows
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

# The permission bits of a symbolic link are ignored; by convention they are all set.
MODE = 0o777


def insert(conn: Connection, ino: Ino, target: bytes) -> None:
    """Set the target of a new link, which may be any bytes, inside the caller's transaction."""
    conn.execute("INSERT INTO symlink(ino, target) VALUES (?, ?)", (ino, target))
    node_rows.set_size(conn, ino, len(target))


def target(db: Database, ino: Ino) -> bytes:
    """Return the target of a link.  Raises `OSError` (EINVAL) if the node is not a link."""
    row = db.row("SELECT target FROM symlink WHERE ino = ?", ino)
    if row is None:
        raise errno_map.oserror(errno.EINVAL, f"ino {ino}")
    return bytes(row["target"])
