"""What a comparison did not show and would take away, where that is much: a person is asked first.

The question is a row, so a restart asks it again.  An answer of "no" holds for a day: a comparison that finds
the same missing says nothing meanwhile.
"""

import time
from collections.abc import Sequence
from sqlite3 import Connection

import pydantic

from cmsfs.replica import cursor, tree
from cmsfs.replica.nodes import Ino
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


def is_much(conn: Connection, count: int) -> bool:
    """Whether so many are not to go without a person's word."""
    if count < FEW:
        return False
    if count >= MANY:
        return True
    sql = "SELECT count(*) FROM node WHERE remote_id IS NOT NULL AND base_parent IS NOT NULL"
    return count * PART >= int(conn.execute(sql).fetchone()[0])


def ask(conn: Connection, tops: Sequence[Ino]) -> bool:
    """Ask about these besides what is asked about already; whether that is a new question."""
    text = cursor.at(conn, cursor.MISSING)
    before = Question.model_validate_json(text) if text else None
    now = int(time.time())
    if before is not None and before.rejected_at is not None:
        fresh = set(tops) - set(before.tops)
        if not fresh and now - before.rejected_at < REJECTED_SECONDS:
            return False
        before = None
    known = set(before.tops) if before is not None else set()
    everything = sorted(known | set(tops))
    count = len({ino for top in everything for ino in tree.subtree(conn, top)})
    question = Question(tops=everything, count=count, asked_at=before.asked_at if before else now)
    cursor.put(conn, cursor.MISSING, question.model_dump_json())
    return bool(set(tops) - known)


def reject(conn: Connection) -> bool:
    """A person says that nothing of it is to go; False: nothing is asked."""
    text = cursor.at(conn, cursor.MISSING)
    question = Question.model_validate_json(text) if text else None
    if question is None or question.rejected_at is not None:
        return False
    question.rejected_at = int(time.time())
    cursor.put(conn, cursor.MISSING, question.model_dump_json())
    return True


def asked(db: Database) -> Question | None:
    """What a person has to decide; None: nothing."""
    text = cursor.get(db, cursor.MISSING)
    if text is None:
        return None
    question = Question.model_validate_json(text)
    return question if question.rejected_at is None else None
