"""What is not printable is shown, not obeyed."""

import pytest

from cmsfs import printable


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("\x1b]0;mine\x07\x1b[2J", r"\e]0;mine\x07\e[2J"),
        ("\x9b2J\x85", r"\x9b2J\x85"),
        ("a\nb\rc\td\x00", r"a\nb\rc\td\x00"),
        ("invoice\u202efdp.exe", r"invoice\u202efdp.exe"),
        ("\u2066x\u2069\u200e\u061c", r"\u2066x\u2069\u200e\u061c"),
        ("pay\u200bpal\ufeff\u2060", r"pay\u200bpal\ufeff\u2060"),
        ("a\u200db", r"a\u200db"),
        ("one\u2028two\u2029", r"one\u2028two\u2029"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_not_seen_is_escaped(text, seen):
    assert printable.escaped(text) == seen


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Übersicht 1.txt",
        "資料",
        "مستند",
        "می\u200cخواهم",
        "👨\u200d👩\u200d👧",
        "a\u202fb\u00a0c",
        "e\u0301",
    ],
)
def test_what_is_seen_stays(text):
    assert printable.escaped(text) == text


def test_what_a_caller_keeps_stays():
    assert printable.escaped("a\tb\n\x1b", keep="\t\n") == "a\tb\n\\e"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (
            '/<a href="https:/evil.example/x">Login</a>',
            "/&lt;a href=&quot;https: evil.example/x&quot;&gt;Login&lt;/a&gt;",
        ),
        ("see https://evil.example now", "see https: evil.example now"),
        ("A & B", "A &amp; B"),
        ("one\n\x1b[1mtwo", r"one\n\e[1mtwo"),
    ],
)
def test_a_notification_has_no_markup_and_no_links(text, body):
    assert printable.without_markup(text) == body
