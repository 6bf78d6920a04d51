"""Symbolic links, which are local-only.

The service has none.  Refusing them breaks what people run on a drive: `npm install` links every program
of `node_modules/.bin`, `python -m venv` its interpreter and `lib64`, and git checks links out as text files.
What such links lead to is mostly on this machine anyway, so here is where they are kept.
"""

import errno
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.replica.rows import node_rows
from cmsfs.sqlite import Database
from cmsfs.vfs import errno_map

# Nobody looks at the permission bits of a link; everybody shows them so.
MODE = 0o777


def insert(conn: Connection, ino: Ino, target: bytes) -> None:
    """The node leads to `target`, which may be anything; inside the caller's transaction."""
    conn.execute("INSERT INTO symlink(ino, target) VALUES (?, ?)", (ino, target))
    node_rows.set_size(conn, ino, len(target))


def target(db: Database, ino: Ino) -> bytes:
    """Where the link leads.  Raises `OSError` (EINVAL) for what is not a link."""
    row = db.row("SELECT target FROM symlink WHERE ino = ?", ino)
    if row is None:
        raise errno_map.oserror(errno.EINVAL, f"ino {ino}")
    return bytes(row["target"])
