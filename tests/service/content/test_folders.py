"""Folders: create, get, list, change, delete."""

import pytest

from cmsfs.models import paging
from cmsfs.models.content import items as models_items
from cmsfs.models.content import known_tree
from cmsfs.service.content import items


async def test_a_new_folder(api):
    found = await api.folder("docs")
    folder = models_items.Folder.model_validate(found)
    assert (folder.name, folder.etag, folder.size, folder.item_status) == ("docs", "0", 0, "active")
    assert folder.parent is not None and folder.parent.id == "0"
    assert folder.path_collection is not None
    assert [one.id for one in folder.path_collection.entries] == ["0"]
    assert found["item_collection"]["total_count"] == 0
    again = await api.ask("GET", f"/folders/{folder.id}")
    assert again == found


async def test_name_conflict_lists_the_holder(api):
    file = await api.upload("Docs")
    problem = await api.ask("POST", "/folders", json={"name": "docs", "parent": {"id": "0"}}, expect=409)
    assert problem["code"] == "item_name_in_use"
    assert [one["id"] for one in problem["context_info"]["conflicts"]] == [file["id"]]


@pytest.mark.parametrize(
    ("body", "status", "names"),
    [
        ({}, 400, ["name", "parent"]),
        ({"name": "x"}, 400, ["parent"]),
        ({"name": "x", "parent": {"id": "9"}}, 404, ["parent"]),
        ([], 400, [""]),
        ({"name": "x", "parent": {"id": None}}, 400, ["parent.id"]),
    ],
)
async def test_problems_name_the_fields(api, body, status, names):
    problem = await api.ask("POST", "/folders", json=body, expect=status)
    assert [one["name"] for one in problem["context_info"]["errors"]] == names


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b'{"name": "\\udc00", "parent": {"id": "0"}}', b"[" * 100_000]
)
async def test_a_body_that_is_no_json_is_400(api, body):
    await api.ask("POST", "/folders", content=body, expect=400)


async def test_a_body_without_end_is_413(api):
    await api.ask("POST", "/folders", content=b" " * 2_000_000, expect=413)


async def test_the_root(api):
    folder = await api.folder("docs")
    await api.upload("a.txt", b"hello", folder["id"])
    root = await api.ask("GET", "/folders/0")
    assert (root["id"], root["name"], root["etag"], root["parent"], root["size"]) == (
        *("0", "All Files", None, None),
        5,
    )
    assert [one["name"] for one in root["item_collection"]["entries"]] == ["docs"]
    assert None not in [root["created_at"], root["modified_at"], root["content_modified_at"]]
    for method, body in (("PUT", {"name": "mine"}), ("DELETE", None)):
        problem = await api.ask(method, "/folders/0", json=body, expect=403)
        assert problem["code"] == "access_denied_insufficient_permissions"
    # Its number in the database is not another name for it.
    number = api.store.read("SELECT root FROM account WHERE id = ?", api.user)[0]["root"]
    await api.ask("GET", f"/folders/{number}", expect=404)


async def test_everyone_has_a_root_of_their_own(api, uwe):
    folder = await api.folder("docs")
    assert (await uwe.ask("GET", "/folders/0/items"))["entries"] == []
    for method, path in (("GET", ""), ("GET", "/items"), ("DELETE", ""), ("PUT", "")):
        problem = await uwe.ask(method, f"/folders/{folder['id']}{path}", json={}, expect=404)
        assert problem["code"] == "not_found"
    await uwe.ask("POST", "/folders", json={"name": "x", "parent": {"id": folder["id"]}}, expect=404)


@pytest.fixture
async def crowd(api):
    """Seven folders, nine files, five links, made out of order."""
    for number in (5, 3, 6, 1, 0, 4, 2):
        await api.folder(f"folder {number}")
    for number in (8, 3, 5, 0, 7, 2, 6, 1, 4):
        await api.upload(f"File {number}", b"x" * number)
    for number in (4, 2, 0, 3, 1):
        await api.link(f"link {number}")
    return [
        *(f"folder {n}" for n in range(7)),
        *(f"File {n}" for n in range(9)),
        *(f"link {n}" for n in range(5)),
    ]


@pytest.mark.parametrize("limit", [1, 4, 21, 1000])
async def test_a_listing_by_offset_is_full_and_whole(api, crowd, limit):
    seen: list[str] = []
    while True:
        found = await api.ask("GET", f"/folders/0/items?limit={limit}&offset={len(seen)}")
        page = paging.OffsetPage[models_items.Item].model_validate(found)
        assert (page.total_count, page.limit, page.offset) == (21, limit, len(seen))
        assert len(page.entries) == min(limit, 21 - len(seen))
        seen += [one.name for one in page.entries]
        if page.offset + page.limit >= page.total_count:
            break
    assert seen == crowd


