"""The `op` table: every change of its rows.

`cmsfs.journal.ops` defines what the rows mean, `cmsfs.journal.queue` which of them may run.  The table is
changed here, since applying a remote update can end local operations in the same transaction.

Rule: a move that was tried once stays one that was tried (`attempts` of 1 or more): without an answer the
item may be where it was to be moved then, whichever node has it by now.
"""

from collections.abc import Iterable
from sqlite3 import Connection

from cmsfs.replica.nodes import Ino
from cmsfs.sqlite import Database

_TRIED_AFRESH = "attempts = min(attempts, kind = 'move')"


def record(conn: Connection, ino: Ino, kind: str, *, due_ns: int) -> None:
    """Record an operation of the node, due then: a new one, or the pending one of this kind with the new
    time.

    A running one keeps running, with a new revision; a held one becomes ready.  Does nothing for a local-only
    node.
    """
    # Usually it exists: then the update uses no sequence number, and writes only the index on the time.
    there = conn.execute(
        f"UPDATE op SET revision = revision + 1, {_TRIED_AFRESH}, error = NULL, not_before = ?3"
        " WHERE ino = ?1 AND kind = ?2 AND state <> 'held'"
        " AND EXISTS (SELECT 1 FROM node WHERE ino = ?1 AND NOT local)",
        (ino, kind, due_ns),
    )
    if there.rowcount:
        return
    conn.execute(
        "INSERT INTO op(ino, kind, not_before) SELECT ino, ?2, ?3 FROM node WHERE ino = ?1 AND NOT local"
        " ON CONFLICT(ino, kind) DO UPDATE SET"
        f" revision = revision + 1, {_TRIED_AFRESH}, error = NULL, not_before = ?3,"
        " state = CASE state WHEN 'running' THEN 'running' ELSE 'ready' END",
        (ino, kind, due_ns),
    )


def record_first(conn: Connection, ino: Ino, kind: str, *, due_ns: int) -> None:
    """As `record`, for a node that was created in this transaction and is not local-only: it has no operation
    yet."""
    conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, ?, ?)", (ino, kind, due_ns))


def record_once(conn: Connection, ino: Ino, kind: str) -> None:
    """Record an operation of the node, due at once; an existing one of this kind stays unchanged."""
    conn.execute("INSERT OR IGNORE INTO op(ino, kind, not_before) VALUES (?, ?, 0)", (ino, kind))


# ---- deletion -----------------------------------------------------------------------------


def delete(conn: Connection, seq: int) -> None:
    """Delete an operation."""
    conn.execute("DELETE FROM op WHERE seq = ?", (seq,))


def delete_unchanged(conn: Connection, seq: int, *, revision: int) -> bool:
    """Delete the operation unless it has a newer revision; whether it was deleted."""
    done = conn.execute("DELETE FROM op WHERE seq = ? AND revision = ?", (seq, revision))
    return done.rowcount > 0


def delete_kinds(conn: Connection, ino: Ino, *kinds: str) -> None:
    """Delete the node's operations of these kinds, including running ones."""
    for kind in kinds:
        conn.execute("DELETE FROM op WHERE ino = ? AND kind = ?", (ino, kind))


def delete_waiting(conn: Connection, ino: Ino, *kinds: str) -> None:
    """Delete the node's operations of these kinds, except running ones."""
    marks = ",".join("?" * len(kinds))
    conn.execute(f"DELETE FROM op WHERE ino = ? AND kind IN ({marks}) AND state <> 'running'", (ino, *kinds))


def end_move(conn: Connection, ino: Ino, *, due_ns: int) -> None:
    """Delete the node's move, since the item is where it is to be; one that was tried becomes due then, to
    find out whether it still is.  A running one is unchanged."""
    tried = conn.execute(
        "UPDATE op SET revision = revision + 1, error = NULL, not_before = ?2"
        " WHERE ino = ?1 AND kind = 'move' AND state = 'ready' AND attempts > 0",
        (ino, due_ns),
    )
    if not tried.rowcount:
        delete_waiting(conn, ino, "move")


def end_all_for_removal(conn: Connection, ino: Ino, *, keeps_tried_move: bool) -> None:
    """Delete the operations of a node that is being removed, except running ones; and except a move that was
    tried, if another file may become the next version of its item."""
    conn.execute(
        "DELETE FROM op WHERE ino = ? AND state <> 'running'"
        " AND NOT (? AND kind = 'move' AND state = 'ready' AND attempts > 0)",
        (ino, keeps_tried_move),
    )


