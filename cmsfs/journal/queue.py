"""The journal as a queue: which operations may be sent now, and in what order.

`candidates` proposes, `claim` decides inside a transaction, `finish`, `retry` and `hold` end a run.

An operation waits for
  * another running operation of its node,
  * its parent folder, until that exists at the service,
  * a pending move of any folder above it, which might otherwise create a cycle at the service,
  * a node that still has its name at the service and is about to give it up,
  * (move) a node that may have its name at the service, since its creation was not answered yet,
  * (deletion of a folder) everything that still has to leave the folder at the service, except what is
    deleted with it (`tree_removal`),
  * (deletion of a file) files still to be uploaded whose bytes may only exist in the file to be deleted.
Waiting for names can form a cycle (a and b exchanged): `cmsfs.journal.deadlocks` breaks it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from sqlite3 import Connection, Row

from cmsfs.journal import tree_removal
from cmsfs.journal.ops import COLUMNS, Op, OpKind
from cmsfs.models import wire_names
from cmsfs.replica import naming, tree
from cmsfs.replica.merge import move_cycles
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import in_flight, op_rows
from cmsfs.sqlite import Database

_READY = (
    # Uses that index: most ready operations are due, and sorting all of them for each page is quadratic.
    f"SELECT {COLUMNS} FROM op INDEXED BY op_order WHERE state = 'ready' AND not_before <= ? AND seq > ?"
    " ORDER BY seq LIMIT ?"
)
_READY_TREES = _READY.replace(" ORDER BY", f" AND NOT ({tree_removal.GOES_WITH_FOLDER}) ORDER BY")
_CLAIMED = (
    f"SELECT {COLUMNS} FROM op WHERE seq = ? AND state = 'ready'"
    " AND NOT EXISTS (SELECT 1 FROM op AS other WHERE other.ino = op.ino AND other.state = 'running')"
)
CREATING_KINDS = (OpKind.MKDIR, OpKind.UPLOAD)
# Operations that change an existing item's metadata, wherever it is.
_METADATA_KINDS = (OpKind.TOUCH, OpKind.DESCRIBE)


@dataclass(frozen=True, slots=True)
class Task:
    """A claimed operation with its node and folder as of the claim."""

    op: Op
    node: Node
    parent: Node | None


def op_of(row: Row) -> Op:
    seq, ino, kind, *rest = row
    return Op(seq, ino, OpKind(kind), *rest)


def candidates(
    db: Database, *, now_ns: int, after: int = 0, limit: int = 64, trees: bool = False
) -> list[Op]:
    """Return due operations after `after`, in the order they were recorded; with `trees`, without those that
    end with the deletion of their folder."""
    page = (now_ns, after, limit)
    rows = db.rows(_READY_TREES, *page) if trees else db.rows(_READY, *page)
    return [op_of(row) for row in rows]


def next_due(db: Database, *, after_ns: int = -1) -> int | None:
    """Return when (in ns) the next ready operation after `after_ns` is due; None if there is none."""
    row = db.row("SELECT min(not_before) AS due FROM op WHERE state = 'ready' AND not_before > ?", after_ns)
    return row["due"] if row else None


def unfinished(db: Database) -> int:
    """Return the number of pending operations, without held ones."""
    row = db.row("SELECT count(*) AS n FROM op WHERE state <> 'held'")
    return row["n"] if row else 0


def counts(db: Database) -> dict[str, int]:
    """Return the number of operations in each state."""
    return {row["state"]: row["n"] for row in db.rows("SELECT state, count(*) AS n FROM op GROUP BY state")}


def pending_files(db: Database) -> set[Ino]:
    """Return the nodes with bytes to upload."""
    return {row["ino"] for row in db.rows("SELECT ino FROM op WHERE kind = 'upload'")}


def unsent_bytes(db: Database) -> int:
    """Return the total size of all files to upload, without held ones."""
    row = db.row(
        "SELECT coalesce(sum(n.size), 0) AS bytes FROM op o JOIN node n ON n.ino = o.ino"
        " WHERE o.kind = 'upload' AND o.state <> 'held'"
    )
    return row["bytes"] if row else 0


def listed(db: Database, limit: int = 1000) -> list[Op]:
    """Return operations for display, held ones first."""
    order = "ORDER BY state = 'held' DESC, state = 'running' DESC, seq LIMIT ?"
    return [op_of(row) for row in db.rows(f"SELECT {COLUMNS} FROM op {order}", limit)]


def find(db: Database, seq: int) -> Op | None:
    """Return an operation by its number; None if it no longer exists."""
    row = db.row(f"SELECT {COLUMNS} FROM op WHERE seq = ?", seq)
    return op_of(row) if row else None


def is_as_claimed(conn: Connection, op: Op) -> bool:
    """Whether the operation has not been requested anew or dropped since it was claimed."""
    row = conn.execute("SELECT revision FROM op WHERE seq = ?", (op.seq,)).fetchone()
    return row is not None and row["revision"] == op.revision


def states(db: Database, ino: Ino) -> list[Op]:
    """Return the operations of one node."""
    return [op_of(row) for row in db.rows(f"SELECT {COLUMNS} FROM op WHERE ino = ?", ino)]


def unconfirmed(db: Database, ino: Ino) -> set[str]:
    """Return the states of pending operations of a node, and of those that change names in it as a folder."""
    rows = db.rows(
        "SELECT state FROM op WHERE ino = ?1 AND kind NOT IN ('touch', 'describe')"
        " UNION SELECT o.state FROM node n JOIN op o ON o.ino = n.ino"
        "  WHERE n.parent = ?1 AND o.kind IN ('mkdir', 'move')",
        ino,
    )
    return {row["state"] for row in rows}


def has_pending_removals(db: Database) -> bool:
    """Whether a deletion is pending, without held ones."""
    return db.row("SELECT 1 FROM op WHERE kind = 'trash' AND state <> 'held' LIMIT 1") is not None


def is_being_removed(db: Database, kind: NodeKind, remote_id: str) -> bool:
    """Whether a deletion of this item is pending, and not held."""
    sql = (
        "SELECT 1 FROM node AS n JOIN op AS o ON o.ino = n.ino"
        " WHERE n.kind = ? AND n.remote_id = ? AND o.kind = 'trash' AND o.state <> 'held'"
    )
    return db.row(sql, kind, remote_id) is not None


_UNSENT = """
  WITH RECURSIVE below(ino, kind, remote_id) AS (
    SELECT ino, kind, remote_id FROM node WHERE ino = ?1
    UNION ALL SELECT n.ino, n.kind, n.remote_id FROM node n JOIN below b ON n.parent = b.ino)
  SELECT o.state FROM below b JOIN op o ON o.ino = b.ino WHERE o.kind <> 'touch'
  UNION SELECT 'draft' FROM below b JOIN node n ON n.ino = b.ino WHERE n.draft IS NOT NULL AND NOT n.local
  UNION SELECT 'unheard' FROM below b JOIN unheard u ON u.ino = b.ino
  UNION SELECT 'local' FROM below b JOIN node n ON n.ino = b.ino
    WHERE n.local AND n.local <> 2 AND n.kind <> 'symlink'
  UNION SELECT o.state FROM below b JOIN node n ON n.base_parent = b.remote_id JOIN op o ON o.ino = n.ino
    WHERE b.kind = 'folder' AND o.kind <> 'touch'
