"""Copies of folders."""

import json

import pytest

from cmsfs.service.content import folder_copies
from tests.support.sharing import share


@pytest.fixture
async def tree(api):
    folder = await api.folder("tree")
    deep = await api.folder("deep", folder["id"])
    await api.upload("a.txt", b"aardvark", folder["id"])
    await api.upload("b.txt", b"bobolink!", deep["id"])
    await api.link("l", deep["id"], "https://example.com/there")
    gone = await api.upload("gone", b"x", folder["id"])
    await api.ask("DELETE", f"/files/{gone['id']}", expect=204)
    return folder


async def entries(api, wire_id):
    page = await api.ask("GET", f"/folders/{wire_id}/items?fields=name,size,sha1,url,path_collection")
    return {one["name"]: one for one in page["entries"]}


async def test_all_of_it_is_copied(api, tree):
    start = (await api.ask("GET", "/events?stream_position=now"))["next_stream_position"]
    used = (await api.ask("GET", "/users/me"))["space_used"]
    body = {"parent": {"id": "0"}, "name": "twin"}
    made = await api.ask("POST", f"/folders/{tree['id']}/copy", json=body, expect=201)
    assert (made["name"], made["size"], made["parent"]["id"]) == ("twin", 17, "0")
    assert [one["name"] for one in made["item_collection"]["entries"]] == ["deep", "a.txt"]
    top = await entries(api, made["id"])
    assert set(top) == {"deep", "a.txt"}
    assert top["deep"]["size"] == 9
    deep = await entries(api, top["deep"]["id"])
    assert deep["l"]["url"] == "https://example.com/there"
    above = [one["name"] for one in deep["b.txt"]["path_collection"]["entries"]]
    assert above == ["All Files", "twin", "deep"]
    assert await api.bytes(deep["b.txt"]["id"]) == b"bobolink!"
    assert await api.names("bobolink", ancestor_folder_ids=made["id"]) == {"b.txt"}
    assert (await api.ask("GET", "/users/me"))["space_used"] == used + 17
    # The original is as it was, and what happens is one event.
    assert set(await entries(api, tree["id"])) == {"deep", "a.txt"}
    page = await api.ask("GET", f"/events?stream_position={start}")
    assert [(one["event_type"], one["source"]["id"]) for one in page["entries"]] == [
        ("ITEM_COPY", made["id"])
    ]
    assert page["entries"][0]["source"]["size"] == 17


async def test_copy_keeps_tags_and_metadata(api, tree):
    for key, copies in (("kept", True), ("left", False)):
        body = {
            "scope": "enterprise",
            "templateKey": key,
            "displayName": key,
            "copyInstanceOnItemCopy": copies,
            "fields": [{"type": "string", "key": "says", "displayName": "Says"}],
        }
        await api.ask("POST", "/metadata_templates/schema", json=body, expect=201)
    inside = await entries(api, tree["id"])
    paths = [f"/folders/{tree['id']}", f"/folders/{inside['deep']['id']}", f"/files/{inside['a.txt']['id']}"]
    for number, path in enumerate(paths):
        await api.ask("PUT", path, json={"description": f"about {number}", "tags": [f"tag{number}"]})
        for key in ("kept", "left"):
            values = {"says": f"{key} {number}"}
            await api.ask("POST", f"{path}/metadata/enterprise/{key}", json=values, expect=201)
    body = {"parent": {"id": "0"}, "name": "twin"}
    made = await api.ask("POST", f"/folders/{tree['id']}/copy", json=body, expect=201)
    inside = await entries(api, made["id"])
    paths = [f"/folders/{made['id']}", f"/folders/{inside['deep']['id']}", f"/files/{inside['a.txt']['id']}"]
    for number, path in enumerate(paths):
        found = await api.ask("GET", f"{path}?fields=description,tags,metadata")
        assert (found["description"], found["tags"]) == (f"about {number}", [f"tag{number}"])
        [scope] = found["metadata"].values()
        assert {key: one["says"] for key, one in scope.items()} == {"kept": f"kept {number}"}
    assert await api.names("tag2", content_types="tags", ancestor_folder_ids=made["id"]) == {"a.txt"}


