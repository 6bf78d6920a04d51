"""The service's SQL is, but for what is listed here, what PostgreSQL's own grammar takes as well.

Whole statements are judged; of one that is put together, what stands between the pieces.
"""

from collections import defaultdict
from pathlib import Path

import pytest

pytest.importorskip("pglast")
from tests.support import sql_statements

# Parsing all of them takes a second, and none of it changes with the machine.
pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[3]

# What many have: lists that are handed over as JSON.  How many statements do; the number only falls.
COMMON = {"json_each()": 26}

# What few have, and which.
RARE = {
    # The planner is told where to begin.
    "INDEXED BY": {
        *("admin/overview.py", "admin/reports.py", "admin/sharing.py"),
        *("search/search_plan.py", "search/search_scopes.py"),
    },
    # NULL equals NULL.
    "IS ?": {"events/events.py"},
    "instr()": {"access/protection.py"},
    "json_extract()": {"server/sweeper.py"},
}


@pytest.fixture(scope="module")
def found():
    """The statements by what of the dialect is in them."""
    by_word = defaultdict(list)
    for one in sql_statements.statements(ROOT, "cmsfs/service"):
        if one.module.endswith("storage/upgrade.py"):
            continue  # it speaks of what was in SQLite
        words = sql_statements.dialect(one.sql)
        if one.is_made:
            words -= {"syntax"}  # what is put in may be a keyword
        for word in words:
            by_word[word].append(one)
    return by_word


def test_most_statements_are_of_both_engines(found):
    every = list(sql_statements.statements(ROOT, "cmsfs/service"))
    spoken = {id(one) for statements in found.values() for one in statements}
    assert len(every) - len(spoken) > 300


def test_no_statement_has_more_of_the_dialect(found):
    rare = {word: ones for word, ones in found.items() if word not in COMMON}
    modules = {
        word: {one.module.removeprefix("cmsfs/service/") for one in ones} for word, ones in rare.items()
    }
    assert modules == RARE, [f"{one.module}:{one.line} {one.sql}" for ones in rare.values() for one in ones]
    assert {word: len(found[word]) for word in COMMON if len(found[word]) > COMMON[word]} == {}


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT id FROM item WHERE parent = ?1 AND name = ?2 ORDER BY name LIMIT 1", set()),
        ("INSERT INTO favorite VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING *", set()),
        ("SELECT 'what a user says, INDEXED BY' AS word FROM item WHERE id = :id", set()),
        ("SELECT 1 FROM token WHERE user = ?", {"reserved word"}),
        ("INSERT OR IGNORE INTO favorite VALUES (?)", {"INSERT OR"}),
        ("SELECT 1 FROM item INDEXED BY item_below", {"INDEXED BY"}),
        ("SELECT iif(id = 1, 2, 3) FROM item", {"iif()"}),
        ("SELECT 1 FROM item WHERE id == 1 GLOB 2", {"syntax"}),
        ("SELECT details ->> '$.a' FROM item", {"->> of a path"}),
    ],
)
def test_it_knows_the_dialect(sql, words):
    assert sql_statements.dialect(sql) == words
