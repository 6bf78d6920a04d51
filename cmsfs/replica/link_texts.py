"""The texts of web links' `.url` files: as written locally, or generated from the service's item.

Rule: the table `shortcut` keeps a text only while it means the same as the service's link.
"""

from sqlite3 import Connection

from cmsfs.models.url_files import Shortcut, edited, of_item, says, text
from cmsfs.sqlite import Database

_SHOWN = "SELECT s.text, n.item FROM node AS n LEFT JOIN shortcut AS s ON s.ino = n.ino WHERE n.ino = ?"


def current(db: Database, ino: int) -> bytes:
    """Return the contents of a web link's file that has no draft.

    The text as it was written locally, if it was: the service keeps only its meaning.
    """
    row = db.row(_SHOWN, ino)
    return _shown(row["text"], row["item"]) if row is not None else text("")


def shown(conn: Connection, ino: int) -> bytes:
    """As `current`, within this transaction."""
    return _shown(*conn.execute(_SHOWN, (ino,)).fetchone())


def _shown(written: bytes | None, item_json: str | None) -> bytes:
    return bytes(written) if written is not None else text(*of_item(item_json))


def remote_shortcut(conn: Connection, ino: int) -> Shortcut:
    """Return a web link's target and description, as last reported by the service."""
    row = conn.execute("SELECT item FROM node WHERE ino = ?", (ino,)).fetchone()
    return of_item(row["item"])


def keep(conn: Connection, ino: int, data: bytes) -> None:
    """Keep the text of a web link that was sent: it is no longer unsent contents."""
    forget(conn, ino)
    shortcut = remote_shortcut(conn, ino)
    if data != text(*shortcut) and says(data, shortcut):
        conn.execute("INSERT INTO shortcut(ino, text) VALUES (?, ?)", (ino, data))
    restore(conn, ino)


def restore(conn: Connection, ino: int) -> None:
    """Set the size of a web link without a draft to that of its text."""
    size = len(text(*remote_shortcut(conn, ino)))
    conn.execute(
        "UPDATE node SET sha1 = NULL, size = coalesce((SELECT length(text) FROM shortcut WHERE ino = ?1), ?2)"
        " WHERE ino = ?1",
        (ino, size),
    )


def follow(conn: Connection, ino: int) -> None:
    """Update the locally written text to what the service reports by now, keeping its form."""
    row = conn.execute("SELECT text FROM shortcut WHERE ino = ?", (ino,)).fetchone()
    shortcut = remote_shortcut(conn, ino)
    keep(conn, ino, edited(bytes(row["text"]), **shortcut._asdict()) if row is not None else text(*shortcut))


def copy(conn: Connection, old: int, new: int) -> None:
    """Copy the text that was written to `old` to `new`, unless it has its own."""
    conn.execute(
        "INSERT OR IGNORE INTO shortcut(ino, text) SELECT ?2, text FROM shortcut WHERE ino = ?1", (old, new)
    )


def forget(conn: Connection, ino: int) -> None:
    """Drop the locally written text, because the web link has changed."""
    conn.execute("DELETE FROM shortcut WHERE ino = ?", (ino,))
