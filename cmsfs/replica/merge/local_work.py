"""Unsent local changes, and the remote updates that are deferred because of them.

While a local change is pending or being sent, remote updates of the same item are deferred: contents are not
mixed, a place is not contested twice, and a response may be older than an update that overtook it.  Deferred
updates are not sent again, least of all by an event stream.  So each such item gets a row, in the transaction
that defers the update, and is requested when the local change is done (`daemon.pull.deferred_updates`).

Rule: a row is deleted only with the update, or when the tree provably has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind, Remote
from cmsfs.replica.rows import in_flight, op_rows, past_versions
from cmsfs.sqlite import Database

# Newer than any response: the item is requested in any case.
ANYHOW = 2**62

# The number of a deferred update that comes again with this one.  The item may be requested at this moment:
# the answer, which may be older, settles what was known before, and this must stay.
_LATER = f"CASE WHEN sequence >= {ANYHOW} THEN sequence + 1 ELSE max(sequence, {{}}) END"

_READY = """
  SELECT d.kind, d.remote_id, d.ino, d.folder, d.name_key, d.sequence FROM doubt AS d
  WHERE NOT EXISTS (SELECT 1 FROM op WHERE op.ino = d.ino)
    AND NOT EXISTS (SELECT 1 FROM node AS n JOIN op ON op.ino = n.ino
      WHERE n.kind = d.kind AND n.remote_id = d.remote_id)
    AND NOT EXISTS (SELECT 1 FROM node AS n
      WHERE n.kind = d.kind AND n.remote_id = d.remote_id AND n.draft IS NOT NULL)
  LIMIT 1000
"""


def has_bytes(conn: Connection, node: Node) -> bool:
    """Whether the node has contents that are not uploaded."""
    return node.draft is not None or "upload" in tree.pending(conn, node.ino)


def has_only_copy(conn: Connection, node: Node) -> bool:
    """Whether the node has contents that the service does not have: not uploaded yet, or, as those of a
    backup that is not uploaded, in no version of the file that it is the backup of."""
    is_backup = bool(node.local) and node.sha1 is not None
    return has_bytes(conn, node) or (is_backup and not past_versions.is_kept(conn, node.sha1 or ""))


def has_unsent_below(conn: Connection, ino: Ino) -> bool:
    """Whether the node, or anything below it, has contents or folders that are not uploaded."""
    for one in tree.subtree(conn, ino):
        if tree.pending(conn, one) & {"upload", "mkdir"} or tree.get(conn, one).draft is not None:
            return True
    return False


def forget(conn: Connection, ino: Ino) -> None:
    """Remove the node's item: the service does not have it, or another node has it; a web link becomes a
    file."""
    conn.execute(
        "UPDATE node SET kind = CASE kind WHEN 'web_link' THEN 'file' ELSE kind END,"
        " remote_id = NULL, etag = NULL, version = NULL, base_sha1 = NULL,"
        " base_parent = NULL, base_name = NULL, base_key = NULL, sequence = 0 WHERE ino = ?",
        (ino,),
    )


def recreate(conn: Connection, node: Node) -> None:
    """Turn a node that the service no longer has (or shows to us) into a new item to be created."""
    if node.remote_id is not None:
        # The response to a running request of ours may bring the item back, though in another place.
        defer(conn, DeferredUpdate(node.kind, node.remote_id, ANYHOW, node.ino))
    if node.base_sha1 is not None and node.remote_id is not None:
        # Its base version can be downloaded again, should the item be restored.
        past_versions.keep(conn, node.base_sha1, node.remote_id, node.version)
    forget(conn, node.ino)
    op_rows.delete_kinds(conn, node.ino, "move", "touch")
    if node.parent is not None or node.is_folder:
        # Otherwise what was sent under a former name, and may have been created, is still to be deleted.
        op_rows.delete_kinds(conn, node.ino, "trash")
    if node.is_folder:
        op_rows.record_once(conn, node.ino, "mkdir")


def give_up_requests(conn: Connection, node: Node, *, folder: str | None, name: str) -> None:
    """The node has become the item of this name in this folder: what was sent for it under a former name, and
    may have been created, is surplus, which is looked for and deleted."""
    in_flight.resolve_place(conn, node.ino, folder, name)
    if in_flight.is_pending(conn, node.ino):
        surplus = tree.insert(conn, None, node.name, node.kind, now_ns=node.mtime_ns)
        in_flight.transfer_new_items(conn, node.ino, surplus)
        op_rows.record_once(conn, surplus, "trash")


# ---- deferred updates --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeferredUpdate:
    """An item for which a newer state exists than the tree shows.

    `ino` is the node whose local change was in the way; or an item of ours was being created in this `folder`
    (id at the service) under a name with this key, and may be this item.  `sequence` is that of the update.
    """

    kind: NodeKind
    id: str
    sequence: int
    ino: Ino | None = None
    folder: str | None = None
    name_key: str | None = None


def defer(conn: Connection, doubt: DeferredUpdate) -> None:
    """Record a deferred update, in the transaction that defers it."""
    conn.execute(
        "INSERT INTO doubt(kind, remote_id, ino, folder, name_key, sequence) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(kind, remote_id) DO UPDATE SET ino = excluded.ino, folder = excluded.folder,"
        f"  name_key = excluded.name_key, sequence = {_LATER.format('excluded.sequence')}",
        (doubt.kind, doubt.id, doubt.ino, doubt.folder, doubt.name_key, doubt.sequence),
    )


def has_later(conn: Connection, remote: Remote) -> bool:
    """Whether a later state of this item was deferred, so that this one may tell a place that it has left."""
    found = conn.execute(
        "SELECT 1 FROM doubt WHERE kind = ? AND remote_id = ? AND sequence > ?",
        (remote.kind, remote.id, remote.sequence),
    )
    return found.fetchone() is not None


def defer_longer(conn: Connection, kind: NodeKind, remote_id: str, sequence: int) -> bool:
    """Record a newer state of an item that may be one of ours, which is being created; whether it was
    deferred for that already.  It stays so, though it was moved or renamed meanwhile."""
    return (
        conn.execute(
            f"UPDATE doubt SET sequence = {_LATER.format('?')}"
            " WHERE kind = ? AND remote_id = ? AND folder IS NOT NULL",
            (sequence, kind, remote_id),
        ).rowcount
        > 0
    )


def deferred_place(db: Database, kind: NodeKind, remote_id: str) -> tuple[str, str] | None:
    """Return the folder and name key under which the item was deferred as possibly one of ours."""
    row = db.row(
        "SELECT folder, name_key FROM doubt WHERE kind = ? AND remote_id = ? AND folder IS NOT NULL",
        kind,
        remote_id,
    )
    return (row["folder"], row["name_key"]) if row is not None else None


def deferred_sequence(db: Database, kind: NodeKind, remote_id: str) -> int:
    """Return the sequence of the item's deferred update; 0 if none is deferred, or that is not known."""
    row = db.row(
        f"SELECT sequence FROM doubt WHERE kind = ? AND remote_id = ? AND sequence < {ANYHOW}",
        kind,
        remote_id,
    )
    return int(row["sequence"]) if row is not None else 0


