"""Deliveries of webhooks to a real receiver: what it is told, signed; tried again; never made inside."""

import ipaddress
import json

import pytest
import trio
from box_sdk_gen.managers.webhooks import WebhooksManager

from cmsfs.service.webhooks import deliveries, receivers
from tests.service.webhooks.conftest import KEYS, NETWORKS, hook
from tests.support import sharing


async def until(service, condition):
    """Look after every change of the store until it holds."""
    with trio.fail_after(20):
        while True:
            written = service.written
            if condition():
                return
            await written.wait()


def queue(service):
    return service.read("SELECT * FROM webhook_delivery ORDER BY id")


async def test_what_happens_below_a_folder_is_told(hooked, receiver, delivering):
    folder = await hooked.folder("folder")
    made = await hook(hooked, folder, receiver.address, "FILE.UPLOADED", "FILE.TRASHED")
    inner = await hooked.folder("inner", folder["id"])
    await hooked.upload("elsewhere.txt", b"x")
    file = await hooked.upload("Größe.txt", b"text", inner["id"])
    (event,) = await receiver.wait()
    assert event["type"] == "webhook_event"
    assert (event["trigger"], event["webhook"]) == ("FILE.UPLOADED", {"id": made["id"], "type": "webhook"})
    assert event["created_by"]["login"] == "ann@example.com"
    source = event["source"]
    assert (source["type"], source["id"], source["name"]) == ("file", file["id"], "Größe.txt")
    assert source["parent"]["id"] == inner["id"]
    await hooked.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert [one["trigger"] for one in await receiver.wait(2)] == ["FILE.UPLOADED", "FILE.TRASHED"]


async def test_deliveries_are_signed_with_both_keys(hooked, receiver, delivering):
    folder = await hooked.folder("folder")
    await hook(hooked, folder, receiver.address, "FILE.UPLOADED")
    await hooked.upload("Größe.txt", b"text", folder["id"])
    await receiver.wait()
    headers, body = receiver.came[0]
    assert headers["box-delivery-id"]

    def is_valid(key, other="wrong", text=body):
        return WebhooksManager.validate_message(text.decode(), headers, key, secondary_key=other)

    assert is_valid(KEYS["main"])
    assert is_valid("wrong", KEYS["secondary"])
    assert not is_valid("wrong")
    assert not is_valid(KEYS["main"], text=body.replace(b"UPLOADED", b"MOVED"))


