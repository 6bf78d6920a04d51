"""Shared links, and what they show to others."""

import json

import pytest
import trio
from box_sdk_gen import AddShareLinkToFileSharedLink, CreateFolderParent

from cmsfs.service.provisioning import demo


@pytest.fixture
async def tree(api):
    """A folder in a folder, with a file in it, and a file beside."""
    outer = await api.folder("outer")
    folder = await api.folder("folder", outer["id"])
    return {
        "outer": outer,
        "folder": folder,
        "file": await api.upload("a.txt", b"inside", folder["id"]),
        "beside": await api.upload("b.txt", b"beside", outer["id"]),
    }


async def share(api, item, **terms):
    body = {"shared_link": terms}
    answer = await api.ask("PUT", f"/{item['type']}s/{item['id']}?fields=shared_link", json=body)
    return answer["shared_link"]


def through(link, password=None):
    word = f"shared_link={link['url']}"
    return {"boxapi": word if password is None else f"{word}&shared_link_password={password}"}


@pytest.mark.parametrize("kind", ["file", "folder", "web_link"])
async def test_an_empty_object_makes_a_link(api, tree, kind):
    item = await api.link("l") if kind == "web_link" else tree[kind]
    link = await share(api, item)
    assert (link["access"], link["is_password_enabled"], link["unshared_at"]) == ("open", False, None)
    assert link["url"].startswith("http://service.test/s/")
    assert (link["download_url"] is not None) == (kind == "file")
    # The same again is the same link; it is shown wherever the item is.
    assert await share(api, item) == link
    got = await api.ask("GET", f"/{kind}s/{item['id']}")
    assert got["shared_link"] == link
    await api.ask("PUT", f"/{kind}s/{item['id']}", json={"shared_link": None})
    assert (await api.ask("GET", f"/{kind}s/{item['id']}"))["shared_link"] is None
    assert (await share(api, item))["url"] != link["url"]


async def test_the_terms(api, tree):
    link = await share(
        api,
        tree["file"],
        access="company",
        password="open sesame",
        unshared_at="2099-01-01T00:00:00Z",
        permissions={"can_download": False},
    )
    assert (link["access"], link["effective_access"]) == ("company", "company")
    assert (link["is_password_enabled"], link["download_url"]) == (True, None)
    assert link["unshared_at"].startswith("2099-01-01")
    assert link["permissions"] == {"can_preview": True, "can_download": False, "can_edit": False}
    assert link["effective_permission"] == "can_preview"
    # What is left out stays; null takes away.
    link = await share(api, tree["file"], password=None)
    assert (link["access"], link["is_password_enabled"]) == ("company", False)
    assert (await share(api, tree["file"], unshared_at=None))["unshared_at"] is None
    stored = api.store.read("SELECT link_terms FROM item WHERE id = ?", int(tree["file"]["id"]))[0][0]
    assert "sesame" not in stored


REFUSED = [
    {"access": "everybody"},
    {"unshared_at": "2001-01-01T00:00:00Z"},
    {"unshared_at": "soon"},
    {"password": ""},
    {"permissions": {"can_edit": True, "can_download": False}},
]


@pytest.mark.parametrize("terms", REFUSED, ids=str)
async def test_what_is_no_link(api, tree, terms):
    url = f"/files/{tree['file']['id']}"
    await api.ask("PUT", url, json={"shared_link": terms}, expect=400)


async def test_a_link_shows_a_file_to_others(api, uwe, tree):
    url = f"/files/{tree['file']['id']}"
    await uwe.ask("GET", url, expect=404)
    headers = through(await share(api, tree["file"]))
    found = await uwe.ask("GET", "/shared_items", headers=headers)
    assert (found["type"], found["id"], found["name"]) == ("file", tree["file"]["id"], "a.txt")
    # Where it lies is nobody's business.
    assert (found["parent"], found["path_collection"]) == (None, {"total_count": 0, "entries": []})
    assert await uwe.ask("GET", url, headers=headers) == found
    assert await uwe.bytes(tree["file"]["id"], headers=headers) == b"inside"
    unchanged = headers | {"if-none-match": found["etag"]}
    await uwe.ask("GET", "/shared_items", headers=unchanged, expect=304)
    for path in (f"/files/{tree['beside']['id']}", f"/folders/{tree['folder']['id']}"):
        await uwe.ask("GET", path, headers=headers, expect=404)
    await uwe.ask("GET", url, expect=404)