def end_deferral(conn: Connection, found: Iterable[DeferredUpdate]) -> None:
    """Delete these rows, as this transaction applies them; before anything that may defer them again."""
    conn.executemany(
        "DELETE FROM doubt WHERE kind = ? AND remote_id = ? AND sequence <= ?",
        [(one.kind, one.id, one.sequence) for one in found],
    )


def transfer_deferred(conn: Connection, old: Ino, new: Ino) -> None:
    """Let updates that wait for the local changes of `old` wait for those of `new`."""
    conn.execute("UPDATE doubt SET ino = ?2 WHERE ino = ?1", (old, new))


def ready_updates(db: Database) -> list[DeferredUpdate]:
    """Return the deferred updates that no operation and no open draft blocks any more; at most a thousand."""
    return [
        DeferredUpdate(NodeKind(kind), remote_id, sequence, ino, folder, name_key)
        for kind, remote_id, ino, folder, name_key, sequence in db.rows(_READY)
    ]


def has_deferred(db: Database) -> bool:
    """Whether there are any deferred updates, ready or not."""
    return db.row("SELECT 1 FROM doubt LIMIT 1") is not None


def count_deferred(db: Database) -> int:
    """Return the number of deferred updates."""
    row = db.row("SELECT count(*) AS n FROM doubt")
    return row["n"] if row else 0


def is_settled(db: Database, doubt: DeferredUpdate) -> bool:
    """Whether the tree has the update by now, from our own response or another page, so that no request is
    needed.

    True for a node whose base is at least as new as the update, and which shows its base.
    """
    node = tree.find_remote(db, doubt.kind, doubt.id)
    if node is None or node.sequence < doubt.sequence:
        return False
    if node.parent is None:
        return node.base_parent is None
    folder = tree.find(db, node.parent)
    if folder is not None and folder.is_shelf:
        folder = tree.find(db, ROOT)
    place = (folder.remote_id if folder is not None else None, naming.remote_name(node))
    return node.sha1 == node.base_sha1 and place == (node.base_parent, node.base_name)
