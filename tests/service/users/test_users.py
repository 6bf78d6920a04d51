"""Users: me, and others for who may look; lists, and what administrators do to users."""

import json

import pytest

from cmsfs.models.enterprise import users
from cmsfs.service.provisioning import demo


async def test_me(api):
    me = users.User.model_validate(await api.ask("GET", "/users/me"))
    assert (me.id, me.login, me.space_used) == (str(api.user), "ann@example.com", 0)
    assert me.created_at is not None and me.space_amount is not None and me.space_amount > 0
    found = await api.ask("GET", f"/users/{api.user}?fields=role,enterprise,nonsense")
    assert found.keys() == {"type", "id", "name", "login", "role", "enterprise"}
    assert (found["role"], found["enterprise"]["name"]) == ("admin", "Test Enterprise")


async def test_every_field_of_the_specification_can_be_asked(api):
    wanted = set(users.User.model_fields)
    found = await api.ask("GET", "/users/me", params={"fields": ",".join(wanted)})
    assert found.keys() == wanted


async def test_others(api, uwe):
    assert (await api.ask("GET", f"/users/{uwe.user}"))["login"] == "uwe@example.com"
    await uwe.ask("GET", f"/users/{uwe.user}")
    await uwe.ask("GET", f"/users/{api.user}", expect=403)
    for wire_id in ("1", "x", "9" * 30):
        await api.ask("GET", f"/users/{wire_id}", expect=404)


async def test_an_administrator_may_act_as_another_user(api, uwe):
    await uwe.folder("mine")
    found = await api.ask("GET", "/folders/0/items", headers={"as-user": str(uwe.user)})
    assert [one["name"] for one in found["entries"]] == ["mine"]
    await api.ask("GET", "/users/me", headers={"as-user": "5"}, expect=403)
    await uwe.ask("GET", "/users/me", headers={"as-user": str(api.user)}, expect=403)


async def test_who_acts_as_another_user_has_their_role_only(api, uwe):
    acts = {"as-user": str(uwe.user)}
    for path in ("/legal_hold_policies", "/retention_policies", "/events?stream_type=admin_logs"):
        await api.ask("GET", path)
        await api.ask("GET", path, headers=acts, expect=403)
    made = {"name": "N", "login": "n@example.com"}
    await api.ask("POST", "/users", json=made, headers=acts, expect=403)


async def test_a_co_administrator_acts_as_no_administrator(api, uwe, people):
    other = await people.add("co@example.com")
    await api.ask("PUT", f"/users/{other.user}", json={"role": "coadmin"})
    await other.ask("GET", "/users/me", headers={"as-user": str(uwe.user)})
    for method, path in (("GET", "/users/me"), ("DELETE", f"/users/{uwe.user}"), ("GET", "/folders/0/items")):
        await other.ask(method, path, headers={"as-user": str(api.user)}, expect=403)
    await api.ask("GET", "/users/me", headers={"as-user": str(other.user)})


async def _app(service, granted):
    await service.write(lambda conn: conn.execute("UPDATE app SET scopes = ?", (granted,)))


async def test_as_user_needs_manage_users_scope(service, api, uwe):
    app_user = await api.ask(
        "POST", "/users", json={"name": "App", "is_platform_access_only": True}, expect=201
    )
    acts, by_app = {"as-user": str(uwe.user)}, {"as-user": app_user["id"]}
    for granted in ("root_readonly", "root_readwrite enterprise_content manage_enterprise_properties"):
        await _app(service, granted)
        await api.ask("GET", "/folders/0/items")
        for headers in (acts, by_app):
            refused = await api.ask("GET", "/folders/0/items", headers=headers, expect=403)
            assert refused["code"] == "insufficient_scope"
    await _app(service, "root_readonly manage_app_users")
    await api.ask("GET", "/folders/0/items", headers=by_app)
    await api.ask("GET", "/folders/0/items", headers=acts, expect=403)
    await _app(service, "root_readonly manage_managed_users")
    await api.ask("GET", "/folders/0/items", headers=acts)
    # It opens nothing that the application may not do for anybody.
    await api.ask("POST", "/folders", headers=acts, json={"name": "a", "parent": {"id": "0"}}, expect=403)


async def test_an_inactive_administrator_acts_as_nobody(service, api, uwe):
    await service.write(
        lambda conn: conn.execute("UPDATE account SET status = 'inactive' WHERE id = ?", (api.user,))
    )
    await api.ask("GET", "/users/me", headers={"as-user": str(uwe.user)}, expect=401)


