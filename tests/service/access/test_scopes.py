"""What a token is good for: scopes x operations, and tokens bound to one item."""

import pytest
from starlette.routing import Route

from cmsfs.service.access import scopes
from cmsfs.service.server import app

READ = {"root_readonly", "root_readwrite"}
FOR_INFO = READ | {
    *("item_read", "item_download", "item_preview", "base_explorer", "base_picker", "base_preview"),
    "base_sidebar",
}
PREVIEW = {"item_download", "item_preview", "base_preview"}
UPLOAD = {"root_readwrite", "item_upload", "base_upload"}

# Every operation with the scopes that suffice for it, each of them alone.
OPERATIONS = [
    ("GET", "/users/me", set(scopes.KNOWN)),
    ("GET", "/files/FILE", FOR_INFO),
    ("HEAD", "/files/FILE", FOR_INFO),
    ("GET", "/files/FILE/versions", FOR_INFO),
    ("GET", "/folders/FOLDER", FOR_INFO),
    ("GET", "/folders/FOLDER/items", FOR_INFO),
    ("GET", "/folders/0", FOR_INFO),
    ("GET", "/web_links/LINK", FOR_INFO),
    ("GET", "/search?query=a", READ | {"base_explorer", "base_picker"}),
    ("GET", "/files/FILE/content", READ | {"item_download"}),
    ("GET", "/files/FILE/thumbnail.png?min_width=1", READ | PREVIEW),
    ("GET", "/internal_files/FILE/versions/1/representations/extracted_text", READ | PREVIEW),
    ("GET", "/internal_files/FILE/versions/1/representations/extracted_text/content/", READ | PREVIEW),
    ("GET", "/internal_files/FILE/versions/1/representations/extracted_text/content/1.txt", READ | PREVIEW),
    ("POST", "/files/content", UPLOAD),
    ("OPTIONS", "/files/content", UPLOAD),
    ("OPTIONS", "/files/content/", UPLOAD),
    ("POST", "/files/FILE/content", UPLOAD),
    ("OPTIONS", "/files/FILE/content", UPLOAD),
    ("POST", "/folders", UPLOAD),
    ("POST", "/web_links", UPLOAD),
    ("POST", "/files/FILE/copy", {"root_readwrite"}),
    ('PUT {"name": "x"}', "/files/FILE", {"root_readwrite", "item_rename"}),
    ('PUT {"name": "y"}', "/folders/FOLDER", {"root_readwrite", "item_rename"}),
    ('PUT {"name": "z"}', "/web_links/LINK", {"root_readwrite", "item_rename"}),
    ('PUT {"shared_link": {}}', "/files/FILE", {"root_readwrite", "item_share"}),
    ('PUT {"description": "x"}', "/files/FILE", {"root_readwrite"}),
    ('PUT {"name": "x", "parent": {"id": "0"}}', "/files/FILE", {"root_readwrite"}),
    ("PUT [[", "/files/FILE", {"root_readwrite"}),
    ("PUT " + "[" * 100_000, "/files/FILE", {"root_readwrite"}),
    ("GET", "/folders/trash/items", READ),
    ("GET", "/files/FILE/trash", READ),
    ("POST", "/files/FILE", {"root_readwrite"}),
    ("POST", "/folders/FOLDER", {"root_readwrite"}),
    ("POST", "/web_links/LINK", {"root_readwrite"}),
    ("DELETE", "/files/FILE/trash", {"root_readwrite"}),
    ("DELETE", "/web_links/LINK", {"root_readwrite", "item_delete"}),
    ("DELETE", "/folders/FOLDER", {"root_readwrite", "item_delete"}),
    ("DELETE", "/files/FILE", {"root_readwrite", "item_delete"}),
    ("GET", "/users/USER", {"manage_managed_users", "manage_app_users"}),
]


@pytest.fixture
async def things(api, uwe):
    folder = await api.folder("folder")
    link = await api.link("link")
    file = await api.upload("file", b"text")
    return {"FOLDER": folder["id"], "LINK": link["id"], "FILE": file["id"], "USER": str(uwe.user)}


