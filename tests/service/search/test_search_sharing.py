"""Search over what others share: links that were followed, the whole enterprise, who updated and deleted."""

import pytest

from cmsfs.service.content import items
from cmsfs.service.search import search_plan
from cmsfs.service.storage.kinds import ItemKind
from tests.support import sharing

FORM = {"include_recent_shared_links": "true"}


@pytest.fixture
async def tree(api):
    folder = await api.folder("linked folder")
    return {
        "folder": folder,
        "inside": await api.upload("inside.txt", b"fox", folder["id"]),
        "beside": await api.upload("beside.txt", b"fox"),
    }


async def link(api, item, **terms):
    body = {"shared_link": terms}
    found = await api.ask("PUT", f"/{item['type']}s/{item['id']}?fields=shared_link", json=body)
    return found["shared_link"]["url"]


async def follow(api, url, password=None):
    word = f"shared_link={url}" + ("" if password is None else f"&shared_link_password={password}")
    return (await api.http.get("/shared_items", headers={"boxapi": word})).status_code


async def found(api, query='NOT "improbableword"', **params):
    """By which link each item is seen, by name."""
    answer = await api.search(query, **FORM, **params)
    assert answer["type"] == "search_results_with_shared_links"
    assert {one["type"] for one in answer["entries"]} <= {"search_result"}
    assert answer["total_count"] == len(answer["entries"])
    return {one["item"]["name"]: one["accessible_via_shared_link"] for one in answer["entries"]}


async def test_what_was_come_by_by_a_link(api, uwe, tree):
    await uwe.upload("own.txt", b"fox")
    url = await link(api, tree["folder"])
    assert await found(uwe) == {"own.txt": None}
    assert await follow(uwe, url) == 200
    both = {"own.txt": None, "linked folder": url, "inside.txt": url}
    assert await found(uwe) == both
    assert await found(uwe, sort="modified_at") == both
    assert await found(uwe, "fox") == {"own.txt": None, "inside.txt": url}
    assert await found(uwe, ancestor_folder_ids="0") == both
    # Without being asked for it is not there, nor is it for others.
    assert await uwe.names() == {"own.txt"}
    assert set(await found(api)) == {"linked folder", "inside.txt", "beside.txt"}
    assert set((await found(api)).values()) == {None}
    answer = await uwe.search("inside", fields="path_collection,permissions", **FORM)
    item = answer["entries"][0]["item"]
    assert [one["name"] for one in item["path_collection"]["entries"]] == ["linked folder"]
    assert (item["permissions"]["can_download"], item["permissions"]["can_rename"]) == (True, False)


async def test_a_link_shows_as_long_as_it_lasts(api, uwe, people, tree):
    eva = await people.add("eva@elsewhere.example")
    url = await link(api, tree["beside"])
    for who in (uwe, eva):
        await follow(who, url)
        assert await found(who) == {"beside.txt": url}
    await link(api, tree["beside"], access="company")
    # On other terms it has to be followed again.
    assert await found(uwe) == {}
    assert (await follow(uwe, url), await follow(eva, url)) == (200, 404)
    assert (await found(uwe), await found(eva)) == ({"beside.txt": url}, {})
    await link(api, tree["beside"], password="p")
    assert await follow(uwe, url) == 403
    assert await found(uwe) == {}
    assert await follow(uwe, url, "p") == 200
    assert await found(uwe) == {"beside.txt": url}
    await api.ask("DELETE", f"/files/{tree['beside']['id']}", expect=204)
    assert await found(uwe) == {}
    assert await found(uwe, trash_content="trashed_only") == {}


async def test_what_was_long_ago_is_not_recent(api, uwe, tree, service):
    url = await link(api, tree["beside"])
    await follow(uwe, url)
    await service.write(lambda conn: conn.execute("UPDATE recent_link SET used_at = 5"))
    assert await found(uwe) == {}
    await follow(uwe, url)
    assert await found(uwe) == {"beside.txt": url}