async def test_what_cannot_be_copied(api, uwe, tree):
    url = f"/folders/{tree['id']}/copy"
    deep = (await entries(api, tree["id"]))["deep"]["id"]
    for body, status, word in [
        ({"parent": {"id": "0"}}, 409, "item_name_in_use"),
        ({"parent": {"id": "0"}, "name": "a/b"}, 400, "item_name_invalid"),
        ({"parent": {"id": tree["id"]}}, 400, "cyclical_folder_structure"),
        ({"parent": {"id": deep}}, 400, "cyclical_folder_structure"),
        ({"parent": {"id": "77"}}, 404, "not_found"),
        ({}, 400, "bad_request"),
    ]:
        assert (await api.ask("POST", url, json=body, expect=status))["code"] == word, body
    await uwe.ask("POST", url, json={"parent": {"id": "0"}}, expect=404)
    await api.ask("POST", "/folders/0/copy", json={"parent": {"id": tree["id"]}}, expect=403)


@pytest.mark.parametrize("kind", ["folders", "files"])
async def test_no_space_no_copy(api, tree, kind):
    await api.store.write(lambda conn: conn.execute("UPDATE account SET space_amount = space_used + 7"))
    wire_id = tree["id"] if kind == "folders" else (await entries(api, tree["id"]))["a.txt"]["id"]
    body = {"parent": {"id": "0"}, "name": "twin"}
    answer = await api.ask("POST", f"/{kind}/{wire_id}/copy", json=body, expect=403)
    assert answer["code"] == "storage_limit_exceeded"
    assert await api.names(type="folder") == {"tree", "deep"}


async def test_a_large_copy_is_made_in_slices(api, tree, monkeypatch):
    monkeypatch.setattr(folder_copies, "BATCH", 2)
    body = {"parent": {"id": "0"}, "name": "twin"}
    made = await api.ask("POST", f"/folders/{tree['id']}/copy", json=body, expect=201)
    assert (made["size"], made["item_collection"]["total_count"]) == (17, 2)
    deep = (await entries(api, made["id"]))["deep"]
    assert set(await entries(api, deep["id"])) == {"b.txt", "l"}


async def test_no_more_is_copied_than_a_bound(api, tree, monkeypatch):
    monkeypatch.setattr(folder_copies, "MAX_ITEMS", 3)
    body = {"parent": {"id": "0"}, "name": "twin"}
    answer = await api.ask("POST", f"/folders/{tree['id']}/copy", json=body, expect=403)
    assert answer["code"] == "operation_limit_exceeded"
    assert set(await entries(api, "0")) == {"tree"}
    deep = (await entries(api, tree["id"]))["deep"]
    await api.ask("POST", f"/folders/{deep['id']}/copy", json=body, expect=201)


@pytest.mark.parametrize("what", ["space", "lock", "trash"])
async def test_failed_copy_is_trashed(api, uwe, service, tree, monkeypatch, what):
    """Between two slices others write, and the rules are asked anew."""
    monkeypatch.setattr(folder_copies, "BATCH", 2)
    await share(api, tree, uwe)
    used = (await api.ask("GET", "/users/me"))["space_used"]
    file = (await entries(api, (await entries(api, tree["id"]))["deep"]["id"]))["b.txt"]["id"]
    copy_next_batch = folder_copies.FolderCopy.copy_next_batch

    def later(copy, conn):
        if what == "space":
            conn.execute("UPDATE account SET space_amount = space_used + 1 WHERE id = ?", (api.user,))
        elif what == "lock":
            lock = {"by": uwe.user, "created_at": 0, "expires_at": None, "download_prevented": True}
            conn.execute("UPDATE item SET lock = ? WHERE id = ?", (json.dumps(lock | known), int(file)))
        else:
            conn.execute("UPDATE item SET status = 1, trash = id WHERE id = ?", (copy.top,))
        return copy_next_batch(copy, conn)

    await uwe.ask("PUT", f"/files/{file}", json={"lock": {"access": "lock", "is_download_prevented": True}})
    known = json.loads(service.read("SELECT lock FROM item WHERE id = ?", int(file))[0]["lock"])
    await uwe.ask("PUT", f"/files/{file}", json={"lock": None})
    monkeypatch.setattr(folder_copies.FolderCopy, "copy_next_batch", later)
    body = {"parent": {"id": "0"}, "name": "twin"}
    expect = 409 if what == "trash" else 403
    await api.ask("POST", f"/folders/{tree['id']}/copy", json=body, expect=expect)
    assert set(await entries(api, "0")) == {"tree"}
    assert "twin" in {one["name"] for one in (await api.ask("GET", "/folders/trash/items"))["entries"]}
    assert (await api.ask("GET", "/users/me"))["space_used"] <= used + 17
