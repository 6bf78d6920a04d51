"""Versions on hold and retained, a version an entry."""


async def hold(api, policy_id, kind, wire_id):
    body = {"policy_id": policy_id, "assign_to": {"type": kind, "id": wire_id}}
    return await api.ask("POST", "/legal_hold_policy_assignments", json=body, expect=201)


async def held(api, policy_id, **params):
    return await api.ask("GET", "/file_version_legal_holds", params={"policy_id": policy_id, **params})


async def test_each_version_on_hold_is_listed(api, uwe):
    folder = await uwe.folder("d")
    first = await uwe.upload("f", b"1", folder["id"])
    second = await uwe.version(first["id"], b"2")
    await uwe.upload("free", b"3")
    made = await api.ask("POST", "/legal_hold_policies", json={"policy_name": "Case"}, expect=201)
    policy = str(made["id"])
    one = await hold(api, policy, "folder", folder["id"])
    other = await hold(api, policy, "file_version", second["file_version"]["id"])
    found = (await held(api, policy))["entries"]
    assert [entry["file_version"]["id"] for entry in found] == [
        first["file_version"]["id"],
        second["file_version"]["id"],
    ]
    assert {entry["file"]["id"] for entry in found} == {first["id"]}
    ids = [[each["id"] for each in entry["legal_hold_policy_assignments"]] for entry in found]
    assert ids == [[one["id"]], [one["id"], other["id"]]]
    assert await api.ask("GET", f"/file_version_legal_holds/{found[1]['id']}") == found[1]
    page = await held(api, policy, limit=1)
    assert [page["entries"], page["next_marker"] is None] == [found[:1], False]
    assert (await held(api, policy, limit=1, marker=page["next_marker"]))["entries"] == found[1:]


async def test_who_may_ask_what(api, uwe):
    file = await uwe.upload("f", b"1")
    version = file["file_version"]["id"]
    for path in ("/file_version_legal_holds", "/file_version_retentions"):
        await api.ask("GET", f"{path}/{version}", expect=404)
        await api.ask("GET", f"{path}/nothing", expect=404)
        await uwe.ask("GET", f"{path}/{version}", expect=403)
        await uwe.ask("GET", path, expect=403)
    await api.ask("GET", "/file_version_legal_holds", expect=400)
    assert (await held(api, "77"))["entries"] == []
    await api.ask("GET", "/file_version_retentions?disposition_before=soon", expect=400)
    await api.ask("GET", "/file_version_retentions?disposition_action=burn", expect=400)


async def test_each_retained_version_names_the_policy_that_keeps_it_longest(api, uwe):
    folder = await uwe.folder("d")
    file = await uwe.upload("f", b"1", folder["id"])
    await uwe.upload("free", b"3")
    for name, length in (("short", 10), ("long", 100)):
        wish = {"policy_name": name, "policy_type": "finite", "retention_length": length}
        wish["disposition_action"] = "remove_retention" if name == "long" else "permanently_delete"
        made = await api.ask("POST", "/retention_policies", json=wish, expect=201)
        body = {"policy_id": made["id"], "assign_to": {"type": "folder", "id": folder["id"]}}
        await api.ask("POST", "/retention_policy_assignments", json=body, expect=201)
    (found,) = (await api.ask("GET", "/file_version_retentions"))["entries"]
    assert (found["file"]["id"], found["file_version"]) == (
        file["id"],
        {name: file["file_version"][name] for name in ("type", "id", "sha1")},
    )
    winning = found["winning_retention_policy"]
    assert (winning["id"], winning["policy_name"], winning["retention_length"]) == (made["id"], "long", "100")
    at = await uwe.ask("GET", f"/files/{file['id']}?fields=disposition_at")
    assert found["disposition_at"] == at["disposition_at"]
    assert await api.ask("GET", f"/file_version_retentions/{found['id']}") == found
    for params, count in (
        ({"file_id": file["id"]}, 1),
        ({"file_id": "77"}, 0),
        ({"file_version_id": found["id"]}, 1),
        ({"policy_id": made["id"]}, 1),
        ({"policy_id": str(int(made["id"]) - 1)}, 0),
        ({"disposition_action": "remove_retention"}, 1),
        ({"disposition_action": "permanently_delete"}, 0),
        ({"disposition_before": "2020-01-01T00:00:00Z"}, 0),
        ({"disposition_after": "2020-01-01T00:00:00Z"}, 1),
    ):
        listed = await api.ask("GET", "/file_version_retentions", params=params)
        assert len(listed["entries"]) == count, params


async def test_without_an_end_there_is_no_disposition(api, uwe):
    await uwe.upload("f", b"1")
    wish = {"policy_name": "ever", "policy_type": "indefinite", "disposition_action": "remove_retention"}
    made = await api.ask("POST", "/retention_policies", json=wish, expect=201)
    body = {"policy_id": made["id"], "assign_to": {"type": "enterprise"}}
    await api.ask("POST", "/retention_policy_assignments", json=body, expect=201)
    (found,) = (await api.ask("GET", "/file_version_retentions"))["entries"]
    assert found["disposition_at"] is None
    assert found["winning_retention_policy"]["retention_length"] == "indefinite"
