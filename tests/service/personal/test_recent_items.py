"""What a user last worked on."""

import pytest

from cmsfs.service.personal import recent_items


async def recent(api, **params):
    answer = await api.ask("GET", "/recent_items", params=params)
    return [(one["item"]["name"], one["interaction_type"]) for one in answer["entries"]], answer


async def test_each_item_once_with_what_was_done_last(api, service, as_user):
    uwe = await as_user(service, "uwe@example.com")
    first, second, third = [await api.upload(name, b"1") for name in ("a", "b", "c")]
    await api.version(first["id"], b"2")
    body = {"item": {"type": "file", "id": second["id"]}, "message": "well said"}
    await api.ask("POST", "/comments", json=body, expect=201)
    found, answer = await recent(api)
    assert found == [("b", "item_comment"), ("a", "item_modify"), ("c", "item_upload")]
    assert answer["next_marker"] is None
    page, answer = await recent(api, limit=2)
    rest, _ = await recent(api, limit=2, marker=answer["next_marker"])
    assert page + rest == found
    await api.ask("DELETE", f"/files/{third['id']}", expect=204)
    assert len((await recent(api))[0]) == 2
    assert (await recent(uwe))[0] == []


@pytest.mark.embedded  # its plan, in its planner's words
async def test_the_latest_are_found_by_their_indices(service):
    steps = service.read(f"EXPLAIN QUERY PLAN {recent_items._LATEST}", 1, 2, 3)
    told = [step["detail"] for step in steps]
    assert not [one for one in told if one.startswith("SCAN") or "TEMP B-TREE" in one], told
