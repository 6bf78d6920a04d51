"""How results look."""

from datetime import UTC, datetime, timedelta

import pytest

from cmsfs.cli import output


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


def test_a_table_of_nothing_is_nothing(capsys):
    output.table([])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("count", "text"), [(0, "0 changes"), (1, "1 change"), (1234, "1,234 changes")])
def test_numbers_agree_with_their_noun(count, text):
    assert output.plural(count, "change") == text
