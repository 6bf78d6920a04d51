"""Cascade policies: what is below a folder, and comes there in whatever way, gets the folder's metadata."""

import pytest

from tests.support import sharing

BOTH = "/metadata_cascade_policies"


@pytest.fixture
async def described(api):
    """A folder with a value, a file and a folder with a file in it, and a policy for it."""
    fields = [{"type": "string", "key": "customer", "displayName": "Customer"}]
    body = {"scope": "enterprise", "templateKey": "job", "displayName": "Job", "fields": fields}
    copies = {"copyInstanceOnItemCopy": True}
    await api.ask("POST", "/metadata_templates/schema", json=body | copies, expect=201)
    folder = await api.folder("described")
    inner = await api.folder("inner", folder["id"])
    found = {
        "folder": folder,
        "inner": inner,
        "file": await api.upload("file.txt", b"x", folder["id"]),
        "deep": await api.upload("deep.txt", b"y", inner["id"]),
        "beside": await api.upload("beside.txt", b"z"),
    }
    await describe(api, folder, "Ada")
    return found


def at(item):
    return f"/{item['type']}s/{item['id']}/metadata/enterprise/job"


async def describe(api, item, customer):
    await api.ask("POST", at(item), json={"customer": customer}, expect=201)


async def change(api, item, customer):
    patch = [{"op": "replace", "path": "/customer", "value": customer}]
    await api.ask("PUT", at(item), json=patch, headers={"content-type": "application/json-patch+json"})


async def customer(api, item):
    answer = await api.http.get(at(item))
    return answer.json().get("customer")


async def policy(api, folder, expect=201):
    body = {"folder_id": folder["id"], "scope": "enterprise", "templateKey": "job"}
    return await api.ask("POST", BOTH, json=body, expect=expect)


async def test_a_policy_is_made_found_and_ended(api, described):
    made = await policy(api, described["folder"])
    assert made == {
        "type": "metadata_cascade_policy",
        "id": made["id"],
        "owner_enterprise": {"type": "enterprise", "id": "1"},
        "parent": {"type": "folder", "id": described["folder"]["id"]},
        "scope": "enterprise_1",
        "templateKey": "job",
    }
    assert await api.ask("GET", f"{BOTH}/{made['id']}") == made
    listed = await api.ask("GET", f"{BOTH}?folder_id={described['folder']['id']}")
    assert (listed["entries"], listed["next_marker"]) == ([made], None)
    assert (await policy(api, described["folder"], expect=409))["code"] == "conflict"
    await api.ask("DELETE", f"{BOTH}/{made['id']}", expect=204)
    await api.ask("GET", f"{BOTH}/{made['id']}", expect=404)
    # The metadata stays; what comes now gets none.
    assert await customer(api, described["deep"]) == "Ada"
    assert await customer(api, await api.upload("new.txt", b"n", described["folder"]["id"])) is None


async def test_everything_below_gets_it_and_nothing_else(api, described):
    await describe(api, described["deep"], "Own")
    await policy(api, described["folder"])
    assert await customer(api, described["file"]) == await customer(api, described["inner"]) == "Ada"
    assert await customer(api, described["deep"]) == "Own"
    assert await customer(api, described["beside"]) is None
    assert len(await api.names(mdfilters='[{"scope":"enterprise","templateKey":"job","filters":{}}]')) == 4


async def test_whatever_comes_below_gets_it(api, described):
    await policy(api, described["folder"])
    into = {"parent": {"id": described["inner"]["id"]}}
    assert await customer(api, await api.upload("new.txt", b"n", described["inner"]["id"])) == "Ada"
    made = await api.folder("new", described["inner"]["id"])
    assert await customer(api, made) == "Ada"
    outside = await api.folder("outside")
    inside = await api.upload("inside.txt", b"i", outside["id"])
    copied = await api.ask("POST", f"/folders/{outside['id']}/copy", json=into | {"name": "c"}, expect=201)
    (below,) = (await api.ask("GET", f"/folders/{copied['id']}/items"))["entries"]
    assert await customer(api, copied) == await customer(api, below) == "Ada"
    await api.ask("PUT", f"/folders/{outside['id']}", json=into)
    assert await customer(api, outside) == await customer(api, inside) == "Ada"
    # A copy of what has values of its own has those.
    await describe(api, described["beside"], "Own")
    path = f"/files/{described['beside']['id']}/copy"
    assert await customer(api, await api.ask("POST", path, json=into, expect=201)) == "Own"
    await api.ask("PUT", f"/files/{described['beside']['id']}", json=into | {"name": "moved.txt"})
    assert await customer(api, described["beside"]) == "Own"


async def test_the_nearest_folder_counts(api, described):
    await describe(api, described["inner"], "Nearer")
    for folder in (described["inner"], described["folder"]):
        await policy(api, folder)
    assert await customer(api, await api.upload("new.txt", b"n", described["inner"]["id"])) == "Nearer"
    assert await customer(api, await api.upload("new.txt", b"o", described["folder"]["id"])) == "Ada"


async def test_a_change_of_the_folder_changes_what_has_its_values(api, described):
    await describe(api, described["deep"], "Own")
    await policy(api, described["folder"])
    await change(api, described["folder"], "Ben")
    assert await customer(api, described["file"]) == await customer(api, described["inner"]) == "Ben"
    assert await customer(api, described["deep"]) == "Own"


@pytest.mark.parametrize(("resolution", "wanted"), [("none", "Own"), ("overwrite", "Ada")])
async def test_applied_by_force(api, described, resolution, wanted):
    await describe(api, described["deep"], "Own")
    made = await policy(api, described["folder"])
    await api.ask("DELETE", at(described["file"]), expect=204)
    body = {"conflict_resolution": resolution}
    await api.ask("POST", f"{BOTH}/{made['id']}/apply", json=body, expect=202)
    assert await customer(api, described["deep"]) == wanted
    assert await customer(api, described["file"]) == "Ada"
    await api.ask("POST", f"{BOTH}/{made['id']}/apply", json={"conflict_resolution": "x"}, expect=400)


async def test_who_may_describe_the_folder_may(api, uwe, described):
    folder = described["folder"]
    await policy(uwe, folder, expect=404)
    made = await policy(api, folder)
    await uwe.ask("GET", f"{BOTH}/{made['id']}", expect=404)
    await sharing.share(api, folder, uwe, "viewer")
    await uwe.ask("GET", f"{BOTH}/{made['id']}")
    await policy(uwe, folder, expect=403)
    await uwe.ask("POST", f"{BOTH}/{made['id']}/apply", json={"conflict_resolution": "none"}, expect=403)
    await uwe.ask("DELETE", f"{BOTH}/{made['id']}", expect=403)


async def test_a_policy_may_come_before_the_metadata(api, described):
    bare = await api.folder("bare")
    below = await api.upload("below.txt", b"x", bare["id"])
    made = await policy(api, bare)
    wish = {"conflict_resolution": "overwrite"}
    refused = await api.ask("POST", f"{BOTH}/{made['id']}/apply", json=wish, expect=404)
    assert refused["code"] == "instance_not_found"
    await describe(api, bare, "Eve")
    assert await customer(api, below) == "Eve"
    await api.ask("POST", f"{BOTH}/{made['id']}/apply", json=wish, expect=202)
    await api.ask("GET", BOTH, expect=404)