def delete_all(conn: Connection, ino: Ino) -> None:
    """Delete every operation of the node, including running ones."""
    conn.execute("DELETE FROM op WHERE ino = ?", (ino,))


# ---- transfer to another node ---------------------------------------------------


def transfer(conn: Connection, old: Ino, new: Ino) -> None:
    """Move all operations of `old` to `new`, which has none."""
    conn.execute("UPDATE op SET ino = ? WHERE ino = ?", (new, old))


def transfer_item(conn: Connection, old: Ino, new: Ino) -> None:
    """Move the operations on `old`'s item to `new`; the upload stays."""
    conn.execute("UPDATE op SET ino = ?2 WHERE ino = ?1 AND kind <> 'upload'", (old, new))


def record_tried_move(conn: Connection, ino: Ino) -> None:
    """Record that the node's item may have been moved by a request without an answer: its move, a pending one
    or a new one that is due at once, finds out."""
    conn.execute(
        "INSERT INTO op(ino, kind, revision, attempts, not_before) SELECT ino, 'move', 1, 1, 0 FROM node"
        " WHERE ino = ? AND NOT local"
        " ON CONFLICT(ino, kind) DO UPDATE SET revision = revision + 1, attempts = max(attempts, 1)",
        (ino,),
    )


def transfer_tried_move(conn: Connection, old: Ino, new: Ino) -> None:
    """Record for `new`, which gets the item of `old`, that a move of it was tried or is running."""
    tried = conn.execute(
        "SELECT 1 FROM op WHERE ino = ? AND kind = 'move' AND (state = 'running' OR attempts > 0)", (old,)
    )
    if tried.fetchone() is not None:
        record_tried_move(conn, new)


def transfer_description(conn: Connection, old: Ino, new: Ino) -> None:
    """Move the `describe` operation of `old` to `new`, unless that has one."""
    conn.execute("UPDATE OR IGNORE op SET ino = ?2 WHERE ino = ?1 AND kind = 'describe'", (old, new))


# ---- states ------------------------------------------------------------------------------------


def run(conn: Connection, seq: int) -> None:
    """Mark the operation as running."""
    conn.execute("UPDATE op SET state = 'running' WHERE seq = ?", (seq,))


def make_ready(conn: Connection, seq: int) -> None:
    """Mark the operation as no longer running; it runs again when it is due."""
    conn.execute("UPDATE op SET state = 'ready' WHERE seq = ?", (seq,))


def note_tried(conn: Connection, seq: int) -> None:
    """Count the operation as tried once, although nothing failed."""
    conn.execute("UPDATE op SET attempts = max(attempts, 1) WHERE seq = ?", (seq,))


def reset_running(conn: Connection) -> None:
    """Make all running operations ready and due at once, because the process that ran them is gone."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = max(attempts, kind = 'move'), not_before = 0"
        " WHERE state = 'running'"
    )


def back_off(conn: Connection, seq: int, *, not_before_ns: int, error: str) -> None:
    """Record a failed attempt; the operation is retried, not before then."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = attempts + 1, not_before = max(not_before, ?), error = ?"
        " WHERE seq = ?",
        (not_before_ns, error, seq),
    )


def postpone(conn: Connection, seq: int, *, not_before_ns: int) -> None:
    """Make the operation ready again, not before then, without counting a failure."""
    conn.execute(
        "UPDATE op SET state = 'ready', not_before = max(not_before, ?) WHERE seq = ?", (not_before_ns, seq)
    )


def release(conn: Connection, seq: int, *, due_ns: int) -> None:
    """Make a held or waiting operation ready and reset its attempts; a running one is unchanged."""
    conn.execute(
        f"UPDATE op SET state = 'ready', {_TRIED_AFRESH}, not_before = ?"
        " WHERE seq = ? AND state <> 'running'",
        (due_ns, seq),
    )


def release_held(conn: Connection, *, due_ns: int) -> int:
    """Make all held operations ready and reset their attempts; return how many."""
    return conn.execute(
        f"UPDATE op SET state = 'ready', {_TRIED_AFRESH}, not_before = ? WHERE state = 'held'", (due_ns,)
    ).rowcount


