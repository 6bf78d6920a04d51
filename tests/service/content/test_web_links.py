"""Web links: create, get, change.  (The trash has tests of its own.)"""

import pytest

from cmsfs.models.content import items


async def test_a_new_link(api):
    folder = await api.folder("links")
    found = await api.link("site", folder["id"], "https://example.com/a?b=c#d")
    link = items.WebLink.model_validate(found)
    assert (link.name, link.url, link.etag) == ("site", "https://example.com/a?b=c#d", "0")
    assert {"sequence_id", "path_collection", "trashed_at", "purged_at", "shared_link"} < found.keys()
    assert None not in [link.created_at, link.modified_at]
    assert await api.ask("GET", f"/web_links/{link.id}") == found
    await api.ask("GET", f"/web_links/{link.id}", headers={"if-none-match": "0"}, expect=304)


async def test_a_link_without_a_name_gets_one(api):
    body = {"url": "https://example.com/a/b/", "parent": {"id": "0"}}
    assert (await api.ask("POST", "/web_links", json=body))["name"] == "example.com a b"
    await api.ask("POST", "/web_links", json=body, expect=409)


@pytest.mark.parametrize(
    "url", ["", "example.com", "file:///etc/passwd", "javascript:alert(1)", "http://a b", 5]
)
async def test_addresses_that_are_none(api, url):
    await api.ask("POST", "/web_links", json={"url": url, "parent": {"id": "0"}}, expect=400)


async def test_a_change(api):
    link = await api.link("site")
    folder = await api.folder("links")
    path = f"/web_links/{link['id']}"
    wish = {"url": "http://example.org", "name": "place", "parent": {"id": folder["id"]}, "description": "d"}
    changed = await api.ask("PUT", path, json=wish)
    assert (
        changed["url"],
        changed["name"],
        changed["parent"]["id"],
        changed["description"],
        changed["etag"],
    ) == (
        *("http://example.org", "place", folder["id"], "d"),
        "1",
    )
    await api.ask("PUT", path, json={"url": "ftp://x"}, expect=400)
    await api.ask("PUT", path, json={"url": "http://x"}, headers={"if-match": "0"}, expect=412)


async def trashed(api, name="link", parent="0"):
    """The path of a new link that is in the trash."""
    path = f"/web_links/{(await api.link(name, parent))['id']}"
    await api.ask("DELETE", path, expect=204)
    return path


async def test_a_restored_link_is_answered_whole(api):
    folder = await api.folder("folder")
    path = await trashed(api, parent=folder["id"])
    assert (await api.ask("GET", f"{path}/trash"))["item_status"] == "trashed"
    back = await api.ask("POST", path, expect=201)
    link = items.WebLink.model_validate(back)
    assert (link.name, link.item_status, link.trashed_at, link.purged_at) == ("link", "active", None, None)
    assert link.path_collection is not None and link.parent is not None
    assert [one.id for one in link.path_collection.entries] == ["0", folder["id"]]
    assert await api.ask("GET", path) == back
    await api.ask("DELETE", path, expect=204)
    asked = await api.ask("POST", f"{path}?fields=item_status", json={"name": "new"}, expect=201)
    assert asked.keys() == {"type", "id", "etag", "sequence_id", "name", "url", "item_status"}
    assert asked["name"] == "new"


async def test_the_three_errors_of_restoring_a_link(api, uwe):
    living = f"/web_links/{(await api.link('living'))['id']}"
    assert (await api.ask("POST", living, expect=404))["code"] == "not_trashed"
    path = await trashed(api)
    await api.link("LINK")
    problem = await api.ask("POST", path, expect=409)
    assert problem["code"] == "item_name_in_use"
    gone = await api.folder("gone")
    lost = await trashed(api, "lost", gone["id"])
    await api.ask("DELETE", f"/folders/{gone['id']}", expect=204)
    others = await uwe.folder("of somebody else")
    for body in (None, {}, {"parent": {"id": others["id"]}}, {"parent": {"id": gone["id"]}}):
        problem = await api.ask("POST", lost, json=body, expect=403)
        assert problem["code"] == "access_denied_insufficient_permissions"
    for one in (path, lost):
        assert (await api.ask("GET", f"{one}/trash"))["item_status"] == "trashed"
        await uwe.ask("POST", one, expect=404)


async def test_taken_name_counts_in_restore_target(api):
    gone, other = await api.folder("gone"), await api.folder("other")
    path = await trashed(api, parent=gone["id"])
    await api.ask("DELETE", f"/folders/{gone['id']}", expect=204)
    await api.link("link", other["id"])
    wish = {"parent": {"id": other["id"]}}
    await api.ask("POST", path, json=wish, expect=409)
    await api.ask("POST", path, json=wish | {"name": "a/b"}, expect=400)
    back = await api.ask("POST", path, json=wish | {"name": "free"}, expect=201)
    assert (back["name"], back["parent"]["id"]) == ("free", other["id"])


async def test_parent_applies_without_original_folder(api):
    home, other = await api.folder("home"), await api.folder("other")
    path = await trashed(api, parent=home["id"])
    await api.link("link", other["id"])
    back = await api.ask("POST", path, json={"parent": {"id": other["id"]}}, expect=201)
    assert back["parent"]["id"] == home["id"]


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"name": ["x"]}', b'{"parent": "x"}', b'{"parent": {}}'])
async def test_what_is_no_wish_to_restore(api, body):
    path = await trashed(api)
    await api.ask("POST", path, content=body, expect=400)
    await api.ask("POST", path, expect=201)
