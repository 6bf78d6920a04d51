"""Memberships: what members of a group see and may do, and what they are told of it."""

import pytest

from cmsfs.service.access import roles
from tests.service.groups.conftest import share_with, shared_with
from tests.support import sharing


async def add(api, group, who, expect=201, **more):
    body = {"user": {"id": str(who.user)}, "group": {"id": group["id"]}} | more
    return await api.ask("POST", "/group_memberships", json=body, expect=expect)


async def test_a_membership_is_made_found_changed_and_ended(api, uwe, group_of):
    group = await group_of("one")
    made = await add(api, group, uwe, configurable_permissions={"can_run_reports": True})
    assert (made["type"], made["role"]) == ("group_membership", "member")
    assert made["user"]["login"] == "uwe@example.com"
    assert made["group"] == {
        "type": "group",
        "id": group["id"],
        "name": "one",
        "group_type": "managed_group",
    }
    assert made["configurable_permissions"] == {"can_run_reports": True}
    assert (await add(api, group, uwe, expect=409))["code"] == "conflict"
    path = f"/group_memberships/{made['id']}"
    assert await uwe.ask("GET", path) == made
    for who, where in (
        (api, f"/groups/{group['id']}/memberships"),
        (uwe, f"/users/{uwe.user}/memberships"),
        (api, f"/users/{uwe.user}/memberships"),
    ):
        listed = await who.ask("GET", where)
        assert (listed["total_count"], listed["entries"]) == (1, [made])
    await uwe.ask("GET", f"/users/{api.user}/memberships", expect=403)
    # Only an administrator, of the enterprise or of the group, says who is in it.
    await uwe.ask("PUT", path, json={"role": "admin"}, expect=403)
    assert (await api.ask("PUT", path, json={"role": "admin"}))["role"] == "admin"
    await uwe.ask("DELETE", path, expect=204)
    await api.ask("GET", path, expect=404)
    log = await api.ask("GET", "/events?stream_type=admin_logs&limit=500")
    told = [one for one in log["entries"] if one["event_type"] in ("GROUP_ADD_USER", "GROUP_REMOVE_USER")]
    assert [(one["event_type"], one["source"]["id"]) for one in told] == [
        ("GROUP_ADD_USER", str(uwe.user)),
        ("GROUP_REMOVE_USER", str(uwe.user)),
    ]
    assert told[0]["additional_details"]["group_name"] == "one"


async def test_who_is_in_a_group_is_told_to_whom_it_says(api, uwe, people, group_of):
    eve = await people.add("eve@example.com")
    group = await group_of("one", uwe, member_viewability_level="admins_and_members")
    (one,) = (await uwe.ask("GET", f"/groups/{group['id']}/memberships"))["entries"]
    await eve.ask("GET", f"/groups/{group['id']}/memberships", expect=403)
    await eve.ask("GET", f"/group_memberships/{one['id']}", expect=404)


@pytest.mark.parametrize("role", roles.ROLES)
async def test_a_role_of_a_group_is_that_role(api, people, group_of, role):
    alone, member = await people.add("alone@example.com"), await people.add("member@example.com")
    folder = await api.folder("shared")
    file = await api.upload("file.txt", b"x", folder["id"])
    await sharing.share(api, folder, alone, role)
    await share_with(api, folder, await group_of("one", member), role)
    for path in (f"/folders/{folder['id']}", f"/files/{file['id']}"):
        wanted = await alone.ask("GET", f"{path}?fields=permissions,path_collection")
        assert await member.ask("GET", f"{path}?fields=permissions,path_collection") == wanted


async def test_all_roles_count_together(api, uwe, group_of):
    folder = await api.folder("shared")
    file = await api.upload("file.txt", b"x", folder["id"])
    await sharing.share(api, folder, uwe, "uploader")
    await uwe.ask("GET", f"/files/{file['id']}/content", expect=403)
    await share_with(api, folder, await group_of("viewers", uwe), "viewer")
    assert await uwe.bytes(file["id"]) == b"x"
    await uwe.upload("another.txt", b"y", folder["id"])
    assert await shared_with(uwe) == ["shared"]


