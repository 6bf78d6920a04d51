"""What must not be mixed up: neighbours whose ids begin alike, and what changes while an upload runs."""

import pytest

from cmsfs.service.server import sweeper
from cmsfs.service.storage import parts
from tests.service.conftest import give_from
from tests.support.sharing import position, share, told

DAY = 86_400 * 1_000_000


@pytest.fixture
async def alike(api, service):
    """Two folders, the id of one being the beginning of the other's, each with a file."""

    async def make(number):
        # As if all before it had been given.
        await service.write(lambda conn: give_from(conn, "item", number))
        folder = await api.folder(f"folder {number}")
        assert folder["id"] == str(number)
        file = await api.upload(f"in {number}", str(number).encode(), folder["id"])
        return folder["id"], file["id"]

    return await make(3_000_000), await make(30_000_005)


async def test_id_prefix_is_no_descendant(api, alike):
    (one, _), (other, file) = alike
    # Trash, and back.
    await api.ask("DELETE", f"/folders/{one}?recursive=true", expect=204)
    assert await api.bytes(file) == other.encode()
    assert await api.names() == {f"in {other}", f"folder {other}"}
    await api.ask("POST", f"/folders/{one}", json={}, expect=201)
    # Search below.
    assert await api.names(ancestor_folder_ids=one) == {f"in {one}"}
    # Move.
    target = await api.folder("target")
    await api.ask("PUT", f"/folders/{one}", json={"parent": {"id": target["id"]}})
    found = (await api.ask("GET", f"/files/{file}"))["path_collection"]["entries"]
    assert [entry["id"] for entry in found] == ["0", other]
    # Copy.
    body = {"parent": {"id": "0"}, "name": "copy"}
    made = await api.ask("POST", f"/folders/{one}/copy", json=body, expect=201)
    assert made["item_collection"]["total_count"] == 1
    assert made["size"] == len(one)
    # For good.
    await api.ask("DELETE", f"/folders/{one}?recursive=true", expect=204)
    await api.ask("DELETE", f"/folders/{one}/trash", expect=204)
    assert await api.bytes(file) == other.encode()
    assert (await api.ask("GET", f"/folders/{other}"))["size"] == len(other)


async def test_id_prefix_does_not_grant_rights(api, uwe, alike):
    (one, first), (other, second) = alike
    await share(api, {"type": "folder", "id": one}, uwe, "viewer")
    await uwe.ask("GET", f"/files/{first}")
    await uwe.ask("GET", f"/files/{second}", expect=404)
    await uwe.ask("GET", f"/folders/{other}", expect=404)
    assert await uwe.names() == {f"folder {one}", f"in {one}"}
    token = await api.narrowed(
        "item_preview", "item_download", resource=f"http://service.test/2.0/folders/{one}"
    )
    assert await api.status(token, path=f"/files/{first}") == 200
    assert await api.status(token, path=f"/files/{second}") == 404
    policy = await api.ask("POST", "/legal_hold_policies", json={"policy_name": "hold"}, expect=201)
    body = {"policy_id": policy["id"], "assign_to": {"type": "folder", "id": one}}
    await api.ask("POST", "/legal_hold_policy_assignments", json=body, expect=201)
    for file, expect in ((second, 204), (first, 403)):
        await api.ask("DELETE", f"/files/{file}", expect=204)
        await api.ask("DELETE", f"/files/{file}/trash", expect=expect)


async def test_held_trashed_version_stays(api, service):
    file = await api.upload("a.txt", b"first")
    old = file["file_version"]["id"]
    await api.version(file["id"], b"second")
    await api.ask("DELETE", f"/files/{file['id']}/versions/{old}", expect=204)
    policy = await api.ask("POST", "/legal_hold_policies", json={"policy_name": "hold"}, expect=201)
    body = {"policy_id": policy["id"], "assign_to": {"type": "file", "id": file["id"]}}
    await api.ask("POST", "/legal_hold_policy_assignments", json=body, expect=201)
    await sweeper.sweep(service, service.now() + 400 * DAY)
    await api.log_in()
    await api.ask("PUT", f"/files/{file['id']}/versions/{old}", json={"trashed_at": None})
    assert await api.bytes(file["id"], params={"version": old}) == b"first"


