"""What administrators change on the pages: users, holds, retention, templates, applications, the trash."""

import re

from cmsfs.service.admin import event_log, protections


async def test_a_user_is_changed_and_deleted_on_the_page(admin, uwe):
    file = await uwe.upload("kept.txt", b"1")
    here = "/admin/users/2002"
    assert "uwe@example.com" in await admin.open(here)
    said = await admin.post(here, action="save", name="Uwe U", role="coadmin", status="inactive", space="0.5")
    assert "Uwe U is changed" in said
    (row,) = admin.rows("SELECT * FROM account WHERE id = 2002")
    assert (row["role"], row["status"], row["space_amount"]) == ("coadmin", "inactive", 1 << 29)
    assert "number of GiB" in await admin.post(here, action="save", name="Uwe U", space="much")
    assert "type the exact login" in await admin.post(here, action="delete", confirm="ann@example.com")
    assert "owns content" in await admin.post(here, action="delete", confirm="uwe@example.com")
    assert "is deleted" in await admin.post(
        here, action="delete", confirm="uwe@example.com", everything="yes"
    )
    assert "uwe@example.com" not in await admin.open("/admin/users")
    assert admin.rows("SELECT 1 FROM item WHERE id = ?", file["id"]) == []


async def test_holds_and_retention_are_assigned_and_ended_on_their_pages(admin, api):
    folder = await api.folder("matter")
    await admin.open("/admin/holds")
    await admin.post("/admin/holds", name="Matter")
    (hold,) = admin.rows("SELECT id FROM legal_hold_policy")
    here = f"/admin/holds/{hold['id']}"
    assert "Matter" in await admin.open(here)
    assert "is assigned" in await admin.post(here, action="assign", target="folder", target_id=folder["id"])
    number = re.search('value="unassign ([0-9]+)"', admin.page.text)[1]
    assert "being released" in await admin.post(here, action=f"unassign {number}")
    assert f"unassign {number}" not in await admin.open(here)
    assert "being released" in await admin.post(here, action="release")
    assert admin.rows("SELECT deleted_at FROM legal_hold_policy")[0][0] is not None

    await admin.open("/admin/retention")
    form = {"policy_name": "Ten days", "days": "10", "disposition_action": "remove_retention"}
    assert "Policy Ten days created." in await admin.post("/admin/retention", modifiable="yes", **form)
    here = admin.page.url.path.replace(admin.at, "/admin")
    assert "is assigned" in await admin.post(here, action="assign", target="folder", target_id=folder["id"])
    assert "is changed" in await admin.post(here, action="save", **(form | {"days": "12"}))
    assert admin.rows("SELECT days FROM retention_policy")[0][0] == 12
    number = re.search('value="unassign ([0-9]+)"', admin.page.text)[1]
    assert "has ended" in await admin.post(here, action=f"unassign {number}")
    assert "is retired" in await admin.post(here, action="retire")
    assert "is deleted" in await admin.post(here, action="delete")
    assert admin.rows("SELECT 1 FROM retention_policy") == []


async def test_templates_applications_and_the_trash_are_changed_on_their_pages(admin, api, uwe):
    await admin.open("/admin/templates")
    await admin.post("/admin/templates", **{"name": "Order", "field.1": "Number", "type.1": "string"})
    assert "is changed" in await admin.post(
        "/admin/templates/order", action="save", name="Orders", hidden="1"
    )
    made = await api.ask("GET", "/metadata_templates/enterprise/order/schema")
    assert (made["displayName"], made["hidden"]) == ("Orders", True)
    assert "type its exact key" in await admin.post(
        "/admin/templates/order", action="remove", confirm="orders"
    )
    assert "is removed" in await admin.post("/admin/templates/order", action="remove", confirm="order")
    await api.ask("GET", "/metadata_templates/enterprise/order/schema", expect=404)

    file = await uwe.upload("theirs.txt", b"1")
    await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)
    await admin.open("/admin/trash")
    assert "theirs.txt is back" in await admin.post(f"/admin/trash/file-{file['id']}", action="restore")
    assert "is not in the trash" in await admin.post(f"/admin/trash/file-{file['id']}", action="purge")
    await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert "gone for good" in await admin.post(f"/admin/trash/file-{file['id']}", action="purge")

    await admin.open("/admin/apps")
    scope = {"grant.client_credentials": "yes", "scope.root_readonly": "yes"}
    assert "is changed" in await admin.post("/admin/apps/tests", action="save", **scope)
    body = {"name": "x", "parent": {"id": "0"}}
    # The token that was given out before is good for no more than that.
    await uwe.ask("POST", "/folders", json=body, expect=403)
    name = admin.rows("SELECT name FROM app WHERE client_id = 'tests'")[0][0]
    assert "type its exact name" in await admin.post("/admin/apps/tests", action="remove", confirm="no")
    assert "is removed" in await admin.post("/admin/apps/tests", action="remove", confirm=name)
    await uwe.ask("GET", "/users/me", expect=401)


