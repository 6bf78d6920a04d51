"""Pending operations, recorded in the same transaction as the local change.

An operation says what is to be brought about for a node, not the steps: the worker reads the node for
its bytes, name and place at the moment it runs.  So a second save, a second rename and a rename of
something not yet uploaded need no operation of their own, and a flurry of changes is one request.

Rule: nothing here waits and nothing here is lost; a failed operation is held with its error, never dropped.
"""

import enum
from dataclasses import dataclass
from sqlite3 import Connection

from cmsfs.replica import item_details, naming, tree
from cmsfs.replica.nodes import Ino, Node, NodeKind
from cmsfs.replica.rows import in_flight, node_rows, op_rows
from cmsfs.runtime import clock


class OpKind(enum.StrEnum):
    """What an operation brings about at the service."""

    MKDIR = "mkdir"  # the folder exists
    UPLOAD = "upload"  # the file exists and has our bytes
    MOVE = "move"  # the item is where it is here, under the name it has here
    TOUCH = "touch"  # the item has our modification time
    DESCRIBE = "describe"  # the item has the description and tags that were set here
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

# The same of a node that was made in this transaction.
record_first = op_rows.record_first

# Forget operations that something else made pointless, unless they are running.
drop = op_rows.delete_waiting


def pending(conn: Connection, ino: Ino) -> dict[OpKind, str]:
    """The kinds recorded for a node, with their states."""
    rows = conn.execute("SELECT kind, state FROM op WHERE ino = ?", (ino,))
    return {OpKind(row["kind"]): row["state"] for row in rows}


def was_never_sent(conn: Connection, node: Node) -> bool:
    """Whether the service has never heard of the node, is not hearing of it right now, and cannot have heard
    of it unheard."""
    if node.remote_id is not None or in_flight.is_pending(conn, node.ino):
        return False
    return "running" not in pending(conn, node.ino).values()


# ---- what the calls of the drive amount to -----------------------------------------------------


def record_move(conn: Connection, node: Node, *, due_ns: int) -> None:
    """The node has been placed elsewhere: tell the service, unless making it will tell the place anyway."""
    if is_at_base(conn, node):
        drop(conn, node.ino, OpKind.MOVE)
    elif not was_never_sent(conn, node):
        record(conn, node.ino, OpKind.MOVE, due_ns=due_ns)


def is_at_base(conn: Connection, node: Node) -> bool:
    """Whether the node is where the service has it, under the name that the service has for it."""
    if node.parent is None or node.remote_id is None:
        return False
    folder = tree.at_service(conn, node.parent).remote_id
    return (folder, naming.remote_name(node)) == (node.base_parent, node.base_name)


def record_touch(conn: Connection, ino: Ino, *, due_ns: int) -> None:
    """A file's modification time was set: an upload that is due carries it, otherwise it is sent alone."""
    node = tree.get(conn, ino)
    if node.kind is NodeKind.FILE and OpKind.UPLOAD not in pending(conn, ino):
        record(conn, ino, OpKind.TOUCH, due_ns=due_ns)


def record_removal(conn: Connection, node: Node, *, due_ns: int) -> None:
    """The node is detached: forget what was due for it, and delete at the service what the service has."""
    unborn = was_never_sent(conn, node)
    drop(conn, node.ino, *OpKind)
    if not unborn:
        record(conn, node.ino, OpKind.TRASH, due_ns=due_ns)


def hand_over(conn: Connection, old: Ino, new: Ino) -> None:
    """Give `old`'s identity at the service to `new`, whose bytes become its next version.

    This is how "write a new file, rename it over the old one" keeps the id, the history, the links and
    the retention of the old one.  `old` is left as a node that the service has never heard of; `new` is one
    that it knows, whatever `new` is called, and a web link if `old` was one.
    """
    node_rows.hand_over_item(conn, old, new)
    drop(conn, old, *OpKind)
    if item_details.transfer_pending(conn, old, new):
        record(conn, new, OpKind.DESCRIBE, due_ns=clock.time_ns())
    # What was sent to the item without an answer was sent from here, whoever stands for it now.
    in_flight.transfer_versions(conn, old, new)
