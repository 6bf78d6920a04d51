"""The `unheard` table: requests without a response; `cmsfs.journal.in_flight` says why."""

from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Ino


def insert(
    conn: Connection, ino: Ino, sha1: str, *, remote_id: str | None, folder: str | None, name: str | None
) -> None:
    """This is about to be sent for the node: as a version of an item, or as a new one in a folder."""
    conn.execute(
        "INSERT INTO unheard(ino, sha1, remote_id, folder, name, name_key) VALUES (?, ?, ?, ?, ?, ?)",
        (ino, sha1, remote_id, folder, name, wire_names.name_key(name) if name is not None else None),
    )


def delete_last(
    conn: Connection, ino: Ino, sha1: str, *, remote_id: str | None, folder: str | None, name: str | None
) -> None:
    """The last of what was about to be sent so was not."""
    conn.execute(
        "DELETE FROM unheard WHERE rowid = (SELECT max(rowid) FROM unheard"
        " WHERE ino = ? AND sha1 = ? AND remote_id IS ? AND folder IS ? AND name IS ?)",
        (ino, sha1, remote_id, folder, name),
    )


def delete_of_node(conn: Connection, ino: Ino) -> None:
    """Nothing of what was sent for the node is without an answer."""
    conn.execute("DELETE FROM unheard WHERE ino = ?", (ino,))


def delete_of_item(conn: Connection, remote_id: str) -> None:
    """Nothing of what was sent as a version of the item is without an answer."""
    conn.execute("DELETE FROM unheard WHERE remote_id = ?", (remote_id,))


def transfer_versions(conn: Connection, old: Ino, new: Ino) -> None:
    """What was sent for `old` as a version of its item was sent for `new`, which stands for the item now."""
    conn.execute("UPDATE unheard SET ino = ?2 WHERE ino = ?1 AND remote_id IS NOT NULL", (old, new))
