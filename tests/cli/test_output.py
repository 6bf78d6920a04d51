"""How results look."""

import json
import sys
from datetime import UTC, datetime, timedelta

import click
import pytest

from cmsfs import output, printable


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (12_345_678, "12.3 MB"),
        (10**15, "1.0 PB"),
    ],
)
def test_sizes_are_for_people(count, text):
    assert output.size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s ago"), (59, "59 s ago"), (60, "1 min ago"), (7200, "2 h ago"), (90_000, "25 h ago")],
)
def test_moments_are_told_by_their_distance(seconds, text):
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert output.ago(now - timedelta(seconds=seconds), now=now) == text


def test_days_begin_after_two_of_them():
    now = datetime(2026, 11, 21, tzinfo=UTC)
    assert output.ago(now - timedelta(days=2), now=now) == "2 days ago"


def test_columns_are_aligned_and_no_line_ends_in_spaces(capsys):
    output.table([["a", "1", "x"], ["long", "22", ""]])
    assert capsys.readouterr().out == "a     1   x\nlong  22\n"


@pytest.fixture
def terminal(capsys, monkeypatch):
    """Both outputs are a terminal."""
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(type(stream), "isatty", lambda self: True)


NAME = "a\x1b]0;x\x07\x9b2J\u202efdp\u200b.txt\n\u2028"
SEEN = r"a\e]0;x\x07\x9b2J\u202efdp\u200b.txt\n\u2028"


def test_terminal_escapes_unprintable_characters(capsys, terminal):
    output.table([["name", NAME], [NAME, "x"]])
    output.say(f"found {NAME[:-2]}")
    output.note(NAME[:-2])
    output.complain(NAME[:-2])
    output.printed("one\n\ttwo\x1b[1m\n", nl=False)
    told = capsys.readouterr()
    width = len(SEEN)
    shown = SEEN.removesuffix(r"\n\u2028")
    assert told.out.splitlines() == [
        f"{'name':{width}}  {SEEN}",
        f"{SEEN}  x",
        f"found {shown}",
        "one",
        r"	two\e[1m",
    ]
    assert told.err.splitlines() == [shown, f"cmsfs: {shown}"]


def test_a_pipe_gets_what_it_is(capsys):
    output.say(NAME)
    output.table([[NAME, "x"]])
    assert capsys.readouterr().out == f"{NAME}\n{NAME}  x\n"


def test_json_says_what_nobody_sees_by_number(capsys):
    output.document({NAME: "資料\U000e0041"})
    told = capsys.readouterr().out
    assert json.loads(told) == {NAME: "資料\U000e0041"}
    assert printable.escaped(told, keep="\n") == told
    assert "資料" in told


def test_confirmation_shows_the_name(capsys, monkeypatch):
    asked = []

    def confirm(text, **_):
        asked.append(text)
        return True

    monkeypatch.setattr(click, "confirm", confirm)
    assert output.confirm(f"Remove {NAME}?")
    assert asked == [f"Remove {SEEN}?"]


def test_a_table_of_nothing_is_nothing(capsys):
    output.table([])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("count", "text"), [(0, "0 changes"), (1, "1 change"), (1234, "1,234 changes")])
def test_numbers_agree_with_their_noun(count, text):
    assert output.plural(count, "change") == text
