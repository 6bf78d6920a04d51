"""PostgreSQL takes the service's statements, and understands them as SQLite does."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cmsfs.service.storage.postgres import connection, statements
from tests.support import sql_statements

ROOT = Path(__file__).parents[3]

# They are of one engine: what old stores had, what an engine's own modules say, the index of words.
_OF_ONE_ENGINE = (
    "storage/upgrade.py",
    "storage/postgres/",
    "storage/move/sqlite_load.py",
    "storage/move/tables.py",
)
_OF_WORDS = ("word", "bm25(")

# An argument beside a number of the statement's text has the type of that: too small for moments and ids.
# Here it is the place in a path.
_SMALL = {"UPDATE item SET path = ? || substr(path, ?) WHERE path >= ? AND path < ?"}

_TYPES = "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'one'"


@pytest.fixture(scope="module")
def there(postgres):
    with closing(connection.connect(postgres.database())) as conn:
        yield conn


@pytest.fixture(scope="module")
def here():
    with closing(sqlite3.connect(":memory:")) as conn:
        yield conn


@pytest.fixture(scope="module")
def found():
    return [
        one
        for one in sql_statements.statements(ROOT, "cmsfs/service")
        if not any(part in one.module for part in _OF_ONE_ENGINE)
    ]


def refused(conn, sql):
    """What PostgreSQL has against a statement; None: nothing."""
    try:
        conn.command(f"PREPARE one AS {statements.translate(sql)[0]}")
    except sqlite3.Error as error:
        return str(error)
    types = conn.execute(_TYPES).fetchone()["types"]
    conn.command("DEALLOCATE one")
    small = {"integer", "smallint", "real"}.intersection(types)
    return f"an argument is {small}" if small and sql not in _SMALL else None


def test_every_statement_is_taken(there, found):
    wrong = {}
    for one in found:
        if one.sql is not None and not any(f" {word} " in f" {one.sql} " for word in _OF_WORDS):
            said = refused(there, one.sql)
            if said is not None:
                wrong[f"{one.module}:{one.line}"] = said
    assert wrong == {}


def test_most_statements_are_known(found):
    assert len([one for one in found if one.sql is not None]) > 400


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM user WHERE id = ?",
        "SELECT coalesce(id > ?, 1) FROM item",
        "SELECT 1 FROM upload_session WHERE NOT committed",
        "SELECT id FROM item WHERE id IN (SELECT value FROM json_each(?))",
        "INSERT OR IGNORE INTO orphan VALUES (?)",
        "INSERT INTO orphan VALUES (?) ON CONFLICT DO UPDATE SET sha1 = ?",
        "SELECT count(*) FROM (SELECT 1 FROM item)",
        "SELECT name FROM item GROUP BY parent",
        "SELECT id FROM item WHERE modified_at > ? - 1000",
    ],
)
def test_what_only_one_engine_takes_is_seen(there, sql):
    assert refused(there, sql) is not None


_JSON = """'{"a": "x.y", "n": 5, "f": 2.5, "l": ["p", "q"], "d.e": "z", "nothing": null}'"""


@pytest.mark.parametrize(
    "expression",
    [
        *("max(1, 2)", "max(4611686018427387904, 2)", "min(3, -1)", "max(NULL, 2)", "min(2, NULL)"),
        *("instr('/12/40/', '/40/')", "instr('/12/40/', '/4/')", "instr(NULL, 'x')"),
        *("unixepoch('2024-02-29T12:34:56Z')", "unixepoch('1969-12-31T23:59:59.000Z')", "unixepoch(NULL)"),
        *(f"json_extract({_JSON}, '$.{key}')" for key in ("a", "n", "f", "nothing", "missing")),
        *(f"""json_extract({_JSON}, '$."{key}"')""" for key in ("a", "d.e", "f")),
        f"(SELECT max(value) FROM json_each({_JSON}, '$.\"l\"') AS one)",
        f"(SELECT count(*) FROM json_each({_JSON}, '$.\"a\"') AS one)",
        f"(SELECT count(*) FROM json_each({_JSON}, '$.\"missing\"') AS one)",
        "(SELECT group_concat(id) FROM (SELECT 7 AS id UNION ALL SELECT 4611686018427387904) AS one)",
        "(SELECT group_concat(id) FROM (SELECT 7 AS id WHERE 1 = 0) AS one)",
        *(
            "glob('a*', 'abc')",
            "glob('A*', 'abc')",
            "glob('*', '')",
            "glob('a?c', 'abc')",
            "glob('a?', 'abc')",
        ),
        *("glob('100%*', '100% sure')", "glob('a_*', 'abc')", "glob('*[*]?', 'x*y')", "glob('[[]*', '[x')"),
        *("glob('[?]*?', '?ab')", "glob('a\\*', 'a\\b')", "glob('a*?', 'a')", "glob('*', NULL)"),
        *("like('AB%', 'abc', '\\')", "like('a\\%', 'a%', '\\')", "like('a\\%', 'ab', '\\')"),
        *("like('_b_', 'abc', '\\')", "like('%', NULL, '\\')", "5 % 2", "7 / 2", "-7 / 2"),
        *(
            "substr('abcdef', 3)",
            "substr('abcdef', 1, 2)",
            "length('aé')",
            "lower('ABC')",
            "trim('/a/b/', '/')",
        ),
        *(
            "CAST('41' AS BIGINT)",
            "CAST('2.5' AS DOUBLE PRECISION)",
            "CAST(7 AS TEXT)",
            "coalesce(1 > 2, true)",
        ),
        *("coalesce(NULL > 2, true)", "'/' || 12 || '/'", "'a' < 'B'", "'é' > 'z'"),
    ],
)
def test_expressions_mean_the_same(here, there, expression):
    wanted = here.execute(f"SELECT {expression}").fetchone()[0]
    got = there.execute(f"SELECT {expression}").fetchone()[0]
    if isinstance(wanted, int | float) and isinstance(got, str):
        got = type(wanted)(got)  # JSON is text there: numbers of it are cast where they are compared
    assert got == wanted
