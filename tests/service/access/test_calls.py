"""What somebody sees of the tree of another: listings, paths, search, the trash, events."""

import pytest

from cmsfs.service.access import access_rights
from tests.support import sharing


@pytest.fixture
async def tree(api):
    """outer/folder/deep of Ann's, with a file in each."""
    outer = await api.folder("outer")
    folder = await api.folder("folder", outer["id"])
    deep = await api.folder("deep", folder["id"])
    return {
        "outer": outer,
        "folder": folder,
        "deep": deep,
        "beside": await api.upload("beside.txt", b"b", outer["id"]),
        "file": await api.upload("inside.txt", b"inside", folder["id"]),
        "bottom": await api.upload("bottom.txt", b"bottom", deep["id"]),
    }


async def listed(api, folder="0", **params):
    page = await api.ask("GET", f"/folders/{folder}/items", params=params)
    return [one["name"] for one in page["entries"]]


async def path(api, item):
    found = await api.ask("GET", f"/{item['type']}s/{item['id']}?fields=path_collection,parent")
    shown = [one["name"] for one in found["path_collection"]["entries"]]
    assert found["path_collection"]["total_count"] == len(shown)
    assert (found["parent"] or {}).get("name") == (shown[-1] if shown else None)
    return shown


async def test_what_is_shared_hangs_below_the_root(api, uwe, tree):
    await uwe.upload("a.txt", b"x")
    await sharing.share(api, tree["folder"], uwe, "viewer")
    assert await listed(uwe) == ["folder", "a.txt"]
    whole = await uwe.ask("GET", "/folders/0")
    assert [one["name"] for one in whole["item_collection"]["entries"]] == ["folder", "a.txt"]
    assert whole["item_collection"]["total_count"] == 2
    assert await path(uwe, tree["folder"]) == ["All Files"]
    assert await path(uwe, tree["bottom"]) == ["All Files", "folder", "deep"]
    assert await path(api, tree["bottom"]) == ["All Files", "outer", "folder", "deep"]
    for name in ("outer", "beside"):
        await uwe.ask("GET", f"/{tree[name]['type']}s/{tree[name]['id']}", expect=404)
    # Page by page, in one order.
    first = await uwe.ask("GET", "/folders/0/items?usemarker=true&limit=1")
    assert [one["name"] for one in first["entries"]] == ["folder"]
    rest = await uwe.ask("GET", f"/folders/0/items?usemarker=true&marker={first['next_marker']}")
    assert [one["name"] for one in rest["entries"]] == ["a.txt"]


async def test_shared_items_are_not_in_root(api, uwe, tree):
    await sharing.share(api, tree["deep"], uwe, "viewer")
    await sharing.share(api, tree["file"], uwe, "viewer")
    assert await listed(uwe) == ["deep", "inside.txt"]
    assert await path(uwe, tree["file"]) == ["All Files"]
    made = await sharing.share(api, tree["folder"], uwe, "viewer")
    assert await listed(uwe) == ["folder"]
    assert await path(uwe, tree["bottom"]) == ["All Files", "folder", "deep"]
    await api.ask("DELETE", f"/collaborations/{made['id']}", expect=204)
    assert await listed(uwe) == ["deep", "inside.txt"]


async def test_the_path_may_be_shown(api, uwe, tree):
    await sharing.share(api, tree["file"], uwe, "viewer", can_view_path=True, expect=400)
    await sharing.share(api, tree["folder"], uwe, "viewer", can_view_path=True)
    assert await path(uwe, tree["bottom"]) == ["All Files", "outer", "folder", "deep"]
    # Its names alone: there is no way in.
    await uwe.ask("GET", f"/folders/{tree['outer']['id']}", expect=404)
    assert await listed(uwe) == ["folder"]


async def test_unlisted_item_is_accessible(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "viewer", is_access_only=True)
    assert await listed(uwe) == []
    assert await uwe.bytes(tree["bottom"]["id"]) == b"bottom"