def release_held_for(conn: Connection, ino: Ino, *, error: str) -> None:
    """Make the node's operations that are held for this reason ready at once, and clear the reason."""
    conn.execute(
        f"UPDATE op SET state = 'ready', {_TRIED_AFRESH}, not_before = 0, error = NULL"
        " WHERE ino = ? AND state = 'held' AND error = ?",
        (ino, error),
    )


def release_uploads_over(conn: Connection, sha1: str) -> None:
    """Make held uploads of drafts based on these contents ready at once."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = 0, not_before = 0 WHERE kind = 'upload' AND state = 'held'"
        " AND ino IN (SELECT n.ino FROM draft AS d JOIN node AS n ON n.draft = d.id WHERE d.base_sha1 = ?)",
        (sha1,),
    )


def hold(conn: Connection, seq: int, *, revision: int, error: str) -> None:
    """Hold the operation for this reason; if it has a newer revision, make it ready instead."""
    conn.execute(
        "UPDATE op SET state = CASE WHEN revision = ? THEN 'held' ELSE 'ready' END, error = ? WHERE seq = ?",
        (revision, error, seq),
    )


def hold_waiting(conn: Connection, ino: Ino, *, error: str) -> None:
    """Hold the node's operations for this reason, except running ones."""
    conn.execute("UPDATE op SET state = 'held', error = ? WHERE ino = ? AND state <> 'running'", (error, ino))


def hold_uploads_of(conn: Connection, sha1: str, *, error: str) -> None:
    """Hold the uploads of these contents for this reason."""
    conn.execute(
        "UPDATE op SET state = 'held', error = ?"
        " WHERE kind = 'upload' AND ino IN (SELECT ino FROM node WHERE sha1 = ?)",
        (error, sha1),
    )


# ---- times -------------------------------------------------------------------------------------


# Operations that would wait longer than any delay, or that were never tried and would wait longer than for
# programs to settle: the clock was ahead when they were recorded.
_OVERLONG = "state = 'ready' AND not_before > ?1 + ?2 AND (attempts = 0 OR not_before > ?1 + ?3)"


def are_overlong(db: Database, *, now_ns: int, settle_ns: int, longest_ns: int) -> bool:
    """Whether there are such operations."""
    return db.row(f"SELECT 1 FROM op WHERE {_OVERLONG} LIMIT 1", now_ns, settle_ns, longest_ns) is not None


def bound(conn: Connection, *, now_ns: int, settle_ns: int, longest_ns: int) -> None:
    """Make such operations due."""
    conn.execute(f"UPDATE op SET not_before = ?1 WHERE {_OVERLONG}", (now_ns, settle_ns, longest_ns))


def advance(conn: Connection, *, now_ns: int, by_ns: int) -> int:
    """Make operations that are not due yet due sooner, by `by_ns`, because the clock was set back; return how
    many.

    This includes running ones, whose retry time is shifted as well.
    """
    sql = "UPDATE op SET not_before = max(?1, not_before - ?2) WHERE state <> 'held' AND not_before > ?1"
    return conn.execute(sql, (now_ns, by_ns)).rowcount


def end_settling(conn: Connection, *, now_ns: int, kind: str | None = None) -> int:
    """Make operations due that are within their settle time (of one kind, if given); return how many."""
    sql = "UPDATE op SET not_before = ?1 WHERE state = 'ready' AND attempts = 0 AND not_before > ?1"
    return conn.execute(f"{sql} AND coalesce(kind = ?2, 1)", (now_ns, kind)).rowcount


def end_waiting_of(conn: Connection, seqs: Iterable[int], *, now_ns: int) -> None:
    """Make those of these operations due that are backing off."""
    sql = "UPDATE op SET not_before = ?1 WHERE seq = ?2 AND state = 'ready' AND not_before > ?1"
    conn.executemany(sql, [(now_ns, seq) for seq in seqs])


def end_waiting(conn: Connection, *, now_ns: int) -> int:
    """Make operations due that are backing off after a failure; return how many."""
    sql = "UPDATE op SET not_before = ?1 WHERE state = 'ready' AND attempts > 0 AND not_before > ?1"
    return conn.execute(sql, (now_ns,)).rowcount
