"""The shapes of the wire: what is read, what is refused, what is written."""

from datetime import UTC, datetime, timedelta, timezone

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmsfs.models import base, paging, problems, wire_names
from cmsfs.models.content import items, search, uploads, web_links
from cmsfs.models.enterprise import tokens, users

moments = st.datetimes(
    min_value=datetime(1, 1, 3), max_value=datetime(9999, 12, 29), timezones=st.just(UTC)
) | st.datetimes(
    min_value=datetime(1, 1, 3),
    max_value=datetime(9999, 12, 29),
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@given(moments)
def test_a_moment_comes_back_as_it_was(moment):
    assert base.parse_timestamp(base.format_timestamp(moment)) == moment


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00+00:00"),
        ("2024-02-29t12:00:00z", "2024-02-29T12:00:00+00:00"),
        ("2024-02-29 12:00:00-08:00", "2024-02-29T20:00:00+00:00"),
        ("2024-02-29T12:00:00.5+01:00", "2024-02-29T11:00:00.500000+00:00"),
        ("2024-02-29T12:00:00.123456789Z", "2024-02-29T12:00:00.123456+00:00"),
        ("1960-01-01T00:00:00Z", "1960-01-01T00:00:00+00:00"),
    ],
)
def test_moments_in_all_spellings(text, expected):
    assert base.format_timestamp(base.parse_timestamp(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-02-29",
        "2024-02-29T12:00:00",
        "2024-02-30T12:00:00Z",
        "1700000000",
        "2024-02-29T12:00Z",
        "2024-02-29T12:00:00+25:00",
        "0001-01-01T00:00:00+14:00",
        "٢٠٢٤-02-29T12:00:00Z",
        "2024-02-29T12:00:00,5Z",
    ],
)
def test_what_is_no_moment(text):
    with pytest.raises(ValueError):
        base.parse_timestamp(text)


@pytest.mark.parametrize(
    ("a", "b"), [("A", "a"), ("STRASSE", "straße"), ("É", "e\u0301"), ("ΣΑΣ", "σας"), ("ﬁ", "FI")]
)
def test_names_that_clash(a, b):
    assert wire_names.name_key(a) == wire_names.name_key(b)


@pytest.mark.parametrize(("a", "b"), [("a", "b"), ("a", "a "), ("é", "e"), ("a.txt", "a_txt")])
def test_names_that_do_not(a, b):
    assert wire_names.name_key(a) != wire_names.name_key(b)


@given(st.text(max_size=300))
def test_name_validation(name):
    problem = wire_names.name_problem(name)
    assert problem in (None, wire_names.NAME_INVALID, wire_names.NAME_TOO_LONG)
    if problem is None:
        assert 0 < len(name) <= 255
        assert not set(name) & {"/", "\\", "\0", "\n", "\x7f", "\x80", "\x9b", "\x9f", "\u2028", "\u2029"}
        assert name.strip(".") or len(name) > 2


@pytest.mark.parametrize("character", ["\x1b", "\x80", "\x85", "\x9b", "\x9f", "\u2028", "\u2029", "\ud800"])
def test_control_characters_are_not_in_names(character):
    assert wire_names.name_problem(f"a{character}b") == wire_names.NAME_INVALID
    with pytest.raises(pydantic.ValidationError):
        users.NewUser.model_validate({"name": f"Ada{character}", "login": "ada@example.com"})


def test_items_are_told_apart_by_their_type():
    file = items.parse_item({"type": "file", "id": 5, "size": "1.0e+18", "unknown": 1, "etag": "3"})
    assert isinstance(file, items.File)
    assert (file.id, file.size, file.etag, file.name) == ("5", 10**18, "3", None)
    assert file.model_fields_set == {"type", "id", "size", "etag"}
    assert isinstance(items.parse_item({"type": "folder", "id": "0", "etag": None}), items.Folder)
    assert isinstance(items.parse_item({"type": "web_link", "id": "7", "url": "x"}), items.WebLink)
    for bad in ({"type": "note", "id": "1"}, {"id": "1"}, {"type": "file"}, {}):
        with pytest.raises(pydantic.ValidationError):
            items.parse_item(bad)


@pytest.mark.parametrize(("sent", "size"), [(5, 5), (5.0, 5), ("5", 5), (1e18, 10**18), ("-1", -1), (0, 0)])
def test_sizes_come_in_many_forms(sent, size):
    found = items.parse_item({"type": "file", "id": "1", "size": sent})
    assert isinstance(found, items.File)
    assert found.size == size


