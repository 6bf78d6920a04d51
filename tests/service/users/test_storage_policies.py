"""Storage policies and pinned devices: what there is to say of one store and of no devices."""

from cmsfs.service.users import storage_policies

PATH = "/storage_policy_assignments"


def wish(kind, number, policy="1"):
    return {
        "storage_policy": {"type": "storage_policy", "id": policy},
        "assigned_to": {"type": kind, "id": str(number)},
    }


async def of(api, kind, number):
    asked = {"resolved_for_type": kind, "resolved_for_id": str(number)}
    (found,) = (await api.ask("GET", PATH, params=asked))["entries"]
    return found["id"]


async def test_users_have_the_enterprises_policy_or_their_own(api, uwe):
    (policy,) = (await api.ask("GET", "/storage_policies"))["entries"]
    assert await api.ask("GET", f"/storage_policies/{policy['id']}") == policy
    assert await of(api, "enterprise", 1) == await of(api, "user", uwe.user) == "enterprise_1"
    made = await api.ask("POST", PATH, json=wish("user", uwe.user), expect=201)
    assert made["assigned_to"] == {"type": "user", "id": str(uwe.user)}
    assert await of(api, "user", uwe.user) == made["id"]
    one = f"{PATH}/{made['id']}"
    assert await api.ask("GET", one) == made
    change = {"storage_policy": {"type": "storage_policy", "id": "1"}}
    assert await api.ask("PUT", one, json=change) == made
    await api.ask("PUT", one, json={"storage_policy": {"type": "storage_policy", "id": "9"}}, expect=404)
    await api.ask("POST", PATH, json=wish("user", uwe.user), expect=409)
    await api.ask("POST", PATH, json=wish("enterprise", 1), expect=409)
    await api.ask("POST", PATH, json=wish("user", uwe.user, "9"), expect=404)
    await api.ask("DELETE", f"{PATH}/enterprise_1", expect=403)
    await api.ask("DELETE", one, expect=204)
    await api.ask("DELETE", one, expect=404)
    assert await of(api, "user", uwe.user) == "enterprise_1"


async def test_another_policy_is_written_down_for_a_user(api, uwe, service):
    def txn(conn):
        assert storage_policies.add(conn, 1, "On the mainland")
        assert not storage_policies.add(conn, 1, "On the mainland")

    await service.write(txn)
    own, other = (await api.ask("GET", "/storage_policies"))["entries"]
    page = await api.ask("GET", "/storage_policies?limit=1")
    assert page["entries"] == [own]
    after = await api.ask("GET", f"/storage_policies?limit=1&marker={page['next_marker']}")
    assert (after["entries"], after["next_marker"]) == ([other], None)
    assert other["name"] == "On the mainland"
    made = await api.ask("POST", PATH, json=wish("user", uwe.user, other["id"]), expect=201)
    assert made["storage_policy"]["id"] == other["id"]
    one = f"{PATH}/{made['id']}"
    assert await api.ask("GET", one) == made
    for change in (own, other):
        body = {"storage_policy": {"type": "storage_policy", "id": change["id"]}}
        assert (await api.ask("PUT", one, json=body))["storage_policy"]["id"] == change["id"]
    await api.ask("PUT", f"{PATH}/enterprise_1", json=body, expect=403)


async def test_administrators_alone_ask(api, uwe):
    for path in ("/storage_policies", f"{PATH}/enterprise_1", "/enterprises/1/device_pinners"):
        await uwe.ask("GET", path, expect=403)
    await api.ask("GET", "/storage_policies/9", expect=404)
    await api.ask("GET", PATH, expect=400)
    await api.ask("GET", f"{PATH}?resolved_for_type=user&resolved_for_id=77", expect=404)
    for wire_id in ("user_77", "enterprise_9", "nobody"):
        await api.ask("GET", f"{PATH}/{wire_id}", expect=404)


async def test_no_device_is_pinned(api):
    found = await api.ask("GET", "/enterprises/1/device_pinners?direction=DESC")
    assert (found["entries"], found["order"]) == ([], [{"by": "id", "direction": "desc"}])
    await api.ask("GET", "/enterprises/9/device_pinners", expect=404)
    await api.ask("GET", "/device_pinners/7", expect=404)
    await api.ask("DELETE", "/device_pinners/7", expect=404)
