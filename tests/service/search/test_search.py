"""GET /search: the rules of the specification, one by one."""

import pytest

from cmsfs.models.content import search


@pytest.fixture
async def tree(api):
    """docs/{deep/{x.txt}, a.txt, B.md}, links/{site}, gone.txt in the trash, trashed/{hidden.txt} too."""
    docs = await api.folder("docs")
    deep = await api.folder("deep", docs["id"])
    links = await api.folder("links")
    trashed = await api.folder("trashed")
    made = {
        "docs": docs,
        "deep": deep,
        "links": links,
        "trashed": trashed,
        "a.txt": await api.upload("a.txt", b"the quick brown fox", docs["id"]),
        "B.md": await api.upload("B.md", b"a lazy dog", docs["id"]),
        "x.txt": await api.upload("x.txt", b"quick silver", deep["id"]),
        "site": await api.link("site", links["id"]),
        "gone.txt": await api.upload("gone.txt", b"quick goodbye"),
        "hidden.txt": await api.upload("hidden.txt", b"quick hiding", trashed["id"]),
    }
    await api.ask("DELETE", f"/files/{made['gone.txt']['id']}", expect=204)
    await api.ask("DELETE", f"/folders/{trashed['id']}?recursive=true", expect=204)
    return made


ALIVE = {"docs", "deep", "links", "a.txt", "B.md", "x.txt", "site"}
TRASHED = {"gone.txt", "trashed"}


async def test_everything_is_found(api, tree):
    found = await api.search()
    assert {one["name"] for one in found["entries"]} == ALIVE
    assert (found["type"], found["total_count"], found["limit"], found["offset"]) == (
        *("search_results_items", len(ALIVE)),
        *(200, 0),
    )
    assert len(search.SearchResults.model_validate(found).entries) == len(ALIVE)


async def test_words_match_names_texts_and_descriptions(api, tree):
    await api.ask("PUT", f"/folders/{tree['links']['id']}", json={"description": "Quick addresses"})
    assert await api.names("quick") == {"a.txt", "x.txt", "links"}
    assert await api.names("quick AND fox") == {"a.txt"}
    assert await api.names('"lazy dog"') == {"B.md"}
    assert await api.names("sit") == {"site"}


async def test_content_types_say_where_words_are_looked_for(api, tree):
    await api.ask("PUT", f"/files/{tree['B.md']['id']}", json={"tags": ["fox", "quick"]})
    assert await api.names("quick", content_types="file_content") == {"a.txt", "x.txt"}
    assert await api.names("quick", content_types="tags,name") == {"B.md"}


async def test_version_and_rename_are_found_at_once(api, tree):
    await api.ask("PUT", f"/files/{tree['a.txt']['id']}", json={"name": "zebra.txt"})
    assert await api.names("zebra") == {"zebra.txt"}
    assert await api.names("a", content_types="name") == set()


@pytest.mark.parametrize(
    ("ancestors", "expected"),
    [
        (["docs"], {"deep", "a.txt", "B.md", "x.txt"}),
        (["deep"], {"x.txt"}),
        (["deep", "links"], {"x.txt", "site"}),
        (["0"], ALIVE),
        (["links", "0"], ALIVE),
    ],
)
async def test_ancestors_include_what_is_below_their_subfolders(api, tree, ancestors, expected):
    ids = ",".join(tree[name]["id"] if name in tree else name for name in ancestors)
    assert await api.names(ancestor_folder_ids=ids) == expected
    assert await api.names("quick OR NOT quick", ancestor_folder_ids=ids, sort="modified_at") == expected


@pytest.mark.parametrize("wire_id", ["999999", "x", "-1", "9" * 40, "trashed", "a.txt", "0,999999"])
async def test_an_ancestor_that_is_not_there_is_404(api, tree, wire_id):
    wire_id = tree[wire_id]["id"] if wire_id in tree else wire_id
    problem = await api.ask("GET", f"/search?query=a&ancestor_folder_ids={wire_id}", expect=404)
    assert problem["code"] == ("trashed" if wire_id == tree["trashed"]["id"] else "not_found")


async def test_a_folder_of_another_user_is_404(api, uwe):
    theirs = await uwe.folder("secret")
    await api.ask("GET", f"/search?query=a&ancestor_folder_ids={theirs['id']}", expect=404)
    assert await api.names() == set()
    assert await api.names(owner_user_ids=str(uwe.user)) == set()