"""


def unsent(conn: Connection, ino: Ino) -> set[str]:
    """Return why the service does not have a node and everything below it as it is locally; empty if it has.

    States of operations, including those of items that are about to leave a folder at the service; `draft`
    for bytes being written, `unheard` for an upload without a response, `local` for a file of this machine
    only.  Run it in a thread: it walks the tree.
    """
    return {row[0] for row in conn.execute(_UNSENT, (ino,))}


def claim(conn: Connection, seq: int, *, busy: Callable[[Node], bool], trees: bool = False) -> Task | None:
    """Mark an operation as running; None if it has to wait or has become pointless.

    With `trees`, a folder may be deleted together with the pending deletions in it.

    `busy` tells whether a file must not be uploaded now: it is open for writing, and its bytes are sent after
    the last writer closes it; or it is large, and small files go first.
    """
    row = conn.execute(_CLAIMED, (seq,)).fetchone()
    if row is None:
        return None
    op = op_of(row)
    node = tree.get(conn, op.ino)
    if _is_pointless(conn, op, node):
        op_rows.delete(conn, seq)
        return None
    if op.kind is OpKind.UPLOAD and busy(node):
        return None
    goes_whole = trees and op.kind is OpKind.TRASH and _can_delete_whole(conn, op, node)
    parent = parent_of(conn, node)
    if not goes_whole and waits_for(conn, op, node, parent):
        return None
    op_rows.run(conn, seq)
    return Task(op, node, parent)


def parent_of(conn: Connection, node: Node) -> Node | None:
    """Return a node's parent folder, as it is at the service."""
    return tree.at_service(conn, node.parent) if node.parent is not None else None


def attempts(conn: Connection, seq: int) -> int | None:
    """Return the number of attempts; None if the operation no longer exists."""
    row = conn.execute("SELECT attempts FROM op WHERE seq = ?", (seq,)).fetchone()
    return None if row is None else int(row["attempts"])


