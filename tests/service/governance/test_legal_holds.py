"""Legal holds: policies, assignments, and what they protect."""

from typing import Any

import pytest

from cmsfs.models.enterprise import legal_holds
from cmsfs.service.access import protection

POLICIES = "/legal_hold_policies"
ASSIGNMENTS = "/legal_hold_policy_assignments"
DATES = {"filter_started_at": "2020-01-01T00:00:00Z", "filter_ended_at": "2021-01-01T00:00:00+01:00"}


async def hold(api, name="a case", **more):
    return await api.ask("POST", POLICIES, json={"policy_name": name} | more, expect=201)


async def assign(api, policy, kind, wire_id, *, expect=201):
    body = {"policy_id": str(policy["id"]), "assign_to": {"type": kind, "id": str(wire_id)}}
    return await api.ask("POST", ASSIGNMENTS, json=body, expect=expect)


async def release(service):
    """Let the moment pass that releasing takes."""
    moment = service.now() - protection.RELEASE_MICROS
    for table in ("legal_hold_policy", "legal_hold_assignment"):
        sql = f"UPDATE {table} SET deleted_at = ? WHERE deleted_at IS NOT NULL"
        await service.write(lambda conn, sql=sql: conn.execute(sql, (moment,)))


async def test_a_new_policy(api):
    made = await hold(api, description="why", **DATES)
    assert isinstance(made["id"], int)
    policy = legal_holds.LegalHoldPolicy.model_validate(made)
    assert (policy.policy_name, policy.description, policy.status) == ("a case", "why", "active")
    assert made["filter_ended_at"] == "2020-12-31T23:00:00+00:00"
    wanted = {"user": 0, "folder": 0, "file": 0, "file_version": 0}
    assert wanted.items() <= made["assignment_counts"].items()
    assert (made["deleted_at"], made["created_by"]["login"]) == (None, "ann@example.com")
    assert await api.ask("GET", f"{POLICIES}/{made['id']}") == made
    asked = await api.ask("GET", f"{POLICIES}/{made['id']}?fields=status,nonsense")
    assert asked.keys() == {"type", "id", "policy_name", "status"}


@pytest.mark.parametrize(
    "wrong",
    [
        *({"policy_name": ""}, {"policy_name": "n" * 255}, {"description": "d" * 501}, {"policy_name": None}),
        *({"is_ongoing": False}, {"filter_started_at": "2020-01-01T00:00:00Z"}, DATES | {"is_ongoing": True}),
        {"filter_started_at": "2022-01-01T00:00:00Z", "filter_ended_at": "2020-01-01T00:00:00Z"},
    ],
    ids=str,
)
async def test_what_is_no_policy(api, wrong):
    await api.ask("POST", POLICIES, json={"policy_name": "n"} | wrong, expect=400)


async def test_a_change(api):
    policy, other = await hold(api), await hold(api, "another")
    path = f"{POLICIES}/{policy['id']}"
    wish = {"policy_name": "n" * 254, "description": "d" * 500, "release_notes": "r" * 500}
    changed = await api.ask("PUT", path, json=wish)
    assert {name: changed[name] for name in wish} == wish
    assert changed["modified_at"] > policy["modified_at"]
    assert (await api.ask("PUT", path, json={}))["policy_name"] == "n" * 254
    await api.ask("PUT", path, json={"policy_name": "n" * 254})
    for name, length in (("policy_name", 255), ("description", 501), ("release_notes", 501)):
        await api.ask("PUT", path, json={name: "x" * length}, expect=400)
    for name in ("another", "ANOTHER"):
        assert (await api.ask("PUT", path, json={"policy_name": name}, expect=409))["code"] == "conflict"
    await api.ask("POST", POLICIES, json={"policy_name": other["policy_name"]}, expect=409)


