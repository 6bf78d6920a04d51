"""Extended attributes: every field of the service's objects has one, or a reason; the texts are readable."""

import re
from importlib import resources
from typing import Any

import pytest

from cmsfs.models.content import items, metadata
from cmsfs.models.enterprise import legal_holds, retention
from cmsfs.vfs import metadata_values
from cmsfs.vfs.attrs import item_fields, policies
from cmsfs.vfs.tree import xattrs

# Fields of a policy's or an assignment's object, and the attribute that shows them.
HOLD = {
    "policy_name": "hold",
    "id": "hold.id",
    "filter_started_at": "hold.since",
    "filter_ended_at": "hold.until",
    "assignment_counts": "hold.assignments",
    "is_ongoing": "hold.until",
    "legal_hold_policy": "hold",
}
RETENTION = {
    "policy_name": "retention",
    "policy_type": "retention.type",
    "retention_type": "retention.is_modifiable",
    "retention_length": "retention.length",
    "disposition_action": "retention.action",
    "start_date_field": "retention.start_field",
    "retention_policy": "retention",
    "assignment_counts": "retention.assignments",
}


def section() -> str:
    text = (resources.files("cmsfs.vfs") / "SEMANTICS.md").read_text(encoding="utf-8")
    return text.partition("## Extended attributes\n")[2].partition("\n## ")[0]


def documented() -> set[str]:
    """The attributes in the first column of the first table."""
    table = section().partition("| --- |")[2].partition("\n\n")[0]
    return {
        name for line in table.splitlines()[1:] for name in re.findall(r"`([^`]+)`", line.split(" | ")[0])
    }


def excused() -> set[str]:
    """The fields of the second table, each of which has a reason beside it."""
    rows = section().partition("| field of the service |")[2].partition("\n\n")[0].splitlines()[2:]
    found = set()
    for row in rows:
        fields, reason = row.strip("| ").split(" | ")
        assert len(reason) > 10
        found |= set(re.findall(r"`([^`]+)`", fields))
    return found


def test_the_table_has_every_attribute_and_no_other() -> None:
    there = (
        item_fields.NAMES
        | policies.NAMES
        | xattrs.LOCAL
        | {xattrs.FAVORITE, xattrs.HISTORY}
        | {"metadata", "metadata.<scope>.<template>.<field>"}
    )
    assert documented() == there
    assert set(xattrs.LISTED) < there


def test_what_a_listing_shows_is_marked() -> None:
    table = section().partition("| --- |")[2].partition("\n\n")[0].splitlines()[1:]
    marked = set()
    for line in table:
        names, mark = line.strip("| ").split(" | ")[0], line.rpartition("●")
        if mark[1]:
            marked |= set(re.findall(r"`([^`]+)`", mark[2]) or re.findall(r"`([^`]+)`", names))
    assert marked == {*xattrs.LISTED, "metadata.<scope>.<template>.<field>"}


@pytest.mark.parametrize("shape", [items.File, items.Folder, items.WebLink])
def test_every_item_field_has_an_attribute(shape: Any) -> None:
    places = {field.place for field in item_fields.FIELDS}
    tops = {place.partition(".")[0] for place in places}
    for name in shape.model_fields:
        assert name in tops or name in excused() or name == "metadata", name
    assert set(item_fields.WITHOUT) == {"metadata"} | excused() & (
        set(items.File.model_fields) | set(items.Folder.model_fields)
    )


@pytest.mark.parametrize(
    ("top", "shape", "left_out"),
    [
        ("shared_link", items.SharedLink, set()),
        ("lock", items.Lock, {"type"}),
        ("classification", items.Classification, set()),
        ("watermark_info", items.WatermarkInfo, set()),
        ("folder_upload_email", items.UploadEmail, set()),
    ],
)
def test_every_nested_field_has_an_attribute(top: str, shape: Any, left_out: set[str]) -> None:
    places = {field.place for field in item_fields.FIELDS}
    assert {f"{top}.{name}" for name in shape.model_fields if name not in left_out} <= places


def test_every_policy_field_has_an_attribute() -> None:
    for shapes, known, word in (
        ((legal_holds.LegalHoldPolicy, legal_holds.HoldAssignment), HOLD, "hold"),
        ((retention.RetentionPolicy, retention.RetentionAssignment), RETENTION, "retention"),
    ):
        for shape in shapes:
            for name in set(shape.model_fields) - {"type"}:
                attribute = known.get(name, f"{word}.{name}")
                assert attribute in policies.NAMES or name in excused(), name


