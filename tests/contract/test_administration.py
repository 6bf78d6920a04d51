"""What administrators manage, by the client: users, holds, retention, metadata, exemptions."""

import pytest

from cmsfs import errors
from cmsfs.models.content import metadata, search
from cmsfs.models.enterprise import legal_holds, retention, users


async def test_users(client, credentials):
    made = await client.users.create(users.NewUser(name="Dora", login="dora@example.com"))
    with pytest.raises(errors.Conflict):
        await client.users.create(users.NewUser(name="Other", login="dora@example.com"))
    assert [one.id async for one in client.users.list(term="dor")] == [made.id]
    assert credentials.user_id in [one.id async for one in client.users.list()]
    assert (await client.users.update(made.id, users.UpdateUser(phone="5"))).phone == "5"
    await client.users.delete(made.id, force=True)
    with pytest.raises(errors.NotFound):
        await client.users.get(made.id)


async def test_a_hold(client, upload):
    file = await upload("a.txt", b"hello")
    policy = await client.legal_holds.create("Case", description="why")
    assignment = await client.legal_holds.assign(policy.id, "file", file.id)
    assert [one.id async for one in client.legal_holds.files_on_hold(assignment.id)] == [file.id]
    assert [one.id async for one in client.legal_holds.assignments(policy.id)] == [assignment.id]
    await client.items.delete("file", file.id)
    with pytest.raises(errors.Forbidden) as caught:
        await client.items.purge("file", file.id)
    assert caught.value.code == "forbidden_by_policy"
    change = legal_holds.UpdateLegalHoldPolicy(release_notes="done")
    assert (await client.legal_holds.update(policy.id, change)).release_notes == "done"
    assert [one.policy_name async for one in client.legal_holds.list(name="cASE")] == ["Case"]
    await client.legal_holds.unassign(assignment.id)
    await client.legal_holds.release(policy.id)
    assert (await client.legal_holds.get(policy.id)).status in ("releasing", "released")


async def test_a_retention(client):
    found = [one async for one in client.retention.list()]
    assert [one.policy_name for one in found] == ["Yearly reports"]
    (assignment,) = [one async for one in client.retention.assignments(found[0].id)]
    assert await client.retention.get_assignment(assignment.id) == assignment
    assert [one.name async for one in client.retention.files(assignment.id)] == ["Year 2025.md"]
    wish = retention.NewRetentionPolicy(
        policy_name="Year", policy_type="finite", retention_length=5, disposition_action="remove_retention"
    )
    made = await client.retention.create(wish)
    assigned = await client.retention.assign(made.id, retention.RetentionAssignTo(type="enterprise"))
    assert (assigned.retention_policy.retention_length, assigned.assigned_to.type) == ("5", "enterprise")


async def test_metadata(client, upload):
    wish = metadata.NewTemplate(
        scope="enterprise",
        display_name="Bill",
        fields=[metadata.Field(type="string", key="customer", display_name="Customer")],
    )
    made = await client.metadata.create_template(wish)
    assert await client.metadata.template("bill") == made
    assert [one.template_key async for one in client.metadata.templates()] == ["project", "bill"]
    file = await upload("a.txt", b"hello")
    put = await client.metadata.put("file", file.id, "bill", {"customer": "Ada"})
    assert (put.values, await client.metadata.instances("file", file.id)) == ({"customer": "Ada"}, [put])
    wanted = search.MetadataFilter(scope="enterprise", template_key="bill", filters={"customer": "Ada"})
    found = await client.search.page(search.Query(mdfilters=[wanted]))
    assert [one.id for one in found.entries] == [file.id]
    await client.metadata.remove("file", file.id, "bill")
    await client.metadata.delete_template("bill")
    with pytest.raises(errors.Forbidden):
        await client.metadata.delete_template("properties", "global")


async def test_exemptions(client, credentials):
    (there,) = [one async for one in client.exemptions.list()]
    assert await client.exemptions.get(there.id) == there
    made = await client.exemptions.create(credentials.user_id)
    with pytest.raises(errors.Conflict):
        await client.exemptions.create(credentials.user_id)
    await client.exemptions.delete(made.id)