async def test_a_list_by_the_beginning_of_the_name(api):
    for name in ("Ärger 1", "ärger 2", "case", "an Ärger", "100%"):
        await hold(api, name)

    async def names(**params):
        found = await api.ask("GET", POLICIES, params=params)
        return [one["policy_name"] for one in found["entries"]]

    assert await names() == ["Ärger 1", "ärger 2", "case", "an Ärger", "100%"]
    assert await names(policy_name="äRG") == ["Ärger 1", "ärger 2"]
    assert await names(policy_name="%") == []
    first = await api.ask("GET", POLICIES, params={"policy_name": "ä", "limit": 1, "marker": "0"})
    assert first.keys() == {"entries", "limit", "next_marker", "prev_marker"}
    assert await names(policy_name="ä", limit=1, marker=first["next_marker"]) == ["ärger 2"]
    second = await api.ask("GET", POLICIES, params={"policy_name": "ä", "marker": first["next_marker"]})
    assert (second["next_marker"], second["limit"]) == (None, 100)


async def test_a_policy_is_released_in_two_steps(api, service):
    policy = await hold(api)
    file = await api.upload("file", b"hello")
    await assign(api, policy, "file", file["id"])
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    path = f"{POLICIES}/{policy['id']}"
    await api.ask("DELETE", path, expect=202)
    found = await api.ask("GET", path)
    assert found["status"] == "releasing" and found["deleted_at"] is not None
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)
    await release(service)
    assert (await api.ask("GET", path))["status"] == "released"
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    await hold(api)  # its name is free
    await assign(api, policy, "user", api.user, expect=409)


@pytest.mark.parametrize("kind", ["file", "folder", "file_version", "user", "ownership", "interactions"])
async def test_what_is_held_cannot_be_purged(api, service, kind):
    folder = await api.folder("folder")
    file = await api.upload("file", b"hello", folder["id"])
    free = await api.upload("free", b"hello")
    targets = {"file": file["id"], "folder": folder["id"], "file_version": file["file_version"]["id"]}
    policy = await hold(api)
    assignment = await assign(api, policy, kind, targets.get(kind, api.user))
    counts = (await api.ask("GET", f"{POLICIES}/{policy['id']}"))["assignment_counts"]
    assert {name for name, count in counts.items() if count} == {kind}
    await api.ask("DELETE", f"/folders/{folder['id']}?recursive=true", expect=204)
    problem = await api.ask("DELETE", f"/folders/{folder['id']}/trash", expect=403)
    assert problem["code"] == "forbidden_by_policy"
    await api.ask("POST", f"/folders/{folder['id']}", expect=201)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)
    await api.ask("DELETE", f"/files/{free['id']}", expect=204)
    everything = kind in ("user", "ownership", "interactions")
    await api.ask("DELETE", f"/files/{free['id']}/trash", expect=403 if everything else 204)
    await api.ask("DELETE", f"{ASSIGNMENTS}/{assignment['id']}", expect=202)
    await api.ask("DELETE", f"{ASSIGNMENTS}/{assignment['id']}", expect=409)
    await release(service)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)


async def test_moving_out_of_a_held_folder_frees_nothing(api):
    held, inner, other = await api.folder("held"), await api.folder("inner"), await api.folder("other")
    await api.ask("PUT", f"/folders/{inner['id']}", json={"parent": {"id": held["id"]}})
    file = await api.upload("file", b"hello", inner["id"])
    later = await api.folder("later")
    assignment = await assign(api, await hold(api), "folder", held["id"])
    await api.ask("PUT", f"/folders/{inner['id']}", json={"parent": {"id": other["id"]}})
    await api.ask("PUT", f"/folders/{later['id']}", json={"parent": {"id": other["id"]}})
    await api.upload("new", b"hello", inner["id"])
    found = await api.ask("GET", f"{ASSIGNMENTS}/{assignment['id']}/files_on_hold")
    assert [one["name"] for one in found["entries"]] == ["file"]
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)
    await api.ask("DELETE", f"/folders/{held['id']}", expect=204)
    await api.ask("DELETE", f"/folders/{held['id']}/trash", expect=204)


async def test_dates_bound_what_a_user_made_and_nothing_else(api):
    file = await api.upload("file", b"hello")
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    policy = await hold(api, **DATES)
    assignment = await assign(api, policy, "user", api.user)
    assert (await api.ask("GET", f"{ASSIGNMENTS}/{assignment['id']}/files_on_hold"))["entries"] == []
    await assign(api, policy, "file", file["id"])
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)


