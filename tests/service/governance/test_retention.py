"""Retention: policies, assignments, what they protect, and until when."""

from datetime import datetime, timedelta

import pytest

from cmsfs.models.enterprise import retention

POLICIES = "/retention_policies"
ASSIGNMENTS = "/retention_policy_assignments"
FINITE = {
    "policy_name": "a year",
    "policy_type": "finite",
    "retention_length": "365",
    "disposition_action": "permanently_delete",
}
INDEFINITE = {"policy_name": "always", "policy_type": "indefinite", "disposition_action": "remove_retention"}


async def policy(api, **more):
    return await api.ask("POST", POLICIES, json=FINITE | more, expect=201)


async def assign(api, made, to, *, expect=201, **more):
    body = {"policy_id": made["id"], "assign_to": to} | more
    return await api.ask("POST", ASSIGNMENTS, json=body, expect=expect)


async def end(api, file):
    return (await api.ask("GET", f"/files/{file['id']}?fields=disposition_at"))["disposition_at"]


async def age(service, days):
    """Everything was uploaded some days earlier."""
    micros = timedelta(days=days) // timedelta(microseconds=1)
    await service.write(
        lambda conn: conn.execute("UPDATE version SET created_at = created_at - ?", (micros,))
    )


async def test_a_retention_is_extended_and_never_shortened(api, uwe, service):
    folder = await api.folder("d")
    shared = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(uwe.user)},
        "role": "editor",
    }
    await api.ask("POST", "/collaborations", json=shared, expect=201)
    file = await uwe.upload("f", b"1", folder["id"])
    path, day = f"/files/{file['id']}", timedelta(days=1)
    await api.ask("PUT", path, json={"disposition_at": "2090-01-01T00:00:00Z"}, expect=400)  # not retained
    await assign(api, await policy(api), {"type": "folder", "id": folder["id"]})
    until = datetime.fromisoformat(await end(api, file)) + day
    # Whoever may edit the file may not, nor may anybody take a day of it.
    await uwe.ask("PUT", path, json={"disposition_at": until.isoformat()}, expect=403)
    await api.ask("PUT", path, json={"disposition_at": (until - 2 * day).isoformat()}, expect=400)
    await api.ask("PUT", path, json={"disposition_at": until.isoformat()})
    assert datetime.fromisoformat(await end(api, file)) == until
    await api.ask("PUT", path, json={"disposition_at": (until - day).isoformat()}, expect=400)
    # On the day on which it would have ended it is protected.
    await age(service, 365)
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", f"{path}/trash", expect=403)
    # A new version has the term of the policy alone.
    await api.ask("POST", path, expect=201)
    await uwe.version(file["id"], b"2")
    assert datetime.fromisoformat(await end(api, file)) != until


async def test_a_new_policy(api):
    made = await policy(api, description="d", are_owners_notified=True)
    shown = retention.RetentionPolicy.model_validate(made)
    assert (shown.policy_name, shown.retention_length, shown.policy_type) == ("a year", "365", "finite")
    assert (shown.status, shown.retention_type, shown.are_owners_notified) == ("active", "modifiable", True)
    assert made["assignment_counts"] == {"enterprise": 0, "folder": 0, "metadata_template": 0}
    assert await api.ask("GET", f"{POLICIES}/{made['id']}") == made
    assert (await api.ask("POST", POLICIES, json=FINITE, expect=409))["code"] == "conflict"
    other = await api.ask("POST", POLICIES, json=INDEFINITE, expect=201)
    assert other["retention_length"] == "indefinite"


@pytest.mark.parametrize(
    "wrong",
    [
        *(
            {"policy_name": ""},
            {"policy_type": "endless"},
            {"retention_length": None},
            {"retention_length": 0},
        ),
        *({"retention_length": "x"}, {"retention_length": "indefinite"}, {"disposition_action": "burn"}),
        *({"retention_length": 1.5}, {"retention_length": 36501}, {"retention_length": True}),
        *(INDEFINITE | {"retention_length": 5}, INDEFINITE | {"disposition_action": "permanently_delete"}),
    ],
    ids=str,
)
async def test_what_is_no_policy(api, wrong):
    await api.ask("POST", POLICIES, json=FINITE | wrong, expect=400)