async def test_items_come_and_go_with_the_membership(api, uwe, group_of):
    folder = await api.folder("shared")
    file = await api.upload("heron.txt", b"a heron", folder["id"])
    group = await group_of("one")
    await share_with(api, folder, group)
    assert (await shared_with(uwe), await uwe.names()) == ([], set())
    since = await sharing.position(uwe)
    made = await add(api, group, uwe)
    assert await shared_with(uwe) == ["shared"]
    assert await uwe.names() == {"shared", "heron.txt"}
    await uwe.ask("PUT", f"/files/{file['id']}", json={"description": "by a member"})
    await api.ask("DELETE", f"/group_memberships/{made['id']}", expect=204)
    assert (await shared_with(uwe), await uwe.names()) == ([], set())
    await uwe.ask("GET", f"/files/{file['id']}", expect=404)
    events = await sharing.told(uwe, since, stream_type="changes")
    words = [word for word, _ in events]
    assert words == ["COLLAB_ADD_COLLABORATOR", "ITEM_MODIFY", "COLLAB_REMOVE_COLLABORATOR"]
    came, _, went = [source for _, source in events]
    # As somebody sees it whose root has it, and then as who has lost it.
    assert (came["id"], came["parent"]["id"]) == (folder["id"], "0")
    assert (went["id"], went["parent"]) == (folder["id"], None)


async def test_the_events_are_those_of_somebody_invited_alone(api, people, group_of):
    """Whatever follows the events, as the drive does, needs no notion of groups."""
    alone, member = await people.add("alone@example.com"), await people.add("member@example.com")
    folder = await api.folder("shared")
    group = await group_of("one", member)
    starts = {who: await sharing.position(who) for who in (alone, member)}
    made = [await share_with(api, folder, group, "viewer")]
    made.append(await sharing.share(api, folder, alone, "viewer"))
    await api.upload("new.txt", b"x", folder["id"])
    for one in made:
        await api.ask("DELETE", f"/collaborations/{one['id']}", expect=204)
    streams = {who: await sharing.told(who, since) for who, since in starts.items()}

    def of(who):
        return [(word, source["id"], source["parent"]) for word, source in streams[who]]

    # Both see each other come; what they are told of themselves is the same.
    assert of(member)[0] == of(alone)[0]
    assert ("ITEM_UPLOAD" in [word for word, _ in streams[member]]) is True
    assert of(member)[-1][0] == of(alone)[-1][0] == "COLLAB_REMOVE_COLLABORATOR"
    assert of(member)[-1][2] is None


async def test_a_user_who_leaves_the_enterprise_leaves_its_groups(api, service, people, group_of):
    eve = await people.add("eve@example.com")
    group = await group_of("one", eve)
    await share_with(api, await api.folder("shared"), group)
    await api.ask("DELETE", f"/users/{eve.user}", expect=204)
    assert (await api.ask("GET", f"/groups/{group['id']}/memberships"))["entries"] == []
    assert service.read("SELECT 1 FROM membership") == []


async def test_an_end_in_time_is_told_to_the_members(api, uwe, service, group_of):
    folder = await api.folder("shared")
    made = await share_with(api, folder, await group_of("one", uwe))
    since = await sharing.position(uwe)
    await service.write(
        lambda conn: conn.execute(
            "UPDATE collaboration SET expires_at = ? WHERE id = ?", (service.now(), int(made["id"]))
        )
    )
    assert await shared_with(uwe) == []
    ((word, source),) = await sharing.told(uwe, since)
    assert (word, source["id"], source["parent"]) == ("COLLAB_REMOVE_COLLABORATOR", folder["id"], None)


async def test_a_link_for_collaborators_opens_for_members(api, uwe, people, group_of):
    eve = await people.add("eve@example.com")
    folder = await api.folder("shared")
    wish = {"shared_link": {"access": "collaborators"}}
    link = (await api.ask("PUT", f"/folders/{folder['id']}", json=wish))["shared_link"]["url"]
    await share_with(api, folder, await group_of("one", uwe), "viewer")
    headers = {"boxapi": f"shared_link={link}"}
    assert (await uwe.ask("GET", "/shared_items", headers=headers))["id"] == folder["id"]
    await eve.ask("GET", "/shared_items", headers=headers, expect=404)