async def test_every_kind_of_change_is_a_trigger(hooked, uwe, receiver, delivering):
    folder, other = await hooked.folder("folder"), await hooked.folder("other")
    words = [f"FILE.{one}" for one in ("UPLOADED", "COPIED", "MOVED", "RENAMED", "LOCKED", "UNLOCKED")]
    words += ["FILE.DOWNLOADED", "FILE.TRASHED", "FILE.RESTORED", "FILE.DELETED", "FOLDER.CREATED"]
    words += ["COMMENT.CREATED", "COMMENT.UPDATED", "COMMENT.DELETED"]
    words += ["TASK_ASSIGNMENT.CREATED", "TASK_ASSIGNMENT.UPDATED"]
    words += [f"METADATA_INSTANCE.{one}" for one in ("CREATED", "UPDATED", "DELETED")]
    words += ["SHARED_LINK.CREATED", "SHARED_LINK.UPDATED", "SHARED_LINK.DELETED"]
    words += [
        "FOLDER.DOWNLOADED",
        "COLLABORATION.CREATED",
        "COLLABORATION.ACCEPTED",
        "COLLABORATION.UPDATED",
        "COLLABORATION.REMOVED",
        "WEBHOOK.DELETED",
    ]
    made = await hook(hooked, folder, receiver.address, *words)
    file = await hooked.upload("file.txt", b"x", folder["id"])
    path, ask = f"/files/{file['id']}", hooked.ask
    await ask("POST", f"{path}/copy", json={"parent": {"id": folder["id"]}, "name": "copy"}, expect=201)
    await ask("PUT", path, json={"parent": {"id": other["id"]}})
    await ask("PUT", path, json={"parent": {"id": folder["id"]}})
    await ask("PUT", path, json={"name": "renamed.txt"})
    await ask("PUT", path, json={"lock": {"access": "lock"}})
    await ask("PUT", path, json={"lock": None})
    await hooked.bytes(file["id"])
    comment = await ask("POST", "/comments", json={"item": file, "message": "hm"}, expect=201)
    await ask("PUT", f"/comments/{comment['id']}", json={"message": "ah"})
    await ask("DELETE", f"/comments/{comment['id']}", expect=204)
    task = await ask("POST", "/tasks", json={"item": file}, expect=201)
    wish = {"task": task, "assign_to": {"id": str(hooked.user)}}
    assigned = await ask("POST", "/task_assignments", json=wish, expect=201)
    await ask("PUT", f"/task_assignments/{assigned['id']}", json={"resolution_state": "approved"})
    instance = f"{path}/metadata/global/properties"
    await ask("POST", instance, json={"a": "b"}, expect=201)
    await ask("PUT", instance, json=[{"op": "replace", "path": "/a", "value": "c"}])
    await ask("DELETE", instance, expect=204)
    for link in ({}, {"access": "company"}, None):
        await ask("PUT", path, json={"shared_link": link})
    archive = await ask("POST", "/zip_downloads", json={"items": [made["target"]]}, expect=202)
    assert (await hooked.http.get(archive["download_url"])).status_code == 200
    shared = await sharing.share(hooked, folder, uwe, "viewer")
    await ask("PUT", f"/collaborations/{shared['id']}", json={"role": "editor"})
    await ask("DELETE", f"/collaborations/{shared['id']}", expect=204)
    await ask("DELETE", path, expect=204)
    await ask("POST", path, json={}, expect=201)
    await ask("DELETE", path, expect=204)
    await ask("DELETE", f"{path}/trash", expect=204)
    await hooked.folder("inner", folder["id"])
    await ask("DELETE", f"/webhooks/{made['id']}", expect=204)
    # Moved out and in, and put into the trash twice.
    events = await receiver.wait(len(words) + 2)
    assert {one["trigger"] for one in events} == set(words)
    assert len(events) == len(words) + 2
    by_trigger = {one["trigger"]: one["source"] for one in events}
    assert by_trigger["COMMENT.UPDATED"]["message"] == "ah"
    assert by_trigger["COMMENT.CREATED"]["item"]["id"] == file["id"]
    assert by_trigger["TASK_ASSIGNMENT.UPDATED"]["id"] == assigned["id"]
    assert by_trigger["COLLABORATION.UPDATED"]["role"] == "editor"


async def test_an_invitation_that_is_rejected(hooked, people, service):
    eva = await people.add("eva@elsewhere.example")
    folder = await hooked.folder("folder")
    words = [f"COLLABORATION.{one}" for one in ("CREATED", "ACCEPTED", "REJECTED", "REMOVED")]
    await hook(hooked, folder, "https://receiver.example.com/", *words)
    shared = await sharing.share(hooked, folder, "eva@elsewhere.example")
    await eva.ask("PUT", f"/collaborations/{shared['id']}", json={"status": "rejected"})
    told = [json.loads(row["body"]) for row in queue(service)]
    assert [one["trigger"] for one in told] == ["COLLABORATION.CREATED", "COLLABORATION.REJECTED"]
    assert {one["source"]["id"] for one in told} == {shared["id"]}