@pytest.mark.parametrize(("day", "held"), [(-1, False), (0, True), (9, True), (11, False)])
async def test_both_dates_count(api, service, day, held):
    """What a user made before the first is not held, nor what they made after the last."""
    file = await api.upload("file", b"hello")
    dates = {"filter_started_at": "2024-01-01T00:00:00Z", "filter_ended_at": "2024-01-11T00:00:00Z"}
    made = 1_704_067_200_000_000 + day * 86_400_000_000
    await service.write(lambda conn: conn.execute("UPDATE version SET created_at = ?", (made,)))
    assignment = await assign(api, await hold(api, **dates), "user", api.user)
    found = (await api.ask("GET", f"{ASSIGNMENTS}/{assignment['id']}/files_on_hold"))["entries"]
    assert bool(found) is held
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403 if held else 204)


async def test_earlier_trashed_item_holds_itself_only(api):
    folder = await api.folder("folder")
    held = await api.upload("held", b"hello", folder["id"])
    await assign(api, await hold(api), "file", held["id"])
    await api.ask("DELETE", f"/files/{held['id']}", expect=204)
    await api.ask("DELETE", f"/folders/{folder['id']}", expect=204)
    await api.ask("DELETE", f"/folders/{folder['id']}/trash", expect=204)
    await api.ask("GET", f"/files/{held['id']}/trash")
    await api.ask("DELETE", f"/files/{held['id']}/trash", expect=403)


async def test_who_owns_what_is_held_is_not_deleted(api, uwe):
    file = await uwe.upload("file", b"hello")
    await assign(api, await hold(api), "file", file["id"])
    for params, method, body in (({"force": "true"}, "DELETE", None), ({}, "PUT", {"enterprise": None})):
        problem = await api.ask(method, f"/users/{uwe.user}", params=params, json=body, expect=403)
        assert problem["code"] == "forbidden_by_policy"
    await uwe.bytes(file["id"])


async def test_a_version_is_held(api, service):
    file = await api.upload("file", b"one")
    first = file["file_version"]["id"]
    await api.version(file["id"], b"two")
    assignment = await assign(api, await hold(api), "file", file["id"])
    path = f"{ASSIGNMENTS}/{assignment['id']}"
    files = (await api.ask("GET", f"{path}/files_on_hold"))["entries"]
    assert [(one["id"], one["file_version"]["id"] != first) for one in files] == [(file["id"], True)]
    versions = (await api.ask("GET", f"{path}/file_versions_on_hold"))["entries"]
    assert [(one["id"], one["file"]["id"]) for one in versions] == [(first, file["id"])]

    problem = await api.ask("DELETE", f"/files/{file['id']}/versions/{first}", expect=403)
    assert problem["code"] == "forbidden_by_policy"
    with pytest.raises(Exception, match="forbidden_by_policy"):
        await service.write(lambda conn: protection.check_version(conn, int(first), now=service.now()))


async def test_assignments(api, uwe):
    policy, other = await hold(api), await hold(api, "other")
    file = await uwe.upload("file", b"hello")
    made = await assign(api, policy, "file", file["id"])
    assert legal_holds.HoldAssignment.model_validate(made).assigned_to == legal_holds.HoldTarget(
        type="file", id=file["id"]
    )
    assert made["legal_hold_policy"]["id"] == policy["id"]
    assert (made["assigned_by"]["id"], made["deleted_at"]) == (str(api.user), None)
    assert await api.ask("GET", f"{ASSIGNMENTS}/{made['id']}") == made
    await assign(api, policy, "file", file["id"], expect=409)
    user = await assign(api, policy, "user", uwe.user)
    await assign(api, other, "user", uwe.user)

    async def found(**params):
        params = {"policy_id": policy["id"]} | params
        return [one["id"] for one in (await api.ask("GET", ASSIGNMENTS, params=params))["entries"]]

    assert await found() == [made["id"], user["id"]]
    assert await found(assign_to_type="user") == [user["id"]]
    assert await found(assign_to_id=file["id"], limit=5) == [made["id"]]
    await api.ask("GET", ASSIGNMENTS, expect=400)
    await api.ask("DELETE", f"{ASSIGNMENTS}/{made['id']}", expect=202)
    assert await found() == [user["id"]]
    for kind in ("file", "folder", "file_version", "user"):
        await assign(api, policy, kind, 5, expect=404)
    await assign(api, policy, "web_link", 5, expect=400)
    await assign(api, {"id": 5}, "user", uwe.user, expect=404)


