"""Collaborations: made, answered, changed, ended; who may be invited; what the invited see."""

import pytest

from cmsfs.models.enterprise import collaborations
from tests.support import sharing


@pytest.fixture
async def tree(api):
    """A folder in a folder of Ann's, with a file in it, and a file beside."""
    outer = await api.folder("outer")
    folder = await api.folder("folder", outer["id"])
    return {
        "outer": outer,
        "folder": folder,
        "file": await api.upload("inside.txt", b"inside", folder["id"]),
        "deep": await api.folder("deep", folder["id"]),
        "beside": await api.upload("beside.txt", b"beside", outer["id"]),
    }


async def of(api, item):
    return (await api.ask("GET", f"/{item['type']}s/{item['id']}/collaborations"))["entries"]


async def test_within_the_enterprise_it_begins_at_once(api, uwe, tree):
    made = await sharing.share(api, tree["folder"], uwe, "viewer")
    assert (made["type"], made["role"], made["status"]) == ("collaboration", "viewer", "accepted")
    assert made["item"]["id"] == tree["folder"]["id"]
    assert made["accessible_by"]["login"] == "uwe@example.com"
    assert made["created_by"]["login"] == "ann@example.com"
    assert made["acknowledged_at"] == made["created_at"]
    assert (made["invite_email"], made["expires_at"], made["can_view_path"]) == (None, None, False)
    collaborations.Collaboration.model_validate(made)
    for who in (api, uwe):
        assert await who.ask("GET", f"/collaborations/{made['id']}") == made
        assert await of(who, tree["folder"]) == [made]
        # It holds for what is below.
        assert await of(who, tree["file"]) == [made]
    assert await of(api, tree["outer"]) == []
    few = await api.ask("GET", f"/collaborations/{made['id']}?fields=role")
    assert few == {"type": "collaboration", "id": made["id"], "role": "viewer"}


async def test_by_address(api, uwe, tree):
    made = await sharing.share(api, tree["folder"], "UWE@example.com")
    assert (made["accessible_by"]["id"], made["status"]) == (str(uwe.user), "accepted")


async def test_others_are_invited_and_accept(api, people, tree):
    eva = await people.add("eva@elsewhere.example")
    made = await sharing.share(api, tree["folder"], "eva@elsewhere.example")
    assert (made["status"], made["acknowledged_at"]) == ("pending", None)
    # To others an invitation is an address, until it is accepted.
    assert made["accessible_by"] == {
        "type": "user",
        "id": str(eva.user),
        "name": "",
        "login": "eva@elsewhere.example",
    }
    await eva.ask("GET", f"/folders/{tree['folder']['id']}", expect=404)
    waiting = await eva.ask("GET", "/collaborations?status=pending")
    assert (waiting["total_count"], waiting["offset"]) == (1, 0)
    assert waiting["entries"][0]["id"] == made["id"]
    assert waiting["entries"][0]["item"] is None
    await eva.ask("GET", "/collaborations", expect=400)
    await eva.ask("GET", "/collaborations?status=accepted", expect=400)
    url = f"/collaborations/{made['id']}"
    refused = await api.ask("PUT", url, json={"status": "accepted"}, expect=403)
    assert refused["code"] == "access_denied_insufficient_permissions"
    found = await eva.ask("PUT", url, json={"status": "accepted"})
    assert (found["status"], found["item"]["id"]) == ("accepted", tree["folder"]["id"])
    assert found["acknowledged_at"] is not None
    assert await eva.bytes(tree["file"]["id"]) == b"inside"
    assert (await eva.ask("GET", "/collaborations?status=pending"))["entries"] == []
    refused = await eva.ask("PUT", url, json={"status": "rejected"}, expect=400)
    assert refused["code"] == "invalid_status"
    # From now on the enterprise knows her, and the item is none of her enterprise.
    external = await api.ask("GET", "/users?user_type=external&filter_term=eva@elsewhere.example")
    assert [one["id"] for one in external["entries"]] == [str(eva.user)]
    shown = await eva.ask("GET", f"/files/{tree['file']['id']}?fields=is_externally_owned,has_collaborations")
    assert (shown["is_externally_owned"], shown["has_collaborations"]) == (True, True)
    await eva.ask("DELETE", url, expect=204)
    assert (await api.ask("GET", "/users?user_type=external&filter_term=eva@elsewhere.example"))[
        "entries"
    ] == []
    await eva.ask("GET", f"/files/{tree['file']['id']}", expect=404)


async def test_who_rejects_can_be_invited_again(api, people, tree):
    eva = await people.add("eva@elsewhere.example")
    made = await sharing.share(api, tree["folder"], eva)
    await eva.ask("PUT", f"/collaborations/{made['id']}", json={"status": "rejected"})
    assert await of(api, tree["folder"]) == []
    await eva.ask("GET", f"/folders/{tree['folder']['id']}", expect=404)
    again = await sharing.share(api, tree["folder"], eva)
    assert again["id"] != made["id"]
    await api.ask("GET", f"/collaborations/{made['id']}", expect=404)


