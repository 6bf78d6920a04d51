"""Holds back large deletions found by a listing until the user confirms them.

The question is a row, so a restart asks it again.  An answer of "no" holds for a day: a comparison that finds
the same missing says nothing meanwhile.
"""

from collections.abc import Sequence
from sqlite3 import Connection

import pydantic

from cmsfs.replica import kv_store, tree
from cmsfs.replica.nodes import Ino
from cmsfs.runtime import clock
from cmsfs.sqlite import Database

# So many at once, or such a part of all that is known of the service, are much; a handful never is.
MANY = 1_000
PART = 5
FEW = 10

REJECTED_SECONDS = 86_400


class Question(pydantic.BaseModel):
    """`tops`: the highest of what is missing (numbers of nodes); `count`: how many go with all below them;
    `rejected_at`: when a person said no (seconds, our clock)."""

    tops: list[Ino]
    count: int
    asked_at: int
    rejected_at: int | None = None


def is_mass_deletion(conn: Connection, count: int) -> bool:
    """Whether so many are not to go without a person's word."""
    if count < FEW:
        return False
    if count >= MANY:
        return True
    sql = "SELECT count(*) FROM node WHERE remote_id IS NOT NULL AND base_parent IS NOT NULL"
    return count * PART >= int(conn.execute(sql).fetchone()[0])


def ask(conn: Connection, tops: Sequence[Ino]) -> bool:
    """Ask about these besides what is asked about already; whether that is a new question."""
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
    """A person says that nothing of it is to go; False: nothing is asked."""
    question = at(conn)
    if question is None or question.rejected_at is not None:
        return False
    put(conn, question.model_copy(update={"rejected_at": int(clock.time())}))
    return True


def at(conn: Connection) -> Question | None:
    """What was asked, answered or not, as this transaction sees it."""
    text = kv_store.at(conn, kv_store.MISSING)
    return Question.model_validate_json(text) if text else None


def put(conn: Connection, question: Question) -> None:
    """Ask this, and count what it is about."""
    count = len({ino for top in question.tops for ino in tree.subtree(conn, top)})
    kv_store.put(conn, kv_store.MISSING, question.model_copy(update={"count": count}).model_dump_json())


def pending_question(db: Database) -> Question | None:
    """What a person has to decide; None: nothing."""
    text = kv_store.get(db, kv_store.MISSING)
    question = Question.model_validate_json(text) if text else None
    return question if question is not None and question.rejected_at is None else None
