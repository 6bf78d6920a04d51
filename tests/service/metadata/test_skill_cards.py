"""Cards that programs put on files: kept whole, changed one by one."""

import pytest

PATH = "/files/{}/metadata/global/boxSkillsCards"


def card(word, kind="keyword"):
    by = {
        "skill": {"type": "service", "id": "birds"},
        "invocation": {"type": "skill_invocation", "id": "1"},
    }
    return {"type": "skill_card", "skill_card_type": kind, "entries": [{"text": word}]} | by


@pytest.fixture
async def described(api):
    """A file's path, and its cards."""
    path = PATH.format((await api.upload("a.txt", b"x"))["id"])
    made = await api.ask("POST", path, json={"cards": [card("duck"), card("teal")]}, expect=201)
    return path, made["cards"]


async def test_cards_are_kept_as_they_were_sent(api, described):
    path, cards = described
    assert cards == [card("duck"), card("teal")]
    found = await api.ask("GET", path)
    assert (found["cards"], found["$template"], found["$scope"]) == (cards, "boxSkillsCards", "global")
    await api.ask("DELETE", path, expect=204)
    await api.ask("GET", path, expect=404)


STEPS = [
    ({"op": "replace", "path": "/cards/1", "value": card("smew")}, ["duck", "smew"]),
    ({"op": "add", "path": "/cards/-", "value": card("smew")}, ["duck", "teal", "smew"]),
    ({"op": "add", "path": "/cards/0", "value": card("smew")}, ["smew", "duck", "teal"]),
    ({"op": "remove", "path": "/cards/0"}, ["teal"]),
    ({"op": "test", "path": "/cards/0", "value": card("duck")}, ["duck", "teal"]),
    ({"op": "replace", "path": "/cards", "value": [card("smew")]}, ["smew"]),
    ({"op": "remove", "path": "/cards"}, []),
    ({"op": "test", "path": "/cards", "value": [card("duck"), card("teal")]}, ["duck", "teal"]),
    ({"op": "test", "path": "/cards/0", "value": card("teal")}, 409),
    ({"op": "replace", "path": "/cards/2", "value": card("smew")}, 409),
    ({"op": "replace", "path": "/cards/0", "value": "smew"}, 400),
    ({"op": "replace", "path": "/cards", "value": "smew"}, 400),
    ({"op": "remove", "path": "/bird"}, 400),
    ({"op": "move", "path": "/cards/0", "from": "/cards/1"}, 400),
]


async def test_one_is_changed_by_its_place(api, described):
    path, cards = described
    for step, left in STEPS:
        if isinstance(left, int):
            await api.ask("PUT", path, json=[step], expect=left)
            assert (await api.ask("GET", path))["cards"] == cards, step
        else:
            found = (await api.ask("PUT", path, json=[step]))["cards"]
            assert [one["entries"][0]["text"] for one in found] == left, step
            await api.ask("PUT", path, json=[{"op": "replace", "path": "/cards", "value": cards}])


async def test_what_is_no_card_is_refused(api):
    path = PATH.format((await api.upload("a.txt", b"x"))["id"])
    for data in (
        {},
        {"bird": "duck"},
        {"cards": "duck"},
        {"cards": [{"type": "skill_card"}]},
        {"cards": [card("duck", "poster")]},
        {"cards": [card("x" * 300_000)]},
        {"cards": [card("")] * 1001},
    ):
        refused = await api.ask("POST", path, json=data, expect=400)
        assert refused["code"] == "schema_validation_failed", str(data)[:99]