async def test_admin_grants_enterprise_search(api, uwe, people):
    other = await people.add("co@example.com")
    await api.ask("PUT", f"/users/{other.user}", json={"role": "coadmin"})
    path, right = f"/users/{uwe.user}", {"can_search_enterprise_content": True}
    for who in (uwe, other):
        for wire_id in (uwe.user, other.user):
            await who.ask("PUT", f"/users/{wire_id}", json=right, expect=403)
    await uwe.ask("GET", "/search?query=a&scope=enterprise_content", expect=403)
    assert (await api.ask("PUT", f"{path}?fields=can_search_enterprise_content", json=right))[
        "can_search_enterprise_content"
    ]
    await uwe.ask("GET", "/search?query=a&scope=enterprise_content")
    await api.ask("PUT", path, json={"can_search_enterprise_content": False})
    await uwe.ask("GET", "/search?query=a&scope=enterprise_content", expect=403)


FULL = {
    "name": "New User",
    "login": "new@example.com",
    "external_app_user_id": "ext-1",
    "address": "a" * 255,
    "job_title": "j" * 100,
    "phone": "p" * 100,
    "language": "pt-BR",
    "timezone": "Europe/Berlin",
    "role": "coadmin",
    "status": "cannot_delete_edit_upload",
    "space_amount": -1,
    "can_see_managed_users": False,
    "is_exempt_from_device_limits": True,
    "is_exempt_from_login_verification": True,
    "is_external_collab_restricted": True,
    "is_sync_enabled": False,
}


async def test_a_new_user_has_what_was_wished(api):
    made = await api.ask("POST", "/users", params={"fields": ",".join(FULL)}, json=FULL, expect=201)
    assert {name: made[name] for name in FULL} == FULL
    assert await api.ask("GET", f"/users/{made['id']}", params={"fields": ",".join(FULL)}) == made
    again = {"name": "Other", "login": "NEW@example.com"}
    problem = await api.ask("POST", "/users", json=again, expect=409)
    assert problem["code"] == "user_login_already_used"


async def test_letters_beyond_ascii_are_the_same_in_a_login(api, service):
    made = await api.ask("POST", "/users", json={"name": "Ä", "login": "ÄÉȺ@example.com"}, expect=201)
    for login in ("ÄÉȺ@example.com", "ÄÉȺ@EXAMPLE.com"):
        problem = await api.ask("POST", "/users", json={"name": "N", "login": login}, expect=409)
        assert problem["code"] == "user_login_already_used"
    folder = await api.folder("for them")
    wish = {"item": {"type": "folder", "id": folder["id"]}, "role": "viewer"}
    wish["accessible_by"] = {"type": "user", "login": "ÄÉȺ@Example.com"}
    found = await api.ask("POST", "/collaborations", json=wish, expect=201)
    assert found["accessible_by"]["id"] == made["id"]


async def test_new_user_can_log_in(api, service):
    made = await api.ask("POST", "/users", json={"name": "N", "login": "n@example.com"}, expect=201)
    assert (made["status"], made["space_used"]) == ("active", 0)
    caller = type(api)(service, int(made["id"]))
    await caller.log_in()
    await caller.folder("first")
    await caller.http.aclose()


async def test_an_app_user_needs_no_login(api):
    body = {"name": "App", "is_platform_access_only": True, "external_app_user_id": "x 1"}
    made = await api.ask("POST", "/users", json=body, expect=201)
    assert made["login"].startswith(f"AppUser_{made['id']}_")
    found = await api.ask("GET", "/users", params={"external_app_user_id": "x 1"})
    assert [one["id"] for one in found["entries"]] == [made["id"]]
    await api.ask("POST", "/users", json=body | {"name": "B", "external_app_user_id": "x 2"}, expect=201)
    found = await api.ask("GET", "/users", params={"external_app_user_id": "x 1", "user_type": "managed"})
    assert found["total_count"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": None}, {"name": ""}, {"name": "n" * 51}, {"login": None}, {"login": "nobody"}),
        *({"address": "a" * 256}, {"job_title": "j" * 101}, {"phone": "p" * 101}, {"language": "english"}),
        *({"timezone": "Mars/Base"}, {"role": "admin"}, {"status": "gone"}, {"space_amount": -2}),
        *({"space_amount": 2**63}, {"is_sync_enabled": "perhaps"}, {"tracking_codes": [{"name": "unknown"}]}),
        {"tracking_codes": [{"type": "code", "name": "cost"}]},
    ],
    ids=str,
)
async def test_what_no_user_can_be(api, service, wrong):
    await service.write(lambda conn: conn.execute("""UPDATE enterprise SET tracking_codes = '["cost"]'"""))
    body = {name: value for name, value in (FULL | wrong).items() if value is not None}
    problem = await api.ask("POST", "/users", json=body, expect=400)
    assert problem["code"] == "bad_request"
    assert (await api.ask("GET", "/users"))["total_count"] == 2


