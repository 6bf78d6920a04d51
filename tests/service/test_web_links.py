"""Web links: create, get, change.  (The trash has tests of its own.)"""

import pytest

from cmsfs.models import items as shapes


async def test_a_new_link(api):
    folder = await api.folder("links")
    found = await api.link("site", folder["id"], "https://example.com/a?b=c#d")
    link = shapes.WebLink.model_validate(found)
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
