"""Cached details of single items, and the assignments of legal holds and retention policies.

Listings contain what the drive needs of every item; details requested through an extended attribute are
cached here, with the item's etag and the time.  `daemon.content.item_details` fetches and writes, `vfs.attrs`
reads.

Rule: `described` and `wished` hold values that were set locally and not sent yet; they take precedence over
the service's.
"""

import enum
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from sqlite3 import Connection
from typing import Any

from cmsfs.replica.nodes import Ino, Node
from cmsfs.sqlite import Database


class DetailSubject(enum.StrEnum):
    """The kinds of cached details."""

    ITEM = "item"  # all fields of an item
    METADATA = "metadata"  # the metadata instances on it


# Keys of `cursor`: when the assignments were last read (seconds), and why they cannot be read ("" if they
# can).
POLICIES_AT = "policies_at"
POLICIES_REFUSED = "policies_refused"
HOLDS_IN_FORCE = "holds_in_force"  # names of legal holds, where it is not told what they cover

# From this many assignments on, looking up an item's own is faster than reading all of them.
MANY_ASSIGNMENTS = 50


@dataclass(frozen=True, slots=True)
class Fact:
    """A cached response of the service about one item."""

    etag: str | None
    learned_at: int
    value: Any


@dataclass(frozen=True, slots=True)
class PolicyAssignment:
    """An assignment of a legal hold or retention policy; `value` is the service's JSON object."""

    kind: str
    id: str
    target_type: str
    target: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """Pending local values; None: not set.  `metadata`: values by `scope.template.field`, as given."""

    description: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, str] = field(default_factory=dict)


# ---- single items ------------------------------------------------------------------------------


def find(db: Database, ino: Ino, about: DetailSubject) -> Fact | None:
    row = db.row("SELECT etag, learned_at, value FROM fact WHERE ino = ? AND kind = ?", ino, about)
    return Fact(row["etag"], row["learned_at"], json.loads(row["value"])) if row else None


def put(conn: Connection, ino: Ino, about: DetailSubject, value: Any, *, etag: str | None, at: int) -> None:
    """Cache a response, unless the node is gone by now."""
    conn.execute(
        "INSERT OR REPLACE INTO fact(ino, kind, etag, learned_at, value)"
        " SELECT ino, ?2, ?3, ?4, ?5 FROM node WHERE ino = ?1",
        (ino, about, etag, at, json.dumps(value, ensure_ascii=False)),
    )


def mark_stale(conn: Connection, kind: str, remote_id: str) -> None:
    """Mark the cached details of an item as outdated, because it was changed."""
    conn.execute(
        "UPDATE fact SET learned_at = 0 WHERE ino = (SELECT ino FROM node WHERE kind = ? AND remote_id = ?)",
        (kind, remote_id),
    )


# ---- policies ----------------------------------------------------------------------------------


def replace_assignments(conn: Connection, found: Iterable[PolicyAssignment]) -> None:
    """Replace all assignments."""
    conn.execute("DELETE FROM assignment")
    conn.executemany(
        "INSERT INTO assignment(kind, id, target_type, target, value) VALUES (?, ?, ?, ?, ?)",
        [
            (one.kind, one.id, one.target_type, one.target, json.dumps(one.value, ensure_ascii=False))
            for one in found
        ],
    )


def assigned_targets(db: Database) -> set[tuple[str, str]] | None:
    """Return the type and id of all that anything is assigned to; None if it is a lot."""
    rows = db.rows("SELECT target_type, target FROM assignment LIMIT ?", MANY_ASSIGNMENTS)
    return {(row[0], row[1]) for row in rows} if len(rows) < MANY_ASSIGNMENTS else None


def assigned_to(db: Database, target_type: str, target: str) -> list[PolicyAssignment]:
    """Return the assignments to one target, in order of their ids."""
    sql = "SELECT * FROM assignment WHERE target_type = ? AND target = ? ORDER BY kind, id"
    return [_assignment(row) for row in db.rows(sql, target_type, target)]


def assignments(db: Database, kind: str) -> list[PolicyAssignment]:
    """Return all assignments of a kind of policy."""
    sql = "SELECT * FROM assignment WHERE kind = ? ORDER BY id LIMIT 1000"
    return [_assignment(row) for row in db.rows(sql, kind)]


