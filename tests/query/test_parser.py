"""What a person types to search, understood: words, filters, ranges, metadata, and what is refused."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs import errors
from cmsfs.models.content import search
from cmsfs.query import filters, parser, ranges

NOW = datetime(2026, 11, 21, 15, 30, tzinfo=UTC)
EVERYTHING = 'NOT "nothing"'
MIB = 1024 * 1024


def parse(text: str) -> parser.ParsedSearch:
    return parser.parse(text, now=NOW, zone=UTC)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("budget 2026", "budget 2026"),
        ('"exact phrase" OR (a AND NOT b)', '"exact phrase" OR (a AND NOT b)'),
        ("budget AND type:file", "budget"),
        ("type:file AND budget", "budget"),
        ("a AND type:file AND b", "a AND b"),
        ("a type:file AND ext:pdf AND b ext:odt c", "a AND b c"),
        # No filters: other keys, other cases, quoted words, things with colons.
        ("http://x.test 12:30 Type:file foo:bar", "http://x.test 12:30 Type:file foo:bar"),
        ('"type:file"', '"type:file"'),
        ("AND", "AND"),
    ],
)
def test_unknown_filter_is_passed_through(typed: str, words: str):
    assert parse(typed).text == words


@pytest.mark.parametrize(
    ("typed", "folder"),
    [
        ('in:"Say ""hi"""', 'Say "hi"'),
        ('in:"""x"""', '"x"'),
        ('in:5""disk', '5"disk'),
        ('in:"a b"', "a b"),
        ('in:"19"" rack/left"', '19" rack/left'),
    ],
)
def test_a_quote_in_a_filter_is_written_twice(typed: str, folder: str):
    assert parse(typed).folders == (folder,)
    assert parse(f"in:{filters.quoted(folder)} words").folders == (folder,)
    assert parse(f"in:{filters.quoted(folder)} words").text == "words"


def test_every_filter_has_its_parameter():
    wanted = parse(
        'report type:link ext:pdf,.docx,ext ext:odt in:Legal in:"My Folder/a, b" owner:me owner:ann@x.test'
        " size:1M..10M modified:2026-03 created:..2025 content:name,text"
    )
    assert wanted.folders == ("Legal", "My Folder/a, b")
    assert wanted.owners == ("me", "ann@x.test")
    query = wanted.query(everything=EVERYTHING, folders=["7", "8"], owners=["1", "2"])
    assert query.params() == {
        "query": "report",
        "type": "web_link",
        "file_extensions": "pdf,docx,ext,odt",
        "ancestor_folder_ids": "7,8",
        "owner_user_ids": "1,2",
        "content_types": "name,file_content",
        "size_range": f"{MIB},{10 * MIB}",
        "updated_at_range": "2026-03-01T00:00:00+00:00,2026-03-31T23:59:59.999999+00:00",
        "created_at_range": ",2025-12-31T23:59:59.999999+00:00",
    }


def test_filters_alone_search_everything():
    assert parse("type:file").query(everything=EVERYTHING).query == EVERYTHING


@pytest.mark.parametrize(
    ("typed", "lower", "upper"),
    [
        ("0", 0, 0),
        ("500", 500, 500),
        ("1M", MIB, 2 * MIB - 1),
        ("1MiB..", MIB, None),
        ("..2kB", None, 2000),
        ("1.5K..3k", 1536, 3072),
        (">1M", MIB + 1, None),
        (">=1M", MIB, None),
        ("<1K", None, 1023),
        ("<=1K", None, 1024),
    ],
)
def test_sizes(typed: str, lower: int | None, upper: int | None):
    assert parse(f"size:{typed}").size == search.SizeRange(lower=lower, upper=upper)


@pytest.mark.parametrize(
    ("typed", "start", "end"),
    [
        ("2026", "2026-01-01", "2027-01-01"),
        ("2025-12", "2025-12-01", "2026-01-01"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("2026-03-05T14:30", "2026-03-05T14:30", "2026-03-05T14:31"),
        ("today", "2026-11-21", "2026-11-22"),
        ("yesterday", "2026-11-20", "2026-11-21"),
        ("2026-01..2026-03", "2026-01-01", "2026-04-01"),
        ("2026-01..", "2026-01-01", None),
        ("..yesterday", None, "2026-11-21"),
        ("<2026", None, "2026-01-01"),
        (">2025", "2026-01-01", None),
        ("7d", "2026-11-14T15:30", None),
        ("12h", "2026-11-21T03:30", None),
        ("2w..yesterday", "2026-11-07T15:30", "2026-11-21"),
    ],
)
def test_times_end_where_the_next_begins(typed: str, start: str | None, end: str | None):
    found = parse(f"modified:{typed}").modified
    last = None if end is None else at(end) - timedelta(microseconds=1)
    assert found == search.TimeRange(start=None if start is None else at(start), end=last)


def test_days_are_those_of_the_person():
    zone = timezone(timedelta(hours=-7))
    found = parser.parse("modified:today", now=at("2026-11-21T03:00"), zone=zone).modified
    assert found is not None and found.start == datetime(2026, 11, 20, tzinfo=zone)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "nothing to search"),
        ("  ", "nothing to search"),
        ("type:picture", "type: takes file, folder, link"),
        ("type:", "type: needs a value"),
        ("type:file type:folder", "type: can be given once"),
        ("type:file OR budget", "cannot be joined by OR or NOT"),
        ("budget OR type:file", "cannot be joined by OR or NOT"),
        ("budget NOT type:file", "cannot be joined by OR or NOT"),
        ("content:everything", "content: takes name, description"),
        ("size:big", "size: takes sizes"),
        ("size:5X", "size: takes sizes"),
        ("size:..", "size: a range needs an end"),
        ("size:2M..1M", "ends before it begins"),
        ("size:<0", "nothing is smaller"),
        ("modified:soon", "modified: takes 2026"),
        ("modified:2026-13", "modified: takes 2026"),
        ("modified:2026-02-30", "modified: takes 2026"),
        ("modified:0000", "modified: takes 2026"),
        ("created:2026..2025", "created: 2026..2025 ends before it begins"),
        ("metadata:a.b.c.d=1", "metadata: takes TEMPLATE"),
        ("metadata:contract.status", "metadata: takes TEMPLATE"),
        ("metadata:contract.status=", "metadata: takes TEMPLATE"),
        ("metadata:contract.a=1 metadata:invoice.a=1", "one template only"),
        ('metadata:"contract where a = 1" metadata:contract.b=1', "stands alone"),
        ('metadata:"contract where a = 1" type:file', "one in: and nothing else"),
        ('harbour metadata:"contract where a = 1"', "one in: and nothing else"),
        ('metadata:"contract where a = 1" in:A in:B', "one in: and nothing else"),
        ('metadata:"contract where"', "metadata: takes TEMPLATE"),
    ],
)
def test_invalid_query_is_explained(typed: str, said: str):
    with pytest.raises(errors.UserError, match=said) as refused:
        parse(typed)
    assert refused.value.exit_code == 2
    assert refused.value.message.endswith(".")