async def test_an_address_that_nobody_has_yet(api, people, tree):
    made = await sharing.share(api, tree["folder"], "New@elsewhere.example", "uploader")
    assert (made["status"], made["accessible_by"]) == ("pending", None)
    assert made["invite_email"] == "new@elsewhere.example"
    refused = await sharing.share(api, tree["folder"], "new@ELSEWHERE.example", expect=400)
    assert refused["code"] == "user_already_collaborator"
    new = await people.add("new@elsewhere.example")
    waiting = await new.ask("GET", "/collaborations?status=pending")
    assert [one["id"] for one in waiting["entries"]] == [made["id"]]
    await new.ask("PUT", f"/collaborations/{made['id']}", json={"status": "accepted"})
    assert (await new.ask("GET", f"/folders/{tree['folder']['id']}"))["name"] == "folder"


async def test_nobody_collaborates_twice(api, uwe, tree):
    await sharing.share(api, tree["folder"], uwe)
    for whom in (uwe, "uwe@example.com", api):
        refused = await sharing.share(api, tree["folder"], whom, expect=400)
        assert refused["code"] == "user_already_collaborator"
    # Further down is another item.
    await sharing.share(api, tree["deep"], uwe, "co-owner")


REFUSED = [
    ({"role": "boss"}, 400),
    ({"role": "owner"}, 400),
    ({"role": None}, 400),
    ({"item": {"type": "folder", "id": "0"}}, 400),
    ({"item": {"type": "folder", "id": "999"}}, 404),
    ({"item": {"type": "web_link", "id": "999"}}, 400),
    ({"accessible_by": {"type": "user", "id": "999"}}, 404),
    ({"accessible_by": {"type": "user", "login": "nobody"}}, 400),
    ({"accessible_by": {"type": "user"}}, 400),
    ({"accessible_by": {"type": "group", "id": "1"}}, 404),
    ({"expires_at": "2001-01-01T00:00:00Z"}, 400),
    ({"expires_at": "soon"}, 400),
    ({}, 201),
]