async def test_a_list(api):
    for name in ("Tax", "tax 2", "Tax 3"):
        await policy(api, policy_name=name)
    await api.ask("POST", POLICIES, json=INDEFINITE, expect=201)

    async def names(**params):
        return [one["policy_name"] for one in (await api.ask("GET", POLICIES, params=params))["entries"]]

    assert await names(policy_name="Tax") == ["Tax", "Tax 3"]
    assert await names(policy_type="indefinite") == ["always"]
    assert await names(created_by_user_id=api.user, limit=2) == ["Tax", "tax 2"]
    assert await names(policy_name="Tax", policy_type="finite", created_by_user_id=5) == []
    await api.ask("GET", POLICIES, params={"policy_type": "x"}, expect=400)


async def test_an_assignment_is_answered_as_specified(api):
    folder, made = await api.folder("folder"), await policy(api)
    assignment = await assign(api, made, {"type": "folder", "id": folder["id"]})
    assert isinstance(assignment["id"], int)
    assert assignment["type"] == "retention_policy_assignment"
    assert assignment["retention_policy"] == {
        "id": made["id"],
        "type": "retention_policy",
        "policy_name": "a year",
        "retention_length": 365,
        "disposition_action": "permanently_delete",
    }
    assert assignment["assigned_to"] == {"id": folder["id"], "type": "folder"}
    assert assignment["assigned_by"]["login"] == "ann@example.com"
    assert datetime.fromisoformat(assignment["assigned_at"]).tzinfo is not None
    path = f"{ASSIGNMENTS}/{assignment['id']}"
    assert await api.ask("GET", path) == assignment
    retention.RetentionAssignment.model_validate(assignment)
    asked = await api.ask("GET", path, params={"fields": "assigned_by"})
    assert asked.keys() == {"type", "id", "retention_policy", "assigned_to", "assigned_by"}
    await assign(api, made, {"type": "folder", "id": folder["id"]}, expect=409)
    counts = (await api.ask("GET", f"{POLICIES}/{made['id']}"))["assignment_counts"]
    assert counts["folder"] == 1
    whole = await assign(api, made, {"type": "enterprise", "id": None})
    listed = f"{POLICIES}/{made['id']}/assignments"
    found = await api.ask("GET", listed)
    assert [one["id"] for one in found["entries"]] == [assignment["id"], whole["id"]]
    found = await api.ask("GET", listed, params={"type": "enterprise"})
    assert [one["id"] for one in found["entries"]] == [whole["id"]]
    await api.ask("DELETE", path, expect=204)
    await api.ask("GET", path, expect=404)


@pytest.mark.parametrize(
    ("to", "more", "expect"),
    [
        ({"type": "folder", "id": "5"}, {}, 404),
        ({"type": "folder"}, {}, 404),
        ({"type": "file", "id": "5"}, {}, 400),
        ({"type": "enterprise", "id": "99"}, {}, 404),
        ({"type": "metadata_template", "id": "x"}, {}, 404),
        ({"type": "enterprise"}, {"filter_fields": [{"field": "a", "value": "b"}]}, 400),
        ({"type": "enterprise"}, {"start_date_field": "x"}, 400),
    ],
)
async def test_what_nothing_can_be_assigned_to(api, to, more, expect):
    await assign(api, await policy(api), to, expect=expect, **more)