async def test_tracking_codes_are_those_of_the_enterprise(api, service):
    codes = [{"type": "tracking_code", "name": "cost", "value": "7"}]
    body = FULL | {"tracking_codes": [{"name": "cost", "value": "7"}]}
    await api.ask("POST", "/users", json=body, expect=400)
    await service.write(lambda conn: conn.execute("""UPDATE enterprise SET tracking_codes = '["cost"]'"""))
    made = await api.ask("POST", "/users?fields=tracking_codes", json=body, expect=201)
    assert made["tracking_codes"] == codes


async def test_a_change(api, uwe):
    path = f"/users/{uwe.user}"
    wish = {"name": "Uwe Changed", "phone": "5", "notification_email": {"email": "n@example.com"}}
    changed = await api.ask("PUT", path, json=wish)
    assert (changed["name"], changed["phone"], changed["login"]) == ("Uwe Changed", "5", "uwe@example.com")
    assert changed["notification_email"] == {"email": "n@example.com", "is_confirmed": False}
    await api.ask("PUT", path, json={"notification_email": None})
    assert (await api.ask("GET", path))["notification_email"] is None
    assert (await api.ask("GET", path))["phone"] == "5"
    problem = await api.ask("PUT", path, json={"login": "ANN@example.com"}, expect=409)
    assert problem["code"] == "user_login_already_used"
    await api.ask("PUT", path, json={"enterprise": "other"}, expect=400)
    await api.ask("PUT", f"/users/{api.user}", json={"status": "inactive"}, expect=403)
    await api.ask("PUT", path, json={"status": "inactive"})
    await uwe.ask("GET", "/users/me", expect=401)


async def test_a_user_who_is_let_go(api, uwe):
    await api.ask("PUT", f"/users/{uwe.user}", json={"enterprise": None})
    await api.ask("GET", f"/users/{uwe.user}", expect=404)
    await uwe.ask("GET", "/users/me", expect=401)


async def test_user_with_content_needs_force(api, uwe):
    file = await uwe.upload("mine", b"hello")
    path = f"/users/{uwe.user}"
    await api.ask("DELETE", path, expect=400)
    await uwe.bytes(file["id"])
    await api.ask("DELETE", path, params={"force": "True"}, expect=204)
    await api.ask("GET", path, expect=404)
    await uwe.ask("GET", "/users/me", expect=401)
    await api.ask("POST", "/users", json={"name": "Uwe", "login": "uwe@example.com"}, expect=201)
    await api.ask("DELETE", f"/users/{api.user}", params={"force": "true"}, expect=403)


async def test_who_may_do_what(api, uwe, service):
    """Roles x operations."""
    made = await api.ask("POST", "/users", json=FULL | {"status": "active"}, expect=201)
    coadmin = type(api)(service, int(made["id"]))
    await coadmin.log_in()
    body = {"name": "X", "login": "x@example.com"}
    operations = [
        ("GET", "/users", None, 200),
        ("GET", f"/users/{api.user}", None, 200),
        ("POST", "/users", body, 201),
        ("PUT", f"/users/{uwe.user}", {"name": "U"}, 200),
    ]
    for method, path, wish, status in operations:
        await uwe.ask(method, path, json=wish, expect=403)
        await coadmin.ask(method, path, json=wish, expect=status)
    await coadmin.ask("PUT", f"/users/{api.user}", json={"name": "A"}, expect=403)
    await coadmin.ask("DELETE", f"/users/{api.user}", expect=403)
    await uwe.ask("DELETE", f"/users/{made['id']}", expect=403)
    await coadmin.http.aclose()


@pytest.fixture
async def eve(service):
    """A user of another enterprise, who collaborates in this one."""

    def txn(conn):
        other = demo.add_enterprise(conn, "Other", now=1)
        demo.add_user(conn, other, "Uwe Unknown", "unknown@example.org", now=1)
        row = demo.add_user(conn, other, "Uwe External", "eve@example.org", now=1)
        conn.execute("INSERT INTO collaborator (enterprise, account) VALUES (1, ?)", (row["id"],))
        return row["id"]

    return await service.write(txn)


