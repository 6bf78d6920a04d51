"""A token for a shared link, without an account: what it shows, what it lets be done, and when it ends."""

import json

import pytest

from cmsfs.models.enterprise import tokens
from cmsfs.service.access import scopes
from cmsfs.service.storage import visitors

TOKEN = "http://service.test/oauth2/token"


async def share(api, item, **terms):
    url = f"/{item['type']}s/{item['id']}?fields=shared_link"
    return (await api.ask("PUT", url, json={"shared_link": terms}))["shared_link"]["url"]


async def ask(api, url, password=None, expect=200, **more):
    form = {"grant_type": tokens.SHARED_LINK, "shared_link": url}
    form |= {} if password is None else {"shared_link_password": password}
    # Of an application's credentials nothing is asked, nor of a token.
    answer = await api.http.post(TOKEN, data=form, headers={"authorization": ""} | more)
    assert answer.status_code == expect, answer.text
    return answer.json()


async def visit(api, url, password=None):
    return (await ask(api, url, password))["access_token"]


@pytest.fixture
async def tree(api):
    folder = await api.folder("folder")
    inner = await api.folder("inner", folder["id"])
    return {
        "folder": folder,
        "inner": inner,
        "deep": await api.upload("deep", b"deep bytes", inner["id"]),
        "beside": await api.upload("beside", b"secret"),
        "other": await api.folder("other"),
    }


async def test_a_folders_link_shows_what_is_below_it(api, tree):
    made = await ask(api, await share(api, tree["folder"]))
    assert {one["object"]["id"] for one in made["restricted_to"]} == {tree["folder"]["id"]}
    assert "refresh_token" not in made
    token, deep = made["access_token"], f"/files/{tree['deep']['id']}"
    headers = {"authorization": f"Bearer {token}"}
    assert (await api.ask("GET", "/users/me", headers=headers))["name"] == visitors.NAME
    shown = await api.ask("GET", f"/folders/{tree['folder']['id']}/items", headers=headers)
    assert [one["name"] for one in shown["entries"]] == ["inner"]
    assert await api.bytes(tree["deep"]["id"], headers=headers) == b"deep bytes"
    found = await api.search(ancestor_folder_ids=tree["folder"]["id"], headers=headers)
    assert {one["name"] for one in found["entries"]} == {"inner", "deep"}
    for path in (f"/files/{tree['beside']['id']}", f"/folders/{tree['other']['id']}", "/folders/0"):
        assert await api.status(token, path=path) == 404
    body = {"name": "new", "parent": {"id": tree["folder"]["id"]}}
    for method, path, options in (
        ("POST", "/folders", {"json": body}),
        ("PUT", deep, {"json": {"name": "x"}}),
        ("PUT", deep, {"json": {"shared_link": {}}}),
        ("DELETE", deep, {}),
        ("POST", f"{deep}/copy", {"json": {"parent": {"id": tree["folder"]["id"]}}}),
    ):
        assert await api.status(token, method, path, **options) == 403


async def test_whom_a_link_admits(api, tree):
    url = await share(api, tree["folder"])
    assert (await ask(api, url))["access_token"]
    for terms, named, error in (
        ({"password": "correct"}, "wrong", tokens.LINK_PASSWORD),
        ({}, "", tokens.LINK_PASSWORD),
        ({}, None, tokens.LINK_PASSWORD),
        ({}, "correct", None),
        ({"password": None, "access": "company"}, None, "invalid_grant"),
        ({"access": "collaborators"}, None, "invalid_grant"),
        ({"access": "open"}, None, None),
    ):
        assert await share(api, tree["folder"], **terms) == url
        made = await ask(api, url, named, 200 if error is None else 400)
        assert made.get("error") == error, terms


async def test_nothing_is_shown_by_other_links(api, tree):
    web = await share(api, await api.link("l"))
    gone = await share(api, tree["beside"])
    await api.ask("DELETE", f"/files/{tree['beside']['id']}", expect=204)
    for url in (web, gone, "http://service.test/s/", "http://service.test/s/x", "http://[", "x" * 5000):
        assert (await ask(api, url, expect=400))["error"] == "invalid_grant"
    assert (await ask(api, "", expect=400))["error"] == "invalid_request"


async def test_what_ends_a_token_at_once(api, service, tree):
    path, folder = f"/files/{tree['deep']['id']}", f"/folders/{tree['folder']['id']}"

    def end(conn):
        for row in conn.execute("SELECT id, link_terms FROM item WHERE link IS NOT NULL").fetchall():
            terms = json.dumps(json.loads(row["link_terms"]) | {"ends": 5})
            conn.execute("UPDATE item SET link_terms = ? WHERE id = ?", (terms, row["id"]))

    for change in (
        {"access": "company"},
        {"password": "another"},
        {"password": None},
        "ends",
        None,
        "trash",
    ):
        token = await visit(api, await share(api, tree["folder"], password="first", access="open"), "first")
        exchange = tokens.TokenExchange(subject_token=token, scope="item_download").form()
        narrow = (await api.http.post(TOKEN, data=exchange)).json()["access_token"]
        assert await api.status(narrow, path=path) == 200
        headers = {"authorization": f"Bearer {token}"}
        answer = await api.http.get(f"{path}/content", headers=headers, follow_redirects=False)
        where = answer.headers["location"]
        assert (await api.http.get(where)).content == b"deep bytes"
        if change == "trash":
            await api.ask("DELETE", folder, params={"recursive": "true"}, expect=204)
        elif change == "ends":
            await service.write(end)
        else:
            await api.ask("PUT", folder, json={"shared_link": change})
        assert [await api.status(one, path=path) for one in (token, narrow)] == [401, 401], change
        assert (await api.http.get(where)).status_code == 404, change