async def test_fields_of_a_template_are_changed_on_its_page(admin, api):
    await admin.open("/admin/templates")
    form = {
        "name": "Order",
        "field.1": "Number",
        "field.2": "State",
        "type.2": "enum",
        "options.2": "open, done",
    }
    await admin.post("/admin/templates", **form)
    file = await api.upload("a.txt", b"1")
    here = f"/files/{file['id']}/metadata/enterprise/order"
    await api.ask("POST", here, json={"number": "7", "state": "done"}, expect=201)
    page = "/admin/templates/order/fields"
    assert "Nothing is changed" in (await admin.open(page)) + await admin.post(page)
    form = {"name.number": "No.", "options.state": "open, late", "field.new": "Due", "type.new": "date"}
    assert "type the word remove" in await admin.post(page, **form)
    assert (await api.ask("GET", "/metadata_templates/enterprise/order/schema"))["fields"][0][
        "displayName"
    ] == "Number"
    assert "are changed" in await admin.post(page, confirm="remove", **form)
    fields = (await api.ask("GET", "/metadata_templates/enterprise/order/schema"))["fields"]
    assert [one["displayName"] for one in fields] == ["No.", "State", "Due"]
    assert [one["key"] for one in fields[1]["options"]] == ["open", "late"]
    found = await api.ask("GET", here)
    assert (found["number"], found.get("state")) == ("7", None)
    assert "are changed" in await admin.post(page, **{"drop.number": "yes", "confirm": "remove"})
    assert "number" not in await api.ask("GET", here)
    assert 'class="problem"' in await admin.open("/admin/templates/nothing/fields")
    assert admin.page.url.path.endswith("/templates")


async def test_collaborations_and_links_are_changed_and_ended(admin, api, uwe):
    folder = await uwe.folder("ours")
    body = {"item": {"type": "folder", "id": folder["id"]}, "role": "viewer"}
    body["accessible_by"] = {"type": "user", "login": "ann@example.com"}
    made = await uwe.ask("POST", "/collaborations", json=body, expect=201)
    assert "ours" in await admin.open("/admin/collaborations")
    here = f"/admin/collaborations/{made['id']}"
    assert "The role is editor now" in await admin.post(here, action="save", role="editor")
    assert (await uwe.ask("GET", f"/collaborations/{made['id']}"))["role"] == "editor"
    assert "role" in await admin.post(here, action="save", role="emperor")
    assert (await uwe.ask("GET", f"/collaborations/{made['id']}"))["role"] == "editor"
    assert "has ended" in await admin.post(here, action="end")
    assert "no longer shared" in await admin.post(here, action="end")
    await uwe.ask("GET", f"/collaborations/{made['id']}", expect=404)

    file = await uwe.upload("=open.txt", b"1")
    body = {"shared_link": {"access": "open", "password": "secret-5ecre7"}}
    link = (await uwe.ask("PUT", f"/files/{file['id']}", json=body))["shared_link"]["url"]
    text = await admin.open("/admin/links")
    assert link in text
    assert "5ecre7" not in text
    assert f"{file['id']},'=open.txt,uwe@example.com,open," in await admin.open("/admin/reports/links")
    await admin.open("/admin/links")
    assert "no longer has a shared link" in await admin.post(f"/admin/links/file-{file['id']}")
    assert (await uwe.ask("GET", f"/files/{file['id']}"))["shared_link"] is None
    assert "no longer shared" in await admin.post("/admin/links/file-999")
    # Another's act is logged as the owner's, by the administrator.
    assert "UNSHARE" in await admin.open("/admin/reports/events")


async def test_domains_to_collaborate_with(admin, api):
    await admin.open("/admin/exemptions")
    assert "is on the list" in await admin.post(
        "/admin/exemptions", action="allow", domain="b.example", direction="both"
    )
    (row,) = admin.rows("SELECT id FROM allowlist")
    assert "already" in await admin.post(
        "/admin/exemptions", action="allow", domain="b.example", direction="both"
    )
    assert "off the list" in await admin.post("/admin/exemptions", action=f"forget {row['id']}")
    assert admin.rows("SELECT 1 FROM allowlist") == []


async def test_exemptions_and_reports_of_the_enterprise(admin, api, uwe):
    await admin.open("/admin/exemptions")
    assert "every domain" in await admin.post("/admin/exemptions", action="exempt", login="uwe@example.com")
    (row,) = admin.rows("SELECT id FROM exemption WHERE account = 2002")
    assert "exempt already" in await admin.post("/admin/exemptions", action="exempt", login="uwe@example.com")
    assert "has ended" in await admin.post("/admin/exemptions", action=f"end {row['id']}")
    file = await uwe.upload("=1+1.txt", b"1")
    await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)
    text = await admin.open("/admin/reports/trash")
    assert admin.page.headers["content-disposition"] == "attachment; filename=trash.csv"
    # No spreadsheet takes a name for a formula.
    assert f"{file['id']},'=1+1.txt,1,uwe@example.com," in text
    assert "2002," in await admin.open("/admin/reports/users")
    folder = await uwe.folder("ours")
    body = {"item": {"type": "folder", "id": folder["id"]}, "role": "viewer"}
    body["accessible_by"] = {"type": "user", "login": "ann@example.com"}
    await uwe.ask("POST", "/collaborations", json=body, expect=201)
    assert "ours,uwe@example.com,ann@example.com,viewer" in await admin.open("/admin/reports/collaborations")
    assert "no such report" in await admin.open("/admin/reports/everything")


