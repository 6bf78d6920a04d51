"""The administrators' pages for groups, and for the keys that webhooks are signed with."""

import re


async def test_a_group_and_its_members(admin, api, uwe):
    await admin.open("/admin/groups")
    assert "Group Builders created." in await admin.post(
        "/admin/groups", name="Builders", description="All of them"
    )
    (group,) = (await api.ask("GET", "/groups"))["entries"]
    path = f"/admin/groups/{group['id']}"
    assert "no user with the login" in await admin.post(path, action="add", login="nobody@example.com")
    assert "is in the group now" in await admin.post(path, action="add", login="UWE@example.com")
    folder = {"type": "folder", "id": (await api.folder("Bridge"))["id"]}
    body = {"item": folder, "accessible_by": {"type": "group", "id": group["id"]}, "role": "viewer"}
    await api.ask("POST", "/collaborations", json=body, expect=201)
    shown = await admin.open(path)
    assert {"Bridge", "uwe@example.com"} <= set(re.findall(r"[\w@.]+", shown))
    (member,) = re.findall(r'value="(remove \d+)"', shown)
    assert "no longer in the group" in await admin.post(path, action=member)
    assert (await uwe.ask("GET", "/folders/0/items"))["entries"] == []
    assert "is deleted" in await admin.post(path, action="delete")
    assert "not found" in await admin.open(path)


async def test_signature_keys_are_renewed_one_at_a_time(admin):
    await admin.open("/admin/apps")
    await admin.post("/admin/apps/tests/signature", key="main")
    first = admin.secrets()
    assert first["Primary signature key"] != first["Secondary signature key"]
    await admin.open("/admin/apps")
    assert first["Primary signature key"] not in admin.page.text
    await admin.post("/admin/apps/tests/signature", key="secondary")
    second = admin.secrets()
    assert second.keys() == {"Client ID", "Secondary signature key"}
    (row,) = admin.rows("SELECT * FROM signature_key")
    assert (row["main"], row["secondary"]) == (
        first["Primary signature key"],
        second["Secondary signature key"],
    )
    await admin.open("/admin/apps")
    assert "no such application" in await admin.post("/admin/apps/nothing/signature", key="main")