async def test_the_scope_of_the_enterprise_must_be_enabled(api, uwe):
    await uwe.folder("secret")
    assert await api.names(scope="enterprise_content") == {"secret"}
    assert await api.names(scope="enterprise_content", owner_user_ids=str(api.user)) == set()
    await uwe.ask("GET", "/search?query=a&scope=enterprise_content", expect=403)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"type": "folder"}, {"docs", "deep", "links"}),
        ({"type": "file"}, {"a.txt", "B.md", "x.txt"}),
        ({"type": "web_link"}, {"site"}),
        ({"file_extensions": "txt"}, {"a.txt", "x.txt"}),
        ({"file_extensions": "MD,pdf"}, {"B.md"}),
        ({"size_range": "11,12"}, {"deep", "x.txt"}),
        ({"size_range": "12,"}, {"docs", "deep", "a.txt", "x.txt"}),
        ({"size_range": ",11"}, {"links", "B.md"}),
        ({"size_range": "0,1" + "0" * 30, "type": "file"}, {"a.txt", "B.md", "x.txt"}),
        ({"size_range": "5,4"}, set()),
        ({"trash_content": "trashed_only"}, TRASHED),
        ({"trash_content": "all_items"}, ALIVE | TRASHED),
        ({"created_at_range": "1970-01-01T00:00:00Z,1980-01-01T00:00:00Z"}, set()),
        ({"created_at_range": "2020-01-01T00:00:00-08:00,"}, ALIVE),
        ({"created_at_range": ",2020-01-01T00:00:00Z"}, set()),
        ({"updated_at_range": "2020-01-01T00:00:00Z"}, ALIVE),
        ({"deleted_at_range": "2020-01-01T00:00:00Z,", "trash_content": "trashed_only"}, TRASHED),
        ({"deleted_at_range": "2020-01-01T00:00:00Z,"}, set()),
        ({"deleted_user_ids": "me", "trash_content": "trashed_only"}, TRASHED),
        ({"deleted_user_ids": "me"}, set()),
        ({"deleted_user_ids": "1", "trash_content": "trashed_only"}, set()),
        ({"owner_user_ids": "me"}, ALIVE),
        ({"owner_user_ids": "1,zz"}, set()),
        ({"recent_updater_user_ids": "me"}, ALIVE),
        ({"recent_updater_user_ids": "1"}, set()),
        ({"fields": "", "type": ""}, ALIVE),
    ],
)
async def test_filters(api, tree, filters, expected):
    filters = {name: str(api.user) if value == "me" else value for name, value in filters.items()}
    assert await api.names(**filters) == expected
    assert await api.names(sort="modified_at", ancestor_folder_ids="0", **filters) == expected


async def test_ranges_include_both_ends(api, tree):
    moment = tree["a.txt"]["created_at"]
    assert await api.names(created_at_range=f"{moment},{moment}") == {"a.txt"}
    assert await api.names(updated_at_range=f"{tree['a.txt']['modified_at']},") >= {"a.txt", "B.md", "x.txt"}


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ("", "missing_parameter"),
        ("query=", "missing_parameter"),
        ("query=a&offset=10001", "invalid_parameter"),
        ("query=a&offset=-1", "invalid_parameter"),
        ("query=a&limit=0", "invalid_parameter"),
        ("query=a&limit=x", "invalid_parameter"),
        ("query=a&type=note", "invalid_parameter"),
        ("query=a&type=file,folder", "invalid_parameter"),
        ("query=a&scope=world", "invalid_parameter"),
        ("query=a&sort=name", "invalid_parameter"),
        ("query=a&direction=down", "invalid_parameter"),
        ("query=a&trash_content=all", "invalid_parameter"),
        ("query=a&content_types=name,colour", "invalid_parameter"),
        ("query=a&created_at_range=yesterday", "invalid_parameter"),
        ("query=a&created_at_range=2024-01-01T00:00:00,", "invalid_parameter"),
        ("query=a&updated_at_range=1,2,3", "invalid_parameter"),
        ("query=a&size_range=many", "invalid_parameter"),
        ("query=a&size_range=-1,", "invalid_parameter"),
        ("query=a&size_range=inf,", "invalid_parameter"),
        ("mdfilters=[]", "invalid_parameter"),
        ("mdfilters={", "invalid_parameter"),
        ("mdfilters=" + "[" * 5000, "invalid_parameter"),
        ('mdfilters=[{"scope":"global","templateKey":"none"}]', "invalid_parameter"),
        (
            'mdfilters=[{"scope":"global","templateKey":"properties"},{"scope":"global","templateKey":"p"}]',
            "invalid_parameter",
        ),
        ("query=" + "a+" * 300, "invalid_parameter"),
    ],
)
async def test_what_makes_no_sense_is_400(api, params, code):
    assert (await api.ask("GET", f"/search?{params}", expect=400))["code"] == code


