"""The `xattr` table: user xattrs, which `cmsfs.vfs.attrs` shows."""

from collections.abc import Iterable
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino


def put(conn: Connection, ino: Ino, name: str, value: bytes) -> None:
    """The node has this attribute, in place of one of this name."""
    conn.execute("INSERT OR REPLACE INTO xattr(ino, name, value) VALUES (?, ?, ?)", (ino, name, value))


def put_missing(conn: Connection, ino: Ino, found: Iterable[tuple[str, bytes]]) -> None:
    """The node has these attributes (name, value), but for names that it has already."""
    conn.executemany(
        "INSERT OR IGNORE INTO xattr(ino, name, value) VALUES (?, ?, ?)",
        [(ino, name, value) for name, value in found],
    )


def copy(conn: Connection, old: Ino, new: Ino) -> None:
    """`new` has the attributes of `old`, too, but for names that it has already."""
    conn.execute(
        "INSERT OR IGNORE INTO xattr(ino, name, value) SELECT ?2, name, value FROM xattr WHERE ino = ?1",
        (old, new),
    )


def remove(conn: Connection, ino: Ino, name: str) -> bool:
    """The node has no attribute of this name; whether it had one."""
    return conn.execute("DELETE FROM xattr WHERE ino = ? AND name = ?", (ino, name)).rowcount > 0