@pytest.mark.parametrize("params", [{}, {"ancestor_folder_ids": "0"}, {"sort": "modified_at"}])
async def test_search_finds_what_may_be_seen(api, uwe, tree, params):
    await uwe.upload("own.txt", b"bottom of mine")
    assert await uwe.names(**params) == {"own.txt"}
    await sharing.share(api, tree["folder"], uwe, "previewer")
    everything = {"own.txt", "folder", "deep", "inside.txt", "bottom.txt"}
    assert await uwe.names(**params) == everything
    assert await uwe.names("bottom", **params) == {"own.txt", "bottom.txt"}
    # The pages together are what one page is.
    seen = []
    for offset in range(0, 6, 2):
        page = await uwe.search(offset=offset, limit=2, **params)
        assert page["total_count"] == 5
        seen += [one["name"] for one in page["entries"]]
    assert len(seen) == 5
    assert set(seen) == everything
    assert seen == [one["name"] for one in (await uwe.search(**params))["entries"]]


async def test_search_below(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "uploader")
    for name, found in (
        ("folder", {"deep", "inside.txt", "bottom.txt"}),
        ("deep", {"bottom.txt"}),
    ):
        assert await uwe.names(ancestor_folder_ids=tree[name]["id"]) == found
    both = ",".join(tree[name]["id"] for name in ("deep", "folder"))
    page = await uwe.search(ancestor_folder_ids=both)
    assert page["total_count"] == 3
    await uwe.ask("GET", f"/search?query=x&ancestor_folder_ids={tree['outer']['id']}", expect=404)
    assert await uwe.names(owner_user_ids=str(api.user)) == {"folder", "deep", "inside.txt", "bottom.txt"}
    assert await uwe.names(type="folder") == {"folder", "deep"}
    [entry] = (await uwe.search("inside", fields="permissions,path_collection"))["entries"]
    assert not entry["permissions"]["can_download"]
    assert [one["name"] for one in entry["path_collection"]["entries"]] == ["All Files", "folder"]


async def test_what_others_put_in_the_trash(api, uwe, people, tree):
    third = await people.add("third@example.com")
    for who in (uwe, third):
        await sharing.share(api, tree["folder"], who, "editor")
    await uwe.ask("DELETE", f"/files/{tree['file']['id']}", expect=204)
    await api.ask("DELETE", f"/files/{tree['bottom']['id']}", expect=204)
    # Each sees what they put there, the owner sees it all.
    seen = {}
    for name, who in (("uwe", uwe), ("api", api), ("third", third)):
        seen[name] = set(await listed(who, "trash"))
        assert await who.names(trash_content="trashed_only") == seen[name]
        assert await who.names("txt", trash_content="trashed_only") == seen[name]
        both = await who.search(trash_content="all_items")
        assert {one["name"] for one in both["entries"]} == seen[name] | await who.names()
        assert both["total_count"] == len(both["entries"])
        below = await who.names(trash_content="all_items", ancestor_folder_ids=tree["folder"]["id"])
        assert below == seen[name] | {"deep"}
    assert seen == {"uwe": {"inside.txt"}, "api": {"inside.txt", "bottom.txt"}, "third": set()}
    deep = tree["folder"]["id"]
    assert await uwe.names(trash_content="trashed_only", ancestor_folder_ids=deep) == {"inside.txt"}
    assert await api.names(trash_content="trashed_only", ancestor_folder_ids=deep) == seen["api"]
    assert await api.names(trash_content="trashed_only", deleted_user_ids=str(uwe.user)) == {"inside.txt"}
    await third.ask("POST", f"/files/{tree['file']['id']}", json={}, expect=404)
    await uwe.ask("POST", f"/files/{tree['bottom']['id']}", json={}, expect=404)
    await uwe.ask("DELETE", f"/files/{tree['file']['id']}/trash", expect=403)
    back = await uwe.ask("POST", f"/files/{tree['file']['id']}", json={}, expect=201)
    assert back["parent"]["id"] == tree["folder"]["id"]
    assert await listed(uwe, "trash") == []


async def test_a_trashed_folder_is_nowhere_for_others(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "editor")
    await api.ask("DELETE", f"/folders/{tree['outer']['id']}?recursive=true", expect=204)
    assert await listed(uwe) == []
    assert await uwe.names(trash_content="all_items") == set()
    for name in ("folder", "file"):
        await uwe.ask("GET", f"/{tree[name]['type']}s/{tree[name]['id']}", expect=404)
    await api.ask("POST", f"/folders/{tree['outer']['id']}", json={}, expect=201)
    assert await listed(uwe) == ["folder"]