async def test_limits(api):
    found = await api.ask("GET", "/search?query=a")
    assert (found["limit"], found["offset"], found["total_count"], found["entries"]) == (30, 0, 0, [])
    found = await api.ask("GET", "/search?query=a&limit=201&offset=10000")
    assert (found["limit"], found["offset"]) == (200, 10000)


async def test_fields_add_to_the_mini_representation(api, tree):
    found = await api.search("fox", fields="size,parent,nonsense,metadata.global.properties")
    assert found["entries"][0].keys() == {
        *("type", "id", "sequence_id", "etag", "name", "sha1", "file_version", "size", "parent", "metadata")
    }


async def test_results_are_ranked_or_sorted_by_time(api, tree):
    await api.upload("quick.txt", b"nothing else")
    found = await api.search("quick", direction="ASC")
    assert found["entries"][0]["name"] == "quick.txt"
    by_change = [one["modified_at"] for one in (await api.search(sort="modified_at"))["entries"]]
    assert by_change == sorted(by_change, reverse=True)
    ascending = await api.search(sort="modified_at", direction="ASC")
    assert [one["modified_at"] for one in ascending["entries"]] == sorted(by_change)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"query": "item"},
        {"query": "item OR NOT even", "sort": "modified_at"},
        {"sort": "modified_at", "direction": "ASC"},
        {"ancestor_folder_ids": "folder"},
        {"ancestor_folder_ids": "folder", "query": "item NOT odd", "sort": "modified_at"},
    ],
    ids=str,
)
async def test_paging_meets_everything_exactly_once(api, params):
    folder = await api.folder("folder")
    for number in range(47):
        kind = "even" if number % 2 == 0 else "odd"
        await api.upload(f"item {number} {kind}", b"", folder["id"])
    params = params | {"limit": 10}
    if "ancestor_folder_ids" in params:
        params["ancestor_folder_ids"] = folder["id"]
    whole = await api.search(**(params | {"limit": 200}))
    seen, offset = [], 0
    while True:
        page = await api.search(**params, offset=offset)
        seen += [one["id"] for one in page["entries"]]
        assert page["total_count"] == len(whole["entries"])
        offset += page["limit"]
        if offset >= page["total_count"]:
            break
    assert seen == [one["id"] for one in whole["entries"]]
    assert len(set(seen)) == len(seen)


async def test_the_form_with_shared_links(api, tree):
    found = await api.search("fox", include_recent_shared_links="True")
    assert search.SharedLinkResults.model_validate(found).entries[0].item.name == "a.txt"
    assert (found["type"], found["entries"][0]["type"]) == (
        *("search_results_with_shared_links", "search_result"),
    )


@pytest.mark.parametrize("word", ["asc", "Asc", "ASC", "desc", "DESC"])
async def test_the_direction_in_any_case(api, word):
    for name in ("one", "two"):
        await api.folder(name)
    found = await api.search(sort="modified_at", direction=word)
    names = [one["name"] for one in found["entries"]]
    assert names == (["one", "two"] if word.upper() == "ASC" else ["two", "one"])


@pytest.mark.parametrize("sizes", ["1.5,2", "1e3,", "x,", "-1,5", "1,2,3", "0x10,", "١,"])
async def test_sizes_are_whole_numbers(api, sizes):
    refused = await api.ask("GET", "/search", params={"query": "a", "size_range": sizes}, expect=400)
    assert refused["code"] == "invalid_parameter"


async def test_renditions_are_requested_per_file(api):
    await api.upload("fox.txt", b"fox")
    (found,) = (await api.search("fox", fields="expiring_embed_link,representations"))["entries"]
    assert found.get("expiring_embed_link") is None
    assert found["representations"]["entries"][0]["representation"] == "extracted_text"
