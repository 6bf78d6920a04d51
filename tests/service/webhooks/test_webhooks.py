"""Webhooks: made, found, changed, deleted; what they may be triggered by, and where they may not go."""

import pytest

from tests.service.webhooks.conftest import hook

ADDRESS = "https://receiver.example.com/in"


async def test_a_webhook_is_made_found_changed_and_deleted(api):
    folder, other = await api.folder("folder"), await api.folder("other")
    made = await hook(api, folder, ADDRESS, "FILE.UPLOADED", "FOLDER.CREATED")
    assert made == {
        "type": "webhook",
        "id": made["id"],
        "target": {"type": "folder", "id": folder["id"]},
        "created_by": {"type": "user", "id": str(api.user), "name": "Ann Admin", "login": "ann@example.com"},
        "created_at": made["created_at"],
        "address": ADDRESS,
        "triggers": ["FILE.UPLOADED", "FOLDER.CREATED"],
    }
    path = f"/webhooks/{made['id']}"
    assert await api.ask("GET", path) == made
    second = await hook(api, other, ADDRESS, "FILE.UPLOADED")
    first = await api.ask("GET", "/webhooks?limit=1")
    mini = ("type", "id", "target")
    assert first["entries"] == [{name: made[name] for name in mini}]
    rest = await api.ask("GET", f"/webhooks?limit=1&marker={first['next_marker']}")
    assert (rest["entries"], rest["next_marker"]) == ([{name: second[name] for name in mini}], None)
    refused = await hook(api, folder, ADDRESS, "FILE.MOVED", expect=409)
    assert refused["code"] == "conflict"
    await api.ask("PUT", path, json={"target": {"type": "folder", "id": other["id"]}}, expect=409)
    changed = await api.ask("PUT", path, json={"triggers": ["FILE.MOVED"], "address": f"{ADDRESS}/2"})
    assert (changed["triggers"], changed["address"]) == (["FILE.MOVED"], f"{ADDRESS}/2")
    await api.ask("DELETE", path, expect=204)
    await api.ask("GET", path, expect=404)


async def test_a_webhook_is_its_makers_alone(api, uwe):
    made = await hook(api, await api.folder("folder"), ADDRESS, "FILE.UPLOADED")
    assert (await uwe.ask("GET", "/webhooks"))["entries"] == []
    for method in ("GET", "DELETE"):
        await uwe.ask(method, f"/webhooks/{made['id']}", expect=404)
    await hook(uwe, made["target"], ADDRESS, "FILE.UPLOADED", expect=404)


async def test_triggers_are_those_of_the_item(api):
    file = await api.upload("file.txt", b"x")
    for triggers in (["FOLDER.CREATED"], ["COLLABORATION.CREATED"], ["FILE.EATEN"], []):
        await hook(api, file, ADDRESS, *triggers, expect=400)
    await hook(api, {"type": "folder", "id": "0"}, ADDRESS, "FILE.UPLOADED", expect=400)
    await hook(api, file, ADDRESS, "FILE.MOVED", "FILE.MOVED", "SIGN_REQUEST.COMPLETED")


@pytest.mark.parametrize(
    "address",
    [
        "http://receiver.example.com/in",
        "https://127.0.0.1/in",
        "https://10.1.2.3/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]:8443/",
        "https://[fe80::1]/",
        "https://[::ffff:192.168.0.1]/",
        "https://localhost/",
        "https://user:word@receiver.example.com/",
        "ftp://receiver.example.com/",
        "https://",
        "https://receiver.example.com/\r\nX: y",
        "receiver.example.com",
    ],
)
async def test_addresses_that_are_refused(api, address):
    file = await api.upload("file.txt", b"x")
    await hook(api, file, address, "FILE.MOVED", expect=400)
    made = await hook(api, file, ADDRESS, "FILE.MOVED")
    await api.ask("PUT", f"/webhooks/{made['id']}", json={"address": address}, expect=400)
