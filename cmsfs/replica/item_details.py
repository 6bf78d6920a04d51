"""Cached details of single items, and which items holds and retention policies cover.

Listings bring what the drive needs of every item; what somebody asks by an extended attribute is kept here,
with the etag that the item had and the time.  `daemon.content.item_details` asks and writes, `vfs.attrs`
reads.

Rule: `described` and `wished` hold what was set here and is still to be sent; it outweighs what the service
says.
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
    """What can be asked about."""

    ITEM = "item"  # all fields of an item
    METADATA = "metadata"  # the metadata instances on it


# Keys of `cursor`: when the assignments were read (seconds), and why they cannot be ("" if they can).
POLICIES_AT = "policies_at"
POLICIES_REFUSED = "policies_refused"
HOLDS_IN_FORCE = "holds_in_force"  # names of legal holds, where it is not told what they cover


@dataclass(frozen=True, slots=True)
class Fact:
    """An answer of the service about one item."""

    etag: str | None
    learned_at: int
    value: Any


@dataclass(frozen=True, slots=True)
class PolicyAssignment:
    """A policy of holds or retention, and what it is assigned to; `value` is the service's own object."""

    kind: str
    id: str
    target_type: str
    target: str
    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Described:
    """What was set here; None: nothing was.  `metadata`: values by `scope.template.field`, as given."""

    description: str | None = None
    tags: list[str] | None = None
    metadata: dict[str, str] = field(default_factory=dict)


# ---- single items ------------------------------------------------------------------------------


def find(db: Database, ino: Ino, about: DetailSubject) -> Fact | None:
    row = db.row("SELECT etag, learned_at, value FROM fact WHERE ino = ? AND kind = ?", ino, about)
    return Fact(row["etag"], row["learned_at"], json.loads(row["value"])) if row else None


def put(conn: Connection, ino: Ino, about: DetailSubject, value: Any, *, etag: str | None, at: int) -> None:
    """Keep an answer, unless the node is gone meanwhile."""
    conn.execute(
        "INSERT OR REPLACE INTO fact(ino, kind, etag, learned_at, value)"
        " SELECT ino, ?2, ?3, ?4, ?5 FROM node WHERE ino = ?1",
        (ino, about, etag, at, json.dumps(value, ensure_ascii=False)),
    )


def mark_stale(conn: Connection, kind: str, remote_id: str) -> None:
    """Something was changed about an item: what is kept of it is to be asked for again."""
    conn.execute(
        "UPDATE fact SET learned_at = 0 WHERE ino = (SELECT ino FROM node WHERE kind = ? AND remote_id = ?)",
        (kind, remote_id),
    )


# ---- policies ----------------------------------------------------------------------------------


def replace_assignments(conn: Connection, found: Iterable[PolicyAssignment]) -> None:
    """These are all assignments that there are."""
    conn.execute("DELETE FROM assignment")
    conn.executemany(
        "INSERT INTO assignment(kind, id, target_type, target, value) VALUES (?, ?, ?, ?, ?)",
        [
            (one.kind, one.id, one.target_type, one.target, json.dumps(one.value, ensure_ascii=False))
            for one in found
        ],
    )


def has_assignments(db: Database) -> bool:
    """Whether any policy is known to be assigned to anything."""
    return db.row("SELECT 1 FROM assignment LIMIT 1") is not None


def assigned_to(db: Database, target_type: str, target: str) -> list[PolicyAssignment]:
    """The assignments to one thing, in the order of their ids."""
    sql = "SELECT * FROM assignment WHERE target_type = ? AND target = ? ORDER BY kind, id"
    return [_assignment(row) for row in db.rows(sql, target_type, target)]


def assignments(db: Database, kind: str) -> list[PolicyAssignment]:
    """All assignments of policies of a kind."""
    sql = "SELECT * FROM assignment WHERE kind = ? ORDER BY id LIMIT 1000"
    return [_assignment(row) for row in db.rows(sql, kind)]