async def test_what_is_seen_anyway_is_not_by_link(api, uwe, tree):
    url = await link(api, tree["folder"])
    await follow(uwe, url)
    await sharing.share(api, tree["inside"], uwe, "editor")
    assert await found(uwe) == {"linked folder": url, "inside.txt": None}
    await sharing.share(api, tree["folder"], uwe, "viewer")
    assert await found(uwe) == {"linked folder": None, "inside.txt": None}


async def test_the_whole_enterprise(api, uwe, people, tree):
    eva = await people.add("eva@elsewhere.example")
    await eva.folder("theirs")
    mine = await uwe.folder("mine")
    await uwe.upload("deep.txt", b"x", mine["id"])
    scope = {"scope": "enterprise_content"}
    everything = {"linked folder", "inside.txt", "beside.txt", "mine", "deep.txt"}
    assert await api.names(**scope) == everything
    assert await api.names("deep", **scope) == {"deep.txt"}
    assert await api.names(ancestor_folder_ids=mine["id"], **scope) == {"deep.txt"}
    assert await api.names(owner_user_ids=str(uwe.user), **scope) == {"mine", "deep.txt"}
    # As their own content it is not found, and by who has not the right to ask, neither.
    assert await api.names() == everything - {"mine", "deep.txt"}
    await api.ask("GET", f"/search?query=x&ancestor_folder_ids={mine['id']}", expect=404)
    theirs = await eva.folder("more")
    params = {"query": "x", "ancestor_folder_ids": theirs["id"]} | scope
    await api.ask("GET", "/search", params=params, expect=404)
    for who in (uwe, eva):
        refused = await who.ask("GET", "/search", params={"query": "x"} | scope, expect=403)
        assert refused["code"] == "forbidden"
    [entry] = (await api.search("deep", fields="path_collection", **scope))["entries"]
    assert [one["name"] for one in entry["path_collection"]["entries"]] == ["All Files", "mine"]


async def test_who_updated_is_looked_for_in_ten_versions(api, uwe, tree):
    folder = tree["folder"]
    await sharing.share(api, folder, uwe, "editor")
    await uwe.version(tree["inside"]["id"], b"by uwe")
    by_uwe = {"recent_updater_user_ids": str(uwe.user)}
    for number in range(9):
        await api.version(tree["inside"]["id"], f"{number}".encode())
        assert await api.names(**by_uwe) == {"inside.txt"}
    both = f"{uwe.user},{api.user}"
    assert await uwe.names(recent_updater_user_ids=both) == {"linked folder", "inside.txt"}
    await api.version(tree["inside"]["id"], b"the eleventh")
    assert await api.names(**by_uwe) == set()


async def test_who_deleted_and_since_when_that_is_known(api, uwe, tree, service):
    await sharing.share(api, tree["folder"], uwe, "editor")
    await uwe.ask("DELETE", f"/files/{tree['inside']['id']}", expect=204)
    await api.ask("DELETE", f"/files/{tree['beside']['id']}", expect=204)
    by_uwe = {"deleted_user_ids": str(uwe.user)}
    assert await api.names(trash_content="trashed_only", **by_uwe) == {"inside.txt"}
    for elsewhere in ("non_trashed_only", "all_items"):
        assert await api.names(trash_content=elsewhere, **by_uwe) == set()
    both = {"deleted_user_ids": f"{uwe.user},{api.user}", "trash_content": "trashed_only"}
    assert await api.names(**both) == {"inside.txt", "beside.txt"}
    assert await uwe.names(**both) == {"inside.txt"}
    await service.write(
        lambda conn: conn.execute(
            "UPDATE item SET trashed_at = 1675209599999999 WHERE name = 'inside.txt'"  # a moment before
        )
    )
    assert await api.names(**both) == {"beside.txt"}
    assert await api.names(trash_content="trashed_only") == {"inside.txt", "beside.txt"}


MANY = 1200


