"""Holds back large deletions found by a listing until the user confirms them.

The question is stored, so that it survives a restart.  A "no" is valid for a day: until then, a sweep that
finds the same items missing does not ask again.
"""

from collections.abc import Sequence
from sqlite3 import Connection

import pydantic

from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# A mass deletion: this many items at once, or one in `PART` of all known remote items, but more than `FEW`.
MANY = 1_000
PART = 5
FEW = 10

REJECTED_SECONDS = 86_400


class Question(pydantic.BaseModel):
    """`tops`: the topmost missing nodes (inos); `count`: how many nodes would be deleted, with everything
    below them; `rejected_at`: when the user said no (seconds, our clock)."""

    tops: list[Ino]
    count: int
    asked_at: int
    rejected_at: int | None = None


def is_mass_deletion(conn: Connection, count: int) -> bool:
    """Whether deleting this many items requires the user's confirmation."""
    if count < FEW:
        return False
    if count >= MANY:
        return True
    sql = "SELECT count(*) FROM node WHERE remote_id IS NOT NULL AND base_parent IS NOT NULL"
    return count * PART >= int(conn.execute(sql).fetchone()[0])


def ask(conn: Connection, tops: Sequence[Ino]) -> bool:
    """Add these nodes to the question; whether it is a new one."""
    before = at(conn)
    now = int(clock.time())
    known = set(before.tops) if before is not None else set()
    fresh = set(tops) - known
    if before is not None and before.rejected_at is not None:
        if not fresh and now - before.rejected_at < REJECTED_SECONDS:
            return False
        before, known, fresh = None, set(), set(tops)
    question = Question(tops=sorted(known | fresh), count=0, asked_at=before.asked_at if before else now)
    put(conn, question)
    return bool(fresh)


def reject(conn: Connection) -> bool:
    """Record that the user rejects the deletion; False if there is no question."""
    question = at(conn)
    if question is None or question.rejected_at is not None:
        return False
    put(conn, question.model_copy(update={"rejected_at": int(clock.time())}))
    return True


def at(conn: Connection) -> Question | None:
    """Return the question, answered or not, within this transaction."""
    text = kv_store.at(conn, kv_store.MISSING)
    return Question.model_validate_json(text) if text else None


def put(conn: Connection, question: Question) -> None:
    """Store the question, with the number of nodes concerned."""
    count = len({ino for top in question.tops for ino in tree.subtree(conn, top)})
    kv_store.put(conn, kv_store.MISSING, question.model_copy(update={"count": count}).model_dump_json())


def pending_question(db: Database) -> Question | None:
    """Return the question that awaits the user's decision, or None."""
    text = kv_store.get(db, kv_store.MISSING)
    question = Question.model_validate_json(text) if text else None
    return question if question is not None and question.rejected_at is None else None
