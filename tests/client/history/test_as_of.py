"""What a folder was, out of facts: what is known is taken, what is not is named."""

from datetime import UTC, datetime, timedelta

import pytest

from cmsfs.client.history import moments
from cmsfs.client.history.as_of import Facts, ItemState, Unsure, VersionState, item_at, paths, tree_at
from cmsfs.client.history.restore_plan import make_plan
from cmsfs.models.content import events

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
KEY = ("file", "7")


def _ago(hours: int) -> datetime:
    return NOW - timedelta(hours=hours)


def _state(
    at: int, cause: str | None = None, *, name: str = "a", parent: str = "1", **more: object
) -> ItemState:
    known: dict[str, object] = {"created": _ago(99), "version": "v1", "sha1": "x", **more}
    return ItemState(KEY, name, parent, at=_ago(at), cause=cause, **known)  # type: ignore[arg-type]


def _facts(now: ItemState | None, *told: ItemState, reach: int = 50) -> Facts:
    versions = {"7": [VersionState("v0", _ago(90), "w", 1, "old name"), VersionState("v1", _ago(6), "x", 1)]}
    return Facts({KEY: now} if now else {}, {KEY: list(told)}, _ago(reach), versions)


# What is now and was told, in hours before now; how it was ten hours ago: name, folder, version, unsure.
CASES = {
    "untouched": (_facts(_state(20), reach=1), ("a", "1", "v1", "")),
    "made since": (_facts(_state(5, created=_ago(5))), None),
    "trashed since": (_facts(_state(5, is_trashed=True), _state(5, events.TRASH)), ("a", "1", "v0", "")),
    "trashed before": (_facts(_state(20, is_trashed=True)), None),
    "renamed, told before": (
        _facts(_state(5, name="b"), _state(20, events.UPLOAD), _state(5, events.RENAME, name="b")),
        ("a", "1", "v1", ""),
    ),
    "moved, nothing told before": (_facts(_state(5, events.MOVE), _state(5, events.MOVE)), "place"),
    "a version since": (_facts(_state(5), _state(5, events.UPLOAD)), ("a", "1", "v0", "")),
    "renamed, nothing told before": (
        _facts(_state(5), _state(5, events.RENAME)),
        ("old name", "1", "v0", "saved-name"),
    ),
    "back from the trash since": (_facts(_state(5), _state(5, events.RESTORE)), None),
    "events end too late": (_facts(_state(5), reach=1), "place"),
    "removed for good": (_facts(None, _state(20, events.UPLOAD), _state(5, events.TRASH)), "gone"),
}


@pytest.mark.parametrize("name", CASES)
def test_an_item_as_it_was(name: str) -> None:
    facts, expected = CASES[name]
    then = item_at(facts, KEY, _ago(10))
    if expected is None:
        assert then is None
        return
    assert then is not None
    if isinstance(expected, str):
        assert Unsure(expected) in then.unsure
        return
    state = then.state
    unsure = " ".join(sorted(then.unsure))
    assert (state.name, state.parent, state.version, unsure) == expected


def test_what_is_not_known_stays_and_is_named() -> None:
    now = _state(5, name="moved", parent="2")
    facts = _facts(now, _state(5, events.MOVE, name="moved", parent="2"))
    tree = tree_at(facts, "2", _ago(10))
    plan = make_plan(tree, {KEY: now}, {})
    assert not plan.of("place")
    assert {why for _, _, why in plan.unknown} == {
        "what it was called is not known",
        "where it was is not known",
    }
    assert list(paths(tree, "2").values()) == ["moved"]


def test_a_day_is_meant_as_it_ended() -> None:
    moment = moments.parse("2026-01-31")
    assert (moment.day, moment.hour, moment.second) == (31, 23, 59)
    assert moment.utcoffset() is not None
    assert moments.parse("2026-01-31T14:00Z") == datetime(2026, 1, 31, 14, tzinfo=UTC)
    assert moments.parse("2d") < moments.parse("2h")


@pytest.mark.parametrize("text", ["", "soon", "2999-01-01", "999999w", "2x", "-1h", "2026-13-01"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a time|not over yet|too long ago"):
        moments.parse(text)
