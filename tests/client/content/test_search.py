"""Search and folder listings over pages."""

import pytest
from starlette.responses import JSONResponse

from cmsfs import errors
from cmsfs.client.content import search as client_search
from cmsfs.models.content import search


def file(number):
    return {"type": "file", "id": str(number), "name": f"{number}.txt"}


class Paged:
    """A service that finds these entries, at most `most` a page; the offsets asked for are kept."""

    def __init__(self, entries, *, most=200, total=None):
        self.offsets = []
        self._entries = entries
        self._most = most
        self._total = len(entries) if total is None else total

    async def __call__(self, request):
        offset = int(request.query_params.get("offset", 0))
        limit = min(int(request.query_params.get("limit", 30)), self._most)
        self.offsets.append(offset)
        page = [entry for entry in self._entries[offset : offset + limit] if entry is not None]
        return JSONResponse(
            {
                "type": "search_results_items",
                "total_count": self._total,
                "limit": limit,
                "offset": offset,
                "entries": page,
            }
        )


async def ids(entries):
    return [entry.id async for entry in entries]


async def test_page_request_names_the_drives_fields(connect):
    seen = {}

    async def handler(request):
        seen.update(request.query_params)
        return await Paged([file(1)])(request)

    client = await connect(handler)
    query = search.Query(query=client_search.EVERYTHING, ancestor_folder_ids=["5"], limit=200)
    results = await client.search.page(query)
    assert [item.name for item in results.entries] == ["1.txt"]
    fields = seen.pop("fields").split(",")
    assert {"parent", "etag", "sha1", "size", "url"} <= set(fields)
    assert "path_collection" not in fields
    assert seen == {"query": client_search.EVERYTHING, "ancestor_folder_ids": "5", "limit": "200"}
    assert client.counters == {"search": 1}


async def test_a_query_may_name_its_own_fields(connect):
    async def handler(request):
        assert request.query_params["fields"] == "name"
        return await Paged([])(request)

    client = await connect(handler)
    assert (await client.search.page(search.Query(query="x", fields=["name"]))).entries == []


async def test_all_entries_come_over_all_pages(connect):
    handler = Paged([file(n) for n in range(450)])
    client = await connect(handler)
    assert await ids(client.search.entries(search.Query(query="x", limit=200))) == [
        str(n) for n in range(450)
    ]
    assert handler.offsets == [0, 200, 400]


async def test_the_steps_are_those_of_the_answer(connect):
    handler = Paged([file(n) for n in range(250)], most=100)
    client = await connect(handler)
    assert len(await ids(client.search.entries(search.Query(query="x", limit=200)))) == 250
    assert handler.offsets == [0, 100, 200]


async def test_short_middle_page_does_not_end_search(connect):
    entries = [file(n) for n in range(30)]
    entries[3:9] = [None] * 6
    client = await connect(Paged(entries))
    found = await ids(client.search.entries(search.Query(query="x", limit=10)))
    assert found == ["0", "1", "2", *(str(n) for n in range(9, 30))]


async def test_entry_shifting_pages_is_reported_once(connect):
    entries = [*map(file, range(10)), file(9), {"type": "folder", "id": "9"}, file(10)]
    client = await connect(Paged(entries))
    found = await ids(client.search.entries(search.Query(query="x", limit=10)))
    assert found == [*map(str, range(10)), "9", "10"]


async def test_overstated_total_ends_at_empty_page(connect):
    handler = Paged([file(1)], total=1000)
    client = await connect(handler)
    assert await ids(client.search.entries(search.Query(query="x", limit=10))) == ["1"]
    assert handler.offsets == [0, 10]


async def test_stopping_early_closes_search(connect):
    handler = Paged([file(n) for n in range(100)])
    client = await connect(handler)
    async for item in client.search.entries(search.Query(query="x", limit=10, offset=20)):
        assert item.id == "20"
        break
    assert handler.offsets == [20]


async def test_a_folder_is_listed_by_markers(connect):
    pages = {
        None: ([file(1), {"type": "folder", "id": "2"}], "abc"),
        "abc": ([], "def"),
        "def": ([{"type": "web_link", "id": "3", "url": "https://example.org"}], ""),
    }

    async def handler(request):
        assert request.url.path == "/2.0/folders/7/items"
        assert request.query_params["usemarker"] == "true"
        entries, following = pages[request.query_params.get("marker")]
        return JSONResponse({"entries": entries, "limit": 1000, "next_marker": following})

    client = await connect(handler)
    assert await ids(client.folders.items("7")) == ["1", "2", "3"]


async def test_a_marker_that_leads_nowhere_is_noticed(connect):
    async def handler(request):
        return JSONResponse({"entries": [], "next_marker": "same"})

    client = await connect(handler)
    with pytest.raises(errors.ProtocolError):
        await ids(client.folders.items("7"))


async def test_unknown_item_type_is_protocol_error(connect):
    client = await connect(Paged([{"type": "hologram", "id": "1"}]))
    with pytest.raises(errors.ProtocolError):
        await client.search.page(search.Query(query="x"))