@pytest.fixture
async def many(api, uwe, service):
    """The ids of very many folders that are shared, with a file in each; and of one that is not."""

    def txn(conn):
        now = service.now()
        root = conn.execute("SELECT * FROM item WHERE owner = ? AND status = 3", (api.user,)).fetchone()
        ids = []
        for number in range(MANY):
            folder = items.insert(conn, root, items.New(ItemKind.FOLDER, f"f{number}"), by=api.user, now=now)
            below = items.insert(
                conn, folder, items.New(ItemKind.FOLDER, f"below {number}"), by=api.user, now=now
            )
            new = items.New(ItemKind.WEB_LINK, f"fox {number}", url="https://a.example/")
            items.insert(conn, below, new, by=api.user, now=now + number)
            ids.append(folder["id"])
        conn.executemany(
            "INSERT INTO collaboration (item, role, account, enterprise, status, created_by, created_at,"
            " modified_at) VALUES (?, 'viewer', ?, 1, 'accepted', ?, ?, ?)",
            [(one, uwe.user, api.user, now, now) for one in ids],
        )
        return ids

    found = await service.write(txn)
    other = await api.folder("closed")
    await api.link("fox closed", other["id"])
    return [*found, int(other["id"])]


async def test_search_with_very_many_shared_folders(api, uwe, many):
    await uwe.link("fox own")
    for params in (
        {},
        {"sort": "modified_at", "direction": "ASC"},
        {"created_at_range": "2020-01-01T00:00:00Z,"},
    ):
        assert (await uwe.search("fox", **params))["total_count"] == MANY + 1
        everything = await uwe.search(**params)
        assert everything["total_count"] == 3 * MANY + 1
        page = await uwe.search(**params, type="web_link", offset=MANY - 3)
        assert (page["total_count"], len(page["entries"])) == (MANY + 1, 4)
    assert "fox closed" not in await uwe.names("closed")
    assert await uwe.names("fox", trash_content="trashed_only") == set()
    page = await uwe.search('NOT "x1"', type="web_link", sort="modified_at", direction="DESC", limit=3)
    assert [one["name"] for one in page["entries"]] == ["fox own", f"fox {MANY - 1}", f"fox {MANY - 2}"]
    await api.search("fox", trash_content="all_items")


async def test_search_below_very_many_folders(api, uwe, many):
    wanted = ",".join(map(str, many[:MANY]))
    for who in (api, uwe):
        for query in ('NOT "x1"', "fox"):
            found = await who.search(query, ancestor_folder_ids=wanted, type="web_link")
            assert found["total_count"] == MANY
    wanted = ",".join(map(str, many))
    await uwe.ask("GET", "/search", params={"query": "fox", "ancestor_folder_ids": wanted}, expect=404)


@pytest.mark.parametrize("query", ['NOT "x1"', "fox"])
async def test_repeated_folder_is_searched_once(api, query):
    folder = await api.folder("a")
    inner = await api.folder("inner", folder["id"])
    await api.link("fox", inner["id"])
    for wanted in (f"{folder['id']}," * 5, f"{folder['id']},{inner['id']},{folder['id']}"):
        found = await api.search(query, ancestor_folder_ids=wanted.strip(","), type="web_link")
        assert (found["total_count"], len(found["entries"])) == (1, 1)


async def test_large_shared_folder_is_own_scope(api, uwe, many, monkeypatch):
    monkeypatch.setattr(search_plan, "SMALL_SUBTREE", 2)
    monkeypatch.setattr(search_plan, "SMALL_SUBTREE_WITH_TIME_RANGE", 2)
    for number in range(40):
        await api.link(f"fox more {number}", str(many[number]))
    for query, total in (('NOT "x1"', MANY + 40), ("fox", MANY + 40)):
        for params in ({}, {"updated_at_range": "2020-01-01T00:00:00Z,"}):
            found = await uwe.search(query, type="web_link", limit=200, **params)
            assert found["total_count"] == total
            names = [one["name"] for one in found["entries"]]
            assert len(set(names)) == 200