async def test_a_link_shows_what_is_in_a_folder(api, uwe, tree):
    headers = through(await share(api, tree["folder"]))
    found = await uwe.ask("GET", f"/folders/{tree['folder']['id']}/items", headers=headers)
    assert [one["name"] for one in found["entries"]] == ["a.txt"]
    file = await uwe.ask("GET", f"/files/{tree['file']['id']}", headers=headers)
    assert [one["name"] for one in file["path_collection"]["entries"]] == ["folder"]
    assert file["parent"]["id"] == tree["folder"]["id"]
    await uwe.ask("GET", f"/files/{tree['beside']['id']}", headers=headers, expect=404)
    await uwe.ask("GET", f"/folders/{tree['outer']['id']}/items", headers=headers, expect=404)
    # To copy it to one's own is reading.
    copy = {"parent": {"id": "0"}}
    url = f"/files/{tree['file']['id']}/copy"
    made = await uwe.ask("POST", url, json=copy, headers=headers, expect=201)
    assert await uwe.bytes(made["id"]) == b"inside"


async def test_a_link_lets_nobody_change_anything(api, uwe, tree):
    headers = through(await share(api, tree["folder"]))
    file, folder = tree["file"]["id"], tree["folder"]["id"]
    parent = {"parent": {"id": folder}, "name": "new"}
    for method, path, body in [
        ("PUT", f"/files/{file}", {"name": "b"}),
        ("PUT", f"/files/{file}", {"shared_link": None}),
        ("PUT", f"/files/{file}", {"lock": {"access": "lock"}}),
        ("DELETE", f"/files/{file}", None),
        ("DELETE", f"/folders/{folder}?recursive=true", None),
        ("POST", "/folders", parent),
        ("POST", "/web_links", parent | {"url": "https://example.com"}),
        ("POST", f"/files/{file}/copy", parent),
        ("POST", f"/files/{file}/versions/current", {"id": tree["file"]["file_version"]["id"]}),
        ("OPTIONS", "/files/content", parent),
    ]:
        answer = await uwe.ask(method, path, json=body, headers=headers, expect=403)
        assert answer["code"] == "access_denied_insufficient_permissions", (method, path)
    await uwe.send("/files/content", parent, b"x", expect=403, **headers)
    await uwe.send(f"/files/{file}/content", {}, b"x", expect=403, **headers)
    mine = await uwe.upload("mine")
    move = {"parent": {"id": folder}}
    await uwe.ask("PUT", f"/files/{mine['id']}", json=move, headers=headers, expect=403)


async def test_a_link_may_let_others_write(api, uwe, tree):
    link = await share(api, tree["file"], permissions={"can_edit": True})
    assert link["effective_permission"] == "can_edit"
    headers = through(link)
    url = f"/files/{tree['file']['id']}"
    await uwe.send(f"{url}/content", {}, b"theirs", expect=200, **headers)
    assert await api.bytes(tree["file"]["id"]) == b"theirs"
    for method, body in (("PUT", {"name": "b"}), ("DELETE", None)):
        await uwe.ask(method, url, json=body, headers=headers, expect=403)
    await uwe.send(f"{url}/content", {"name": "b"}, b"theirs", expect=403, **headers)


async def test_a_link_may_not_let_others_read(api, uwe, tree):
    headers = through(await share(api, tree["file"], permissions={"can_download": False}))
    url = f"/files/{tree['file']['id']}"
    await uwe.ask("GET", url, headers=headers)
    await uwe.ask("GET", f"{url}/content", headers=headers, expect=403)
    copy = {"parent": {"id": "0"}}
    await uwe.ask("POST", f"{url}/copy", json=copy, headers=headers, expect=403)
    assert await api.bytes(tree["file"]["id"]) == b"inside"


async def test_a_password(api, uwe, tree):
    link = await share(api, tree["file"], password="open sesame")
    for headers in (through(link), through(link, "wrong")):
        answer = await uwe.ask("GET", "/shared_items", headers=headers, expect=403)
        assert answer["code"] == "incorrect_shared_item_password"
    await uwe.ask("GET", "/shared_items", headers=through(link, "open%20sesame"))
    # The owner needs none.
    await api.ask("GET", "/shared_items", headers=through(link))


FOR_WHOM = [("open", 200, 200), ("company", 200, 404), ("collaborators", 404, 404)]


