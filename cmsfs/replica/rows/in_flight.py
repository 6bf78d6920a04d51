"""The `unheard` table: uploads and creations that have no response yet; the service may have them.

A connection may break after the last byte, or the process may die before it records the response.  When such
a file then appears at the service, we must recognize it as our own: otherwise a file that was deleted here
returns, one that was renamed here exists twice, and our next version conflicts with the previous one.

A row is on disk before the first byte is sent, and deleted with the response, or when the service rejected
it.

Rule: contents are ours only if they have the SHA-1 that was sent to this place or this item; a folder is ours
only if we created it, and not before our request.
"""

import hashlib
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.models import wire_names
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# In the column of the SHA-1, for a folder: this prefix, and the time (_ns) of the request.
_FOLDER = "folder "


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What was sent for a node: a new file (or folder) `name` in `folder`, or a version of the item
    `remote_id`."""

    ino: Ino
    sha1: str
    remote_id: str | None = None
    folder: str | None = None
    name: str | None = None

    @property
    def asked_at(self) -> float | None:
        """When a folder was requested; None for contents."""
        return int(self.sha1.removeprefix(_FOLDER)) / 10**9 if self.sha1.startswith(_FOLDER) else None


def new_folder(ino: Ino, folder: str, name: str) -> SentRequest:
    """Return the request for a folder that is about to be created."""
    return SentRequest(ino, f"{_FOLDER}{clock.time_ns()}", folder=folder, name=name)


def link_digest(text: bytes) -> str:
    """Return a substitute for the SHA-1 of a web link, which has none: that of its text as the drive writes
    it."""
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()


def note(conn: Connection, sent: SentRequest) -> bool:
    """Record a request that is about to be sent; return False if an earlier attempt, whose response is
    missing, has recorded the same.

    Of a folder the earliest attempt stays: the folder may have been created since then.
    """
    key = wire_names.name_key(sent.name) if sent.name is not None else None
    added = conn.execute(
        "INSERT INTO unheard(ino, sha1, remote_id, folder, name, name_key) SELECT ?1, ?2, ?3, ?4, ?5, ?6"
        " WHERE NOT EXISTS (SELECT 1 FROM unheard WHERE ino = ?1 AND remote_id IS ?3 AND folder IS ?4"
        f" AND name IS ?5 AND (sha1 = ?2 OR (sha1 GLOB '{_FOLDER}*' AND ?2 GLOB '{_FOLDER}*')))",
        (sent.ino, sent.sha1, sent.remote_id, sent.folder, sent.name, key),
    )
    return added.rowcount > 0


def not_sent(conn: Connection, sent: SentRequest) -> None:
    """Delete a request that the service rejected, or that did not reach it.

    Only the attempt that recorded it may delete it: an earlier one may have reached the service.
    """
    conn.execute(
        "DELETE FROM unheard WHERE rowid = (SELECT max(rowid) FROM unheard"
        " WHERE ino = ? AND sha1 = ? AND remote_id IS ? AND folder IS ? AND name IS ?)",
        (sent.ino, sent.sha1, sent.remote_id, sent.folder, sent.name),
    )


def resolve(conn: Connection, ino: Ino, remote_id: str | None = None, *, of_others: bool = True) -> None:
    """Delete a node's requests for a new item and those for versions of this item, also those `of_others`:
    their outcome is known.

    Those for versions of another item stay: the node has taken it over since the request.
    """
    conn.execute(
        "DELETE FROM unheard WHERE ino = ? AND (remote_id IS NULL OR remote_id = ?)", (ino, remote_id)
    )
    if remote_id is not None and of_others:
        conn.execute("DELETE FROM unheard WHERE remote_id = ?", (remote_id,))


def resolve_place(conn: Connection, ino: Ino, folder: str | None, name: str) -> None:
    """Delete a node's requests for a new item of this name in this folder: their outcome is known."""
    conn.execute(
        "DELETE FROM unheard WHERE ino = ? AND remote_id IS NULL AND folder IS ? AND name_key = ?",
        (ino, folder, wire_names.name_key(name)),
    )


def transfer_new_items(conn: Connection, old: Ino, new: Ino) -> None:
    """Move requests of `old` for a new item to `new`, whose operation will find out about them."""
    conn.execute("UPDATE unheard SET ino = ?2 WHERE ino = ?1 AND remote_id IS NULL", (old, new))


def transfer_versions(conn: Connection, old: Ino, new: Ino) -> None:
    """Move version uploads of `old` to `new`, which has the item now."""
    conn.execute("UPDATE unheard SET ino = ?2 WHERE ino = ?1 AND remote_id IS NOT NULL", (old, new))


def new_items(db: Database, ino: Ino) -> list[SentRequest]:
    """Return the requests for a node that create a new file or folder, oldest first."""
    rows = db.rows(
        "SELECT ino, sha1, remote_id, folder, name FROM unheard WHERE ino = ? AND remote_id IS NULL"
        " ORDER BY rowid",
        ino,
    )
    return [SentRequest(*row) for row in rows]


def is_version(db: Database, remote_id: str, sha1: str | None) -> bool:
    """Whether these contents were sent from here as a version of the item."""
    found = db.row("SELECT 1 FROM unheard WHERE remote_id = ? AND sha1 = ?", remote_id, sha1)
    return found is not None


def is_pending(conn: Connection, ino: Ino) -> bool:
    """Whether the service may have a new item that was sent for the node."""
    found = conn.execute("SELECT 1 FROM unheard WHERE ino = ? AND remote_id IS NULL LIMIT 1", (ino,))
    return found.fetchone() is not None


def places(db: Database) -> set[tuple[str, str]]:
    """Return the folders (id) and names (key) where the service may have a new item of ours whose response
    was lost, as far as a pending operation will check it."""
    rows = db.rows(
        "SELECT folder, name_key FROM unheard AS u WHERE remote_id IS NULL"
        " AND EXISTS (SELECT 1 FROM op WHERE op.ino = u.ino)"
    )
    return {(row["folder"], row["name_key"]) for row in rows}


def maker_at(conn: Connection, folder: str, name_key: str, *, besides: Ino) -> Ino | None:
    """Return another node for which a new item was sent to this place, and whose operation will find out."""
    found = conn.execute(
        "SELECT u.ino FROM unheard u JOIN op o ON o.ino = u.ino WHERE u.remote_id IS NULL AND u.folder = ?"
        " AND u.name_key = ? AND u.ino <> ? AND o.state <> 'held' LIMIT 1",
        (folder, name_key, besides),
    ).fetchone()
    return found[0] if found else None


def maker_in(conn: Connection, folder: str) -> Ino | None:
    """Return a node for which a new item was sent to this folder, and whose operation will find out."""
    found = conn.execute(
        "SELECT u.ino FROM unheard u JOIN op o ON o.ino = u.ino WHERE u.remote_id IS NULL AND u.folder = ?"
        " AND o.state <> 'held' LIMIT 1",
        (folder,),
    ).fetchone()
    return found[0] if found else None


def belongs_to_other_node(db: Database, ino: Ino, folder: str, name: str, sha1: str | None) -> bool:
    """Whether these contents in this place were sent for another node, whose operation has not checked it
    yet."""
    found = db.row(
        "SELECT 1 FROM unheard u JOIN op o ON o.ino = u.ino WHERE u.remote_id IS NULL AND u.folder = ?"
        " AND u.name_key = ? AND u.sha1 = ? AND u.ino <> ? AND o.state <> 'held' LIMIT 1",
        folder,
        wire_names.name_key(name),
        sha1,
        ino,
    )
    return found is not None