async def test_what_is_moved_belongs_to_where_it_is(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "editor")
    mine = await uwe.upload("mine.txt", b"12345")
    await uwe.ask("PUT", f"/files/{mine['id']}", json={"parent": {"id": tree["folder"]["id"]}})
    found = await api.ask("GET", f"/files/{mine['id']}")
    assert found["owned_by"]["id"] == str(api.user)
    for who, used in ((api, 18), (uwe, 0)):
        assert (await who.ask("GET", "/users/me?fields=space_used"))["space_used"] == used
    await uwe.ask("PUT", f"/folders/{tree['deep']['id']}", json={"parent": {"id": "0"}})
    await api.ask("GET", f"/files/{tree['bottom']['id']}", expect=404)
    assert (await uwe.ask("GET", f"/files/{tree['bottom']['id']}"))["owned_by"]["id"] == str(uwe.user)
    for who, used in ((api, 12), (uwe, 6)):
        assert (await who.ask("GET", "/users/me?fields=space_used"))["space_used"] == used


async def test_the_owner_pays(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "editor")
    await api.ask("PUT", f"/users/{uwe.user}", json={"space_amount": 0})
    await uwe.upload("new.txt", b"x" * 10, tree["folder"]["id"])
    refused = await uwe.send("/files/content", {"name": "n", "parent": {"id": "0"}}, b"x", expect=403)
    assert refused["code"] == "storage_limit_exceeded"
    # What comes back to who has no space for it stays where it is.
    url = f"/files/{tree['file']['id']}"
    refused = await uwe.ask("PUT", url, json={"parent": {"id": "0"}}, expect=403)
    assert refused["code"] == "storage_limit_exceeded"
    assert (await api.ask("GET", url))["parent"]["id"] == tree["folder"]["id"]


async def test_unshared_tree_is_unchanged(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "editor")
    assert await listed(api) == ["outer"]
    assert len(await api.names()) == 6


async def test_events_go_to_who_sees_the_item(api, uwe, people, tree):
    third = await people.add("third@example.com")
    start = {who.user: await sharing.position(who) for who in (api, uwe, third)}
    made = await sharing.share(api, tree["folder"], uwe, "editor")
    [(word, source)] = await sharing.told(uwe, start[uwe.user])
    assert (word, source["id"], source["parent"]["id"]) == (
        "COLLAB_ADD_COLLABORATOR",
        tree["folder"]["id"],
        "0",
    )
    assert await sharing.told(uwe, start[uwe.user], stream_type="changes") != []
    await api.version(tree["bottom"]["id"], b"new")
    await api.version(tree["beside"]["id"], b"new")
    await uwe.ask("PUT", f"/files/{tree['file']['id']}", json={"name": "renamed"})
    told = await sharing.told(uwe, start[uwe.user])
    assert [word for word, _ in told] == ["COLLAB_ADD_COLLABORATOR", "ITEM_UPLOAD", "ITEM_RENAME"]
    shown = [one["name"] for one in told[1][1]["path_collection"]["entries"]]
    assert shown == ["All Files", "folder", "deep"]
    own = await sharing.told(api, start[api.user])
    assert [word for word, _ in own] == [
        *("COLLAB_ADD_COLLABORATOR", "ITEM_UPLOAD", "ITEM_UPLOAD", "ITEM_RENAME")
    ]
    assert own[1][1]["path_collection"]["entries"][1]["name"] == "outer"
    await api.ask("PUT", f"/collaborations/{made['id']}", json={"role": "viewer"})
    await api.ask("DELETE", f"/collaborations/{made['id']}", expect=204)
    await api.version(tree["bottom"]["id"], b"unseen")
    told = (await sharing.told(uwe, start[uwe.user]))[3:]
    assert [word for word, _ in told] == ["COLLAB_ROLE_CHANGE", "COLLAB_REMOVE_COLLABORATOR"]
    # What is not seen any more has a name, and no place.
    assert (told[1][1]["name"], told[1][1]["parent"]) == ("folder", None)
    assert told[1][1]["path_collection"]["entries"] == []
    assert await sharing.told(third, start[third.user]) == []