@pytest.mark.parametrize(("change", "status"), REFUSED)
async def test_what_is_no_collaboration(api, uwe, tree, change, status):
    body = {
        "item": {"type": "folder", "id": tree["folder"]["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": "editor",
    }
    answer = await api.ask("POST", "/collaborations?notify=false", json=body | change, expect=status)
    if change.get("item") == {"type": "folder", "id": "0"}:
        assert answer["code"] == "collaborations_not_available_on_root_folder"


async def test_what_is_not_there(api, uwe, tree):
    made = await sharing.share(api, tree["folder"], "somebody@nowhere.example")
    for wire_id in ("1", "nonsense", made["id"]):
        for method in ("GET", "PUT", "DELETE"):
            await uwe.ask(method, f"/collaborations/{wire_id}", json={}, expect=404)
    await api.ask("GET", "/folders/0/collaborations", expect=400)
    await uwe.ask("GET", f"/folders/{tree['folder']['id']}/collaborations", expect=404)


async def test_roles_change(api, uwe, tree):
    made = await sharing.share(api, tree["folder"], uwe, "viewer")
    url = f"/collaborations/{made['id']}"
    await uwe.ask("PUT", url, json={"role": "editor"}, expect=403)
    assert (await api.ask("PUT", url, json={"role": "editor"}))["role"] == "editor"
    await uwe.version(tree["file"]["id"], b"changed")
    # Nobody changes their own, whatever they may do with others'.
    await uwe.ask("PUT", url, json={"role": "viewer"}, expect=403)
    await uwe.ask("PUT", url, json={"role": "viewer", "status": "accepted"}, expect=403)
    await api.ask("PUT", url, json={"role": "viewer"})
    refused = await uwe.send(f"/files/{tree['file']['id']}/content", {}, b"y", expect=403)
    assert refused["code"] == "access_denied_insufficient_permissions"


async def test_the_invited_leave_and_are_removed(api, uwe, tree):
    for who in (uwe, api):
        made = await sharing.share(api, tree["folder"], uwe, "uploader")
        await who.ask("DELETE", f"/collaborations/{made['id']}", expect=204)
        await uwe.ask("GET", f"/folders/{tree['folder']['id']}", expect=404)
        await api.ask("GET", f"/collaborations/{made['id']}", expect=404)


async def test_a_collaboration_ends_by_itself(api, uwe, tree, service):
    made = await sharing.share(api, tree["folder"], uwe, expires_at="2099-01-01T00:00:00Z")
    assert made["expires_at"].startswith("2099-01-01")
    url = f"/collaborations/{made['id']}"
    assert (await api.ask("PUT", url, json={"expires_at": None}))["expires_at"] is None
    await api.ask("PUT", url, json={"expires_at": "2098-01-01T00:00:00Z"})
    start = await sharing.position(uwe)
    await service.write(lambda conn: conn.execute("UPDATE collaboration SET expires_at = 5"))
    for path in (f"/folders/{tree['folder']['id']}", url, f"/files/{tree['file']['id']}"):
        await uwe.ask("GET", path, expect=404)
    assert await uwe.names() == set()
    assert await of(api, tree["folder"]) == []
    [(word, source)] = await sharing.told(uwe, start)
    assert (word, source["id"], source["parent"]) == (
        "COLLAB_REMOVE_COLLABORATOR",
        tree["folder"]["id"],
        None,
    )
    assert service.read("SELECT * FROM collaboration") == []


async def test_handing_over(api, uwe, people, tree, service):
    made = await sharing.share(api, tree["folder"], uwe)
    third = await people.add("third@example.com")
    await sharing.share(api, tree["folder"], third, "viewer")
    used = {who.user: await space(who) for who in (api, uwe)}
    start = await sharing.position(third)
    await api.ask("PUT", f"/collaborations/{made['id']}", json={"role": "owner"}, expect=204)
    found = await uwe.ask("GET", f"/folders/{tree['folder']['id']}")
    assert (found["owned_by"]["id"], found["parent"]["id"]) == (str(uwe.user), "0")
    assert (await uwe.ask("GET", f"/files/{tree['file']['id']}"))["owned_by"]["id"] == str(uwe.user)
    assert {await space(api) - used[api.user], used[uwe.user] - await space(uwe)} == {-6}
    # Who owned it stays, and so do the others.
    assert {(one["accessible_by"]["id"], one["role"]) for one in await of(uwe, tree["folder"])} == {
        (str(api.user), "co-owner"),
        (str(third.user), "viewer"),
    }
    assert (await api.ask("GET", f"/folders/{tree['folder']['id']}"))["parent"]["id"] == "0"
    assert (await api.ask("GET", f"/folders/{tree['outer']['id']}"))["size"] == len(b"beside")
    assert await third.bytes(tree["file"]["id"]) == b"inside"
    assert [word for word, _ in await sharing.told(third, start)] == ["ITEM_MOVE"]
    await api.ask("GET", f"/collaborations/{made['id']}", expect=404)


async def space(api):
    return (await api.ask("GET", "/users/me?fields=space_used"))["space_used"]


async def test_what_is_not_handed_over(api, uwe, people, tree):
    eva = await people.add("eva@elsewhere.example")
    made = await sharing.share(api, tree["folder"], eva)
    url = f"/collaborations/{made['id']}"
    assert (await api.ask("PUT", url, json={"role": "owner"}, expect=400))["code"] == "invalid_status"
    await eva.ask("PUT", url, json={"status": "accepted"})
    assert (await api.ask("PUT", url, json={"role": "owner"}, expect=403))["code"] == "forbidden_by_policy"
    await uwe.folder("FOLDER")
    made = await sharing.share(api, tree["folder"], uwe)
    refused = await api.ask("PUT", f"/collaborations/{made['id']}", json={"role": "owner"}, expect=409)
    assert refused["code"] == "item_name_in_use"


async def test_what_a_hold_protects_changes_hands_for_nobody(api, uwe, tree):
    policy = await api.ask(
        "POST", "/legal_hold_policies", json={"policy_name": "p", "is_ongoing": True}, expect=201
    )
    assigned = {"policy_id": policy["id"], "assign_to": {"type": "ownership", "id": str(api.user)}}
    await api.ask("POST", "/legal_hold_policy_assignments", json=assigned, expect=201)
    made = await sharing.share(api, tree["folder"], uwe)
    refused = await api.ask("PUT", f"/collaborations/{made['id']}", json={"role": "owner"}, expect=403)
    assert refused["code"] == "forbidden_by_policy"
    refused = await uwe.ask("PUT", f"/files/{tree['file']['id']}", json={"parent": {"id": "0"}}, expect=403)
    assert refused["code"] == "forbidden_by_policy"
    assert (await api.ask("GET", f"/files/{tree['file']['id']}"))["parent"]["id"] == tree["folder"]["id"]


async def test_a_folder_says_who_invites_and_who_sees(api, uwe, people, tree):
    other = await people.add("other@example.com")
    await sharing.share(api, tree["folder"], uwe, "editor")
    mine = await sharing.share(api, tree["folder"], other, "viewer")
    url = f"/folders/{tree['folder']['id']}"
    names = (
        "can_non_owners_invite,can_non_owners_view_collaborators,is_collaboration_restricted_to_enterprise"
    )
    found = await uwe.ask("GET", f"{url}?fields={names},allowed_invitee_roles,permissions")
    assert [found[name] for name in names.split(",")] == [True, True, False]
    assert "co-owner" not in found["allowed_invitee_roles"]
    await api.ask("PUT", url, json={"can_non_owners_invite": False})
    found = await uwe.ask("GET", f"{url}?fields={names},allowed_invitee_roles,permissions")
    assert (found["can_non_owners_invite"], found["allowed_invitee_roles"]) == (False, [])
    assert not found["permissions"]["can_invite_collaborator"]
    await sharing.share(uwe, tree["deep"], "x@example.com", expect=403)
    await api.ask("PUT", url, json={"can_non_owners_view_collaborators": False})
    assert [one["id"] for one in await of(other, tree["deep"])] == [mine["id"]]
    await uwe.ask("GET", f"/collaborations/{mine['id']}", expect=404)
    assert len(await of(api, tree["deep"])) == 2
    await api.ask("PUT", url, json={"is_collaboration_restricted_to_enterprise": True})
    refused = await sharing.share(api, tree["deep"], "x@elsewhere.example", expect=403)
    assert refused["code"] == "forbidden_by_policy"
    await sharing.share(api, tree["outer"], "x@elsewhere.example")


async def test_the_list_of_domains(api, people, tree):
    eva = await people.add("eva@elsewhere.example")
    path = "/collaboration_whitelist_entries"
    entry = await api.ask("POST", path, json={"domain": "Friends.example", "direction": "both"})
    assert (entry["domain"], entry["direction"]) == ("friends.example", "both")
    assert (await api.ask("GET", path))["entries"] == [entry]
    assert await api.ask("GET", f"{path}/{entry['id']}") == entry
    await api.ask("POST", path, json={"domain": "friends.example", "direction": "inbound"}, expect=409)
    await api.ask("POST", path, json={"domain": "nothing", "direction": "both"}, expect=400)
    await eva.ask("GET", path, expect=403)
    refused = await sharing.share(api, tree["folder"], eva, expect=403)
    assert refused["code"] == "forbidden_by_policy"
    await sharing.share(api, tree["folder"], "fred@friends.example")
    # Who is exempt shares with anybody.
    exempt = "/collaboration_whitelist_exempt_targets"
    target = await api.ask("POST", exempt, json={"user": {"id": str(api.user)}})
    made = await sharing.share(api, tree["folder"], eva)
    await api.ask("DELETE", f"{exempt}/{target['id']}", expect=204)
    # It is asked again when the invitation is accepted.
    accept = {"status": "accepted"}
    await eva.ask("PUT", f"/collaborations/{made['id']}", json=accept, expect=403)
    await api.ask("DELETE", f"{path}/{entry['id']}", expect=204)
    await eva.ask("PUT", f"/collaborations/{made['id']}", json=accept)


async def test_who_stays_inside(api, uwe, people, tree):
    eva = await people.add("eva@elsewhere.example")
    await api.ask("PUT", f"/users/{uwe.user}", json={"is_external_collab_restricted": True})
    folder = await uwe.folder("mine")
    assert (await sharing.share(uwe, folder, eva, expect=403))["code"] == "forbidden_by_policy"
    theirs = await eva.folder("theirs")
    assert (await sharing.share(eva, theirs, uwe, expect=403))["code"] == "forbidden_by_policy"
    await sharing.share(api, tree["folder"], uwe)


async def test_a_deleted_user_collaborates_on_nothing(api, people, tree):
    other = await people.add("other@example.com")
    await sharing.share(api, tree["folder"], other)
    await api.ask("DELETE", f"/users/{other.user}", expect=204)
    assert await of(api, tree["folder"]) == []


async def test_share_of_deleted_user_is_gone(api, uwe, people):
    other = await people.add("other@example.com")
    folder = await other.folder("theirs")
    await sharing.share(other, folder, uwe)
    start = await sharing.position(uwe)
    await api.ask("DELETE", f"/users/{other.user}?force=true", expect=204)
    [(word, source)] = await sharing.told(uwe, start)
    assert (word, source["id"], source["parent"]) == ("COLLAB_REMOVE_COLLABORATOR", folder["id"], None)
    await uwe.ask("GET", f"/folders/{folder['id']}", expect=404)


async def test_pages(api, tree):
    for number in range(5):
        await sharing.share(api, tree["folder"], f"u{number}@elsewhere.example")
    url = f"/folders/{tree['folder']['id']}/collaborations?limit=2"
    seen, marker = [], ""
    while marker is not None:
        page = await api.ask("GET", f"{url}&marker={marker}")
        assert (page["limit"], page["total_count"]) == (2, 5)
        seen += [one["invite_email"] for one in page["entries"]]
        marker = page["next_marker"]
    assert seen == [f"u{number}@elsewhere.example" for number in range(5)]
