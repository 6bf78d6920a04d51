"""The `op` table: every change of its rows.

What the rows mean is `cmsfs.journal.ops`, and which of them may run is `cmsfs.journal.queue`.  The table is
changed here, since what the service says of an item ends operations of ours in the same transaction.
"""

from sqlite3 import Connection

from cmsfs.replica.nodes import Ino


def record(conn: Connection, ino: Ino, kind: str, *, due_ns: int) -> None:
    """An operation of the node, due then: a new one, or the pending one of this kind with this time.

    One that is running stays so, and has another revision by then; one that was held is ready.  Nothing for a
    node that lives on this machine only.
    """
    # Most often it is there: then no number of the sequence is used up, and of the indexes only that of the
    # time is written.
    there = conn.execute(
        "UPDATE op SET revision = revision + 1, attempts = 0, error = NULL, not_before = ?3"
        " WHERE ino = ?1 AND kind = ?2 AND state <> 'held'"
        " AND EXISTS (SELECT 1 FROM node WHERE ino = ?1 AND NOT local)",
        (ino, kind, due_ns),
    )
    if there.rowcount:
        return
    conn.execute(
        "INSERT INTO op(ino, kind, not_before) SELECT ino, ?2, ?3 FROM node WHERE ino = ?1 AND NOT local"
        " ON CONFLICT(ino, kind) DO UPDATE SET"
        " revision = revision + 1, attempts = 0, error = NULL, not_before = ?3,"
        " state = CASE state WHEN 'running' THEN 'running' ELSE 'ready' END",
        (ino, kind, due_ns),
    )


def record_first(conn: Connection, ino: Ino, kind: str, *, due_ns: int) -> None:
    """As `record`, of a node that was made in this transaction and is the service's, too: it has none yet."""
    conn.execute("INSERT INTO op(ino, kind, not_before) VALUES (?, ?, ?)", (ino, kind, due_ns))


def record_once(conn: Connection, ino: Ino, kind: str) -> None:
    """An operation of the node that is due at once; one of this kind that is there stays as it is."""
    conn.execute("INSERT OR IGNORE INTO op(ino, kind, not_before) VALUES (?, ?, 0)", (ino, kind))


# ---- one that ends -----------------------------------------------------------------------------


def delete(conn: Connection, seq: int) -> None:
    """The operation is no more."""
    conn.execute("DELETE FROM op WHERE seq = ?", (seq,))


def delete_unchanged(conn: Connection, seq: int, *, revision: int) -> bool:
    """Delete the operation unless more was asked for since this revision; whether it is gone."""
    done = conn.execute("DELETE FROM op WHERE seq = ? AND revision = ?", (seq, revision))
    return done.rowcount > 0


def delete_kinds(conn: Connection, ino: Ino, *kinds: str) -> None:
    """Delete the node's operations of these kinds, also one that is running."""
    for kind in kinds:
        conn.execute("DELETE FROM op WHERE ino = ? AND kind = ?", (ino, kind))


def delete_waiting(conn: Connection, ino: Ino, *kinds: str) -> None:
    """Delete the node's operations of these kinds, but for one that is running."""
    marks = ",".join("?" * len(kinds))
    conn.execute(f"DELETE FROM op WHERE ino = ? AND kind IN ({marks}) AND state <> 'running'", (ino, *kinds))


def delete_all(conn: Connection, ino: Ino) -> None:
    """Delete every operation of the node, also one that is running."""
    conn.execute("DELETE FROM op WHERE ino = ?", (ino,))


# ---- one that belongs to another node by now ---------------------------------------------------


def transfer(conn: Connection, old: Ino, new: Ino) -> None:
    """Every operation of `old` is one of `new`, which has none."""
    conn.execute("UPDATE op SET ino = ? WHERE ino = ?", (new, old))


def transfer_item(conn: Connection, old: Ino, new: Ino) -> None:
    """What is to be done with `old`'s item is to be done with `new`'s; the upload of its bytes stays."""
    conn.execute("UPDATE op SET ino = ?2 WHERE ino = ?1 AND kind <> 'upload'", (old, new))


def transfer_description(conn: Connection, old: Ino, new: Ino) -> None:
    """What is to be said of `old`'s item is to be said of `new`'s, unless there is something already."""
    conn.execute("UPDATE OR IGNORE op SET ino = ?2 WHERE ino = ?1 AND kind = 'describe'", (old, new))


# ---- states ------------------------------------------------------------------------------------


def run(conn: Connection, seq: int) -> None:
    """The operation is being carried out."""
    conn.execute("UPDATE op SET state = 'running' WHERE seq = ?", (seq,))


def make_ready(conn: Connection, seq: int) -> None:
    """The operation is not being carried out any more, and may be again when it is due."""
    conn.execute("UPDATE op SET state = 'ready' WHERE seq = ?", (seq,))


