"""Pages of entries are the same, whichever of the two ways reads them."""

import json
from typing import Any

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmsfs.client.content.search import FIELDS
from cmsfs.models.content import entries

FILE: dict[str, Any] = {
    "type": "file",
    "id": "5",
    "name": "Fähre 🛳.txt",
    "parent": {"type": "folder", "id": "0", "name": "All Files"},
    "etag": "1",
    "sequence_id": "1",
    "item_status": "active",
    "sha1": "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "file_version": {"type": "file_version", "id": "7", "sha1": "x"},
    "size": 10,
    "created_at": "2026-01-02T03:04:05-08:00",
    "modified_at": "2026-01-02T03:04:05.123456+00:00",
    "content_modified_at": "2026-01-02T03:04:05Z",
    "owned_by": {"type": "user", "id": "7", "login": "ada@example.com"},
    "description": "",
    "tags": [],
    "lock": {"id": "9"},
}


def page(*items: Any, **more: Any) -> bytes:
    return json.dumps({"total_count": len(items), "limit": 200, "entries": items, **more}).encode()


def read(content: bytes) -> entries.EntryPage:
    return entries.EntryPage.model_validate_json(content)


def liberally(content: bytes) -> entries.EntryPage:
    """Read a page the other way, which has no fast path."""
    return entries.EntryPage.liberal(content)


def test_every_field_that_is_asked_for_is_kept() -> None:
    known = {*entries.Entry.__struct_fields__}
    assert known == {*FIELDS}


def test_what_says_nothing_is_not_stored() -> None:
    kept = json.loads(read(page(FILE)).entries[0].kept_json())
    assert kept == {
        "created_at": "2026-01-02T03:04:05-08:00",
        "modified_at": "2026-01-02T03:04:05.123456Z",
        "content_modified_at": "2026-01-02T03:04:05Z",
        "owned_by": FILE["owned_by"],
        "lock": {"id": "9"},
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"id": 5, "etag": 1, "parent": {"id": 0}, "file_version": {"id": 7}},
        {"size": 1e15},
        {"size": "12"},
        {"created_at": "2026-01-02 03:04Z", "modified_at": 1767323045},
        # Nanoseconds are cut off, not rounded: an event has the same time.
        {"modified_at": "2026-01-02T03:04:05.1234567Z"},
    ],
)
def test_liberal_services_are_understood(changes: dict[str, Any]) -> None:
    found = read(page(FILE | changes, FILE))
    assert found == liberally(page(FILE | changes, FILE))
    assert found.entries[1] == read(page(FILE)).entries[0]
    first = found.entries[0]
    assert (first.id, first.parent and first.parent.id, first.etag) == ("5", "0", "1")
    if "modified_at" in changes and isinstance(changes["modified_at"], str):
        assert first.modified_at is not None
        assert first.modified_at.microsecond == 123456


@pytest.mark.parametrize(
    "content",
    [
        b"{}",
        b'{"entries": null}',
        page({"type": "file"}),
        page(FILE | {"type": "planet"}),
        page(FILE | {"created_at": "2026-01-02T03:04:05"}),  # when is that?
        page(FILE).replace(b'"lock"', b'"\xff"'),
        page(FILE).replace(b'"id": "9"', b'"id": "\\ud800"'),
        page(FILE)[:-2],
        b"[" * 100_000,
    ],
)
def test_invalid_pages_are_refused(content: bytes) -> None:
    with pytest.raises(pydantic.ValidationError):
        read(content)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=6),
    st.sampled_from(
        ["2026-01-02T03:04:05Z", "1969-12-31T23:59:59.5+14:00", "2026-02-30T00:00:00Z", "7", "1e3"]
    ),
    st.lists(st.text(max_size=3), max_size=2),
    st.dictionaries(
        st.sampled_from(["id", "name", "é"]), st.one_of(st.text(max_size=3), st.integers()), max_size=2
    ),
)


@given(st.dictionaries(st.sampled_from([*FILE, "url", "trashed_at", "unknown"]), VALUES, max_size=4))
@settings(max_examples=150, deadline=None)
def test_both_ways_agree(changes: dict[str, Any]) -> None:
    content = page(FILE | changes)
    try:
        expected = liberally(content)
    except pydantic.ValidationError:
        with pytest.raises(pydantic.ValidationError):
            read(content)
        return
    found = read(content)
    assert found == expected
    assert json.loads(found.entries[0].kept_json()) == json.loads(expected.entries[0].kept_json())
