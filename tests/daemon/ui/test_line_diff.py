"""Differences of two texts."""

import random

from daemon.ui import line_diff
from daemon.ui.line_diff import DiffLine


def test_a_line_was_changed():
    assert line_diff.compare("a\nb\nc\n", "a\nB\nc\n") == [
        DiffLine("same", "a"),
        DiffLine("old", "b"),
        DiffLine("new", "B"),
        DiffLine("same", "c"),
    ]
    assert line_diff.compare("a\nb", "a\nb") == []


def test_what_is_far_from_a_change_is_counted():
    old = "\n".join(map(str, range(100)))
    assert [line.text for line in line_diff.compare(old, f"{old}\nend")] == [
        "97 lines",
        "97",
        "98",
        "99",
        "end",
    ]


def test_any_two_texts():
    rng = random.Random(7)
    for _ in range(300):
        old, new = ("\n".join(rng.choices("abcd", k=rng.randrange(12))) for _ in range(2))
        lines = line_diff.compare(old, new)
        if old.splitlines() == new.splitlines():
            assert lines == []
        elif not any(line.kind == "gap" for line in lines):
            assert [line.text for line in lines if line.kind != "new"] == old.splitlines()
            assert [line.text for line in lines if line.kind != "old"] == new.splitlines()


def test_two_texts_with_nothing_in_common_are_shown_one_after_the_other():
    old, new = "\n" * 20_000, "x\n" * 20_000
    lines = line_diff.compare(old, new)
    assert len(lines) == line_diff.MOST_LINES + 1
    assert {line.kind for line in lines[:-1]} == {"old"}
