"""The `xattr` table: user xattrs, which `cmsfs.vfs.attrs` shows."""

from collections.abc import Iterable
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino


def put(conn: Connection, ino: Ino, name: str, value: bytes) -> None:
    """Set an attribute of the node, replacing one of this name."""
    conn.execute("INSERT OR REPLACE INTO xattr(ino, name, value) VALUES (?, ?, ?)", (ino, name, value))


def put_missing(conn: Connection, ino: Ino, found: Iterable[tuple[str, bytes]]) -> None:
    """Add attributes (name, value) to the node, except names that it already has."""
    conn.executemany(
        "INSERT OR IGNORE INTO xattr(ino, name, value) VALUES (?, ?, ?)",
        [(ino, name, value) for name, value in found],
    )


def copy(conn: Connection, old: Ino, new: Ino) -> None:
    """Copy the attributes of `old` to `new`, except names that it already has."""
    conn.execute(
        "INSERT OR IGNORE INTO xattr(ino, name, value) SELECT ?2, name, value FROM xattr WHERE ino = ?1",
        (old, new),
    )


def remove(conn: Connection, ino: Ino, name: str) -> bool:
    """Remove an attribute of the node; whether it had one."""
    return conn.execute("DELETE FROM xattr WHERE ino = ? AND name = ?", (ino, name)).rowcount > 0
