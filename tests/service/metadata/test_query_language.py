"""Conditions of metadata queries: what is read, what is refused, and what it costs to read."""

import sqlite3
import sys

import pytest

from cmsfs.service import problems
from cmsfs.service.metadata import query_language

TYPES = {
    "amount": "float",
    "customer": "string",
    "due": "date",
    "state": "enum",
    "flags": "multiSelect",
    "net-price": "float",
}
DATA = {
    "a": '{"amount": 100, "customer": "Müller & Co", "due": "2026-01-02T00:00:00.000Z", "state": "open",'
    ' "flags": ["x", "y"], "net-price": 1.5}',
    "b": '{"amount": 7.5, "customer": "Smith*", "state": "paid", "flags": ["y"]}',
    "c": '{"customer": "smith"}',
}


@pytest.fixture(scope="module")
def instances():
    conn = sqlite3.connect(":memory:")
    conn.execute("CREATE TABLE metadata_instance (name TEXT, data TEXT)")
    conn.executemany("INSERT INTO metadata_instance VALUES (?, ?)", DATA.items())
    yield conn
    conn.close()


def found(instances, text, **params):
    made = query_language.compile_condition(text, params, TYPES)
    sql = f"SELECT name FROM metadata_instance AS m WHERE {made.sql} ORDER BY name"
    return "".join(row[0] for row in instances.execute(sql, made.args))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("amount = 100", "a"),
        ("amount = '100'", "a"),
        ("amount >= 7.5", "ab"),
        ("amount < 1e2", "b"),
        ("AMOUNT > -1", "ab"),
        ("amount != 100", "b"),
        ("amount <> 100", "b"),
        ("`net-price` = 1.5", "a"),
        ("net-price < 2", "a"),
        ("customer = 'Müller & Co'", "a"),
        ("customer = 'it''s'", ""),
        ("customer LIKE 'Sm%'", "b"),
        ("customer like '%_ith'", "c"),
        ("customer LIKE 'Smith*'", "b"),
        ("customer LIKE '%*'", "b"),
        ("customer NOT LIKE '%mith%'", "a"),
        ("customer ILIKE 'SMITH%'", "bc"),
        ("customer NOT ILIKE 'smith%'", "a"),
        ("state IN ('open', 'paid')", "ab"),
        ("state NOT IN ('open')", "b"),
        ("due > '2026-01-01'", "a"),
        ("due <= '2026-01-02T01:00:00+01:00'", "a"),
        ("amount IS NULL", "c"),
        ("amount IS NOT NULL", "ab"),
        # What is not there is found neither by a comparison nor by its negation.
        ("NOT amount = 100", "b"),
        ("amount = 100 OR amount IS NULL", "ac"),
        ("flags HASANY ('x', 'z')", "a"),
        ("flags HASALL ('x', 'y')", "a"),
        ("flags = 'y'", "ab"),
        ("flags != 'x'", "b"),
        ("flags IN ('x')", "a"),
        ("flags NOT IN ('x')", "b"),
        # NOT binds before AND, AND before OR.
        ("state = 'paid' OR state = 'open' AND amount > 1000", "b"),
        ("(state = 'paid' OR state = 'open') AND amount > 10", "a"),
        ("NOT (state = 'paid' AND amount = 7.5)", "a"),
        ("NOT NOT amount = 100", "a"),
    ],
)
def test_what_a_condition_finds(instances, text, wanted):
    assert found(instances, text) == wanted


def test_parameters(instances):
    assert found(instances, "amount >= :least AND customer LIKE :name", least=50, name="M%") == "a"
    assert found(instances, "amount >= :least", least="50") == "a"
    assert found(instances, "state IN (:one, :two)", one="open", two="paid") == "ab"
    assert found(instances, "state IN :all", all=["open"]) == "a"
    assert found(instances, "flags HASALL :all", all=["x", "y"]) == "a"
    # They are values, whatever is in them.
    assert found(instances, "customer = :name", name="' OR 1=1 --") == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("amount", "needs a comparison at its end"),
        ("amount =", "needs a value at its end"),
        ("amount = = 1", "needs a value at '='"),
        ("100 = amount", "needs a field at '100'"),
        ("amount = 1 customer = 'x'", "needs the end, AND or OR at 'customer'"),
        ("(amount = 1", r"needs \) at its end"),
        ("nothing = 1", "names 'nothing', which is no field"),
        ("amount = 'much'", "no float"),
        ("amount = :x", "has no 'x'"),
        ("customer = 1", "no string"),
        ("due = 'soon'", "no date"),
        ("amount LIKE '1%'", "no text"),
        ("flags > 'x'", "several values"),
        ("customer HASANY ('x')", "which has one value"),
        ("amount = 1; DROP TABLE item", "cannot be read from '; DROP"),
        ("customer = 'open", "cannot be read from"),
        ("customer = 1x", "cannot be read from"),
        ("amount NOT 1", "needs LIKE, ILIKE or IN"),
        ("amount IS 1", "needs NULL"),
        ("amount IN (1, )", "needs a value"),
        ("AND", "needs a field"),
        ("customer LIKE '" + "x" * 501 + "'", "pattern"),
    ],
)
def test_what_is_no_condition(text, said):
    with pytest.raises(problems.Refused, match=said) as caught:
        query_language.compile_condition(text, {}, TYPES)
    assert (caught.value.status, caught.value.code) == (400, "invalid_query")


@pytest.mark.parametrize(
    "text",
    [
        "(" * 200 + "amount = 1" + ")" * 200,
        "NOT " * 200 + "amount = 1",
        " AND ".join(["amount = 1"] * 300),
        "amount IN (" + ", ".join(["1"] * 600) + ")",
    ],
)
def test_a_condition_has_bounds(text):
    with pytest.raises(problems.Refused, match="has more than"):
        query_language.compile_condition(text, {}, TYPES)


def test_the_largest_condition_is_one_that_sqlite_reads(instances):
    text = " OR ".join(["amount = 1"] * 240) + " OR " + "NOT (" * 20 + "amount = 100" + ")" * 20
    assert found(instances, text) == "a"


def test_reading_takes_calls_in_proportion_to_the_length():
    """A text of hostile tokens ten times as long takes ten times the calls, not a hundred times."""

    def calls(text):
        count = 0

        def profile(frame, event, arg):
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(profile)
        try:
            with pytest.raises(problems.Refused):
                query_language.compile_condition(text, {}, TYPES)
        finally:
            sys.setprofile(None)
        return count

    for piece in ("( ", "' ", "`a ", "a-", "1e", "NOT "):
        assert calls(piece * 1000) < 15 * calls(piece * 100)
