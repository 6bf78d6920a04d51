"""/web_links."""

import pytest

from cmsfs import errors


async def test_a_web_link_is_made_and_changed(client):
    link = await client.web_links.create("https://example.org/a", "0", name="site")
    assert (link.type, link.name, link.url) == ("web_link", "site", "https://example.org/a")
    assert await client.items.get("web_link", link.id) == link
    changed = await client.web_links.update(
        link.id, url="https://example.org/b", name="place", etag=link.etag
    )
    assert (changed.name, changed.url) == ("place", "https://example.org/b")
    assert changed.etag != link.etag
    with pytest.raises(errors.PreconditionFailed):
        await client.web_links.update(link.id, name="x", etag=link.etag)


async def test_unnamed_web_link_gets_a_name(client):
    assert (await client.web_links.create("https://example.org/a", "0")).name


async def test_it_shares_the_names_of_its_folder(client, upload):
    await upload("site")
    with pytest.raises(errors.Conflict):
        await client.web_links.create("https://example.org", "0", name="Site")