@pytest.mark.parametrize("sent", ["x", "", float("inf"), float("nan"), "nan", [], {}])
def test_what_is_no_size(sent):
    with pytest.raises(pydantic.ValidationError):
        items.parse_item({"type": "file", "id": "1", "size": sent})


def test_only_what_was_set_is_sent():
    change = items.UpdateItem(name="x", content_modified_at=datetime(2024, 1, 1, tzinfo=UTC))
    assert change.body() == {"name": "x", "content_modified_at": "2024-01-01T00:00:00+00:00"}
    attributes = uploads.UploadAttributes(name="x", parent=base.Reference(id="0"))
    assert attributes.body() == {"name": "x", "parent": {"id": "0"}}
    assert web_links.RestoreWebLink().body() == {}


queries = st.builds(
    search.Query,
    query=st.text(st.characters(codec="utf-8"), min_size=1),
    created_at_range=st.none()
    | st.builds(search.TimeRange, start=st.none() | moments, end=st.none() | moments),
    size_range=st.none()
    | st.builds(
        search.SizeRange, lower=st.none() | st.integers(0, 2**60), upper=st.none() | st.integers(0, 2**60)
    ),
    ancestor_folder_ids=st.none() | st.lists(st.from_regex(r"\A[0-9]{1,9}\Z"), min_size=1),
    content_types=st.none() | st.lists(st.sampled_from(["name", "tags"]), min_size=1),
    type=st.sampled_from([None, "file", "folder", "web_link"]),
    limit=st.integers(1, 1000),
    offset=st.integers(0, 10_000),
    include_recent_shared_links=st.booleans(),
    mdfilters=st.none()
    | st.just([search.MetadataFilter(scope="global", template_key="k", filters={"a": ["b c"]})]),
)


@given(queries)
def test_a_query_is_read_as_it_was_sent(query):
    again = search.Query.model_validate(query.params())
    unset = {name: value for name, value in query if value is not None}
    assert {name: getattr(again, name) for name in unset} == unset


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [("2024-01-01T00:00:00Z,", 2024, None), (",2025-01-01T00:00:00Z", None, 2025), (",", None, None)],
)
def test_open_ended_ranges(text, start, end):
    found = search.Query.model_validate({"query": "a", "updated_at_range": text}).updated_at_range
    assert found is not None
    years = [None if moment is None else moment.year for moment in (found.start, found.end)]
    assert years == [start, end]


@pytest.mark.parametrize(
    "given_",
    [
        *({"limit": 0}, {"offset": 10_001}, {"offset": -1}, {"type": "x"}, {"size_range": "1,2,3"}),
        *({"created_at_range": "x,"}, {"mdfilters": "[]"}, {"mdfilters": "[1, 2]"}, {"content_types": "x"}),
    ],
)
def test_queries_that_break_the_rules(given_):
    with pytest.raises(pydantic.ValidationError):
        search.Query.model_validate({"query": "a"} | given_)


def test_secrets_are_not_shown():
    grant = tokens.ClientCredentials(
        client_id="id", client_secret="hidden", service_subject_type="user", subject_id="7"
    )
    assert "hidden" not in repr(grant) + str(grant)
    assert grant.form() == {
        "grant_type": "client_credentials",
        "client_id": "id",
        "client_secret": "hidden",
        "service_subject_type": "user",
        "box_subject_type": "user",
        "box_subject_id": "7",
    }
    token = tokens.Token.model_validate(
        {"access_token": "hidden", "expires_in": 60, "refresh_token": "also hidden"}
    )
    assert "hidden" not in repr(token)


def test_the_other_grants():
    assert tokens.JwtBearer(client_id="a", client_secret="b", assertion="c").form() == {
        "grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "client_id": "a",
        "client_secret": "b",
        "assertion": "c",
    }
    exchange = tokens.TokenExchange(subject_token="a", scope="item_upload base_explorer", resource="u").form()
    assert exchange["grant_type"].endswith(":token-exchange")
    assert exchange["subject_token_type"].endswith(":access_token")


def test_pages_and_problems():
    page = paging.MarkerPage[items.Item].model_validate(
        {"entries": [{"type": "folder", "id": "1"}], "limit": 5, "next_marker": None}
    )
    assert isinstance(page.entries[0], items.Folder)
    order = {"by": "type", "direction": "ASC"}
    for sent in (order, [order]):
        paging.OffsetPage[items.Item].model_validate({"order": sent})
    short = problems.Problem.model_validate({"code": "x", "message": "y", "request_id": "z"})
    assert (short.code, short.status, short.context_info) == ("x", None, None)