@pytest.mark.parametrize("kind", ["folder", "enterprise"])
async def test_retained_item_cannot_be_purged(api, service, kind):
    folder = await api.folder("folder")
    file = await api.upload("file", b"hello", folder["id"])
    assert await end(api, file) is None
    to = {"type": kind} | ({"id": folder["id"]} if kind == "folder" else {})
    assignment = await assign(api, await policy(api), to)
    made = datetime.fromisoformat(file["created_at"])
    late = datetime.fromisoformat(await end(api, file)) - made - timedelta(days=365)
    assert abs(late) < timedelta(minutes=1)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    problem = await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)
    assert problem["code"] == "forbidden_by_policy"
    path = f"{ASSIGNMENTS}/{assignment['id']}/files_under_retention"
    assert [one["id"] for one in (await api.ask("GET", path))["entries"]] == [file["id"]]
    await age(service, 366)
    assert (await api.ask("GET", path))["entries"] == []
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)


async def test_the_longest_retention_counts(api, service):
    file = await api.upload("file", b"hello")
    for name, days in (("short", 5), ("long", 10), ("middle", 7)):
        await assign(api, await policy(api, policy_name=name, retention_length=days), {"type": "enterprise"})
    until = datetime.fromisoformat(await end(api, file)) - datetime.fromisoformat(file["created_at"])
    assert round(until / timedelta(days=1)) == 10
    endless = await api.ask("POST", POLICIES, json=INDEFINITE, expect=201)
    await assign(api, endless, {"type": "folder", "id": "0"})
    assert await end(api, file) is None
    await age(service, 10_000)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)


async def test_earlier_versions_are_retained(api):
    file = await api.upload("file", b"one")
    await api.version(file["id"], b"two")
    assignment = await assign(api, await policy(api), {"type": "enterprise"})
    path = f"{ASSIGNMENTS}/{assignment['id']}/file_versions_under_retention"
    found = (await api.ask("GET", path))["entries"]
    assert [(one["type"], one["id"], one["file_version"]["id"]) for one in found] == [
        ("file", file["id"], file["file_version"]["id"])
    ]


async def test_moving_out_of_a_retained_folder_frees_nothing(api):
    folder, other = await api.folder("folder"), await api.folder("other")
    file = await api.upload("file", b"hello", folder["id"])
    await assign(api, await policy(api), {"type": "folder", "id": folder["id"]})
    await api.ask("PUT", f"/files/{file['id']}", json={"parent": {"id": other["id"]}})
    assert await end(api, file) is not None
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=403)


@pytest.fixture
async def template(api):
    kinds = [{"key": "bill"}, {"key": "offer"}]
    fields = [
        {"type": "enum", "key": "kind", "displayName": "Kind", "options": kinds},
        {"type": "date", "key": "paid", "displayName": "Paid"},
    ]
    body = {"scope": "enterprise", "templateKey": "paper", "displayName": "Paper", "fields": fields}
    return await api.ask("POST", "/metadata_templates/schema", json=body, expect=201)


async def test_retention_by_metadata(api, template):
    kind, paid = template["fields"]
    to = {"type": "metadata_template", "id": template["id"]}
    chosen = [{"field": kind["id"], "value": kind["options"][0]["id"]}]
    assignment = await assign(api, await policy(api), to, filter_fields=chosen, start_date_field=paid["id"])
    assert (assignment["assigned_to"], assignment["filter_fields"]) == (to, chosen)
    assert assignment["start_date_field"] == paid["id"]
    files = {name: await api.upload(name, b"x") for name in ("bill", "offer", "plain")}
    for name in ("bill", "offer"):
        values = {"kind": name, "paid": "2030-01-01T00:00:00Z"}
        path = f"/files/{files[name]['id']}/metadata/enterprise/paper"
        await api.ask("POST", path, json=values, expect=201)
    assert await end(api, files["bill"]) == "2031-01-01T00:00:00+00:00"
    assert [await end(api, files[name]) for name in ("offer", "plain")] == [None, None]
    # Taking the metadata away, or changing it, frees nothing.
    path = f"/files/{files['bill']['id']}/metadata/enterprise/paper"
    await api.ask("PUT", path, json=[{"op": "replace", "path": "/kind", "value": "offer"}])
    assert await end(api, files["bill"]) == "2031-01-01T00:00:00+00:00"
    await api.ask("DELETE", path, expect=204)
    await api.ask("DELETE", f"/files/{files['bill']['id']}", expect=204)
    await api.ask("DELETE", f"/files/{files['bill']['id']}/trash", expect=403)
    problem = await api.ask("DELETE", "/metadata_templates/enterprise/paper/schema", expect=403)
    assert problem["code"] == "forbidden_by_policy"


