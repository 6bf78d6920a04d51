"""Local work that the service does not have yet, and the updates that wait for its end.

While a change of ours waits or is on its way to the service, what is told of the same item stays aside:
bytes are not mixed, a place is not fought over twice, an answer may be older than the news that overtook it.
Nobody tells it again, least of all a stream of events.  So each such item is a row, written in the
transaction that left the news aside, and is asked about when our own work has ended
(`daemon.pull.deferred_updates`).

Rule: a row goes only with the news, or when the tree provably has it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import naming, tree
from cmsfs.replica.nodes import ROOT, Ino, Node, NodeKind
from cmsfs.replica.rows import op_rows
from cmsfs.sqlite import Database

# Newer than whatever an answer of ours may say: the item is asked about in any case.
ANYHOW = 2**62

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
    """Whether the node has bytes that only we have."""
    return node.draft is not None or "upload" in tree.pending(conn, node.ino)


def has_unsent_below(conn: Connection, ino: Ino) -> bool:
    """Whether there are bytes or folders at the node or below it that the service does not have."""
    for one in tree.subtree(conn, ino):
        if tree.pending(conn, one) & {"upload", "mkdir"} or tree.get(conn, one).draft is not None:
            return True
    return False


def forget(conn: Connection, ino: Ino) -> None:
    """The service does not have this node, or has it as another's: it is only ours, and no web link, then."""
    conn.execute(
        "UPDATE node SET kind = CASE kind WHEN 'web_link' THEN 'file' ELSE kind END,"
        " remote_id = NULL, etag = NULL, version = NULL, base_sha1 = NULL,"
        " base_parent = NULL, base_name = NULL, base_key = NULL, sequence = 0 WHERE ino = ?",
        (ino,),
    )


def recreate(conn: Connection, node: Node) -> None:
    """The service no longer has the node (or shows it to us): as it is here it is an item to be made."""
    if node.remote_id is not None:
        # The answer to what we are sending at this moment may bring it back, though not here.
        defer(conn, DeferredUpdate(node.kind, node.remote_id, ANYHOW, node.ino))
    if node.base_sha1 is not None and node.remote_id is not None:
        # What it was laid over can be had there again, should the item come back.
        tree.keep_version(conn, node.base_sha1, node.remote_id, node.version)
    forget(conn, node.ino)
    op_rows.delete_kinds(conn, node.ino, "move", "touch", "trash")
    if node.is_folder:
        op_rows.record_once(conn, node.ino, "mkdir")


# ---- updates that were left aside --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeferredUpdate:
    """An item for which a newer state is known than the tree shows.

    `ino` is the node whose work was in the way; or ours was being made in this `folder` (id at the service)
    under a name with this key, and the item may be it.  `sequence` is that of the news.
    """

    kind: NodeKind
    id: str
    sequence: int
    ino: Ino | None = None
    folder: str | None = None
    name_key: str | None = None


def defer(conn: Connection, doubt: DeferredUpdate) -> None:
    """Something was left aside.  Inside the transaction that did so."""
    conn.execute(
        "INSERT INTO doubt(kind, remote_id, ino, folder, name_key, sequence) VALUES (?, ?, ?, ?, ?, ?)"
        " ON CONFLICT(kind, remote_id) DO UPDATE SET ino = excluded.ino, folder = excluded.folder,"
        "  name_key = excluded.name_key, sequence = max(sequence, excluded.sequence)",
        (doubt.kind, doubt.id, doubt.ino, doubt.folder, doubt.name_key, doubt.sequence),
    )


def end_deferral(conn: Connection, found: Iterable[DeferredUpdate]) -> None:
    """These are being settled in this transaction, before anything is applied that may leave them again."""
    conn.executemany(
        "DELETE FROM doubt WHERE kind = ? AND remote_id = ? AND sequence <= ?",
        [(one.kind, one.id, one.sequence) for one in found],
    )


def transfer_deferred(conn: Connection, old: Ino, new: Ino) -> None:
    """What the work of `old` is in the way of waits for that of `new`."""
    conn.execute("UPDATE doubt SET ino = ?2 WHERE ino = ?1", (old, new))


def ready_updates(db: Database) -> list[DeferredUpdate]:
    """Those that no operation and no open draft is in the way of any more; a thousand at most."""
    return [
        DeferredUpdate(NodeKind(kind), remote_id, sequence, ino, folder, name_key)
        for kind, remote_id, ino, folder, name_key, sequence in db.rows(_READY)
    ]


def are_any_deferred(db: Database) -> bool:
    """Whether there is any of them, ready or not."""
    return db.row("SELECT 1 FROM doubt LIMIT 1") is not None


def count_deferred(db: Database) -> int:
    """How many there are."""
    row = db.row("SELECT count(*) AS n FROM doubt")
    return row["n"] if row else 0


def is_settled(db: Database, doubt: DeferredUpdate) -> bool:
    """Whether the tree has the news meanwhile, by our own answer or by another page: nobody need be asked.

    True of a node whose base is as new as the news, and which shows nothing else than its base.
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