@pytest.mark.parametrize(("access", "colleague", "stranger"), FOR_WHOM)
async def test_for_whom(api, uwe, tree, access, colleague, stranger):
    headers = through(await share(api, tree["file"], access=access))
    await uwe.ask("GET", "/shared_items", headers=headers, expect=colleague)
    await api.ask("GET", "/shared_items", headers=headers)

    def emigrate(conn):
        other = demo.add_enterprise(conn, "Others", now=api.store.now())
        conn.execute("UPDATE account SET enterprise = ? WHERE id = ?", (other, uwe.user))

    await api.store.write(emigrate)
    await uwe.ask("GET", "/shared_items", headers=headers, expect=stranger)


async def test_a_link_ends(api, uwe, tree):
    link = await share(api, tree["file"], unshared_at="2099-01-01T00:00:00Z")
    number = int(tree["file"]["id"])
    terms = json.loads(api.store.read("SELECT link_terms FROM item WHERE id = ?", number)[0][0])
    past = json.dumps(terms | {"ends": 1})
    await api.store.write(
        lambda conn: conn.execute("UPDATE item SET link_terms = ? WHERE id = ?", (past, number))
    )
    await uwe.ask("GET", "/shared_items", headers=through(link), expect=404)
    assert (await api.ask("GET", f"/files/{number}"))["shared_link"] is None
    await uwe.ask("GET", link["download_url"], expect=404)


async def test_nothing_in_the_trash_is_shared(api, uwe, tree):
    link = await share(api, tree["file"])
    outer = await share(api, tree["folder"])
    url = f"/files/{tree['file']['id']}"
    await api.ask("DELETE", url, expect=204)
    assert (await api.ask("GET", f"{url}/trash"))["shared_link"] is None
    for one in (link, outer):
        await uwe.ask("GET", url, headers=through(one), expect=404)
        await uwe.ask("GET", f"{url}/trash", headers=through(one), expect=404)


HEADERS = [
    None,
    "",
    "shared_link=",
    "shared_link=http://service.test/s/",
    "x" * 10_000,
    "shared_link=%00",
    "shared_link=http://[",
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda one: str(one)[:30])
async def test_what_is_no_address_of_a_link(api, header):
    headers = {} if header is None else {"boxapi": header}
    await api.ask("GET", "/shared_items", headers=headers, expect=400 if header is None else 404)
    await api.ask("GET", "/users/me", headers=headers)


async def test_an_open_link_needs_no_token(api, tree):
    link = await share(api, tree["file"])
    del api.http.headers["authorization"]
    answer = await api.http.get(link["download_url"])
    assert (answer.status_code, answer.content) == (200, b"inside")
    answer = await api.http.get(link["download_url"], headers={"range": "bytes=2-3"})
    assert (answer.status_code, answer.content) == (206, b"si")


@pytest.mark.parametrize(
    "terms", [{"access": "company"}, {"password": "p"}, {"permissions": {"can_download": False}}], ids=str
)
async def test_any_other_does(api, tree, terms):
    link = await share(api, tree["file"])
    await share(api, tree["file"], **terms)
    await api.ask("GET", link["download_url"], expect=404)


async def test_it_is_told(api, tree):
    start = (await api.ask("GET", "/events?stream_position=now"))["next_stream_position"]
    await share(api, tree["file"])
    await share(api, tree["file"], access="company")
    await api.ask("PUT", f"/files/{tree['file']['id']}", json={"shared_link": None})
    page = await api.ask("GET", f"/events?stream_position={start}")
    words = ["ITEM_SHARED_CREATE", "ITEM_SHARED_UPDATE", "ITEM_SHARED_UNSHARE"]
    assert [one["event_type"] for one in page["entries"]] == words
    # Nothing in the tree has changed.
    page = await api.ask("GET", f"/events?stream_position={start}&stream_type=changes")
    assert page["entries"] == []


async def test_the_public_client(client):
    def story():
        folder = client.folders.create_folder("sdk", CreateFolderParent(id="0"))
        file = client.search.search_for_content(query="budget", type="file").entries[0]
        link = client.shared_links_files.add_share_link_to_file(
            file.id, "shared_link", shared_link=AddShareLinkToFileSharedLink()
        ).shared_link
        found = client.shared_links_files.find_file_for_shared_link(f"shared_link={link.url}")
        assert (found.id, found.shared_link.url) == (file.id, link.url)
        client.shared_links_folders.add_share_link_to_folder(folder.id, "shared_link")

    await trio.to_thread.run_sync(story)
