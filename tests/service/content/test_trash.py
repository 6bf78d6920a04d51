"""The trash: what is in it, what comes back and where to, what is gone."""

import pytest


async def make(api, kind, name, parent="0"):
    if kind == "files":
        return await api.upload(name, b"hello", parent)
    return await (api.folder if kind == "folders" else api.link)(name, parent)


KINDS = pytest.mark.parametrize("kind", ["files", "folders", "web_links"])


@KINDS
async def test_into_the_trash_and_back(api, kind):
    item = await make(api, kind, "thing")
    path = f"/{kind}/{item['id']}"
    assert (await api.ask("GET", f"{path}/trash", expect=404))["code"] == "not_trashed"
    assert (await api.ask("POST", path, json={}, expect=404))["code"] == "not_trashed"
    await api.ask("DELETE", path, expect=204)
    if kind == "folders":
        assert (await api.ask("GET", path, expect=404))["code"] == "trashed"
    else:
        shown = await api.ask("GET", path)
        assert (shown["item_status"], shown["path_collection"]["entries"][0]["name"]) == ("trashed", "Trash")
    assert (await api.ask("DELETE", path, expect=404))["code"] == "trashed"
    if kind == "files":
        # No operation gives out the bytes of what is in the trash.
        assert (await api.ask("GET", f"{path}/content", expect=404))["code"] == "trashed"
    trashed = await api.ask("GET", f"{path}/trash")
    assert trashed["item_status"] == "trashed"
    assert trashed["trashed_at"] < trashed["purged_at"]
    assert trashed["path_collection"]["entries"] == [
        {"type": "folder", "id": "1", "sequence_id": None, "etag": None, "name": "Trash"}
    ]
    assert [one["id"] for one in (await api.ask("GET", "/folders/trash/items"))["entries"]] == [item["id"]]
    back = await api.ask("POST", path, expect=201)
    assert (back["id"], back["name"], back["item_status"]) == (item["id"], "thing", "active")
    assert back["trashed_at"] is back["purged_at"] is None
    assert int(back["etag"]) == int(trashed["etag"]) + 1 == 2
    assert back["modified_at"] > trashed["modified_at"]
    assert (await api.ask("GET", "/folders/trash/items"))["entries"] == []
    assert await api.names() == {"thing"}


@KINDS
async def test_out_of_the_trash_for_good(api, kind):
    item = await make(api, kind, "thing")
    path = f"/{kind}/{item['id']}"
    assert (await api.ask("DELETE", f"{path}/trash", expect=404))["code"] == "not_trashed"
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", f"{path}/trash", expect=204)
    for method, rest in (("GET", ""), ("GET", "/trash"), ("DELETE", "/trash"), ("POST", "")):
        assert (await api.ask(method, path + rest, expect=404))["code"] == "not_found"
    assert (await api.ask("GET", "/users/me"))["space_used"] == 0
    assert await api.names(trash_content="all_items") == set()


@KINDS
async def test_a_taken_name_keeps_it_in_the_trash(api, kind):
    item = await make(api, kind, "thing")
    path = f"/{kind}/{item['id']}"
    await api.ask("DELETE", path, expect=204)
    await api.folder("THING")
    assert (await api.ask("POST", path, json={}, expect=409))["code"] == "item_name_in_use"
    await api.ask("POST", path, json={"name": "a/b"}, expect=400)
    back = await api.ask("POST", path, json={"name": "another"}, expect=201)
    assert back["name"] == "another"


@KINDS
@pytest.mark.parametrize("fate", ["living", "trashed", "purged"])
async def test_restore_target_needs_missing_original(api, kind, fate):
    home, other = await api.folder("home"), await api.folder("other")
    item = await make(api, kind, "thing", home["id"])
    path = f"/{kind}/{item['id']}"
    await api.ask("DELETE", path, expect=204)
    if fate != "living":
        await api.ask("DELETE", f"/folders/{home['id']}", expect=204)
        if fate == "purged":
            await api.ask("DELETE", f"/folders/{home['id']}/trash", expect=204)
        for body in ({}, {"parent": {"id": "5"}}, {"parent": {"id": home["id"]}}):
            problem = await api.ask("POST", path, json=body, expect=403)
            assert problem["code"] == "access_denied_insufficient_permissions"
    back = await api.ask("POST", path, json={"parent": {"id": other["id"]}}, expect=201)
    assert back["parent"]["id"] == (home if fate == "living" else other)["id"]