TYPES = {"status": "enum", "sum": "float", "due": "date", "tags": "multiSelect", "title": "string"}


@pytest.mark.parametrize(
    ("typed", "filters"),
    [
        ("metadata:contract", {}),
        ("metadata:contract.status=signed", {"status": "signed"}),
        ('metadata:contract.title="two words"', {"title": "two words"}),
        ("metadata:contract.sum=5", {"sum": {"gt": 5.0, "lt": 5.0}}),
        ("metadata:contract.sum=5..10", {"sum": {"gt": 5.0, "lt": 10.0}}),
        ("metadata:contract.sum>=5 metadata:contract.sum<=9", {"sum": {"gt": 5.0, "lt": 9.0}}),
        ("metadata:contract.tags=a metadata:contract.tags=b", {"tags": ["a", "b"]}),
        (
            "metadata:contract.due=2026-03-05",
            {"due": {"gt": "2026-03-05T00:00:00+00:00", "lt": "2026-03-05T23:59:59.999999+00:00"}},
        ),
        ("metadata:contract.due>=2026", {"due": {"gt": "2026-01-01T00:00:00+00:00"}}),
    ],
)
def test_metadata_is_asked_for_as_its_fields_are(typed: str, filters: dict[str, Any]):
    asked = parse(typed).metadata
    assert asked is not None and (asked.scope, asked.template) == ("enterprise", "contract")
    found = asked.filter(TYPES, ranges.Clock(NOW, UTC))
    assert found.filters == filters
    assert parse(typed).query(everything=EVERYTHING, metadata=found).query is None


def test_a_condition_is_the_services_own():
    asked = parse("metadata:\"Global.properties WHERE a = 'x y' OR (b > 1)\" in:Legal").metadata
    assert asked is not None
    assert (asked.scope, asked.template, asked.conditions) == ("global", "properties", ())
    assert asked.query == "a = 'x y' OR (b > 1)"
    plain = parse('metadata:"contract where a = ""x"""').metadata
    assert plain is not None
    assert (plain.scope, plain.query) == ("enterprise", 'a = "x"')


def test_a_scope_may_stand_before_the_template():
    asked = parse("metadata:global.properties.project=x").metadata
    assert asked is not None and (asked.scope, asked.template) == ("global", "properties")
    # Any key may be in these.
    assert asked.filter({}, ranges.Clock(NOW, UTC)).filters == {"project": "x"}


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("metadata:contract.colour=red", "contract has status, sum, due, tags, title, not 'colour'"),
        ("metadata:contract.sum=much", "sum is a number"),
        ("metadata:contract.status>=x", "only = can be asked"),
        ("metadata:contract.due=soon", "metadata: takes 2026"),
        ("metadata:contract.sum=..", "a range needs an end"),
    ],
)
def test_metadata_that_the_template_does_not_have(typed: str, said: str):
    asked = parse(typed).metadata
    assert asked is not None
    with pytest.raises(errors.UserError, match=said):
        asked.filter(TYPES, ranges.Clock(NOW, UTC))


@given(st.text())
def test_any_input_parses_or_is_refused(typed: str):
    try:
        wanted = parse(typed)
    except errors.UserError as refused:
        assert refused.exit_code == 2
    else:
        wanted.query(everything=EVERYTHING).params()


_WORDS = st.sampled_from(["budget", '"two words"', "AND", "OR", "NOT", "12:30", "é", "(a", "b)"])


@given(st.lists(_WORDS, min_size=1))
def test_without_filters_the_words_stay_as_they_are(words: list[str]):
    assert parse(" ".join(words)).text.split() == " ".join(words).split()


_NUMBERS = st.integers(0, 10**12)


@given(_NUMBERS, _NUMBERS)
def test_a_range_holds_what_is_between_its_ends(one: int, other: int):
    lower, upper = sorted((one, other))
    assert parse(f"size:{lower}..{upper}").size == search.SizeRange(lower=lower, upper=upper)


@given(st.integers(1, 999), st.sampled_from(["", "K", "M", "GB", "TiB"]))
def test_sizes_that_stand_alone_leave_no_gap(number: int, unit: str):
    one, following = (parse(f"size:{n}{unit}").size for n in (number, number + 1))
    assert one is not None and following is not None
    assert one.upper is not None and following.lower == one.upper + 1