async def test_users_may_do_none_of_it(api, uwe):
    policy = await hold(api)
    assignment = await assign(api, policy, "user", uwe.user)
    one, other = f"{POLICIES}/{policy['id']}", f"{ASSIGNMENTS}/{assignment['id']}"
    for path in (
        POLICIES,
        one,
        ASSIGNMENTS,
        other,
        f"{other}/files_on_hold",
        f"{other}/file_versions_on_hold",
    ):
        await uwe.ask("GET", path, expect=403)
    for method, path in (("POST", POLICIES), ("PUT", one), ("POST", ASSIGNMENTS)):
        await uwe.ask(method, path, json={}, expect=403)
    for path in (one, other):
        await uwe.ask("DELETE", path, expect=403)
    assert (await api.ask("GET", one))["status"] == "active"


async def test_user_hold_covers_owned_and_uploaded(api, uwe, service):
    plain, touched = await api.upload("plain", b"x"), await api.upload("touched", b"x")
    own = await uwe.upload("own", b"x")
    sql = "UPDATE version SET created_by = ? WHERE id = ?"
    for user, file in ((uwe.user, touched), (api.user, own)):
        args = (user, int(file["file_version"]["id"]))
        await service.write(lambda conn, args=args: conn.execute(sql, args))
    covered = {"user": {touched["id"], own["id"]}, "ownership": {own["id"]}, "interactions": {touched["id"]}}
    policy = await hold(api)
    for kind, files in covered.items():
        assignment = await assign(api, policy, kind, uwe.user)
        found = await api.ask("GET", f"{ASSIGNMENTS}/{assignment['id']}/files_on_hold")
        assert {one["id"] for one in found["entries"]} == files
    await api.ask("DELETE", f"/files/{plain['id']}", expect=204)
    await api.ask("DELETE", f"/files/{plain['id']}/trash", expect=204)


async def test_ids_are_numbers_and_strings(api):
    body: dict[str, Any] = {"policy_name": "p", "is_ongoing": True}
    made = await api.ask("POST", "/legal_hold_policies", json=body, expect=201)
    path = f"/legal_hold_policies/{made['id']}"
    assert isinstance(made["id"], int)
    for name, value in (("x-box-ua", "agent=box-javascript-generated-sdk/10.0"), ("box-version", "2024.0")):
        shown = await api.ask("GET", path, headers={name: value})
        assert shown["id"] == str(made["id"])
    body = {"policy_id": str(made["id"]), "assign_to": {"type": "user", "id": str(api.user)}}
    for headers, kind in (({}, int), ({"x-box-ua": "x"}, str)):
        given = await api.ask(
            "POST", "/legal_hold_policy_assignments", json=body, headers=headers, expect=201
        )
        assert isinstance(given["legal_hold_policy"]["id"], kind)
        await api.ask("DELETE", f"/legal_hold_policy_assignments/{given['id']}", expect=202)
        body["assign_to"]["type"] = "ownership"


@pytest.mark.parametrize("name", [" ", "\t", "a\0b", 5])
async def test_names_that_nobody_can_read(api, name):
    body = {"policy_name": name, "is_ongoing": True}
    await api.ask("POST", "/legal_hold_policies", json=body, expect=400)
    made = await api.ask("POST", "/legal_hold_policies", json=body | {"policy_name": "p"}, expect=201)
    await api.ask("PUT", f"/legal_hold_policies/{made['id']}", json={"policy_name": name}, expect=400)