@pytest.mark.parametrize("scope", sorted(scopes.KNOWN - {"manage_legal_hold"}))
async def test_each_scope_opens_its_operations_and_no_other(api, things, scope):
    token = await api.narrowed(scope)
    for method, path, sufficient in OPERATIONS:
        method, _, body = method.partition(" ")
        for word, wire_id in things.items():
            path = path.replace(word, wire_id)
        headers = {"authorization": f"Bearer {token}"}
        answer = await api.http.request(method, path, headers=headers, content=body.encode())
        assert answer.status_code != 401
        allowed = scope in sufficient
        assert (answer.status_code != 403) == allowed, (method, path, body[:50], answer.text)
        if not allowed and method != "HEAD":
            assert answer.json()["code"] == "insufficient_scope"
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]


def test_every_operation_has_a_line_in_the_table():
    missing = [
        f"{method} {route.path}"
        for route in app.API
        if isinstance(route, Route)
        for method in route.methods
        if scopes.find(method, route.path) is None
    ]
    assert missing == []


def test_what_is_not_in_the_table_needs_everything():
    assert scopes.find("GET", "/nothing/like/it") is None
    assert scopes.find("GET", "/a" * 1000) is None
    assert scopes.find("PATCH", "/files/1") is None
    assert not scopes.UNLISTED.bound
    assert not scopes.UNLISTED.is_met(scopes.expand(scopes.KNOWN - {"root_readwrite"}))


def test_the_more_exact_line_counts():
    assert scopes.find("GET", "/users/me") != scopes.find("GET", "/users/1")
    assert scopes.find("GET", "/folders/trash/items") != scopes.find("GET", "/folders/1/items")
    assert scopes.find("GET", "/files/content") == scopes.find("GET", "/files/{id}")


def test_holds_and_retention_need_the_enterprises_content_too():
    for path, scope in (
        ("/legal_hold_policies", "manage_legal_holds"),
        ("/legal_hold_policies/1", "manage_legal_hold"),
        ("/retention_policy_assignments/1", "manage_data_retention"),
    ):
        need = scopes.find("GET", path)
        assert not need.is_met(scopes.expand([scope]))
        assert need.is_met(scopes.expand([scope, "enterprise_content"]))
        assert not need.is_met(scopes.expand(["root_readwrite", "enterprise_content"]))


async def test_the_applications_scopes_bound_its_tokens(api, service, things):
    narrow = await api.narrowed("item_rename", "item_download")
    await service.write(lambda conn: conn.execute("UPDATE app SET scopes = 'root_readonly'"))
    assert await api.status(narrow, path=f"/files/{things['FILE']}/content") == 200
    assert await api.status(narrow, "PUT", f"/files/{things['FILE']}", json={"name": "x"}) == 403
    token = api.http.headers["authorization"].removeprefix("Bearer ")
    assert await api.status(token, path=f"/files/{things['FILE']}/content") == 200
    assert await api.status(token, "DELETE", f"/files/{things['FILE']}") == 403
    assert await api.status(token, path=f"/users/{things['USER']}") == 403


@pytest.fixture
async def tree(api):
    """Folder `in` with a folder and a file, and a file beside it."""
    inside = await api.folder("in")
    below = await api.folder("below", inside["id"])
    return {
        "in": inside["id"],
        "below": below["id"],
        "deep": (await api.upload("deep.txt", b"deep", below["id"]))["id"],
        "beside": (await api.upload("beside.txt", b"beside"))["id"],
    }