async def test_a_password_set_later_ends_tokens_that_had_none(api, tree):
    url = await share(api, tree["folder"])
    token = await visit(api, url)
    await share(api, tree["folder"], password="now there is one")
    assert await api.status(token, path=f"/files/{tree['deep']['id']}") == 401
    assert (await ask(api, url, expect=400))["error"] == tokens.LINK_PASSWORD


async def test_a_moved_or_renamed_item_stays_and_what_leaves_it_is_gone(api, tree):
    token = await visit(api, await share(api, tree["folder"]))
    await api.ask("PUT", f"/folders/{tree['folder']['id']}", json={"name": "renamed"})
    deep = f"/files/{tree['deep']['id']}"
    assert await api.status(token, path=deep) == 200
    await api.ask("PUT", f"/folders/{tree['inner']['id']}", json={"parent": {"id": tree["other"]["id"]}})
    assert await api.status(token, path=deep) == 404


async def test_what_a_link_lets_be_done_with_a_file(api, tree):
    file, path = tree["beside"], f"/files/{tree['beside']['id']}"
    url = await share(api, file, permissions={"can_download": False})
    token = await visit(api, url)
    assert await api.status(token, path=path) == 200
    assert await api.status(token, path=f"{path}/content") == 403
    await share(api, file, permissions={"can_download": True})
    assert await api.status(token, path=f"{path}/content") == 200
    body, headers = api.form({"name": "beside"}, b"changed")
    upload = {"content": body, "headers": headers}
    where = f"http://service.test/api/2.0{path}/content"
    # The present token was made for reading; another is, where the link lets the file be changed.
    assert await api.status(token, "POST", where, **upload) == 403
    await share(api, file, permissions={"can_edit": True})
    token = await visit(api, url)
    old = await api.ask("GET", f"{path}?fields=file_version")
    assert await api.status(token, "POST", where, **upload) == 200
    assert await api.bytes(file["id"]) == b"changed"
    changed = await api.ask("GET", f"{path}?fields=modified_by")
    assert changed["modified_by"]["name"] == visitors.NAME
    # What was there before is not shown, as on the link's page.
    before = f"{path}/content?version={old['file_version']['id']}"
    assert await api.status(token, path=before) == 404
    assert await api.status(token, path=f"{path}/versions") == 403
    assert await api.status(token, path=f"{path}/comments") == 403
    await share(api, file, permissions={"can_edit": False, "can_download": True})
    assert await api.status(token, "POST", where, **upload) == 403


@pytest.mark.parametrize(
    ("line", "open_to_them"),
    [
        *(("GET /files/1", True), ("GET /folders/1/items", True), ("GET /search", True)),
        *(("POST /files/1/content", True), ("PUT /files/1", False), ("DELETE /files/1", False)),
        *(("GET /files/1/versions", False), ("GET /files/1/metadata", False), ("GET /events", False)),
        *(("POST /comments", False), ("GET /shared_items", False), ("GET /users", False)),
    ],
)
def test_which_operations_are_for_visitors(line, open_to_them):
    need = scopes.find(*line.split())
    assert (need.visitors, need.bound and open_to_them) == (open_to_them, open_to_them)
    assert not scopes.UNLISTED.visitors


async def test_wrong_passwords_are_throttled(api, tree, service):
    now = [0.0]
    service.attempts.clock = lambda: now[0]
    url = await share(api, tree["folder"], password="correct")
    for _ in range(5):
        assert (await ask(api, url, "wrong", 400))["error"] == tokens.LINK_PASSWORD
    refused = await ask(api, url, "correct", 429)
    assert refused["error"] == "rate_limit_exceeded"
    now[0] += 20
    await ask(api, url, "correct")


async def test_a_visitors_token_is_kept_as_a_hash(api, tree, service):
    token = await visit(api, await share(api, tree["folder"], password="correct"), "correct")
    assert token not in str([list(row) for row in service.read("SELECT * FROM token")])
    # All are one user, whom nobody can log in as, invite or list.
    await visit(api, await share(api, tree["other"]))
    assert len(service.read("SELECT * FROM account WHERE enterprise = 0")) == 1
    assert visitors.NAME not in str(await api.ask("GET", "/users"))
    secret = {"grant_type": "client_credentials", "client_id": visitors.APP, "client_secret": ""}
    assert await api.refused(secret) == "invalid_client"
