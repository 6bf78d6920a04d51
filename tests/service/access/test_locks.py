"""Locks of files."""

import json

import pytest


@pytest.fixture
async def file(api):
    return await api.upload("a.txt", b"x")


async def lock(api, file, **more):
    body = {"lock": {"access": "lock"} | more}
    return (await api.ask("PUT", f"/files/{file['id']}?fields=lock", json=body))["lock"]


async def take_over(api, uwe, file, **more):
    """Make the lock another user's."""
    row = json.loads(api.store.read("SELECT lock FROM item WHERE id = ?", int(file["id"]))[0]["lock"])
    text = json.dumps(row | {"by": uwe.user} | more)
    await api.store.write(
        lambda conn: conn.execute("UPDATE item SET lock = ? WHERE id = ?", (text, int(file["id"])))
    )


async def test_a_lock_is_set_and_taken_away(api, file):
    url = f"/files/{file['id']}?fields=lock"
    assert (await api.ask("GET", url))["lock"] is None
    found = await lock(api, file, expires_at="2099-01-02T03:04:05Z", is_download_prevented=True)
    assert (found["type"], found["is_download_prevented"]) == ("lock", True)
    assert found["created_by"]["login"] == "ann@example.com"
    assert found["expired_at"].startswith("2099-01-02T03:04:05")
    # Another change leaves it, and so does who reads.
    assert (await api.ask("PUT", url, json={"name": "b.txt"}))["lock"] == found
    assert (await api.ask("GET", url))["lock"] == found
    assert (await api.ask("PUT", url, json={"lock": None}))["lock"] is None


async def test_what_others_may_not_do(api, uwe, file):
    await lock(api, file)
    # Who locked it may do everything.
    file = await api.version(file["id"], b"y")
    await take_over(api, uwe, file)
    url = f"/files/{file['id']}"
    for method, path, body in [
        ("PUT", "", {"name": "b"}),
        ("PUT", "", {"lock": None, "name": "c"}),
        ("DELETE", "", None),
        ("OPTIONS", "/content", {"size": 1}),
        ("POST", "/versions/current", {"id": file["file_version"]["id"]}),
    ]:
        answer = await api.ask(method, url + path, json=body, expect=403)
        assert answer["code"] == "access_denied_item_locked", (method, path)
    refused = await api.send(f"/files/{file['id']}/content", {}, b"z", expect=403)
    assert refused["code"] == "access_denied_item_locked"
    begun = f"http://service.test/api/2.0/files/{file['id']}/upload_sessions"
    await api.ask("POST", begun, json={"file_size": 30_000_000}, expect=403)
    # Reading and copying take nothing from anybody.
    assert await api.bytes(file["id"]) == b"y"
    await api.ask("POST", f"{url}/copy", json={"parent": {"id": "0"}, "name": "copy"}, expect=201)


async def test_the_owner_takes_a_lock_away(api, uwe, file):
    await lock(api, file)
    await take_over(api, uwe, file)
    assert (await api.ask("PUT", f"/files/{file['id']}?fields=lock", json={"lock": None}))["lock"] is None


async def test_a_lock_may_prevent_downloads(api, uwe, file):
    await lock(api, file, is_download_prevented=True)
    assert await api.bytes(file["id"]) == b"x"
    await take_over(api, uwe, file)
    copy = {"parent": {"id": "0"}, "name": "copy"}
    for method, path, body in [("GET", "content", None), ("POST", "copy", copy)]:
        answer = await api.ask(method, f"/files/{file['id']}/{path}", json=body, expect=403)
        assert answer["code"] == "access_denied_item_locked"


async def test_a_lock_ends(api, uwe, file):
    await lock(api, file)
    await take_over(api, uwe, file, expires_at=1)
    assert (await api.ask("GET", f"/files/{file['id']}?fields=lock"))["lock"] is None
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)


@pytest.mark.parametrize(
    "wish", [{"access": "open"}, {"expires_at": "2001-01-01T00:00:00Z"}, {"expires_at": "soon"}, 7]
)
async def test_what_is_no_lock(api, file, wish):
    await api.ask("PUT", f"/files/{file['id']}", json={"lock": wish}, expect=400)


async def test_it_is_told(api, file):
    start = (await api.ask("GET", "/events?stream_position=now"))["next_stream_position"]
    await lock(api, file)
    await api.ask("PUT", f"/files/{file['id']}", json={"lock": None})
    await api.ask("PUT", f"/files/{file['id']}", json={"lock": None})
    page = await api.ask("GET", f"/events?stream_position={start}")
    assert [one["event_type"] for one in page["entries"]] == ["LOCK_CREATE", "LOCK_DESTROY"]