@pytest.mark.parametrize("limit", [1, 4, 7, 21, 1000])
@pytest.mark.parametrize(
    ("sort", "direction"), [("", ""), ("name", "DESC"), ("id", "ASC"), ("date", "DESC"), ("size", "ASC")]
)
async def test_a_listing_by_marker_meets_everything_once(api, crowd, limit, sort, direction):
    whole = await api.ask("GET", f"/folders/0/items?sort={sort}&direction={direction}")
    seen, marker = [], "0"
    while marker is not None:
        path = f"/folders/0/items?usemarker=True&limit={limit}&sort={sort}&direction={direction}"
        found = await api.ask("GET", f"{path}&marker={marker}")
        assert "total_count" not in found
        seen += found["entries"]
        marker = found["next_marker"]
        assert marker != ""
    assert seen == whole["entries"]


async def test_what_comes_and_goes_between_pages_hides_nothing(api, crowd):
    found = await api.ask("GET", "/folders/0/items?usemarker=true&limit=10")
    await api.upload("A new file that sorts early")
    await api.ask("DELETE", f"/folders/{found['entries'][0]['id']}", expect=204)
    rest = await api.ask("GET", f"/folders/0/items?usemarker=true&marker={found['next_marker']}")
    assert [one["name"] for one in found["entries"] + rest["entries"]] == crowd


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ("limit=0", "invalid_limit"),
        ("limit=x", "invalid_limit"),
        ("offset=-1", "invalid_offset"),
        ("offset=" + "9" * 30, "invalid_offset"),
        ("marker=abc", "invalid_parameter"),
        ("usemarker=true&marker=abc", "invalid_parameter"),
        ("usemarker=true&marker=%ff%00", "invalid_parameter"),
        ("usemarker=true&marker=bnVsbA", "invalid_parameter"),
        ("usemarker=true&marker=W1tdLDEsMiwzLDRd", "invalid_parameter"),
        ("sort=colour", "invalid_parameter"),
        ("direction=up", "invalid_parameter"),
    ],
)
async def test_pages_that_make_no_sense_are_400(api, params, code):
    assert (await api.ask("GET", f"/folders/0/items?{params}", expect=400))["code"] == code


async def test_entries_are_mini_unless_fields_are_asked(api, crowd):
    found = await api.ask("GET", "/folders/0/items")
    kinds = {one["type"]: one.keys() for one in found["entries"]}
    assert kinds["folder"] == {"type", "id", "sequence_id", "etag", "name"}
    assert kinds["file"] == kinds["folder"] | {"sha1", "file_version"}
    found = await api.ask("GET", "/folders/0/items?fields=size,created_at")
    assert {"size", "created_at"} < found["entries"][0].keys()


async def test_a_change_counts_and_shows(api):
    folder = await api.folder("docs")
    path = f"/folders/{folder['id']}"
    changed = await api.ask(
        "PUT", path, json={"name": "papers", "description": "All of them", "tags": ["a", "ä"]}
    )
    assert (changed["name"], changed["description"], changed["etag"], changed["sequence_id"]) == (
        *("papers", "All of them"),
        *("1", "1"),
    )
    assert changed["modified_at"] > folder["modified_at"]
    assert changed["created_at"] == folder["created_at"]
    assert (await api.ask("GET", f"{path}?fields=tags"))["tags"] == ["a", "ä"]
    same = await api.ask("PUT", path, json={"name": "papers", "description": "All of them"})
    assert same == changed


async def test_folder_etag_ignores_new_children(api):
    folder = await api.folder("docs")
    await api.upload("a.txt", b"hello", folder["id"])
    again = await api.ask("GET", f"/folders/{folder['id']}")
    assert (again["etag"], again["modified_at"], again["size"]) == ("0", folder["modified_at"], 5)


async def test_a_rename_that_changes_only_the_case(api):
    folder = await api.folder("docs")
    assert (await api.ask("PUT", f"/folders/{folder['id']}", json={"name": "DOCS"}))["name"] == "DOCS"


