"""GET /search as the drive uses it."""

import pytest

from cmsfs import errors
from cmsfs.client.content.search import EVERYTHING
from cmsfs.models.content.search import Query


async def found(client, **wanted):
    query = Query.model_validate({"query": EVERYTHING} | wanted)
    return [item async for item in client.search.entries(query)]


async def test_everything_below_a_folder_is_found_over_pages(client, upload):
    top = await client.folders.create("top", "0")
    inner = await client.folders.create("inner", top.id)
    made = {top.id: top, inner.id: inner}
    for number in range(12):
        file = await upload(f"{number}.txt", parent=inner.id if number % 2 else top.id)
        made[file.id] = file
    link = await client.web_links.create("https://example.org", inner.id, name="link")
    items = await found(client, ancestor_folder_ids=[top.id], limit=5)
    assert {item.id for item in items} == (set(made) | {link.id}) - {top.id}
    assert len(items) == 14
    # 3 pages, and none asked for twice.
    assert client.counters["search"] == 3
    by_id = {item.id: item for item in items}
    for one in made.values():
        if one.type == "file":
            assert by_id[one.id] == one


async def test_search_returns_the_drives_fields(client, upload):
    file = await upload("fields.txt")
    (item,) = await found(client, query='"fields.txt"', type="file")
    assert item == file
    assert {"sha1", "etag", "sequence_id", "size", "parent", "owned_by"} <= item.model_fields_set
    assert item.path_collection is None


async def test_what_changed_since_comes_in_order(client, upload):
    first = await upload("a.txt")
    second = await upload("b.txt")
    await client.items.update("file", first.id, name="c.txt")
    items = await found(
        client,
        updated_at_range={"start": first.modified_at},
        sort="modified_at",
        direction="ASC",
        trash_content="all_items",
    )
    assert [item.id for item in items][-2:] == [second.id, first.id]


async def test_trash_search_by_deletion_time(client, upload):
    file = await upload("a.txt")
    await client.items.delete("file", file.id)
    items = await found(client, trash_content="trashed_only", deleted_at_range={"start": file.modified_at})
    assert [item.id for item in items] == [file.id]
    assert (items[0].item_status, items[0].trashed_at is not None) == ("trashed", True)


async def test_refusals(client):
    with pytest.raises(errors.BadRequest):
        await client.search.page(Query())
    with pytest.raises(errors.NotFound):
        await found(client, ancestor_folder_ids=["987654321"])
    with pytest.raises(errors.BadRequest):
        await client.search.page(Query(query="x").model_copy(update={"offset": 10_001}).model_copy())


async def test_nothing_found_is_an_empty_page(client):
    page = await client.search.page(Query(query="qqqqnothing", limit=500))
    assert (page.entries, page.limit, page.total_count) == ([], 200, 0)