def note_tried(conn: Connection, seq: int) -> None:
    """The operation counts as tried once, though nothing failed."""
    conn.execute("UPDATE op SET attempts = max(attempts, 1) WHERE seq = ?", (seq,))


def none_runs(conn: Connection) -> None:
    """Whoever carried out operations is gone: those that it had begun are ready, at once."""
    conn.execute("UPDATE op SET state = 'ready', not_before = 0 WHERE state = 'running'")


def back_off(conn: Connection, seq: int, *, not_before_ns: int, error: str) -> None:
    """The operation has failed once more, and is ready again, not before then."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = attempts + 1, not_before = max(not_before, ?), error = ?"
        " WHERE seq = ?",
        (not_before_ns, error, seq),
    )


def postpone(conn: Connection, seq: int, *, not_before_ns: int) -> None:
    """The operation is ready again, not before then; nothing has failed."""
    conn.execute(
        "UPDATE op SET state = 'ready', not_before = max(not_before, ?) WHERE seq = ?", (not_before_ns, seq)
    )


def release(conn: Connection, seq: int, *, due_ns: int) -> None:
    """The operation, held or waiting, is ready as if it had never failed; one that is running stays so."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = 0, not_before = ? WHERE seq = ? AND state <> 'running'",
        (due_ns, seq),
    )


def release_held(conn: Connection, *, due_ns: int) -> int:
    """Every held operation is ready as if it had never failed; how many."""
    return conn.execute(
        "UPDATE op SET state = 'ready', attempts = 0, not_before = ? WHERE state = 'held'", (due_ns,)
    ).rowcount


def release_held_for(conn: Connection, ino: Ino, *, error: str) -> None:
    """The node's operations that were held for this reason are ready at once, and nothing is said of them."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = 0, not_before = 0, error = NULL"
        " WHERE ino = ? AND state = 'held' AND error = ?",
        (ino, error),
    )


def release_uploads_over(conn: Connection, sha1: str) -> None:
    """The held uploads of what was written over these bytes are ready at once."""
    conn.execute(
        "UPDATE op SET state = 'ready', attempts = 0, not_before = 0 WHERE kind = 'upload' AND state = 'held'"
        " AND ino IN (SELECT n.ino FROM draft AS d JOIN node AS n ON n.draft = d.id WHERE d.base_sha1 = ?)",
        (sha1,),
    )


def hold(conn: Connection, seq: int, *, revision: int, error: str) -> None:
    """Hold the operation for this reason; it is ready if more was asked for since this revision."""
    conn.execute(
        "UPDATE op SET state = CASE WHEN revision = ? THEN 'held' ELSE 'ready' END, error = ? WHERE seq = ?",
        (revision, error, seq),
    )


def hold_waiting(conn: Connection, ino: Ino, *, error: str) -> None:
    """Hold the node's operations for this reason, but for one that is running."""
    conn.execute("UPDATE op SET state = 'held', error = ? WHERE ino = ? AND state <> 'running'", (error, ino))


def hold_uploads_of(conn: Connection, sha1: str, *, error: str) -> None:
    """Hold the uploads of these bytes for this reason."""
    conn.execute(
        "UPDATE op SET state = 'held', error = ?"
        " WHERE kind = 'upload' AND ino IN (SELECT ino FROM node WHERE sha1 = ?)",
        (error, sha1),
    )


# ---- times -------------------------------------------------------------------------------------


def bound(conn: Connection, *, now_ns: int, longest_ns: int) -> int:
    """Make due what would wait longer than anything does: the clock was ahead when it was recorded.

    How many.
    """
    sql = "UPDATE op SET not_before = ?1 WHERE state = 'ready' AND not_before > ?1 + ?2"
    return conn.execute(sql, (now_ns, longest_ns)).rowcount


def advance(conn: Connection, *, now_ns: int, by_ns: int) -> int:
    """Make due sooner, by so much, what is due later than now: the clock was set back.  How many.

    Also what is running: if that fails, it waits no shorter than it did before.
    """
    sql = "UPDATE op SET not_before = max(?1, not_before - ?2) WHERE state <> 'held' AND not_before > ?1"
    return conn.execute(sql, (now_ns, by_ns)).rowcount


def end_settling(conn: Connection, *, now_ns: int, kind: str | None = None) -> int:
    """Make due what only rests (of one kind, if given); how many."""
    sql = "UPDATE op SET not_before = ?1 WHERE state = 'ready' AND attempts = 0 AND not_before > ?1"
    return conn.execute(f"{sql} AND coalesce(kind = ?2, 1)", (now_ns, kind)).rowcount


def end_waiting(conn: Connection, *, now_ns: int) -> int:
    """Make due what waits after a failure; how many."""
    sql = "UPDATE op SET not_before = ?1 WHERE state = 'ready' AND attempts > 0 AND not_before > ?1"
    return conn.execute(sql, (now_ns,)).rowcount