async def test_folder_token_sees_its_subtree(api, tree):
    token = await api.narrowed(
        "root_readwrite", "manage_managed_users", resource=f"https://api.box.com/2.0/folders/{tree['in']}"
    )
    for path, expected in {
        f"/folders/{tree['in']}": 200,
        f"/folders/{tree['in']}/items": 200,
        f"/folders/{tree['below']}": 200,
        f"/files/{tree['deep']}/content": 200,
        f"/files/{tree['beside']}": 404,
        f"/files/{tree['beside']}/content": 404,
        "/folders/0": 404,
        "/folders/0/items": 404,
        "/search?query=txt&ancestor_folder_ids=0": 404,
        "/folders/trash/items": 403,
        f"/users/{api.user}": 403,
        "/users/me": 200,
    }.items():
        assert await api.status(token, path=path) == expected, path
    for method, path, body, expected in (
        ("POST", "/folders", {"name": "new", "parent": {"id": "0"}}, 404),
        ("POST", "/folders", {"name": "new", "parent": {"id": tree["below"]}}, 201),
        ("POST", "/web_links", {"url": "https://a.example", "parent": {"id": "0"}}, 404),
        ("POST", f"/files/{tree['beside']}/copy", {"parent": {"id": tree["in"]}}, 404),
        ("POST", f"/files/{tree['deep']}/copy", {"parent": {"id": "0"}}, 404),
        ("PUT", f"/files/{tree['deep']}", {"parent": {"id": "0"}}, 404),
        ("OPTIONS", "/files/content", {"name": "a", "parent": {"id": "0"}}, 404),
        ("DELETE", f"/files/{tree['beside']}", None, 404),
        ("DELETE", f"/files/{tree['deep']}", None, 204),
        ("POST", f"/files/{tree['deep']}", {"parent": {"id": tree["in"]}}, 403),  # from the trash
    ):
        assert await api.status(token, method, path, json=body) == expected, (method, path)


async def test_search_is_limited_by_token(api, tree):
    async def found(token, **params):
        headers = {"authorization": f"Bearer {token}"}
        answer = await api.http.get("/search", params={"query": 'NOT "x1"'} | params, headers=headers)
        return {one["name"] for one in answer.json()["entries"]}, answer.json()["total_count"]

    token = await api.narrowed("base_explorer", resource=f"http://service.test/2.0/folders/{tree['in']}")
    assert await found(token) == ({"in", "below", "deep.txt"}, 3)
    assert await found(token, query="deep beside") == ({"deep.txt"}, 1)
    path = "/search?query=deep&scope=enterprise_content"
    assert await api.status(token, path=path) == 403
    token = await api.narrowed("base_explorer", resource=f"http://service.test/2.0/files/{tree['deep']}")
    assert await found(token) == ({"deep.txt"}, 1)


async def test_enterprise_search_needs_scope(api, tree):
    path = "/search?query=deep&scope=enterprise_content"
    resource = f"http://service.test/2.0/folders/{tree['in']}"
    for token, expected in (
        (await api.narrowed("base_explorer"), 403),
        (await api.narrowed("root_readwrite"), 403),
        (await api.narrowed("base_explorer", "enterprise_content"), 200),
        (await api.narrowed("base_explorer", "enterprise_content", resource=resource), 403),
    ):
        for more in ("", f"&ancestor_folder_ids={tree['in']}", "&ancestor_folder_ids=0"):
            assert await api.status(token, path=path + more) == expected
    assert await api.status(await api.narrowed("base_explorer"), path="/search?query=deep") == 200


async def test_a_bound_token_follows_its_item(api, tree):
    resource = f"https://api.box.com/2.0/files/{tree['deep']}"
    token = await api.narrowed("item_download", resource=resource)
    path = f"/files/{tree['deep']}/content"
    await api.ask("PUT", f"/folders/{tree['below']}", json={"parent": {"id": "0"}})
    assert await api.status(token, path=path) == 200
    await api.ask("DELETE", f"/files/{tree['deep']}", expect=204)
    assert await api.status(token, path=path) == 404


async def test_a_narrowed_token_acts_as_nobody_else(api, uwe):
    token = await api.narrowed("root_readwrite")
    assert await api.status(token, headers={"as-user": str(uwe.user)}) == 403
    whole = api.http.headers["authorization"].removeprefix("Bearer ")
    assert await api.status(whole, headers={"as-user": str(uwe.user)}) == 200
