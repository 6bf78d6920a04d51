"""What administrators change on the pages of people: users, groups, terms, invitations."""

import json
import re

from cmsfs.service.users import storage_policies

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


def secret_of(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, pattern
    return found[1]


async def test_the_details_of_a_user(admin, api, service):
    codes = json.dumps(["cost centre", "team"])
    await service.write(lambda conn: conn.execute("UPDATE enterprise SET tracking_codes = ?", (codes,)))
    here = "/admin/users/2002"
    await admin.open(here)
    form = {
        "job_title": "Ornithologist",
        "timezone": "Europe/Berlin",
        "language": "de",
        "notification_email": "uwe@elsewhere.example",
        "codes": "cost centre=77\n\nteam = birds \n",
        "is_external_collab_restricted": "yes",
    }
    said = await admin.post(here, action="details", **form)
    assert "The details of Uwe User are changed." in said
    assert "cost centre=77\nteam=birds" in said
    fields = (
        "job_title,timezone,language,notification_email,tracking_codes,is_external_collab_restricted,phone"
    )
    user = await api.ask("GET", f"/users/2002?fields={fields},can_see_managed_users")
    assert (user["job_title"], user["timezone"], user["language"]) == ("Ornithologist", "Europe/Berlin", "de")
    assert user["notification_email"]["email"] == "uwe@elsewhere.example"
    assert [(one["name"], one["value"]) for one in user["tracking_codes"]] == [
        ("cost centre", "77"),
        ("team", "birds"),
    ]
    assert (user["is_external_collab_restricted"], user["can_see_managed_users"]) == (True, False)
    # What is refused is shown with what was filled in.
    said = await admin.post(here, action="details", **(form | {"timezone": "Nowhere", "phone": "030 1"}))
    assert "timezone" in said and 'value="030 1"' in said
    assert "are changed" in await admin.post(here, action="details")
    user = await api.ask("GET", f"/users/2002?fields={fields}")
    assert (user["job_title"], user["notification_email"], user["tracking_codes"]) == ("", None, [])


async def test_addresses_sessions_picture_and_storage_of_a_user(admin, api, uwe, service):
    assert await service.write(lambda conn: storage_policies.add(conn, 1, "The vault"))
    here = "/admin/users/2002"
    await admin.open(here)
    said = await admin.post(here, action="alias", email="uwe2@example.com")
    assert "uwe2@example.com is an address" in said
    number = secret_of(said, 'value="forget ([0-9]+)"')
    assert "exists already" in await admin.post(here, action="alias", email="ann@example.com")
    assert "is taken from the user" in await admin.post(here, action=f"forget {number}")
    assert (await api.ask("GET", "/users/2002/email_aliases"))["entries"] == []
    said = await admin.open(here)
    policy = secret_of(said, '<option value="([0-9]+)">The vault')
    where = "/storage_policy_assignments?resolved_for_type=user&resolved_for_id=2002"
    for chosen, shown in ((policy, policy), ("1", "1"), ("", "1"), (policy, policy)):
        assert "policy is set" in await admin.post(here, action="storage", policy=chosen)
        (assigned,) = (await api.ask("GET", where))["entries"]
        assert assigned["storage_policy"]["id"] == shown
        assert assigned["assigned_to"]["type"] == ("user" if chosen else "enterprise")
    assert "avatar was not found" in await admin.post(here, action="picture")
    await uwe.ask("POST", "/users/2002/avatar", files={"pic": ("a.png", PNG, "image/png")}, expect=201)
    assert "The picture is removed" in await admin.post(here, action="picture")
    assert "sessions of the user have ended" in await admin.post(here, action="sessions")
    await uwe.ask("GET", "/users/me", expect=401)


async def test_a_group_is_changed_and_its_members_are(admin, api, uwe):
    await admin.open("/admin/groups")
    await admin.post("/admin/groups", name="Birds", description="of prey")
    here = admin.page.url.path.replace(admin.at, "/admin")
    number = here.rpartition("/")[2]
    form = {"name": "Waders", "description": "", "invitability_level": "all_managed_users"}
    assert "Group Waders is changed." in await admin.post(here, action="save", **form)
    group = await api.ask("GET", f"/groups/{number}?fields=name,description,invitability_level")
    assert {name: group[name] for name in form} == form
    await admin.post(here, action="add", login="uwe@example.com")
    (member,) = (await api.ask("GET", f"/groups/{number}/memberships"))["entries"]
    role = {f"role.{member['id']}": "admin"}
    assert "role is changed" in await admin.post(here, action=f"role {member['id']}", **role)
    assert (await api.ask("GET", f"/group_memberships/{member['id']}"))["role"] == "admin"
    assert "Waders" in await admin.open("/admin/users/2002")
    await admin.open(here)
    # An administrator is not ended by a co-administrator, but may end their own.
    assert "of the members have ended" in await admin.post(here, action="sessions")
    await uwe.ask("GET", "/users/me", expect=401)


async def test_terms_are_written_and_answered(admin, api):
    await admin.open("/admin/terms")
    assert "no terms for the users" in await admin.post(
        "/admin/terms", action="look", login="uwe@example.com"
    )
    form = {"text": "Be <b>kind</b>.\r\nAlways.", "enabled": "yes"}
    assert "are saved" in await admin.post("/admin/terms", action="save managed", **form)
    (made,) = (await api.ask("GET", "/terms_of_services"))["entries"]
    assert (made["text"], made["status"]) == ("Be <b>kind</b>.\nAlways.", "enabled")
    assert "<b>kind" not in admin.page.text
    login = {"login": "uwe@example.com"}
    assert "has not been asked" in await admin.post("/admin/terms", action="look", **login)
    for action in ("agreed", "declined"):
        assert f"Uwe User has {action}" in await admin.post("/admin/terms", action=action, **login)
        assert f"Uwe User has {action}, on 20" in await admin.post("/admin/terms", action="look", **login)
    assert "are saved" in await admin.post("/admin/terms", action="save managed", text="Be kind.")
    assert "are saved" in await admin.post("/admin/terms", action="save external", text="Be careful.")
    found = (await api.ask("GET", "/terms_of_services"))["entries"]
    assert [(one["tos_type"], one["status"], one["text"]) for one in found] == [
        ("managed", "disabled", "Be kind."),
        ("external", "disabled", "Be careful."),
    ]
    assert "Choose what to do" in await admin.post("/admin/terms", action="save nobody", text="x")


async def test_a_user_of_another_enterprise_is_invited(admin, people):
    await people.add("eve@elsewhere.example")
    await admin.open("/admin/invitations")
    said = await admin.post("/admin/invitations", login="eve@elsewhere.example")
    assert "Eve is invited" in said and "pending" in said
    assert "was not found" in await admin.post("/admin/invitations", login="nobody@elsewhere.example")
    assert "in the enterprise already" in await admin.post("/admin/invitations", login="uwe@example.com")
