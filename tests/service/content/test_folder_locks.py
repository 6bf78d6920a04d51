"""A locked folder stays where it is."""

import pytest

LOCKED = "access_denied_item_locked"


@pytest.fixture
async def tree(api):
    top = await api.folder("top")
    return top, await api.folder("inner", top["id"]), await api.folder("elsewhere")


async def lock(api, folder, expect=200):
    body = {"folder": {"type": "folder", "id": folder["id"]}}
    body["locked_operations"] = {"move": True, "delete": True}
    return await api.ask("POST", "/folder_locks", json=body, expect=expect)


async def refused(api, method, path, **options):
    return (await api.ask(method, path, expect=403, **options))["code"] == LOCKED


async def test_nobody_moves_renames_or_deletes_it(api, tree):
    top, inner, elsewhere = tree
    made = await lock(api, inner)
    assert made["folder"]["id"] == inner["id"]
    assert (made["lock_type"], made["locked_operations"]) == ("freeze", {"move": True, "delete": True})
    path = f"/folders/{inner['id']}"
    assert await refused(api, "PUT", path, json={"name": "other"})
    assert await refused(api, "PUT", path, json={"parent": {"id": elsewhere["id"]}})
    assert await refused(api, "DELETE", path)
    assert await refused(api, "DELETE", f"/folders/{top['id']}", params={"recursive": "true"})
    # What is in it, and everything else about it, is as free as before.
    await api.ask("PUT", path, json={"description": "kept", "name": "inner"})
    file = await api.upload("a", b"x", inner["id"])
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("PUT", f"/folders/{top['id']}", json={"name": "moved", "parent": {"id": elsewhere["id"]}})
    listed = await api.ask("GET", "/folder_locks", params={"folder_id": inner["id"]})
    assert [one["id"] for one in listed["entries"]] == [made["id"]]
    await api.ask("DELETE", f"/folder_locks/{made['id']}", expect=204)
    await api.ask("DELETE", f"/folder_locks/{made['id']}", expect=404)
    await api.ask("DELETE", path, expect=204)


async def test_only_owners_lock(api, service, as_user, tree):
    uwe = await as_user(service, "uwe@example.com")
    top, inner, _ = tree
    await lock(uwe, top, expect=404)
    body = {"item": {"type": "folder", "id": top["id"]}, "role": "editor"}
    body["accessible_by"] = {"type": "user", "id": str(uwe.user)}
    shared = await api.ask("POST", "/collaborations", json=body, expect=201)
    await lock(uwe, top, expect=403)
    made = await lock(api, inner)
    await uwe.ask("DELETE", f"/folder_locks/{made['id']}", expect=403)
    await uwe.ask("GET", "/folder_locks", params={"folder_id": inner["id"]}, expect=403)
    assert await refused(uwe, "DELETE", f"/folders/{inner['id']}")
    await api.ask("PUT", f"/collaborations/{shared['id']}", json={"role": "co-owner"})
    await uwe.ask("DELETE", f"/folder_locks/{made['id']}", expect=204)


async def test_what_is_no_lock(api, tree):
    top, *_ = tree
    await lock(api, {"id": "0"}, expect=400)
    await lock(api, top)
    assert (await lock(api, top, expect=409))["code"] == "conflict"
    body = {
        "folder": {"type": "folder", "id": top["id"]},
        "locked_operations": {"move": False, "delete": True},
    }
    await api.ask("POST", "/folder_locks", json=body, expect=400)
    await api.ask("GET", "/folder_locks", expect=400)