def _is_pointless(conn: Connection, op: Op, node: Node) -> bool:
    if op.kind is OpKind.TRASH and node.parent is not None and not node.local:
        return True  # it stayed on this machine for a while, and is an item again
    if op.kind in (OpKind.TRASH, *_METADATA_KINDS):
        # Without an id there is nothing to delete, and no upload that would or may have created an item.
        if node.remote_id is not None or _has(conn, node.ino, *CREATING_KINDS):
            return False
        return op.kind in _METADATA_KINDS or not in_flight.is_pending(conn, node.ino)
    if op.kind is OpKind.MOVE and node.parent is None and node.remote_id is not None:
        # Until the item is deleted, another file may become its next version, and have its former place.
        return not _is_to_be_deleted(conn, node.ino)
    if op.kind is OpKind.MOVE:
        return node.parent is None or (node.remote_id is None and not _has(conn, node.ino, *CREATING_KINDS))
    # An upload may have failed when the file had become one of this machine only.
    return node.parent is None or bool(node.local)


def _is_to_be_deleted(conn: Connection, ino: Ino) -> bool:
    found = conn.execute("SELECT 1 FROM op WHERE ino = ? AND kind = 'trash' AND state <> 'held'", (ino,))
    return found.fetchone() is not None


def _can_delete_whole(conn: Connection, op: Op, node: Node) -> bool:
    """Whether a folder can be deleted with its contents; if they prevent it, that is not tried again."""
    if not node.is_folder or op.attempts:
        return False
    found = tree_removal.below(conn, node)
    if found.items and not found.goes and not found.is_busy:
        op_rows.note_tried(conn, op.seq)
    return bool(found.items) and found.goes and not found.is_busy


def waits_for(conn: Connection, op: Op, node: Node, parent: Node | None) -> Ino | None:
    """Return the node that this operation has to wait for; its own node has no running operation."""
    if op.kind is OpKind.TRASH:
        return _leaver_of(conn, node) if node.is_folder else needs_bytes_of(conn, node)
    if op.kind in _METADATA_KINDS:
        return node.ino if node.remote_id is None else None
    if op.kind is OpKind.MOVE and (node.remote_id is None or node.parent is None):
        return node.ino
    assert parent is not None
    if parent.remote_id is None:
        return parent.ino
    if op.kind is OpKind.UPLOAD and node.remote_id is not None:
        return None
    found = move_cycles.moving_above(conn, parent)
    if found is not None and op.kind in CREATING_KINDS and in_flight.is_pending(conn, node.ino):
        # What was sent before without an answer is looked for in its former place, which may wait for that.
        found = None
    found = found or _holder_of(conn, node, parent)
    # A new item finds out whose it is that has its name, by its contents.
    return _maker_at(conn, node, parent) if found is None and op.kind is OpKind.MOVE else found


def is_running(conn: Connection, ino: Ino) -> bool:
    return conn.execute("SELECT 1 FROM op WHERE ino = ? AND state = 'running'", (ino,)).fetchone() is not None


def _has(conn: Connection, ino: Ino, *kinds: OpKind) -> bool:
    marks = ",".join("?" * len(kinds))
    found = conn.execute(f"SELECT 1 FROM op WHERE ino = ? AND kind IN ({marks}) LIMIT 1", (ino, *kinds))
    return found.fetchone() is not None


def _holder_of(conn: Connection, node: Node, parent: Node) -> Ino | None:
    """Return another node that has our name at the service and is about to give it up."""
    key = wire_names.name_key(naming.remote_name(node))
    row = conn.execute(
        "SELECT n.ino FROM node n JOIN op o ON o.ino = n.ino WHERE n.base_parent = ? AND n.base_key = ?"
        " AND n.ino <> ? AND o.kind IN ('move', 'trash') AND o.state <> 'held' LIMIT 1",
        (parent.remote_id, key, node.ino),
    ).fetchone()
    return row[0] if row else None


def _maker_at(conn: Connection, node: Node, parent: Node) -> Ino | None:
    """Return another node that may have our name at the service: it was sent there, and nothing is known
    yet."""
    key = wire_names.name_key(naming.remote_name(node))
    return in_flight.maker_at(conn, parent.remote_id or "", key, besides=node.ino)


def _leaver_of(conn: Connection, folder: Node) -> Ino | None:
    """Return a node that is in this folder at the service and is about to leave it; or that may be there,
    since its creation was not answered yet."""
    row = conn.execute(
        "SELECT n.ino FROM node n JOIN op o ON o.ino = n.ino WHERE n.base_parent = ?"
        " AND o.kind IN ('move', 'trash') AND o.state <> 'held' LIMIT 1",
        (folder.remote_id,),
    ).fetchone()
    return row[0] if row else in_flight.maker_in(conn, folder.remote_id or "")


