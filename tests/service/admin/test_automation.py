"""The administrators' pages for webhooks and for metadata that goes down."""

import json
import re


async def test_a_webhook_is_seen_and_ended(admin, api, uwe, people, service):
    folder = await uwe.folder("Bridge")
    wish = {
        "target": {"type": "folder", "id": folder["id"]},
        "address": "https://hooks.example.com/in",
        "triggers": ["FILE.UPLOADED", "WEBHOOK.DELETED"],
    }
    made = await uwe.ask("POST", "/webhooks", json=wish, expect=201)
    # Somebody of another enterprise has one on what is shared with them.
    eve = await people.add("eve@elsewhere.example")
    shared = {
        "item": {"type": "folder", "id": folder["id"]},
        "accessible_by": {"type": "user", "id": str(eve.user)},
        "role": "editor",
    }
    invited = await uwe.ask("POST", "/collaborations", json=shared, expect=201)
    await eve.ask("PUT", f"/collaborations/{invited['id']}", json={"status": "accepted"})
    theirs = await eve.ask("POST", "/webhooks", json=wish, expect=201)
    await uwe.upload("a.txt", b"x", folder["id"])
    shown = await admin.open("/admin/webhooks")
    for said in ("Bridge", "for Uwe User", "for Eve", "FILE.UPLOADED"):
        assert said in shown
    assert re.findall(r"/webhooks/(\d+)\"", shown) == [made["id"]]
    assert "has ended" in await admin.post(f"/admin/webhooks/{made['id']}", action="end")
    await uwe.ask("GET", f"/webhooks/{made['id']}", expect=404)
    (told,) = [
        body
        for row in service.read("SELECT body FROM webhook_delivery")
        if (body := json.loads(row["body"]))["trigger"] == "WEBHOOK.DELETED"
    ]
    assert told["webhook"]["id"] == made["id"]
    for number in (theirs["id"], made["id"], "nothing"):
        assert "another enterprise" in await admin.post(f"/admin/webhooks/{number}", action="end")
    await eve.ask("GET", f"/webhooks/{theirs['id']}")


async def test_a_webhook_is_made_and_changed_on_the_page(admin, api, uwe):
    folder = await uwe.folder("Bridge")
    await admin.open("/admin/webhooks")
    form = {"app": "tests", "item": folder["id"], "address": "https://hooks.example.com/in"}
    assert "triggers" in await admin.post("/admin/webhooks", **form)
    form["on.FILE.UPLOADED"] = "yes"
    assert "does not exist" in await admin.post("/admin/webhooks", **(form | {"item": "77"}))
    assert "does not exist" in await admin.post("/admin/webhooks", **(form | {"app": "others"}))
    said = await admin.post("/admin/webhooks", **(form | {"address": "https://127.0.0.1/in"}))
    assert "address" in said and 'name="on.FILE.UPLOADED" value="yes" checked' in said
    assert "The webhook is there" in await admin.post("/admin/webhooks", **form)
    (made,) = (await uwe.ask("GET", "/webhooks"))["entries"]
    change = {
        "address": "https://hooks.example.com/other",
        "on.FILE.TRASHED": "yes",
        "on.FOLDER.MOVED": "yes",
    }
    assert "is changed" in await admin.post(f"/admin/webhooks/{made['id']}", action="save", **change)
    shown = await uwe.ask("GET", f"/webhooks/{made['id']}")
    assert shown["address"] == change["address"]
    assert set(shown["triggers"]) == {"FILE.TRASHED", "FOLDER.MOVED"}


async def test_a_co_administrator_ends_no_administrators_webhook(person, api, service):
    folder = await api.folder("Bridge")
    wish = {
        "target": {"type": "folder", "id": folder["id"]},
        "address": "https://hooks.example.com/in",
        "triggers": ["FILE.UPLOADED"],
    }
    made = await api.ask("POST", "/webhooks", json=wish, expect=201)
    sql = "UPDATE account SET role = 'coadmin' WHERE login = 'uwe@example.com'"
    await service.write(lambda conn: conn.execute(sql))
    await person.log_in("uwe@example.com", "the password of uwe")
    await person.open("/admin/webhooks")
    assert "co-administrator" in await person.post(f"/admin/webhooks/{made['id']}", action="end")
    await api.ask("GET", f"/webhooks/{made['id']}")


async def test_metadata_is_made_to_go_down(admin, api, uwe):
    field = {"type": "string", "key": "bird", "displayName": "Bird"}
    template = {"scope": "enterprise", "displayName": "Birds", "templateKey": "birds", "fields": [field]}
    await api.ask("POST", "/metadata_templates/schema", json=template, expect=201)
    folder = await uwe.folder("Bridge")
    file = await uwe.upload("a.txt", b"x", folder["id"])
    below = f"/files/{file['id']}/metadata/enterprise/birds"
    await admin.open("/admin/cascades")
    form = {"folder": "77", "template": "birds"}
    assert "does not exist" in await admin.post("/admin/cascades", **form)
    shown = await admin.post("/admin/cascades", **(form | {"folder": folder["id"]}))
    assert "now cascades to everything below" in shown
    assert "has no such metadata yet" in shown
    assert "cascades already" in await admin.post("/admin/cascades", **(form | {"folder": folder["id"]}))
    path = f"/folders/{folder['id']}/metadata/enterprise/birds"
    await uwe.ask("POST", path, json={"bird": "teal"}, expect=201)
    assert (await uwe.ask("GET", below))["bird"] == "teal"
    await uwe.ask("PUT", below, json=[{"op": "replace", "path": "/bird", "value": "smew"}])
    shown = await admin.open("/admin/cascades")
    (policy,) = re.findall(r"/cascades/([0-9a-f-]+)\"", shown)
    for action, bird in (("apply", "smew"), ("overwrite", "teal")):
        assert "was applied" in await admin.post(f"/admin/cascades/{policy}", action=action)
        assert (await uwe.ask("GET", below))["bird"] == bird
    assert "has ended" in await admin.post(f"/admin/cascades/{policy}", action="end")
    assert "does not exist" in await admin.post(f"/admin/cascades/{policy}", action="end")
    assert (await uwe.ask("GET", below))["bird"] == "teal"