def test_the_texts_of_an_item() -> None:
    item = items.File.model_validate(
        {
            "id": "7",
            "etag": "3",
            "name": "a.txt",
            "size": 12,
            "description": "two\nlines",
            "tags": ["red", "round"],
            "created_at": "2026-01-02T03:04:05+01:00",
            "trashed_at": "2026-02-02T03:04:05Z",
            "owned_by": {"id": "1", "name": "Ada", "login": "ada@example.com"},
            "created_by": {"id": "", "name": "", "login": ""},
            "lock": {"id": "9", "created_by": {"id": "2", "login": "ben@example.com"}},
            "path_collection": {
                "total_count": 2,
                "entries": [{"id": "0", "name": "All"}, {"id": "4", "name": "d"}],
            },
            "permissions": {"can_download": True, "can_delete": False, "can_rename": True},
            "shared_link": {"url": "https://x.example/s", "is_password_enabled": False, "download_count": 0},
            "watermark_info": {"is_watermarked": True},
            "item_status": "trashed",
        }
    )
    assert item_fields.values(item) == {
        "id": "7",
        "type": "file",
        "etag": "3",
        "name": "a.txt",
        "size": "12",
        "status": "trashed",
        "description": "two\nlines",
        "tags": "red,round",
        "path": "/d",
        "owner": "Ada <ada@example.com>",
        "owner.id": "1",
        "created_at": "2026-01-02T02:04:05+00:00",
        "trashed_at": "2026-02-02T03:04:05+00:00",
        "lock": "ben@example.com",
        "lock.id": "9",
        "lock.by_id": "2",
        "permissions": "download,rename",
        "shared_link": "https://x.example/s",
        "shared_link.has_password": "0",
        "shared_link.downloads": "0",
        "watermark": "1",
    }


FIELDS = {
    "word": metadata.Field(type="string", key="word", display_name="w"),
    "number": metadata.Field(type="float", key="number", display_name="n"),
    "day": metadata.Field(type="date", key="day", display_name="d"),
    "one": metadata.Field(
        type="enum", key="one", display_name="o", options=[metadata.Option(key=key) for key in ("a", "b, c")]
    ),
    "some": metadata.Field(
        type="multiSelect",
        key="some",
        display_name="s",
        options=[metadata.Option(key=key) for key in ("a", "b, c", "d")],
    ),
}


@pytest.mark.parametrize(
    ("field", "given", "value"),
    [
        ("word", "any text\n", "any text\n"),
        ("number", "7", 7),
        ("number", " 1.5", 1.5),
        ("number", "1e300", 1e300),
        ("day", "2026-11-21", "2026-11-21T00:00:00.000Z"),
        ("day", "2026-11-21T10:00:00+01:00", "2026-11-21T09:00:00.000Z"),
        ("one", "b, c", "b, c"),
        ("some", "a,d", ["a", "d"]),
        ("some", "a\nb, c", ["a", "b, c"]),
        ("some", "b, c", ["b, c"]),
    ],
)
def test_attribute_text_round_trips(field: str, given: str, value: Any) -> None:
    assert metadata_values.parse(FIELDS[field], given) == value
    assert metadata_values.parse(FIELDS[field], metadata_values.text(value)) == value


@pytest.mark.parametrize(
    ("field", "given", "said"),
    [
        ("number", "seven", "a number"),
        ("number", "nan", "a number"),
        ("day", "tomorrow", "2026-11-21"),
        ("one", "c", "one of a, b, c"),
        ("some", "a,a", "some of"),
        ("some", "z", "some of"),
        ("word", "x" * 10_001, "10000"),
    ],
)
def test_invalid_attribute_text_names_valid_ones(field: str, given: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        metadata_values.parse(FIELDS[field], given)


@pytest.mark.parametrize(
    "name", ["metadata", "metadata.enterprise", "metadata.x.t.f", "metadata.global..f", "hold"]
)
def test_other_names_are_no_places(name: str) -> None:
    assert metadata_values.place(name) is None


def test_template_scope_and_dotted_fields() -> None:
    assert metadata_values.place("metadata.enterprise_12.t.a.b") == metadata_values.ValuePlace(
        "enterprise", "t", "a.b"
    )


def test_what_has_an_inside_is_no_attribute():
    cards = [{"type": "skill_card", "entries": [{"text": "teal"}]}]
    shown = {
        "$scope": "global",
        "$template": "boxSkillsCards",
        "cards": cards,
        "count": 1,
        "words": ["a", "b"],
    }
    values = metadata_values.values([metadata.Instance.model_validate(shown)])
    assert values == {
        "metadata.global.boxSkillsCards.count": "1",
        "metadata.global.boxSkillsCards.words": "a,b",
    }