def _interrupted(body, meanwhile):
    """A body in whose middle something else happens."""

    async def chunks():
        yield body[: len(body) // 2]
        await meanwhile()
        yield body[len(body) // 2 :]

    return chunks()


@pytest.mark.parametrize("what", ["version", "lock", "trash"])
async def test_upload_conditions_are_checked_at_store(api, uwe, what):
    folder = await api.folder("shared")
    file = await api.upload("a.txt", b"first", folder["id"])
    await share(api, folder, uwe)

    async def meanwhile():
        if what == "version":
            await uwe.version(file["id"], b"second")
        elif what == "lock":
            body = {"lock": {"access": "lock"}}
            await uwe.ask("PUT", f"/files/{file['id']}", json=body)
        else:
            await uwe.ask("DELETE", f"/files/{file['id']}", expect=204)

    body, headers = api.form({}, b"third")
    expect = {"version": 412, "lock": 403, "trash": 404}[what]
    if what == "version":
        headers["if-match"] = "0"
    url = f"http://service.test/api/2.0/files/{file['id']}/content"
    await api.ask("POST", url, content=_interrupted(body, meanwhile), headers=headers, expect=expect)
    if what != "trash":
        assert await api.bytes(file["id"]) == (b"second" if what == "version" else b"first")


@pytest.mark.parametrize("what", ["version", "lock"])
async def test_commit_conditions_are_checked_at_store(api, uwe, service, small, monkeypatch, what):
    folder = await api.folder("shared")
    file = await api.upload("a.txt", b"first", folder["id"])
    await share(api, folder, uwe)
    content = bytes(range(256)) * 10
    url = f"http://service.test/api/2.0/files/{file['id']}/upload_sessions"
    session = await api.ask("POST", url, json={"file_size": len(content)}, expect=201)
    sent = await api.put_all(session)
    keep = parts.Assembly.keep

    async def keep_late(assembly):
        if what == "version":
            await uwe.version(file["id"], b"second")
        else:
            await uwe.ask("PUT", f"/files/{file['id']}", json={"lock": {"access": "lock"}})
        return await keep(assembly)

    monkeypatch.setattr(parts.Assembly, "keep", keep_late)
    more = {"if-match": "0"} if what == "version" else {}
    await api.commit(session, sent, expect=412 if what == "version" else 403, **more)
    assert await api.bytes(file["id"]) == (b"second" if what == "version" else b"first")


async def test_download_lock_excludes_file_from_copy(api, uwe):
    folder = await api.folder("shared")
    inner = await api.folder("inner", folder["id"])
    file = await api.upload("secret.txt", b"first", inner["id"])
    await share(api, folder, uwe)
    lock = {"lock": {"access": "lock", "is_download_prevented": True}}
    await uwe.ask("PUT", f"/files/{file['id']}", json=lock)
    body = {"parent": {"id": "0"}, "name": "copy"}
    for one in (folder, inner):
        await api.ask("POST", f"/folders/{one['id']}/copy", json=body, expect=403)
    await api.ask("POST", f"/files/{file['id']}/copy", json=body, expect=403)
    assert await api.names() == {"shared", "inner", "secret.txt"}
    # Who locked it may.
    await uwe.ask("POST", f"/folders/{inner['id']}/copy", json=body, expect=201)


@pytest.mark.parametrize("how", ["moved", "the folder moved"])
async def test_item_out_of_sight_is_404(api, uwe, how):
    """And no more than that: neither where it is now, nor what it is called there."""
    folder = await api.folder("shared")
    file = await api.upload("a.txt", b"first", folder["id"])
    private = await api.folder("private")
    await share(api, folder, uwe)
    since = await position(uwe)
    if how == "moved":
        await api.ask("PUT", f"/files/{file['id']}", json={"parent": {"id": private["id"]}})
        gone = file
    else:
        await api.ask("PUT", f"/folders/{folder['id']}", json={"parent": {"id": private["id"]}})
        gone = None  # a role on the folder goes with it
    found = [source for word, source in await told(uwe, since) if word == "ITEM_MOVE"]
    assert [one["id"] for one in found] == [folder["id"] if gone is None else file["id"]]
    if gone is not None:
        assert found[0]["parent"] is None
        assert found[0]["path_collection"]["entries"] == []
        await uwe.ask("GET", f"/files/{file['id']}", expect=404)
    else:
        assert private["id"] not in str(found[0]["path_collection"])


async def test_folder_owner_pays_for_upload(api, uwe, service):
    """The space of whoever sends it is not asked for, and that of the owner may go in the middle."""
    folder = await api.folder("shared")
    await share(api, folder, uwe)

    async def meanwhile():
        sql = "UPDATE account SET space_amount = space_used + 3 WHERE id = ?"
        await service.write(lambda conn: conn.execute(sql, (api.user,)))

    url = "http://service.test/api/2.0/files/content"
    body, headers = api.form({"name": "a.txt", "parent": {"id": folder["id"]}}, b"12345")
    cut = body.rindex(b"\r\n--edge--")

    async def chunks():
        yield body[:cut]
        await meanwhile()
        yield body[cut:]

    answer = await uwe.ask("POST", url, content=chunks(), headers=headers, expect=403)
    assert answer["code"] == "storage_limit_exceeded"
    assert await api.names() == {"shared"}
    await service.write(
        lambda conn: conn.execute("UPDATE account SET space_amount = 0 WHERE id = ?", (uwe.user,))
    )
    await uwe.upload("b.txt", b"123", folder["id"])


async def test_what_changes_hands_needs_the_new_owners_space(api, uwe, service):
    folder = await api.folder("shared")
    await share(api, folder, uwe)
    file = await uwe.upload("a.txt", b"12345")
    sql = "UPDATE account SET space_amount = space_used + 4 WHERE id = ?"
    await service.write(lambda conn: conn.execute(sql, (api.user,)))
    move = {"parent": {"id": folder["id"]}}
    answer = await uwe.ask("PUT", f"/files/{file['id']}", json=move, expect=403)
    assert answer["code"] == "storage_limit_exceeded"
    assert (await uwe.ask("GET", f"/files/{file['id']}"))["parent"]["id"] == "0"
    await service.write(lambda conn: conn.execute(sql.replace("4", "5"), (api.user,)))
    await uwe.ask("PUT", f"/files/{file['id']}", json=move)


async def test_promoted_version_uses_space(api, service):
    file = await api.upload("a.txt", b"12345")
    old = file["file_version"]["id"]
    await api.version(file["id"], b"1")
    sql = "UPDATE account SET space_amount = space_used + 4 WHERE id = ?"
    await service.write(lambda conn: conn.execute(sql, (api.user,)))
    body = {"id": old, "type": "file_version"}
    answer = await api.ask("POST", f"/files/{file['id']}/versions/current", json=body, expect=403)
    assert answer["code"] == "storage_limit_exceeded"
    assert await api.bytes(file["id"]) == b"1"
