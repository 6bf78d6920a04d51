"""What a search found is kept for its next pages, and never longer than it is true."""

import pytest
import trio

from cmsfs.service.search import result_cache, search
from cmsfs.service.storage import store


@pytest.fixture
async def many(api):
    """Names of files, in the order of their making."""
    folder = await api.folder("folder")
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        await api.upload(name, b"x", folder["id"])
    return folder["id"], names


@pytest.fixture
def finds(monkeypatch):
    """How often something was found out."""
    counted = []
    original = search._run_plan

    def find_out(*args):
        counted.append(1)
        return original(*args)

    monkeypatch.setattr(search, "_run_plan", find_out)
    return counted


async def page(api, folder, offset=0, limit=5, **params):
    params = {"ancestor_folder_ids": folder, "offset": offset, "limit": limit} | params
    found = await api.search(**params)
    assert found["total_count"] == params.pop("total", found["total_count"])
    return [one["name"] for one in found["entries"]]


async def test_search_pages_are_found_in_two_steps(api, many, finds):
    folder, names = many
    found = [await page(api, folder, offset) for offset in range(0, 25, 5)]
    assert [name for names_of in found for name in names_of] == names
    assert len(finds) == 2
    assert await page(api, folder, 3, 7, fields="name") == names[3:10]
    assert len(finds) == 2


async def test_whatever_is_written_shows_in_the_next_page(api, many, uwe):
    folder, names = many
    assert await page(api, folder, 10) == names[10:15]
    file = (await api.search(ancestor_folder_ids=folder, query='"12"'))["entries"][0]
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    names.remove("12")
    assert await page(api, folder, 10) == names[10:15]
    await api.upload("99", b"x", folder)
    assert await page(api, folder, 15) == [*names[15:], "99"]
    await uwe.ask("GET", "/search", params={"query": "NOT x", "ancestor_folder_ids": folder}, expect=404)


async def test_what_another_process_writes_shows_too(api, many, root):
    folder, names = many
    assert await page(api, folder) == names[:5]
    async with store.open_store(root) as other:
        await other.write(lambda conn: conn.execute("UPDATE item SET status = 2 WHERE name = '00'"))
        assert await page(api, folder) == names[1:6]


async def test_callers_do_not_see_each_others(api, uwe, many, finds):
    assert await uwe.names() == set()
    assert await api.names() == {"folder", *many[1]}
    assert await uwe.names() == set()
    assert len(finds) == 2


async def test_it_is_forgotten_after_a_while(service, autojump_clock):
    memo = result_cache.ResultCache(service)
    async with memo.turn("a search", 5) as known:
        known.total = 0
    async with memo.turn("a search", 5) as again:
        assert again is known
    await trio.sleep(result_cache.MAX_AGE + 1)
    async with memo.turn("a search", 5) as again:
        assert again is not known


async def test_concurrent_searches_share_one_run(api, many, finds):
    folder, names = many
    await page(api, folder)
    found = {}

    async def one(offset):
        found[offset] = await page(api, folder, offset)

    async with trio.open_nursery() as nursery:
        for offset in (5, 10, 15):
            nursery.start_soon(one, offset)
    assert found == {offset: names[offset : offset + 5] for offset in (5, 10, 15)}
    assert len(finds) == 2


async def test_a_turn_that_failed_is_the_next_ones(service):
    memo = result_cache.ResultCache(service)
    began = trio.Event()
    order = []

    async def first():
        with pytest.raises(ZeroDivisionError):
            async with memo.turn("a search", 5):
                began.set()
                await trio.lowlevel.checkpoint()
                order.append("failed")
                raise ZeroDivisionError

    async def second():
        await began.wait()
        async with memo.turn("a search", 5) as known:
            order.append("mine")
            known.total = 3

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        nursery.start_soon(second)
    assert order == ["failed", "mine"]


async def test_few_searches_are_kept(service):
    memo = result_cache.ResultCache(service)
    for number in range(1000):
        async with memo.turn(number, 5) as known:
            known.total = 0
    assert len(memo._found) == result_cache.MAX_SEARCHES
