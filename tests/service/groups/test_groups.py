"""Groups: made, found, changed and deleted; who sees them and who may invite them."""

import pytest

from tests.service.groups.conftest import share_with, shared_with


async def test_a_group_is_made_found_changed_and_deleted(api, group_of):
    body = {"name": "Bridge builders", "description": "All of them", "external_sync_identifier": "ad:7"}
    made = await api.ask("POST", "/groups", json=body | {"provenance": "directory"}, expect=201)
    wanted = {"type": "group", "name": "Bridge builders", "group_type": "managed_group"}
    assert made.items() >= wanted.items()
    assert made.keys() == {"type", "id", "name", "group_type", "created_at", "modified_at"}
    fields = "description,external_sync_identifier,provenance,invitability_level,member_viewability_level"
    whole = await api.ask("GET", f"/groups/{made['id']}?fields={fields},permissions")
    assert (whole["description"], whole["external_sync_identifier"]) == ("All of them", "ad:7")
    assert whole["provenance"] == "directory"
    assert whole["invitability_level"] == whole["member_viewability_level"] == "all_managed_users"
    assert whole["permissions"] == {"can_invite_as_collaborator": True}
    await group_of("Painters")
    listed = await api.ask("GET", "/groups?filter_term=BRI&limit=1")
    assert (listed["total_count"], [one["id"] for one in listed["entries"]]) == (1, [made["id"]])
    second = await api.ask("GET", "/groups?limit=1&offset=1")
    assert (second["total_count"], [one["name"] for one in second["entries"]]) == (2, ["Painters"])
    path = f"/groups/{made['id']}"
    again = await api.ask("PUT", f"{path}?fields=name,description", json={"name": "Builders"})
    assert (again["name"], again["description"]) == ("Builders", "All of them")
    for method, where in (("POST", "/groups"), ("PUT", path)):
        refused = await api.ask(method, where, json={"name": "PAINTERS"}, expect=409)
        assert refused["code"] == "conflict"
    await api.ask("PUT", path, json={"members": []}, expect=400)
    await api.ask("POST", "/groups", json={"description": "nameless"}, expect=400)
    await api.ask("DELETE", path, expect=204)
    assert (await api.ask("GET", path, expect=404))["code"] == "not_found"
    log = await api.ask("GET", "/events?stream_type=admin_logs&limit=500")
    words = [one["event_type"] for one in log["entries"] if one["event_type"].startswith("GROUP")]
    assert words == ["GROUP_CREATION", "GROUP_CREATION", "GROUP_EDITED", "GROUP_DELETION"]


@pytest.mark.parametrize(
    ("level", "member", "other"),
    [("admins_only", 403, 404), ("admins_and_members", 201, 404), ("all_managed_users", 201, 201)],
)
async def test_a_group_says_who_may_invite_it(api, uwe, people, group_of, level, member, other):
    eve = await people.add("eve@example.com")
    group = await group_of("one", uwe, invitability_level=level, member_viewability_level="admins_only")
    for who, expect in ((uwe, member), (eve, other)):
        # Who may do nothing with a group does not know of it.
        await who.ask("GET", f"/groups/{group['id']}", expect=404 if expect == 404 else 200)
        assert len((await who.ask("GET", "/groups"))["entries"]) == (expect != 404)
        await share_with(who, await who.folder("own"), group, expect=expect)
    await share_with(api, await api.folder("of the administrator"), group)


async def test_others_neither_make_nor_change_groups(uwe, group_of):
    group = await group_of("one", uwe)
    await uwe.ask("POST", "/groups", json={"name": "two"}, expect=403)
    await uwe.ask("PUT", f"/groups/{group['id']}", json={"name": "two"}, expect=403)
    await uwe.ask("DELETE", f"/groups/{group['id']}", expect=403)
    await uwe.ask("GET", f"/groups/{group['id']}/collaborations", expect=403)


async def test_groups_of_other_enterprises_do_not_exist(api, people, group_of):
    group = await group_of("one")
    eva = await people.add("eva@elsewhere.example")
    await eva.ask("GET", f"/groups/{group['id']}", expect=404)
    assert (await eva.ask("GET", "/groups"))["entries"] == []
    await share_with(eva, await eva.folder("own"), group, expect=404)
    body = {"user": {"id": str(eva.user)}, "group": {"id": group["id"]}}
    await api.ask("POST", "/group_memberships", json=body, expect=404)


async def test_what_a_group_collaborates_on_is_listed(api, uwe, group_of):
    group = await group_of("one", uwe)
    folder, file = await api.folder("shared"), await api.upload("file.txt", b"x")
    made = [await share_with(api, one, group, "viewer") for one in (folder, file)]
    listed = await api.ask("GET", f"/groups/{group['id']}/collaborations?limit=1&offset=1")
    assert (listed["total_count"], listed["entries"]) == (2, made[1:])
    assert made[0]["accessible_by"] == {
        "type": "group",
        "id": group["id"],
        "name": "one",
        "group_type": "managed_group",
    }
    assert (made[0]["status"], made[0]["invite_email"]) == ("accepted", None)
    again = await share_with(api, folder, group, expect=400)
    assert again["code"] == "user_already_collaborator"
    # Whom it is about sees it, and cannot end it for everybody.
    assert await uwe.ask("GET", f"/collaborations/{made[0]['id']}") == made[0]
    await uwe.ask("DELETE", f"/collaborations/{made[0]['id']}", expect=403)


async def test_a_deleted_group_shares_nothing_more(api, uwe, group_of):
    group = await group_of("one", uwe)
    folder = await api.folder("shared")
    made = await share_with(api, folder, group)
    assert await shared_with(uwe) == ["shared"]
    await api.ask("DELETE", f"/groups/{group['id']}", expect=204)
    assert await shared_with(uwe) == []
    await uwe.ask("GET", f"/folders/{folder['id']}", expect=404)
    await api.ask("GET", f"/collaborations/{made['id']}", expect=404)