async def test_invitations_are_told(api, people, tree):
    eva = await people.add("eva@elsewhere.example")
    start = {who.user: await sharing.position(who) for who in (api, eva)}
    made = await sharing.share(api, tree["folder"], eva, "editor")
    page = await eva.ask("GET", f"/events?stream_position={start[eva.user]}")
    [event] = page["entries"]
    assert event["event_type"] == "COLLAB_INVITE_COLLABORATOR"
    assert event["additional_details"]["collab_id"] == made["id"]
    assert (event["source"]["name"], event["source"]["parent"]) == ("folder", None)
    assert event["source"].keys().isdisjoint({"owned_by", "size", "shared_link", "description"})
    await eva.ask("PUT", f"/collaborations/{made['id']}", json={"status": "accepted"})
    for who in (api, eva):
        words = [word for word, _ in await sharing.told(who, start[who.user])]
        assert words == ["COLLAB_INVITE_COLLABORATOR", "COLLAB_ADD_COLLABORATOR"]


async def test_who_loses_sight_by_a_move_is_told(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe, "editor")
    start = await sharing.position(uwe)
    await api.ask("PUT", f"/files/{tree['file']['id']}", json={"parent": {"id": tree["outer"]["id"]}})
    [(word, source)] = await sharing.told(uwe, start)
    assert (word, source["id"], source["parent"]) == ("ITEM_MOVE", tree["file"]["id"], None)
    await uwe.ask("GET", f"/files/{tree['file']['id']}", expect=404)
    await api.ask("PUT", f"/files/{tree['file']['id']}", json={"parent": {"id": tree["folder"]["id"]}})
    [_, (word, source)] = await sharing.told(uwe, start)
    assert (word, source["parent"]["name"]) == ("ITEM_MOVE", "folder")


async def test_a_bound_token_shows_nothing_above(api, tree):
    token = await api.narrowed(
        "base_explorer", resource=f"https://api.box.com/2.0/folders/{tree['folder']['id']}"
    )
    api.http.headers["authorization"] = f"Bearer {token}"
    assert await path(api, tree["folder"]) == []
    assert await path(api, tree["bottom"]) == ["folder", "deep"]
    listing = await api.ask("GET", f"/folders/{tree['folder']['id']}/items?fields=path_collection,parent")
    for entry in listing["entries"]:
        assert [one["name"] for one in entry["path_collection"]["entries"]] == ["folder"]
    found = await api.search(fields="path_collection")
    for entry in found["entries"]:
        assert "outer" not in str(entry)
    assert {one["name"] for one in found["entries"]} == {"folder", "deep", "inside.txt", "bottom.txt"}


async def test_a_bound_token_of_a_collaborator(api, uwe, tree):
    await sharing.share(api, tree["outer"], uwe, "viewer")
    token = await uwe.narrowed(
        "base_explorer", resource=f"https://api.box.com/2.0/folders/{tree['folder']['id']}"
    )
    assert await uwe.status(token, path=f"/files/{tree['bottom']['id']}") == 200
    assert await uwe.status(token, path=f"/files/{tree['beside']['id']}") == 404
    assert await uwe.status(token, path="/folders/0") == 404
    uwe.http.headers["authorization"] = f"Bearer {token}"
    assert await uwe.names() == {"folder", "deep", "inside.txt", "bottom.txt"}


async def test_page_rights_are_one_lookup(api, uwe, tree, service):
    await sharing.share(api, tree["folder"], uwe, "viewer")
    rows = service.read("SELECT * FROM item WHERE owner = ? AND parent IS NOT NULL", api.user)
    asked = []

    def read(sql, *args):
        asked.append(sql)
        return service.read(sql, *args)

    view = access_rights.View(read, access_rights.NotifiedUser(uwe.user))
    view.look_up(rows)
    seen = [row["name"] for row in rows if view.rights(row)]
    assert sorted(seen) == ["bottom.txt", "deep", "folder", "inside.txt"]
    assert len(asked) == 2
    asked.clear()
    assert all(access_rights.View(read, access_rights.NotifiedUser(api.user)).rights(row) for row in rows)
    assert asked == []
