"""The favorites of a user."""


async def favorites(api):
    (found,) = (await api.ask("GET", "/collections"))["entries"]
    return found


async def names(api, collection, **params):
    answer = await api.ask("GET", f"/collections/{collection['id']}/items", params=params)
    return [one["name"] for one in answer["entries"]]


async def test_items_are_put_among_the_favorites_and_taken_out(api):
    found = await favorites(api)
    assert (found["name"], found["collection_type"]) == ("Favorites", "favorites")
    assert await api.ask("GET", f"/collections/{found['id']}") == found
    made = [await api.folder("folder"), await api.upload("file", b"x"), await api.link("link")]
    for item in made:
        path = f"/{item['type']}s/{item['id']}"
        body = {"collections": [{"id": found["id"]}]}
        changed = await api.ask("PUT", path, json=body, params={"fields": "collections,etag"})
        assert changed["collections"] == [found]
        assert changed["etag"] == item["etag"]  # it is no change of the item
    assert await names(api, found) == ["link", "file", "folder"]
    assert await names(api, found, limit=1, offset=1) == ["file"]
    await api.ask("PUT", f"/files/{made[1]['id']}", json={"collections": [], "name": "renamed"})
    await api.ask("PUT", f"/web_links/{made[2]['id']}", json={"collections": None})
    assert await names(api, found) == ["folder"]
    await api.ask("DELETE", f"/folders/{made[0]['id']}", expect=204)
    assert await names(api, found) == []
    await api.ask("POST", f"/folders/{made[0]['id']}", expect=201)
    assert await names(api, found) == ["folder"]


async def test_favorites_are_each_users_own(api, service, as_user):
    uwe = await as_user(service, "uwe@example.com")
    mine, theirs = await favorites(api), await favorites(uwe)
    file = await api.upload("a", b"x")
    path = f"/files/{file['id']}"
    await api.ask("PUT", path, json={"collections": [{"id": theirs["id"]}]}, expect=400)
    await api.ask("GET", f"/collections/{theirs['id']}/items", expect=404)
    body = {"item": {"type": "file", "id": file["id"]}, "role": "viewer"}
    body["accessible_by"] = {"type": "user", "id": str(uwe.user)}
    shared = await api.ask("POST", "/collaborations", json=body, expect=201)
    await api.ask("PUT", path, json={"lock": {"type": "lock"}})
    # Neither the role nor the lock is about it.
    await uwe.ask("PUT", path, json={"collections": [{"id": theirs["id"]}]})
    assert await names(uwe, theirs) == ["a"]
    assert await names(api, mine) == []
    assert (await api.ask("GET", path, params={"fields": "collections"}))["collections"] == []
    await api.ask("DELETE", f"/collaborations/{shared['id']}", expect=204)
    assert await names(uwe, theirs) == []