def _assignment(row: Any) -> PolicyAssignment:
    return PolicyAssignment(
        row["kind"], row["id"], row["target_type"], row["target"], json.loads(row["value"])
    )


# ---- pending local values -------------------------------------------------------------------------

_DESCRIBED = "SELECT description, tags FROM described WHERE ino = ?"
_WISHED = "SELECT place, value FROM wished WHERE ino = ?"


def described(db: Database, ino: Ino) -> Described:
    """Return the values that were set locally and not sent yet."""
    return _described(db.row(_DESCRIBED, ino), db.rows(_WISHED, ino))


def described_at(conn: Connection, ino: Ino) -> Described:
    """As `described`, within this transaction."""
    return _described(conn.execute(_DESCRIBED, (ino,)).fetchone(), conn.execute(_WISHED, (ino,)).fetchall())


def _described(row: Any, wished: list[Any]) -> Described:
    metadata = {one["place"]: one["value"] for one in wished}
    if row is None:
        return Described(metadata=metadata)
    tags = None if row["tags"] is None else json.loads(row["tags"])
    return Described(row["description"], tags, metadata)


def describe(conn: Connection, ino: Ino, wish: Described) -> None:
    """Set pending values of an item; None leaves a value unchanged."""
    tags = None if wish.tags is None else json.dumps(wish.tags, ensure_ascii=False)
    conn.execute(
        "INSERT INTO described(ino, description, tags) VALUES (?1, ?2, ?3) ON CONFLICT(ino) DO UPDATE SET"
        " description = coalesce(?2, description), tags = coalesce(?3, tags)",
        (ino, wish.description, tags),
    )


def request_value(conn: Connection, ino: Ino, place: str, value: str) -> None:
    """Set a pending metadata value of an item."""
    conn.execute("INSERT OR REPLACE INTO wished(ino, place, value) VALUES (?, ?, ?)", (ino, place, value))


def cancel_value(conn: Connection, ino: Ino, place: str) -> None:
    """Remove a pending metadata value, because it was withdrawn or sent."""
    conn.execute("DELETE FROM wished WHERE ino = ? AND place = ?", (ino, place))


def mark_sent(conn: Connection, ino: Ino, wish: Described) -> None:
    """Remove pending values that were sent; values changed since then stay pending."""
    if described_at(conn, ino) == wish:
        discard_pending(conn, ino)


def discard_pending(conn: Connection, ino: Ino) -> None:
    """Discard all pending values of an item."""
    conn.execute("DELETE FROM described WHERE ino = ?", (ino,))
    conn.execute("DELETE FROM wished WHERE ino = ?", (ino,))


def transfer_pending(conn: Connection, old: Ino, new: Ino) -> bool:
    """Move the pending values of `old` to `new`, which has the item now; whether there are any.

    Values of `new` itself take precedence, being newer.
    """
    conn.execute("UPDATE OR IGNORE described SET ino = ? WHERE ino = ?", (new, old))
    conn.execute("DELETE FROM described WHERE ino = ?", (old,))
    conn.execute("UPDATE OR IGNORE wished SET ino = ? WHERE ino = ?", (new, old))
    conn.execute("DELETE FROM wished WHERE ino = ?", (old,))
    conn.execute("DELETE FROM fact WHERE ino IN (?, ?)", (old, new))
    return described_at(conn, new) != Described()


def transfer(conn: Connection, old: Ino, new: Ino) -> None:
    """Move cached details and pending values of `old` to `new`, except where `new` has its own."""
    conn.execute("UPDATE OR IGNORE fact SET ino = ?2 WHERE ino = ?1", (old, new))
    conn.execute("UPDATE OR IGNORE described SET ino = ?2 WHERE ino = ?1", (old, new))
    conn.execute("UPDATE OR IGNORE wished SET ino = ?2 WHERE ino = ?1", (old, new))


def is_current(fact: Fact | None, node: Node, *, now: int, seconds: float) -> bool:
    """Whether a cached response is still valid."""
    return fact is not None and fact.etag == node.etag and 0 <= now - fact.learned_at < seconds