def _assignment(row: Any) -> PolicyAssignment:
    return PolicyAssignment(
        row["kind"], row["id"], row["target_type"], row["target"], json.loads(row["value"])
    )


# ---- what was set here -------------------------------------------------------------------------

_DESCRIBED = "SELECT description, tags FROM described WHERE ino = ?"
_WISHED = "SELECT place, value FROM wished WHERE ino = ?"


def described(db: Database, ino: Ino) -> Described:
    """What was set here and is not at the service yet."""
    return _described(db.row(_DESCRIBED, ino), db.rows(_WISHED, ino))


def described_at(conn: Connection, ino: Ino) -> Described:
    """As `described`, as this transaction sees it."""
    return _described(conn.execute(_DESCRIBED, (ino,)).fetchone(), conn.execute(_WISHED, (ino,)).fetchall())


def _described(row: Any, wished: list[Any]) -> Described:
    metadata = {one["place"]: one["value"] for one in wished}
    if row is None:
        return Described(metadata=metadata)
    tags = None if row["tags"] is None else json.loads(row["tags"])
    return Described(row["description"], tags, metadata)


def describe(conn: Connection, ino: Ino, wish: Described) -> None:
    """This is to be said of the item; what is None stays as it is."""
    tags = None if wish.tags is None else json.dumps(wish.tags, ensure_ascii=False)
    conn.execute(
        "INSERT INTO described(ino, description, tags) VALUES (?1, ?2, ?3) ON CONFLICT(ino) DO UPDATE SET"
        " description = coalesce(?2, description), tags = coalesce(?3, tags)",
        (ino, wish.description, tags),
    )


def request_value(conn: Connection, ino: Ino, place: str, value: str) -> None:
    """This value of metadata is to be on the item."""
    conn.execute("INSERT OR REPLACE INTO wished(ino, place, value) VALUES (?, ?, ?)", (ino, place, value))


def cancel_value(conn: Connection, ino: Ino, place: str) -> None:
    """A value that was to be set is not any more, or is set by now."""
    conn.execute("DELETE FROM wished WHERE ino = ? AND place = ?", (ino, place))


def mark_sent(conn: Connection, ino: Ino, wish: Described) -> None:
    """The service has what was set; what was set anew since stays to be sent."""
    if described_at(conn, ino) == wish:
        discard_pending(conn, ino)


def discard_pending(conn: Connection, ino: Ino) -> None:
    """What was set here is given up."""
    conn.execute("DELETE FROM described WHERE ino = ?", (ino,))
    conn.execute("DELETE FROM wished WHERE ino = ?", (ino,))


def transfer_pending(conn: Connection, old: Ino, new: Ino) -> bool:
    """What is to be said of the item of `old` is said of it as `new` from now on; whether there is any.

    What was set on `new` itself is newer.
    """
    conn.execute("UPDATE OR IGNORE described SET ino = ? WHERE ino = ?", (new, old))
    conn.execute("DELETE FROM described WHERE ino = ?", (old,))
    conn.execute("UPDATE OR IGNORE wished SET ino = ? WHERE ino = ?", (new, old))
    conn.execute("DELETE FROM wished WHERE ino = ?", (old,))
    conn.execute("DELETE FROM fact WHERE ino IN (?, ?)", (old, new))
    return described_at(conn, new) != Described()


def transfer(conn: Connection, old: Ino, new: Ino) -> None:
    """What is known and is to be said of the item of `old` is of `new`'s, where that has none."""
    conn.execute("UPDATE OR IGNORE fact SET ino = ?2 WHERE ino = ?1", (old, new))
    conn.execute("UPDATE OR IGNORE described SET ino = ?2 WHERE ino = ?1", (old, new))
    conn.execute("UPDATE OR IGNORE wished SET ino = ?2 WHERE ino = ?1", (old, new))


def is_current(fact: Fact | None, node: Node, *, now: int, seconds: float) -> bool:
    """Whether an answer need not be asked for again."""
    return fact is not None and fact.etag == node.etag and 0 <= now - fact.learned_at < seconds