def needs_bytes_of(conn: Connection, node: Node) -> Ino | None:
    """Return another node that will be uploaded with this one's content, or has a draft based on it.

    The bytes of a file that took over another's identity are at the service under its own old identity, and
    perhaps nowhere else.  A held upload does not count, since nobody else would get the name meanwhile, nor
    does a file of this machine only: their bytes are downloaded before the deletion
    (`BaseBytes.before_deletion`), if they are still there.
    """
    row = conn.execute(
        "SELECT n.ino FROM node n JOIN op o ON o.ino = n.ino"
        "  WHERE n.sha1 = ?1 AND n.ino <> ?2 AND o.kind = 'upload' AND o.state <> 'held'"
        " UNION ALL SELECT n.ino FROM draft d JOIN node n ON n.draft = d.id"
        "  WHERE d.base_sha1 = ?1 AND n.ino <> ?2 AND n.base_sha1 IS NOT ?1 AND NOT n.local"
        "    AND NOT EXISTS"
        "      (SELECT 1 FROM op h WHERE h.ino = n.ino AND h.kind = 'upload' AND h.state = 'held') LIMIT 1",
        (node.base_sha1, node.ino),
    ).fetchone()
    return row[0] if row else None


def finish(conn: Connection, op: Op) -> bool:
    """Delete a completed operation, or make it ready again if it was requested anew meanwhile.

    Returns whether it was deleted.
    """
    if op_rows.delete_unchanged(conn, op.seq, revision=op.revision):
        return True
    op_rows.make_ready(conn, op.seq)
    return False


def retry(conn: Connection, op: Op, *, not_before_ns: int, error: str) -> None:
    """Retry the operation later, after a temporary failure; it ends if it has become pointless meanwhile."""
    # Not always the node that it was claimed for: that one may have given it to another, with its item.
    row = conn.execute("SELECT ino FROM op WHERE seq = ?", (op.seq,)).fetchone()
    node = tree.find_at(conn, row["ino"]) if row is not None else None
    if node is not None and _is_pointless(conn, op, node):
        op_rows.delete(conn, op.seq)
        return
    op_rows.back_off(conn, op.seq, not_before_ns=not_before_ns, error=error)


def retry_task(conn: Connection, task: Task, *, not_before_ns: int, error: str) -> None:
    """As `retry`; if it was a move of an item that another node has by now, that node's move finds out
    whether the item was moved."""
    if task.op.kind is OpKind.MOVE and task.node.remote_id is not None:
        owner = tree.remote_at(conn, task.node.kind, task.node.remote_id)
        if owner is not None and owner.ino != task.op.ino:
            op_rows.record_tried_move(conn, owner.ino)
    retry(conn, task.op, not_before_ns=not_before_ns, error=error)


def try_again(conn: Connection, op: Op) -> None:
    """Retry the operation at once in another way; the way tried first is impossible, but nothing failed."""
    op_rows.note_tried(conn, op.seq)
    op_rows.postpone(conn, op.seq, not_before_ns=0)


def give_back(conn: Connection, op: Op, *, not_before_ns: int) -> None:
    """Return the operation to the queue, due at `not_before_ns`, without counting a failure."""
    op_rows.postpone(conn, op.seq, not_before_ns=not_before_ns)


def cancel(conn: Connection, op: Op) -> None:
    """Delete the operation, even if it was requested anew meanwhile."""
    op_rows.delete(conn, op.seq)


def hold(conn: Connection, op: Op, *, error: str) -> None:
    """Hold an operation that the service rejected permanently, with its bytes, until the user decides.

    If it was requested anew meanwhile, it is retried instead.
    """
    op_rows.hold(conn, op.seq, revision=op.revision, error=error)


def held_behind(conn: Connection, after: int) -> Iterator[Op]:
    """Yield held operations after this number, in order."""
    sql = f"SELECT {COLUMNS} FROM op WHERE state = 'held' AND seq > ? ORDER BY seq"
    return map(op_of, conn.execute(sql, (after,)).fetchall())


def release(conn: Connection, op: Op, *, now_ns: int) -> None:
    """Retry an operation that is held or waits after a failure."""
    op_rows.release(conn, op.seq, due_ns=now_ns)


def failed(db: Database) -> list[Op]:
    """Return operations that are held or wait after a failure, held ones first."""
    order = "ORDER BY state = 'held' DESC, seq"
    return [op_of(row) for row in db.rows(f"SELECT {COLUMNS} FROM op WHERE error IS NOT NULL {order}")]
