"""The query language against a plain evaluator."""

import re
import sqlite3
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmsfs.query import fts_query

WORDS = ["ant", "ante", "bee", "cat", "dog", "Ant", "BEE"]
DOCUMENTS = [
    {"name": name, "file_content": text}
    for name in ("", "ant", "antelope bee", "cat-dog", "Bee_ant.cat", "dog")
    for text in ("", "bee cat", "ant dog bee", "ANTE cat", "cat dog ant")
]


@dataclass(frozen=True)
class Term:
    text: str
    phrase: bool
    negations: int

    def __str__(self) -> str:
        return "NOT " * self.negations + (f'"{self.text}"' if self.phrase else self.text)

    def holds(self, document: dict[str, str]) -> bool:
        wanted = self.text.lower().split()
        found = False
        for column, text in document.items():
            words = re.findall(r"[a-z]+", text.lower())
            for start in range(len(words)):
                here = words[start : start + len(wanted)]
                exact = here == wanted
                prefix = not self.phrase and column == "name" and words[start].startswith(wanted[0])
                found = found or exact or prefix
        return found != bool(self.negations % 2)


terms = st.builds(
    Term,
    st.one_of(st.sampled_from(WORDS)),
    phrase=st.just(False),
    negations=st.integers(0, 2),
) | st.builds(
    Term,
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join),
    phrase=st.just(True),
    negations=st.integers(0, 1),
)


@st.composite
def queries(draw):
    """A query's text and the ORs of ANDs that it means."""
    if draw(st.booleans()):
        plain = draw(st.lists(terms.filter(lambda term: not term.negations), min_size=1, max_size=4))
        return " ".join(map(str, plain)), [[term] for term in plain]
    alternatives = draw(st.lists(st.lists(terms, min_size=1, max_size=3), min_size=1, max_size=3))
    if len(alternatives) == 1 and not any(term.negations for term in alternatives[0]):
        # Without an operator in it this would be an OR.
        return " AND ".join(
            ["NOT NOT " + str(alternatives[0][0]), *map(str, alternatives[0][1:])]
        ), alternatives
    joints = st.sampled_from([" AND ", " "])
    texts = []
    for factors in alternatives:
        text = str(factors[0])
        for factor in factors[1:]:
            text += draw(joints) + str(factor)
        texts.append(text)
    return " OR ".join(texts), alternatives


@pytest.fixture(scope="module")
def index():
    conn = sqlite3.connect(":memory:")
    columns = ", ".join(fts_query.COLUMNS)
    conn.execute(
        f"CREATE VIRTUAL TABLE word USING fts5 ({columns}, tokenize = 'unicode61 remove_diacritics 2')"
    )
    for number, document in enumerate(DOCUMENTS):
        conn.execute(
            "INSERT INTO word (rowid, name, file_content) VALUES (?, ?, ?)",
            (number, document["name"], document["file_content"]),
        )
    yield conn
    conn.close()


def run(index: sqlite3.Connection, compiled: fts_query.Compiled | None) -> set[int]:
    if compiled is None:
        return set()
    found = {row[0] for row in index.execute("SELECT rowid FROM word WHERE word MATCH ?", (compiled.match,))}
    return set(range(len(DOCUMENTS))) - found if compiled.complement else found


@settings(max_examples=500, deadline=None)
@given(queries())
def test_a_query_finds_what_it_says(index, made):
    text, alternatives = made
    expected = {
        number
        for number, document in enumerate(DOCUMENTS)
        if any(all(term.holds(document) for term in factors) for factors in alternatives)
    }
    assert run(index, fts_query.compile_query(text)) == expected


@settings(max_examples=200, deadline=None)
@given(queries())
def test_content_types_look_at_nothing_else(index, made):
    text, alternatives = made
    expected = {
        number
        for number, document in enumerate(DOCUMENTS)
        if any(
            all(term.holds({"file_content": document["file_content"]}) for term in factors)
            for factors in alternatives
        )
    }
    assert run(index, fts_query.compile_query(text, ("file_content",))) == expected


@settings(max_examples=1000, deadline=None)
@given(st.text(st.sampled_from('aA "ANDORT*():^{}-+\0é\u0301'), max_size=40) | st.text(max_size=40))
def test_whatever_is_typed_is_a_query(index, text):
    run(index, fts_query.compile_query(text.encode("utf-8", "replace").decode()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ant bee", "ant OR bee"),
        ("ant and bee", 'ant OR "and" OR bee'),
        ("ant AND bee cat", "ant AND bee AND cat"),
        ("ant NOT bee", "ant AND NOT bee"),
        ("AND ant OR", "ant"),
        ("ant OR OR bee", "ant OR bee"),
        ("*** ant ---", "ant"),
        ('"ant bee', '"ant bee"'),
    ],
)
def test_readings(index, text, expected):
    assert run(index, fts_query.compile_query(text)) == run(index, fts_query.compile_query(expected))


@pytest.mark.parametrize("text", ["", " ", "***", "AND", "NOT", "NOT OR AND", '""', "NOT ..."])
def test_a_query_without_words_finds_nothing(text):
    assert fts_query.compile_query(text) is None


def test_not_of_an_improbable_word_is_everything(index):
    assert run(index, fts_query.compile_query('NOT "improbableword"')) == set(range(len(DOCUMENTS)))


def test_query_word_limit(index):
    run(index, fts_query.compile_query(" ".join(["ant", "NOT"] * fts_query.MAX_TERMS)))
    with pytest.raises(fts_query.TooLong):
        fts_query.compile_query("ant " * (fts_query.MAX_TERMS + 1))