@pytest.mark.parametrize(
    ("params", "logins"),
    [
        ({}, "ann uwe"),
        ({"filter_term": "UWE"}, "uwe"),
        ({"filter_term": "ann a"}, "ann"),
        ({"filter_term": "we"}, ""),
        ({"filter_term": "uwe", "user_type": "managed"}, "uwe"),
        ({"filter_term": "eve@example.org"}, "eve"),
        ({"filter_term": "EVE@example.org", "user_type": "all"}, "eve"),
        ({"filter_term": "eve@example.org", "user_type": "external"}, "eve"),
        ({"filter_term": "eve@", "user_type": "external"}, ""),
        ({"filter_term": "eve@"}, ""),
        ({"filter_term": "eve@example.org", "user_type": "managed"}, ""),
        ({"filter_term": "unknown@example.org"}, ""),
        ({"user_type": "external"}, ""),
        ({"offset": 1}, "uwe"),
        ({"offset": 10000}, ""),
    ],
    ids=str,
)
async def test_whom_a_list_finds(api, eve, params, logins):
    found = await api.ask("GET", "/users", params=params)
    assert [one["login"].partition("@")[0] for one in found["entries"]] == logins.split()


@pytest.mark.parametrize(
    "params",
    [
        *({"offset": 10001}, {"offset": "x"}, {"user_type": "x"}, {"marker": "5"}, {"limit": 0}),
        *({"usemarker": "true", "offset": 5}, {"usemarker": "true", "marker": "x"}),
    ],
    ids=str,
)
async def test_what_a_list_refuses(api, params):
    await api.ask("GET", "/users", params=params, expect=400)


async def test_external_user_shows_name_only(api, eve):
    found = await api.ask("GET", f"/users/{eve}", params={"fields": "name,login,role,space_used,enterprise"})
    assert found == {
        "type": "user",
        "id": str(eve),
        "name": "Uwe External",
        "login": "eve@example.org",
        "role": None,
        "space_used": None,
        "enterprise": None,
    }
    await api.ask("PUT", f"/users/{eve}", json={"name": "x"}, expect=404)
    await api.ask("DELETE", f"/users/{eve}", expect=404)


async def test_both_ways_of_paging(api):
    for number in range(5):
        body = {"name": f"User {number}", "login": f"u{number}@example.com"}
        await api.ask("POST", "/users", json=body, expect=201)
    everybody = (await api.ask("GET", "/users", params={"limit": 2000}))["entries"]
    seen = []
    for offset in range(0, 8, 3):
        page = await api.ask("GET", "/users", params={"limit": 3, "offset": offset})
        assert (page["limit"], page["offset"], page["total_count"]) == (3, offset, 7)
        assert "marker" not in page
        seen += page["entries"]
    assert seen == everybody
    seen, marker = [], "0"
    while marker is not None:
        page = await api.ask("GET", "/users", params={"limit": 3, "usemarker": "True", "marker": marker})
        seen += page["entries"]
        assert page["marker"] == page["next_marker"]
        marker = page["marker"]
    assert seen == everybody


NEW_USER = {"name": "New", "login": "new@example.com"}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"name": name} for name in (" ", "a\0b", "a\nb", 5, "")),
        *({"language": word} for word in ("qq", "xx-YY", "german", "e")),
        *({"space_amount": amount} for amount in (1.5, True, "x", -2)),
        {"tracking_codes": [{"name": "code", "value": "1"}, {"name": "code", "value": "2"}]},
    ],
    ids=str,
)
async def test_a_user_that_cannot_be(api, service, wrong):
    await service.write(lambda conn: conn.execute("UPDATE enterprise SET tracking_codes = '[\"code\"]'"))
    await api.ask("POST", "/users", json=NEW_USER | wrong, expect=400)
    assert (await api.ask("GET", "/users"))["total_count"] == 2


async def test_languages(api):
    made = await api.ask("POST", "/users", json=NEW_USER, expect=201)
    for word in ("de", "zh-CN", "pt_BR", "x1"):
        changed = await api.ask("PUT", f"/users/{made['id']}", json={"language": word, "space_amount": 1e9})
        assert (changed["language"], changed["space_amount"]) == (word, 10**9)


async def test_a_list_by_marker_says_both_markers(api):
    page = await api.ask("GET", "/users", params={"usemarker": "true", "limit": 1})
    assert page["next_marker"] == page["marker"] and page["prev_marker"] is None
    for word in ("maybe", "yes", "2"):
        refused = await api.ask("GET", "/users", params={"usemarker": word}, expect=400)
        assert refused["code"] == "invalid_parameter"
    assert "marker" not in await api.ask("GET", "/users", params={"usemarker": "False"})


@pytest.mark.parametrize(
    ("content_type", "expect"),
    [
        *((None, 201), ("application/json", 201), ("application/json; charset=utf-8", 201)),
        *(("application/vnd.api+json", 201), ("text/plain", 415), ("application/xml", 415)),
        ("application/x-www-form-urlencoded", 415),
    ],
)
async def test_body_with_wrong_content_type(api, content_type, expect):
    headers = {} if content_type is None else {"content-type": content_type}
    await api.ask("POST", "/users", content=json.dumps(NEW_USER), headers=headers, expect=expect)
