"""The trash: listed, restored from, emptied.  POST /web_links/:id is the specification's part of it."""

import pytest

from cmsfs import errors


@pytest.fixture(params=["file", "folder", "web_link"])
async def item(request, client, upload):
    """One of each kind, in a folder of its own."""
    home = await client.folders.create("home", "0")
    if request.param == "file":
        return await upload("thing", b"text", parent=home.id)
    if request.param == "folder":
        return await client.folders.create("thing", home.id)
    return await client.web_links.create("https://example.org/x", home.id, name="thing")


async def in_trash(client):
    return {(item.type, item.id) async for item in client.trash.items()}


async def test_it_goes_in_and_comes_back(client, item):
    await client.items.delete(item.type, item.id)
    assert (item.type, item.id) in await in_trash(client)
    back = await client.items.restore(item.type, item.id)
    assert (back.type, back.id, back.name, back.parent.id) == (item.type, item.id, "thing", item.parent.id)
    assert (back.item_status, back.trashed_at) == ("active", None)
    assert (item.type, item.id) not in await in_trash(client)
    assert (await client.items.get(item.type, item.id)).name == "thing"


async def test_restore_prefers_the_original_folder(client, item):
    other = await client.folders.create("other", "0")
    await client.items.delete(item.type, item.id)
    back = await client.items.restore(item.type, item.id, name="renamed", parent_id=other.id)
    assert (back.name, back.parent.id) == ("renamed", item.parent.id)


async def test_restore_to_other_folder_when_gone(client, item):
    other = await client.folders.create("other", "0")
    await client.items.delete(item.type, item.id)
    await client.items.delete("folder", item.parent.id, recursive=True)
    with pytest.raises(errors.Forbidden):
        await client.items.restore(item.type, item.id)
    back = await client.items.restore(item.type, item.id, parent_id=other.id)
    assert back.parent.id == other.id


async def test_a_name_that_is_taken_meanwhile_is_refused(client, item):
    await client.items.delete(item.type, item.id)
    await client.folders.create("Thing", item.parent.id)
    with pytest.raises(errors.Conflict):
        await client.items.restore(item.type, item.id)
    assert (await client.items.restore(item.type, item.id, name="thing 2")).name == "thing 2"


async def test_restore_of_live_item_is_refused(client, item):
    with pytest.raises(errors.NotFound) as caught:
        await client.items.restore(item.type, item.id)
    assert caught.value.code == "not_trashed"
    with pytest.raises(errors.NotFound):
        await client.items.purge(item.type, item.id)


async def test_it_can_be_removed_for_good(client, item):
    await client.items.delete(item.type, item.id)
    await client.items.purge(item.type, item.id)
    assert (item.type, item.id) not in await in_trash(client)
    for ask in (client.items.get(item.type, item.id), client.items.restore(item.type, item.id)):
        with pytest.raises(errors.NotFound) as caught:
            await ask
        assert caught.value.code == "not_found"


async def test_restoring_a_web_link_gives_the_web_link(client):
    link = await client.web_links.create("https://example.org/x", "0", name="thing")
    await client.items.delete("web_link", link.id, etag=link.etag)
    back = await client.items.restore("web_link", link.id, name="other")
    assert (back.id, back.name, back.url) == (link.id, "other", "https://example.org/x")
    with pytest.raises(errors.NotFound):
        await client.items.restore("web_link", link.id)
