"""/folders/:id."""

import pytest

from cmsfs import errors


async def names(entries):
    return [item.name async for item in entries]


async def test_a_folder_is_made_renamed_and_moved(client):
    outer = await client.folders.create("outer", "0")
    inner = await client.folders.create("inner", outer.id)
    assert (inner.type, inner.name, inner.parent.id) == ("folder", "inner", outer.id)
    assert await client.items.get("folder", inner.id) == inner
    renamed = await client.items.update("folder", inner.id, name="Inner", etag=inner.etag)
    assert (renamed.id, renamed.name) == (inner.id, "Inner")
    moved = await client.items.update("folder", inner.id, parent_id="0", name="moved")
    assert (moved.parent.id, moved.name) == ("0", "moved")
    with pytest.raises(errors.PreconditionFailed):
        await client.items.update("folder", inner.id, name="x", etag=inner.etag)


async def test_a_folder_cannot_go_into_itself(client):
    outer = await client.folders.create("outer", "0")
    inner = await client.folders.create("inner", outer.id)
    with pytest.raises(errors.BadRequest) as caught:
        await client.items.update("folder", outer.id, parent_id=inner.id)
    assert caught.value.code == "cyclical_folder_structure"


async def test_taken_name_names_the_holder(client, upload):
    folder = await client.folders.create("name", "0")
    with pytest.raises(errors.Conflict) as caught:
        await client.folders.create("NAME", "0")
    assert caught.value.conflict["id"] == folder.id
    with pytest.raises(errors.Conflict):
        await upload("Name")


async def test_its_items_are_what_is_directly_in_it(client, upload):
    folder = await client.folders.create("many", "0")
    below = await client.folders.create("below", folder.id)
    await upload("deep.txt", parent=below.id)
    for number in range(7):
        await upload(f"{number}.txt", parent=folder.id)
    await client.web_links.create("https://example.org", folder.id, name="link")
    found = {item.name: item async for item in client.folders.items(folder.id)}
    assert sorted(found) == [*(f"{number}.txt" for number in range(7)), "below", "link"]
    assert found["0.txt"].sha1
    assert found["0.txt"].parent.id == folder.id
    assert found["link"].url == "https://example.org"


async def test_nonempty_folder_needs_recursive_delete(client, upload):
    folder = await client.folders.create("full", "0")
    await upload("a.txt", parent=folder.id)
    with pytest.raises(errors.BadRequest) as caught:
        await client.items.delete("folder", folder.id)
    assert caught.value.code == "folder_not_empty"
    with pytest.raises(errors.PreconditionFailed):
        await client.items.delete("folder", folder.id, recursive=True, etag="999")
    await client.items.delete("folder", folder.id, recursive=True)
    with pytest.raises(errors.NotFound) as gone:
        await client.items.get("folder", folder.id)
    assert gone.value.code == "trashed"
    with pytest.raises(errors.NotFound):
        await names(client.folders.items(folder.id))


async def test_the_root_is_folder_0(client):
    root = await client.items.get("folder", "0")
    assert (root.id, root.etag, root.parent) == ("0", None, None)
    with pytest.raises(errors.ApiError):
        await client.items.delete("folder", "0", recursive=True)