async def test_what_a_hold_and_a_policy_keep_is_listed(admin, api, uwe, monkeypatch):
    monkeypatch.setattr(protections, "PAGE", 2)
    folder = await uwe.folder("matter")
    files = [await uwe.upload(f"<{name}>.txt", name.encode(), folder["id"]) for name in "abc"]
    await uwe.version(files[0]["id"], b"again")
    hold = await api.ask(
        "POST", "/legal_hold_policies", json={"policy_name": "H", "is_ongoing": True}, expect=201
    )
    body = {"policy_id": hold["id"], "assign_to": {"type": "folder", "id": folder["id"]}}
    await api.ask("POST", "/legal_hold_policy_assignments", json=body, expect=201)
    wish = {"policy_name": "Ten days", "policy_type": "finite", "retention_length": "10"}
    wish["disposition_action"] = "permanently_delete"
    policy = await api.ask("POST", "/retention_policies", json=wish, expect=201)
    body = {"policy_id": policy["id"], "assign_to": {"type": "folder", "id": folder["id"]}}
    await api.ask("POST", "/retention_policy_assignments", json=body, expect=201)
    for here in (f"/admin/holds/{hold['id']}/versions", f"/admin/retention/{policy['id']}/versions"):
        seen, query = [], ""
        while True:
            text = await admin.open(here + query)
            seen += re.findall("<td>([0-9]+)</td>", text)
            assert "<<a>.txt" not in admin.page.text
            found = re.search('href="([?]marker=[^"]+)"', text)
            if found is None:
                break
            query = found[1]
        assert len(seen) == len(set(seen)) == 4
    text = await admin.open(f"/admin/retention/{policy['id']}/versions?before=2020-01-01")
    assert "Nothing." in text and 'value="2020-01-01"' in text
    text = await admin.open(f"/admin/retention/{policy['id']}/versions?before=2200-01-01")
    assert "<a>.txt" in text and "before=2200-01-01" in text
    for gone in ("/admin/holds/77/versions", "/admin/retention/77/versions"):
        assert "was not found" in await admin.open(gone)


async def test_events_are_filtered(admin, api, uwe, monkeypatch):
    monkeypatch.setattr(event_log, "PAGE", 1)
    mine, theirs = await api.upload("mine.txt", b"1"), await uwe.upload("theirs.txt", b"2")
    await api.ask("DELETE", f"/files/{mine['id']}", expect=204)
    await uwe.ask("DELETE", f"/files/{theirs['id']}", expect=204)

    async def names(query: str) -> list[str]:
        seen: list[str] = []
        while True:
            text = await admin.open("/admin/events?" + query)
            seen += re.findall("<td>(mine.txt|theirs.txt)</td>", text)
            if (found := re.search('href="[?]([^"]+)" rel="next"', text)) is None:
                return seen
            query = found[1]

    assert await names("kind=delete") == ["theirs.txt", "mine.txt"]
    assert await names("by=UWE@example.com") == ["theirs.txt", "theirs.txt"]
    assert await names("by=uwe@example.com&kind=upload") == ["theirs.txt"]
    assert await names("last=2020-01-01") == await names("first=2200-01-01") == []
    assert len(await names("first=2020-01-01&last=2200-01-01&by=nobody")) == 0
    assert len(await names("first=2020-01-01&last=2200-01-01")) == 4
    assert len(await names("first=2020-99-99&last=x")) == 4


async def test_an_item_is_shared_for_its_owner(admin, api, uwe):
    folder = await uwe.folder("Bridge")
    group = await api.ask("POST", "/groups", json={"name": "Birds"}, expect=201)
    await admin.open("/admin/collaborations")
    form = {"item": folder["id"], "role": "editor"}
    for wrong in ({}, {"login": "ann@example.com", "group": group["id"]}):
        assert "Choose a group, or give a login." in await admin.post(
            "/admin/collaborations", **form, **wrong
        )
    assert "no such item" in await admin.post("/admin/collaborations", item="77", group=group["id"])
    assert "Bridge is shared" in await admin.post("/admin/collaborations", **form, group=group["id"])
    assert "Bridge is shared" in await admin.post("/admin/collaborations", **form, login="ann@example.com")
    shared = (await uwe.ask("GET", f"/folders/{folder['id']}/collaborations"))["entries"]
    assert [(one["accessible_by"]["name"], one["role"]) for one in shared] == [
        ("Birds", "editor"),
        ("Ann Admin", "editor"),
    ]