async def test_a_move_takes_everything_along(api):
    a, b = await api.folder("a"), await api.folder("b")
    inner = await api.folder("inner", a["id"])
    file = await api.upload("x.txt", b"hello", inner["id"])
    moved = await api.ask("PUT", f"/folders/{inner['id']}", json={"parent": {"id": b["id"]}, "name": "outer"})
    assert moved["parent"]["id"] == b["id"]
    assert [one["name"] for one in moved["path_collection"]["entries"]] == ["All Files", "b"]
    found = await api.ask("GET", f"/files/{file['id']}")
    assert [one["name"] for one in found["path_collection"]["entries"]] == ["All Files", "b", "outer"]
    assert (found["etag"], found["modified_at"]) == ("0", file["modified_at"])
    assert await api.names(ancestor_folder_ids=a["id"]) == set()
    assert await api.names(ancestor_folder_ids=b["id"]) == {"outer", "x.txt"}
    sizes = {one["name"]: one["size"] for one in (await api.search(type="folder"))["entries"]}
    assert sizes == {"a": 0, "b": 5, "outer": 5}


async def test_moves_that_cannot_be(api):
    a = await api.folder("a")
    b = await api.folder("b", a["id"])
    await api.folder("B")
    path = f"/folders/{a['id']}"
    for target in (a["id"], b["id"]):
        problem = await api.ask("PUT", path, json={"parent": {"id": target}}, expect=400)
        assert problem["code"] == "cyclical_folder_structure"
    await api.ask("PUT", path, json={"parent": {"id": "1"}}, expect=404)
    await api.ask("PUT", f"/folders/{b['id']}", json={"parent": {"id": "0"}}, expect=409)
    await api.ask("PUT", path, json={"name": "b"}, expect=409)
    await api.ask("PUT", path, json={"name": "a/b"}, expect=400)
    await api.ask("PUT", path, json={"description": "x" * 257}, expect=400)
    assert (await api.ask("GET", path))["etag"] == "0"


async def test_if_match_protects_unseen_version(api):
    folder = await api.folder("docs")
    path = f"/folders/{folder['id']}"
    await api.ask("PUT", path, json={"name": "papers"}, headers={"if-match": "0"})
    for method in ("PUT", "DELETE"):
        problem = await api.ask(method, path, json={"name": "x"}, headers={"if-match": "0"}, expect=412)
        assert problem["code"] == "precondition_failed"
    await api.ask("GET", path, headers={"if-none-match": "1"}, expect=304)
    await api.ask("GET", path, headers={"if-none-match": "0"})
    await api.ask("DELETE", path, headers={"if-match": "1"}, expect=204)
    await api.ask("DELETE", path, headers={"if-match": "1"}, expect=404)


async def test_nonempty_folder_needs_recursive_delete(api):
    folder = await api.folder("docs")
    await api.upload("a.txt", b"", folder["id"])
    for path in ("", "?recursive=false"):
        problem = await api.ask("DELETE", f"/folders/{folder['id']}{path}", expect=400)
        assert problem["code"] == "folder_not_empty"
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=True", expect=204)
    assert (await api.ask("GET", f"/folders/{folder['id']}", expect=404))["code"] == "trashed"


async def test_a_tree_cannot_be_deep_without_end(api, monkeypatch):
    monkeypatch.setattr(items, "MAX_DEPTH", 3)
    a = await api.folder("a")
    b = await api.folder("b", a["id"])
    problem = await api.ask("POST", "/folders", json={"name": "c", "parent": {"id": b["id"]}}, expect=403)
    assert problem["code"] == "operation_limit_exceeded"


async def test_a_folder_goes_with_what_is_known_to_be_in_it(api):
    top = await api.folder("top")
    inside = await api.folder("inside", top["id"])
    file = await api.upload("f", b"x", parent=inside["id"])
    gone = await api.upload("gone", b"x", parent=inside["id"])
    await api.ask("DELETE", f"/files/{gone['id']}", expect=204)
    url = f"/folders/{top['id']}?recursive=known"

    async def delete(*items, expect):
        known = known_tree.digest((one["type"], one["id"], one["etag"]) for one in items)
        return await api.ask("DELETE", url, headers={known_tree.HEADER: known}, expect=expect)

    for known in ([], [inside], [inside, file, gone], [inside, file | {"etag": "9"}]):
        assert (await delete(*known, expect=412))["code"] == "precondition_failed"
    locked = await api.ask("PUT", f"/files/{file['id']}?fields=etag,lock", json={"lock": {"access": "lock"}})
    await delete(inside, file | {"etag": locked["etag"]}, expect=412)
    file |= await api.ask("PUT", f"/files/{file['id']}?fields=etag", json={"lock": None})
    # Without what is known it is as any other deletion.
    assert (await api.ask("DELETE", url, expect=400))["code"] == "folder_not_empty"
    await delete(file, inside, expect=204)
    await api.ask("GET", f"/files/{file['id']}", expect=404)
    await api.ask("POST", f"/folders/{top['id']}", json={}, expect=201)
    assert (await api.ask("GET", f"/files/{file['id']}"))["parent"]["id"] == inside["id"]