async def test_contents_of_trashed_folder_are_hidden(api):
    folder = await api.folder("folder")
    inner = await api.folder("inner", folder["id"])
    file = await api.upload("file", b"hello", inner["id"])
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    for path in (f"/folders/{inner['id']}", f"/files/{file['id']}"):
        for method, rest in (("GET", ""), ("GET", "/trash"), ("DELETE", "/trash"), ("POST", "")):
            assert (await api.ask(method, path + rest, expect=404))["code"] == "not_found"
    await api.ask("GET", f"/folders/{folder['id']}/items", expect=404)
    assert await api.names(trash_content="all_items") == {"folder"}
    assert (await api.ask("GET", "/folders/0"))["size"] == 0
    await api.ask("POST", f"/folders/{folder['id']}", expect=201)
    assert await api.names() == {"folder", "inner", "file"}
    assert (await api.ask("GET", "/folders/0"))["size"] == 5


async def test_earlier_trashed_item_stays_trashed(api):
    folder, other = await api.folder("folder"), await api.folder("other")
    first = await api.folder("first", folder["id"])
    await api.upload("below", b"hello", first["id"])
    await api.upload("stays", b"hello", folder["id"])
    await api.ask("DELETE", f"/folders/{first['id']}?recursive=true", expect=204)
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    assert await api.names(trash_content="trashed_only") == {"first", "folder"}
    await api.ask("POST", f"/folders/{folder['id']}", expect=201)
    assert await api.names() == {"folder", "stays", "other"}
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    await api.ask("DELETE", f"/folders/{folder['id']}/trash", expect=204)
    await api.ask("POST", f"/folders/{first['id']}", json={"parent": {"id": other["id"]}}, expect=201)
    assert await api.names() == {"first", "below", "other"}
    assert await api.names(ancestor_folder_ids=other["id"]) == {"first", "below"}
    assert (await api.ask("GET", "/folders/0"))["size"] == 5
    assert (await api.ask("GET", "/users/me"))["space_used"] == 5


async def test_everyone_has_a_trash_of_their_own(api, uwe):
    item = await api.upload("thing")
    await api.ask("DELETE", f"/files/{item['id']}", expect=204)
    assert (await uwe.ask("GET", "/folders/trash/items"))["entries"] == []
    await uwe.ask("GET", f"/files/{item['id']}/trash", expect=404)
    await uwe.ask("DELETE", f"/files/{item['id']}/trash", expect=404)
    await uwe.ask("POST", f"/files/{item['id']}", expect=404)


async def test_the_trash_is_listed_in_pages(api):
    for number in range(9):
        item = await api.upload(f"thing {number}")
        await api.ask("DELETE", f"/files/{item['id']}", expect=204)
    path = "/folders/trash/items?usemarker=true&limit=4"
    seen, marker = [], ""
    while marker is not None:
        found = await api.ask("GET", f"{path}&marker={marker}")
        seen += [one["name"] for one in found["entries"]]
        marker = found["next_marker"]
    assert seen == [f"thing {number}" for number in range(9)]
    for params in (f"{path}&sort=name", f"{path}&offset=1", "/folders/trash/items?marker=x"):
        assert (await api.ask("GET", params, expect=400))["code"] == "invalid_parameter"


async def test_the_etag_that_is_in_the_trash(api):
    item = await api.upload("thing")
    path = f"/files/{item['id']}"
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", path, headers={"if-match": "0"}, expect=404)
    await api.ask("DELETE", path, headers={"if-match": "1"}, expect=412)
