"""What stands in the `.url` files of the tree's web links: what was written here, or what the service says.

Rule: the table `shortcut` keeps a text only while it says the same as the service's link in another way.
"""

from sqlite3 import Connection

from cmsfs.models.url_files import Shortcut, edited, of_item, says, text
from cmsfs.sqlite import Database

_SHOWN = "SELECT s.text, n.item FROM node AS n LEFT JOIN shortcut AS s ON s.ino = n.ino WHERE n.ino = ?"


def current(db: Database, ino: int) -> bytes:
    """The content of a web link's file while nothing is written to it.

    As it was written here, if it was; the service keeps what it says, not how.
    """
    row = db.row(_SHOWN, ino)
    return _shown(row["text"], row["item"]) if row is not None else text("")


def shown(conn: Connection, ino: int) -> bytes:
    """As `current`, as this transaction sees it."""
    return _shown(*conn.execute(_SHOWN, (ino,)).fetchone())


def _shown(written: bytes | None, item_json: str | None) -> bytes:
    return bytes(written) if written is not None else text(*of_item(item_json))


def said(conn: Connection, ino: int) -> Shortcut:
    """What the service last said of a web link."""
    row = conn.execute("SELECT item FROM node WHERE ino = ?", (ino,)).fetchone()
    return of_item(row["item"])


def keep(conn: Connection, ino: int, data: bytes) -> None:
    """The service knows by now what this content of the web link says: it is no unsent content any more."""
    forget(conn, ino)
    shortcut = said(conn, ino)
    if data != text(*shortcut) and says(data, shortcut):
        conn.execute("INSERT INTO shortcut(ino, text) VALUES (?, ?)", (ino, data))
    restore(conn, ino)


def restore(conn: Connection, ino: int) -> None:
    """Let a web link that nothing is being written to have the size of what it shows."""
    size = len(text(*said(conn, ino)))
    conn.execute(
        "UPDATE node SET sha1 = NULL, size = coalesce((SELECT length(text) FROM shortcut WHERE ino = ?1), ?2)"
        " WHERE ino = ?1",
        (ino, size),
    )


def follow(conn: Connection, ino: int) -> None:
    """The service says something else by now: what was written here says that in its own way."""
    row = conn.execute("SELECT text FROM shortcut WHERE ino = ?", (ino,)).fetchone()
    shortcut = said(conn, ino)
    keep(conn, ino, edited(bytes(row["text"]), **shortcut._asdict()) if row is not None else text(*shortcut))


def copy(conn: Connection, old: int, new: int) -> None:
    """`new` has the text that was written to `old`, unless it has one of its own."""
    conn.execute(
        "INSERT OR IGNORE INTO shortcut(ino, text) SELECT ?2, text FROM shortcut WHERE ino = ?1", (old, new)
    )


def forget(conn: Connection, ino: int) -> None:
    """The web link says something else now than what was written here."""
    conn.execute("DELETE FROM shortcut WHERE ino = ?", (ino,))