async def test_it_is_tried_again_later_each_time(hooked, service, receiver, delivering):
    receiver.answers = [b"500 Oh", b"302 Found\r\nLocation: http://127.0.0.1:1/", b"200 OK"]
    folder = await hooked.folder("folder")
    await hook(hooked, folder, receiver.address, "FILE.UPLOADED")
    await hooked.upload("file.txt", b"x", folder["id"])
    waits = []
    for attempts in (1, 2):
        await until(service, lambda count=attempts: [row["attempts"] for row in queue(service)] == [count])
        waits.append((queue(service)[0]["due_at"] - service.now()) / 1e6)
        await service.write(lambda conn: conn.execute("UPDATE webhook_delivery SET due_at = 0"))
    await until(service, lambda: queue(service) == [])
    assert 0 < waits[0] <= deliveries.FIRST_RETRY_SECONDS < waits[1] <= 2 * deliveries.FIRST_RETRY_SECONDS
    first, second, third = await receiver.wait(3)
    assert first["id"] == second["id"] == third["id"]
    assert len({headers["box-delivery-id"] for headers, _ in receiver.came}) == 3


async def test_it_is_given_up_in_the_end(hooked, service, receiver, delivering):
    receiver.answers = [b"500 Oh"]
    folder = await hooked.folder("folder")
    await hook(hooked, folder, receiver.address, "FILE.UPLOADED")
    await hooked.upload("file.txt", b"x", folder["id"])
    await until(service, lambda: [row["attempts"] for row in queue(service)] == [1])
    sql = "UPDATE webhook_delivery SET due_at = 0, attempts = ?"
    await service.write(lambda conn: conn.execute(sql, (deliveries.MAX_ATTEMPTS - 1,)))
    await until(service, lambda: queue(service) == [])
    assert len(receiver.came) == 2


async def test_what_was_not_told_yet_is_told_after_a_restart(hooked, service, receiver, nursery):
    folder = await hooked.folder("folder")
    await hook(hooked, folder, receiver.address, "FILE.UPLOADED")
    await hooked.upload("file.txt", b"x", folder["id"])
    assert len(queue(service)) == 1
    nursery.start_soon(deliveries.run, service, NETWORKS)
    (event,) = await receiver.wait()
    assert event["source"]["name"] == "file.txt"
    # Without keys it is not signed.
    assert "box-signature-primary" not in receiver.came[0][0]


async def test_the_maker_is_told_what_they_see(hooked, uwe, service):
    folder = await hooked.folder("folder")
    shared = await sharing.share(hooked, folder, uwe, "viewer")
    await hook(uwe, folder, "https://receiver.example.com/", "FILE.UPLOADED")
    await hooked.upload("seen.txt", b"x", folder["id"])
    await hooked.ask("DELETE", f"/collaborations/{shared['id']}", expect=204)
    await hooked.upload("unseen.txt", b"y", folder["id"])
    (row,) = queue(service)
    source = json.loads(row["body"])["source"]
    assert (source["name"], source["path_collection"]["entries"][0]["id"]) == ("seen.txt", "0")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_nothing_inside_is_connected_to(hooked, service, receiver, nursery, host):
    """What a name stands for is judged when it is connected to, whatever it was when the webhook was made."""
    folder = await hooked.folder("folder")
    address = receiver.address.replace("127.0.0.1", host)
    await hook(hooked, folder, address, "FILE.UPLOADED")
    for scheme in ("http", "https"):
        with pytest.raises(receivers.NotReachable):
            await receivers.post(address.replace("http", scheme, 1), {}, b"", [])
    # Another network's permission is none for this one.
    others = [ipaddress.ip_network("10.0.0.0/8")]
    with pytest.raises(receivers.NotReachable):
        await receivers.post(address.replace("http", "https", 1), {}, b"", others)
    await hooked.upload("file.txt", b"x", folder["id"])
    nursery.start_soon(deliveries.run, service, others)
    await until(service, lambda: [row["attempts"] for row in queue(service)] == [1])
    assert receiver.connections == 0


@pytest.mark.parametrize(
    ("address", "wanted"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("100.64.0.1", False),
        ("127.255.255.254", False),
        ("169.254.169.254", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fc00::1", False),
        ("ff0e::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::10.0.0.1", False),
        ("64:ff9b::93.184.216.34", True),
        ("2002:7f00:1::", False),
    ],
)
def test_what_everybody_can_reach(address, wanted):
    assert receivers.is_reachable(ipaddress.ip_address(address)) is wanted
