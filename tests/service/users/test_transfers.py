"""A user's content is given to another."""

import pytest


@pytest.fixture
async def zoe(people):
    return await people.add("zoe@example.com")


def path(user):
    return f"/users/{user.user}/folders/0"


def to(user):
    return {"owned_by": {"id": str(user.user)}}


async def test_all_of_it_goes_in_one_folder(api, uwe, zoe):
    folder = await uwe.folder("d")
    file = await uwe.upload("f", b"12345", folder["id"])
    await uwe.upload("g", b"1")
    await uwe.link("l")
    made = await api.ask("PUT", path(uwe), json=to(zoe))
    name = f"{(await uwe.ask('GET', '/users/me'))['name']}'s Files and Folders"
    assert (made["name"], made["type"], made["owned_by"]["id"]) == (name, "folder", str(zoe.user))
    assert made["size"] == 6
    assert [one["name"] for one in (await zoe.ask("GET", "/folders/0/items"))["entries"]] == [name]
    inside = (await zoe.ask("GET", f"/folders/{made['id']}/items"))["entries"]
    assert [one["name"] for one in inside] == ["d", "g", "l"]
    found = await zoe.ask("GET", f"/files/{file['id']}?fields=owned_by,size")
    assert (found["owned_by"]["id"], found["size"]) == (str(zoe.user), 5)
    assert (await uwe.ask("GET", "/folders/0/items"))["entries"] == []
    await uwe.ask("GET", f"/files/{file['id']}", expect=404)
    assert (await uwe.ask("GET", "/users/me"))["space_used"] == 0
    assert (await zoe.ask("GET", "/users/me"))["space_used"] == 6
    # The name is taken by now.
    await uwe.upload("again")
    assert (await api.ask("PUT", path(uwe), json=to(zoe)))["name"] == f"{name} (2)"


async def test_links_and_collaborations_go_with_it(api, uwe, zoe):
    folder = await uwe.folder("d")
    body = {"item": {"type": "folder", "id": folder["id"]}, "role": "editor"}
    body["accessible_by"] = {"type": "user", "id": str(api.user)}
    await uwe.ask("POST", "/collaborations", json=body, expect=201)
    shared = {"shared_link": {"access": "open"}}
    url = (await uwe.ask("PUT", f"/folders/{folder['id']}", json=shared))["shared_link"]["url"]
    await api.ask("PUT", path(uwe), json=to(zoe))
    found = await api.ask("GET", f"/folders/{folder['id']}?fields=shared_link,owned_by")
    assert (found["shared_link"]["url"], found["owned_by"]["id"]) == (url, str(zoe.user))


async def test_both_are_told_and_administrators_too(api, uwe, zoe):
    file = await uwe.upload("f", b"1")
    where = {
        one: (await one.ask("GET", "/events?stream_position=now"))["next_stream_position"]
        for one in (uwe, zoe)
    }
    await api.ask("PUT", path(uwe), json=to(zoe))
    for one, position in where.items():
        found = (await one.ask("GET", f"/events?stream_position={position}"))["entries"]
        assert file["id"] in [event["source"]["id"] for event in found if event["event_type"] == "ITEM_MOVE"]
    logged = (await api.ask("GET", "/events?stream_type=admin_logs&event_type=MOVE"))["entries"]
    assert [one["source"]["item_id"] for one in logged] == [file["id"]]


async def test_all_or_nothing(api, uwe, zoe):
    await uwe.upload("f", b"12345")
    await api.ask("PUT", f"/users/{zoe.user}", json={"space_amount": 3})
    refused = await api.ask("PUT", path(uwe), json=to(zoe), expect=403)
    assert refused["code"] == "storage_limit_exceeded"
    assert len((await uwe.ask("GET", "/folders/0/items"))["entries"]) == 1
    assert (await zoe.ask("GET", "/folders/0/items"))["entries"] == []


async def test_who_may(api, uwe, zoe):
    await uwe.ask("PUT", path(uwe), json=to(zoe), expect=403)
    await api.ask("PUT", path(uwe), json=to(uwe), expect=400)
    await api.ask("PUT", path(uwe), json={"owned_by": {"id": "77"}}, expect=404)
    await api.ask("PUT", "/users/77/folders/0", json=to(zoe), expect=404)
    await api.ask("PUT", path(uwe), json={}, expect=400)
