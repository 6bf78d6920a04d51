"""App users: invited by the login that they have, though nobody logs in with it."""

from cmsfs.service.storage import app_users

APP = {"name": "App", "is_platform_access_only": True}


async def _invite(api, folder, login, *, expect=201):
    body = {
        "item": {"id": folder["id"], "type": "folder"},
        "accessible_by": {"login": login, "type": "user"},
        "role": "editor",
    }
    return await api.ask("POST", "/collaborations", json=body, expect=expect)


async def test_an_app_user_is_invited_by_login(api):
    made = await api.ask("POST", "/users?fields=login,is_platform_access_only", json=APP, expect=201)
    assert (app_users.is_app_user_login(made["login"]), made["is_platform_access_only"]) == (True, True)
    folder = await api.folder("shared")
    found = await _invite(api, folder, made["login"].upper())
    assert (found["accessible_by"]["id"], found["status"]) == (made["id"], "accepted")
    caller = type(api)(api.store, int(made["id"]))
    await caller.log_in()
    assert (await caller.ask("GET", f"/folders/{folder['id']}"))["name"] == "shared"
    await caller.http.aclose()


async def test_each_has_another_login_that_nobody_guesses(api):
    logins = {(await api.ask("POST", "/users", json=APP, expect=201))["login"] for _ in range(3)}
    assert len({one.partition("@")[0].rpartition("_")[2] for one in logins}) == 3
    assert all(len(one.partition("@")[0].rpartition("_")[2]) == 16 for one in logins)


async def test_nobody_else_gets_such_a_login(api, uwe):
    wish = {"name": "N", "login": f"AppUser_1_x@{app_users.DOMAIN}"}
    await api.ask("POST", "/users", json=wish, expect=400)
    await api.ask("PUT", f"/users/{uwe.user}", json={"login": f"x@{app_users.DOMAIN.upper()}"}, expect=400)


async def test_app_user_keeps_its_login(api):
    made = await api.ask("POST", "/users", json=APP, expect=201)
    same = await api.ask("PUT", f"/users/{made['id']}", json={"login": made["login"], "name": "Other"})
    assert (same["login"], same["name"]) == (made["login"], "Other")


async def test_a_deleted_app_user_has_no_login(api, service):
    made = await api.ask("POST", "/users", json=APP, expect=201)
    await api.ask("DELETE", f"/users/{made['id']}", expect=204)
    assert service.read("SELECT login FROM account WHERE id = ?", int(made["id"]))[0]["login"] is None
    folder = await api.folder("shared")
    assert (await _invite(api, folder, made["login"]))["status"] == "pending"
