"""Pending operations, recorded in the same transaction as the local change.

An operation states the desired result for a node, not the steps: when it runs, the worker reads the bytes,
name and place from the node.  So a second save, a second rename, or a rename of something not uploaded yet
needs no operation of its own, and a burst of changes is one request.

Rule: nothing here waits and nothing is lost; a failed operation is held with its error, never dropped.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import item_details, naming, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import in_flight, node_rows, op_rows
from cmsfs.runtime import clock


class OpKind(enum.StrEnum):
    """The result that an operation establishes at the service."""

    MKDIR = "mkdir"  # the folder exists
    UPLOAD = "upload"  # the file exists and has our bytes
    MOVE = "move"  # the item has the parent and name that it has locally
    TOUCH = "touch"  # the item has our modification time
    DESCRIBE = "describe"  # the item has the description and tags that were set locally
    TRASH = "trash"  # the item is in the trash


@dataclass(frozen=True, slots=True)
class Op:
    """A row of the journal."""

    seq: int
    ino: Ino
    kind: OpKind
    state: str
    revision: int
    attempts: int
    not_before: int
    error: str | None


COLUMNS = "seq, ino, kind, state, revision, attempts, not_before, error"


# This is to be brought about, not before `due_ns` (wall clock).  A pending operation of the same kind takes
# the new time; one that is running will run again after it ends; one that was held is tried afresh, since
# what it was held for may have changed.
record = op_rows.record

# The same of a node that has no operation yet, and is not local-only.
record_first = op_rows.record_first

# Forget operations that something else made pointless, unless they are running.
drop = op_rows.delete_waiting


def pending(conn: Connection, ino: Ino) -> dict[OpKind, str]:
    """Return the kinds of operations recorded for a node, with their states."""
    rows = conn.execute("SELECT kind, state FROM op WHERE ino = ?", (ino,))
    return {OpKind(row["kind"]): row["state"] for row in rows}


def was_never_sent(conn: Connection, node: Node, kinds: Mapping[OpKind, str] | None = None) -> bool:
    """Whether the node was never sent to the service: no request that creates it is running, or was sent
    without receiving a response.  `kinds`: what is `pending` for it, if the caller has asked."""
    if node.remote_id is not None or in_flight.is_pending(conn, node.ino):
        return False
    return "running" not in (pending(conn, node.ino) if kinds is None else kinds).values()


# ---- what the calls of the drive amount to -----------------------------------------------------


def record_move(conn: Connection, node: Node, *, due_ns: int) -> None:
    """Record that a node was moved, unless creating it at the service will include its place anyway."""
    if is_at_base(conn, node):
        op_rows.end_move(conn, node.ino, due_ns=due_ns)
    elif not was_never_sent(conn, node):
        record(conn, node.ino, OpKind.MOVE, due_ns=due_ns)


def is_at_base(conn: Connection, node: Node) -> bool:
    """Whether the node has the same parent and name as at the service."""
    if node.parent is None or node.remote_id is None:
        return False
    folder = tree.at_service(conn, node.parent).remote_id
    return (folder, naming.remote_name(node)) == (node.base_parent, node.base_name)


def record_touch(conn: Connection, ino: Ino, *, due_ns: int, node: Node | None = None) -> None:
    """Record a new modification time: a pending upload includes it, otherwise it is sent alone.  `node`: the
    row, if the caller has it."""
    node = node or tree.get(conn, ino)
    is_shown = node.parent is not None
    if is_shown and node.kind is NodeKind.FILE and OpKind.UPLOAD not in pending(conn, ino):
        record(conn, ino, OpKind.TOUCH, due_ns=due_ns)


def record_removal(conn: Connection, node: Node, *, due_ns: int) -> None:
    """Record the deletion of a detached node: drop its pending operations, and delete its item if any."""
    kinds = pending(conn, node.ino)
    if not kinds and node.remote_id is not None and not node.local:
        record_first(conn, node.ino, OpKind.TRASH, due_ns=due_ns)
        return
    unborn = was_never_sent(conn, node, kinds)
    op_rows.end_all_for_removal(conn, node.ino, keeps_tried_move=not node.is_folder)
    if not unborn and node.local:
        # What was sent before it became local may be at the service, under a name that another file has now.
        op_rows.record_once(conn, node.ino, OpKind.TRASH)
    elif not unborn:
        record(conn, node.ino, OpKind.TRASH, due_ns=due_ns)


def transfer_identity(conn: Connection, old: Ino, new: Ino) -> None:
    """Transfer `old`'s identity at the service to `new`, whose bytes become its next version.

    So "write a new file, rename it over the old one" keeps the id, versions, links and retention of the old
    one.  `old` becomes a node that the service does not know; `new` becomes one that it knows, whatever its
    name, and a web link if `old` was one.
    """
    node_rows.hand_over_item(conn, old, new)
    op_rows.transfer_tried_move(conn, old, new)
    drop(conn, old, *OpKind)
    if item_details.transfer_pending(conn, old, new):
        record(conn, new, OpKind.DESCRIBE, due_ns=clock.time_ns())
    # Requests without a response yet concern the item, whichever node has its identity now.
    in_flight.transfer_versions(conn, old, new)