@pytest.mark.parametrize(
    "more",
    [
        {"filter_fields": [{"field": "x", "value": "y"}]},
        {"filter_fields": [{"field": "kind", "value": "bill"}]},
        {"start_date_field": "x"},
    ],
)
async def test_filters_name_what_the_template_has(api, template, more):
    to = {"type": "metadata_template", "id": template["id"]}
    await assign(api, await policy(api), to, expect=400, **more)


async def test_a_policy_that_is_not_modifiable_only_grows(api):
    made = await policy(api, retention_type="non_modifiable")
    assignment = await assign(api, made, {"type": "enterprise"})
    path = f"{POLICIES}/{made['id']}"
    assert (await api.ask("PUT", path, json={"retention_length": 400}))["retention_length"] == "400"
    await api.ask("PUT", path, json={"retention_length": 30}, expect=403)
    await api.ask("PUT", path, json={"retention_type": "modifiable"}, expect=400)
    await api.ask("DELETE", f"{ASSIGNMENTS}/{assignment['id']}", expect=403)
    await api.ask("DELETE", path, expect=403)


async def test_a_change(api):
    made = await policy(api)
    await policy(api, policy_name="taken")
    path = f"{POLICIES}/{made['id']}"
    wish = {"policy_name": "new", "disposition_action": "remove_retention", "retention_length": 30}
    changed = await api.ask("PUT", path, json=wish | {"retention_type": "non-modifiable"})
    assert (changed["policy_name"], changed["retention_length"]) == ("new", "30")
    assert changed["retention_type"] == "non_modifiable"
    await api.ask("PUT", path, json={"policy_name": "taken"}, expect=409)
    await api.ask("PUT", path, json={"retention_length": "indefinite"}, expect=400)
    await api.ask("PUT", path, json={"status": "active"}, expect=400)


async def test_retired_policy_covers_nothing_new(api):
    old = await api.upload("old", b"x")
    made = await policy(api)
    await assign(api, made, {"type": "enterprise"})
    path = f"{POLICIES}/{made['id']}"
    assert (await api.ask("PUT", path, json={"status": "retired"}))["status"] == "retired"
    new = await api.upload("new", b"x")
    assert await end(api, old) is not None
    assert await end(api, new) is None
    await api.ask("PUT", path, json={"retention_length": 500}, expect=403)
    await assign(api, made, {"type": "folder", "id": "0"}, expect=409)


async def test_users_may_do_none_of_it(api, uwe):
    made = await policy(api)
    assignment = await assign(api, made, {"type": "enterprise"})
    one, other = f"{POLICIES}/{made['id']}", f"{ASSIGNMENTS}/{assignment['id']}"
    under = (f"{other}/files_under_retention", f"{other}/file_versions_under_retention")
    for path in (POLICIES, one, f"{one}/assignments", other, *under):
        await uwe.ask("GET", path, expect=403)
    for method, path in (("POST", POLICIES), ("PUT", one), ("POST", ASSIGNMENTS)):
        await uwe.ask(method, path, json={}, expect=403)
    for path in (one, other):
        await uwe.ask("DELETE", path, expect=403)
    await api.ask("GET", other)
    for wire_id in ("5", "x"):
        await api.ask("GET", f"{ASSIGNMENTS}/{wire_id}", expect=404)
        await api.ask("GET", f"{POLICIES}/{wire_id}", expect=404)
