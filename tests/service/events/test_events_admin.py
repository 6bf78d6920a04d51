"""The streams of administrators."""

import pytest

from tests.support import sharing

LOGS = {"stream_type": "admin_logs"}
STREAMING = {"stream_type": "admin_logs_streaming"}


async def page(api, **params):
    return await api.ask("GET", "/events", params=params)


async def words(api, **params):
    return [one["event_type"] for one in (await page(api, **params))["entries"]]


async def test_what_everybody_does_is_there(api, uwe, people):
    start = (await page(api, stream_position="now", **STREAMING))["next_stream_position"]
    assert isinstance(start, str)
    folder = await uwe.folder("folder")
    file = await uwe.upload("a.txt", b"x", folder["id"])
    await uwe.version(file["id"], b"y")
    await uwe.ask("PUT", f"/files/{file['id']}", json={"name": "b.txt"})
    made = await sharing.share(uwe, folder, api, "editor")
    await uwe.ask("PUT", f"/collaborations/{made['id']}", json={"role": "viewer"})
    await uwe.ask("DELETE", f"/collaborations/{made['id']}", expect=204)
    invited = await sharing.share(uwe, folder, "eva@elsewhere.example")
    eva = await people.add("eva@elsewhere.example")
    await eva.ask("PUT", f"/collaborations/{invited['id']}", json={"status": "accepted"})
    await eva.ask("PUT", f"/files/{file['id']}", json={"shared_link": {}})
    await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)
    found = await page(api, stream_position=start, **STREAMING)
    assert [one["event_type"] for one in found["entries"]] == [
        *("ITEM_CREATE", "UPLOAD", "UPLOAD", "RENAME"),
        *("COLLABORATION_ACCEPT", "COLLABORATION_ROLE_CHANGE", "COLLABORATION_REMOVE"),
        *("COLLABORATION_INVITE", "COLLABORATION_ACCEPT", "SHARE", "DELETE"),
    ]
    event = found["entries"][1]
    assert event["created_by"]["login"] == "uwe@example.com"
    assert event["source"]["item_name"] == "a.txt"
    assert (event["source"]["item_type"], event["source"]["item_id"]) == ("file", file["id"])
    assert event["source"]["parent"]["id"] == folder["id"]
    assert event["source"]["owned_by"]["id"] == str(uwe.user)
    # It is of the enterprise that owns the item, whoever did it.
    assert found["entries"][9]["created_by"]["id"] == str(eva.user)
    assert found["entries"][5]["additional_details"]["role"] == "viewer"
    end = found["next_stream_position"]
    assert await words(api, stream_position=end, **STREAMING) == []


async def test_types_and_times(api, uwe):
    first = await uwe.upload("a.txt", b"x")
    second = await api.folder("b")
    await uwe.ask("DELETE", f"/files/{first['id']}", expect=204)
    assert await words(api, event_type="UPLOAD,DELETE", **LOGS) == ["UPLOAD", "DELETE"]
    assert await words(api, event_type="DELETE", **STREAMING) == ["DELETE"]
    moment = second["created_at"]
    assert await words(api, created_after=moment, **LOGS) == ["ITEM_CREATE", "DELETE"]
    assert await words(api, created_before=moment, **LOGS) == ["UPLOAD", "ITEM_CREATE"]
    assert await words(api, created_after=moment, created_before=moment, **LOGS) == ["ITEM_CREATE"]
    seen, position = [], 0
    while entries := (found := await page(api, limit=1, stream_position=position, **LOGS))["entries"]:
        seen += [one["event_type"] for one in entries]
        position = found["next_stream_position"]
    assert seen == ["UPLOAD", "ITEM_CREATE", "DELETE"]


async def test_the_streaming_form_goes_two_weeks_back(api, service):
    await api.folder("a")
    await service.write(
        lambda conn: conn.execute("UPDATE admin_event SET created_at = created_at - 15 * 86400000000")
    )
    assert await words(api, **STREAMING) == []
    assert await words(api, **LOGS) == ["ITEM_CREATE"]


async def test_old_events_go(api, service):
    await api.folder("a")
    await service.write(lambda conn: conn.execute("UPDATE admin_event SET created_at = 5"))
    await api.folder("b")
    assert len(await words(api, **LOGS)) == 1


@pytest.mark.parametrize("stream", [LOGS, STREAMING])
async def test_for_administrators_only(api, uwe, stream):
    await uwe.ask("GET", "/events", params=stream, expect=403)
    token = await api.narrowed("root_readwrite")
    assert await api.status(token, path="/events?stream_type=all") == 200
    assert await api.status(token, path=f"/events?stream_type={stream['stream_type']}") == 403
    token = await api.narrowed("root_readonly", "manage_enterprise_properties")
    assert await api.status(token, path=f"/events?stream_type={stream['stream_type']}") == 200


async def test_what_makes_no_sense(api):
    await api.ask("GET", "/events", params=LOGS | {"created_after": "soon"}, expect=400)


async def test_another_enterprise_is_none_of_ours(api, people):
    eva = await people.add("eva@elsewhere.example")
    await eva.folder("theirs")
    assert await words(api, **LOGS) == []


async def test_users_come_and_go(api):
    made = await api.ask("POST", "/users", json={"name": "N", "login": "n@example.com"}, expect=201)
    await api.ask("PUT", f"/users/{made['id']}", json={"name": "M"})
    await api.ask("DELETE", f"/users/{made['id']}", expect=204)
    entries = (await page(api, **LOGS))["entries"]
    assert [(one["event_type"], one["source"]["name"]) for one in entries] == [
        *(("NEW_USER", "N"), ("EDIT_USER", "M"), ("DELETE_USER", "M"))
    ]
    assert {one["source"]["login"] for one in entries} == {"n@example.com"}
