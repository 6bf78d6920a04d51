"""Further addresses of users, their pictures, and invitations into the enterprise."""

from typing import Any

import pytest

from cmsfs.service.oauth import passwords
from tests.service.conftest import PASSWORD, PASSWORD_HASH

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


async def test_an_alias_is_as_good_as_the_login(api, uwe, service):
    path = f"/users/{uwe.user}/email_aliases"
    folder = await api.folder("d")
    body: dict[str, Any] = {"item": {"type": "folder", "id": folder["id"]}, "role": "viewer"}
    body["accessible_by"] = {"type": "user", "login": "Uwe.Other@example.com"}
    await api.ask("POST", "/collaborations", json=body, expect=201)
    made = await api.ask("POST", path, json={"email": "uwe.other@Example.com"}, expect=201)
    assert (made["type"], made["email"], made["is_confirmed"]) == (
        *("email_alias", "uwe.other@example.com"),
        True,
    )
    assert await uwe.ask("GET", path) == {"total_count": 1, "entries": [made]}
    # The invitation that was waiting for the address is theirs, and further ones are at once.
    assert len((await uwe.ask("GET", "/collaborations?status=pending"))["entries"]) == 1
    body["item"]["id"] = (await api.folder("e"))["id"]
    shared = await api.ask("POST", "/collaborations", json=body, expect=201)
    assert shared["accessible_by"]["id"] == str(uwe.user)
    taken = await api.ask("POST", path, json={"email": "uwe.other@example.com"}, expect=409)
    assert taken["code"] == "user_login_already_used"
    wish = {"name": "X", "login": "UWE.other@example.com"}
    assert (await api.ask("POST", "/users", json=wish, expect=409))["code"] == "user_login_already_used"
    await api.ask("POST", path, json={"email": "uwe@example.com"}, expect=409)
    await api.ask("POST", path, json={"email": "no address"}, expect=400)
    await uwe.ask("POST", path, json={"email": "more@example.com"}, expect=403)
    await uwe.ask("DELETE", f"{path}/{made['id']}", expect=403)
    await api.ask("DELETE", f"/users/{api.user}/email_aliases/{made['id']}", expect=404)
    await api.ask("DELETE", f"{path}/{made['id']}", expect=204)
    assert (await api.ask("GET", path))["total_count"] == 0
    words = "event_type=EMAIL_ALIAS_CONFIRM,EMAIL_ALIAS_REMOVE"
    logged = await api.ask("GET", f"/events?stream_type=admin_logs&{words}")
    assert len(logged["entries"]) == 2


async def test_a_deleted_user_lets_the_address_go(api, people):
    leaver = await people.add("leaver@example.com")
    await api.ask("POST", f"/users/{leaver.user}/email_aliases", json={"email": "l@example.com"}, expect=201)
    await api.ask("DELETE", f"/users/{leaver.user}", expect=204)
    await api.ask("POST", f"/users/{api.user}/email_aliases", json={"email": "l@example.com"}, expect=201)


async def test_a_picture_is_set_shown_and_removed(api, uwe):
    path = f"/users/{uwe.user}/avatar"
    await uwe.ask("GET", path, expect=404)
    made = await uwe.ask("POST", path, files={"pic": ("me.png", PNG, "image/png")}, expect=201)
    assert set(made["pic_urls"]) == {"small", "large", "preview"}
    found = await api.http.get(made["pic_urls"]["large"])
    assert (found.content, found.headers["content-type"]) == (PNG, "image/png")
    assert (await uwe.ask("GET", "/users/me"))["avatar_url"].endswith(path)
    other = await uwe.http.delete(f"/users/{api.user}/avatar")
    assert other.status_code == 403
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", path, expect=404)
    assert (await uwe.ask("GET", "/users/me"))["avatar_url"] == ""


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"files": {"pic": ("me.svg", b"<svg/>", "image/svg+xml")}}, 400),
        ({"files": {"other": ("me.png", PNG, "image/png")}}, 400),
        ({"files": {"pic": ("me.png", PNG + bytes(1024 * 1024), "image/png")}}, 413),
        ({"json": {}}, 415),
    ],
)
async def test_what_is_no_picture_is_refused(uwe, form, status):
    await uwe.ask("POST", f"/users/{uwe.user}/avatar", expect=status, **form)


async def test_users_of_other_enterprises_are_invited(api, uwe, people):
    eve = await people.add("eve@elsewhere.example")
    enterprise = (await api.ask("GET", "/users/me?fields=enterprise"))["enterprise"]["id"]
    wish = {"enterprise": {"id": enterprise}, "actionable_by": {"login": "EVE@elsewhere.example"}}
    made = await api.ask("POST", "/invites", json=wish, expect=201)
    assert (made["status"], made["actionable_by"]["name"]) == ("pending", "Eve")
    assert made["invited_to"]["id"] == enterprise
    assert await api.ask("GET", f"/invites/{made['id']}") == made
    again = await api.ask("POST", "/invites", json=wish, expect=201)
    assert (again["id"], again["status"]) == (made["id"], "pending")
    await uwe.ask("POST", "/invites", json=wish, expect=403)
    await api.ask("GET", "/invites/77", expect=404)
    await eve.ask("GET", f"/invites/{made['id']}", expect=403)
    for login, status in (("nobody@elsewhere.org", 404), ("uwe@example.com", 409)):
        body = wish | {"actionable_by": {"login": login}}
        await api.ask("POST", "/invites", json=body, expect=status)
    await api.ask("POST", "/invites", json=wish | {"enterprise": {"id": "77"}}, expect=404)


async def test_logging_in_by_an_alias(api, uwe, service):
    await service.write(lambda conn: passwords.store_hash(conn, uwe.user, PASSWORD_HASH))
    await api.ask("POST", f"/users/{uwe.user}/email_aliases", json={"email": "u@example.com"}, expect=201)
    found = await passwords.check(service, "U@example.com", PASSWORD)
    assert found == uwe.user
