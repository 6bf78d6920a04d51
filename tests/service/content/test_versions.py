"""Versions of a file."""

from io import BytesIO

import pytest
import trio
from box_sdk_gen import PromoteFileVersionType, UploadFileVersionAttributes


@pytest.fixture
async def file(api):
    """A file with three versions, the first two of them past."""
    file = await api.upload("a.txt", b"one aardvark")
    await api.version(file["id"], b"two bobolinks")
    return await api.version(file["id"], b"three curlews")


async def past(api, file):
    return (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"]


async def test_one_version(api, file):
    second, first = await past(api, file)
    found = await api.ask("GET", f"/files/{file['id']}/versions/{first['id']}")
    assert found == first
    assert (found["type"], found["size"], found["trashed_at"]) == ("file_version", 12, None)
    assert found["modified_by"]["login"] == "ann@example.com"
    await api.ask("GET", f"/files/{file['id']}/versions/{file['file_version']['id']}")
    other = await api.upload("other")
    await api.ask("GET", f"/files/{other['id']}/versions/{second['id']}", expect=404)
    await api.ask("GET", f"/files/{file['id']}/versions/77", expect=404)


async def test_into_the_trash_and_out_of_it(api, file):
    first = (await past(api, file))[1]
    url = f"/files/{file['id']}/versions/{first['id']}"
    await api.ask("DELETE", url, headers={"if-match": "77"}, expect=412)
    await api.ask("DELETE", url, headers={"if-match": file["etag"]}, expect=204)
    trashed = await api.ask("GET", url)
    assert trashed["trashed_at"] is not None
    assert trashed["trashed_by"]["login"] == "ann@example.com"
    assert (trashed["restored_at"], trashed["restored_by"]) == (None, None)
    assert trashed in await past(api, file)
    await api.ask("DELETE", url, expect=204)
    assert await api.ask("GET", url) == trashed
    content = f"/files/{file['id']}/content?version={first['id']}"
    assert (await api.ask("GET", content, expect=404))["code"] == "trashed"
    promotion = {"id": first["id"], "type": "file_version"}
    await api.ask("POST", f"/files/{file['id']}/versions/current", json=promotion, expect=404)
    copy = {"parent": {"id": "0"}, "name": "copy", "version": first["id"]}
    await api.ask("POST", f"/files/{file['id']}/copy", json=copy, expect=404)
    back = await api.ask("PUT", url, json={"trashed_at": None})
    assert back["restored_by"]["login"] == "ann@example.com"
    assert back["restored_at"] >= trashed["trashed_at"]
    assert back | {"restored_at": None, "restored_by": None} == first
    assert await api.ask("PUT", url, json={"trashed_at": None}) == back
    assert back in await past(api, file)
    assert await api.bytes(file["id"], params={"version": first["id"]}) == b"one aardvark"


async def test_version_trashed_and_restored_by(api, uwe):
    folder = await api.folder("shared")
    invited = {"id": str(uwe.user), "type": "user"}
    body = {"item": {"id": folder["id"], "type": "folder"}, "accessible_by": invited, "role": "co-owner"}
    await api.ask("POST", "/collaborations", json=body, expect=201)
    file = await api.upload("a.txt", b"one", folder["id"])
    await api.version(file["id"], b"two")
    url = f"/files/{file['id']}/versions/{file['file_version']['id']}"
    await uwe.ask("DELETE", url, expect=204)
    assert (await api.ask("GET", url))["trashed_by"]["id"] == str(uwe.user)
    found = await api.ask("PUT", url, json={"trashed_at": None})
    assert (found["trashed_by"], found["restored_by"]["id"]) == (None, str(api.user))
    await uwe.ask("DELETE", url, expect=204)
    assert (await api.ask("GET", url))["restored_by"] is None


async def test_no_other_date_can_be_set(api, file):
    first = (await past(api, file))[1]
    body = {"trashed_at": "2026-01-01T00:00:00Z"}
    await api.ask("PUT", f"/files/{file['id']}/versions/{first['id']}", json=body, expect=400)


async def test_the_current_version_stays(api, file):
    url = f"/files/{file['id']}/versions/{file['file_version']['id']}"
    assert (await api.ask("DELETE", url, expect=403))["code"] == "forbidden"
    assert await api.bytes(file["id"]) == b"three curlews"


async def test_promotion_makes_a_new_version(api, file):
    first = (await past(api, file))[1]
    start = (await api.ask("GET", "/events?stream_position=now"))["next_stream_position"]
    folder = await api.ask("GET", "/folders/0")
    body = {"id": first["id"], "type": "file_version"}
    made = await api.ask("POST", f"/files/{file['id']}/versions/current", json=body, expect=201)
    assert made["id"] not in (first["id"], file["file_version"]["id"])
    assert made["sha1"] == first["sha1"]
    new = await api.ask("GET", f"/files/{file['id']}?fields=version_number,size,file_version")
    assert (new["version_number"], new["size"], new["file_version"]["id"]) == ("4", 12, made["id"])
    assert new["etag"] != file["etag"]
    assert await api.bytes(file["id"]) == b"one aardvark"
    assert len(await past(api, file)) == 3
    assert await api.names("aardvark") == {"a.txt"}
    assert (await api.ask("GET", "/folders/0"))["size"] == folder["size"] - 1
    page = await api.ask("GET", f"/events?stream_position={start}")
    assert [one["event_type"] for one in page["entries"]] == ["ITEM_MAKE_CURRENT_VERSION"]
    assert page["entries"][0]["source"]["file_version"]["id"] == made["id"]


async def _promote(api, file, *, number):
    """Make a version of before the current one again, counted from the oldest; the file's name then."""
    found = [one["id"] for one in await past(api, file)][-1 - number]
    await api.ask("POST", f"/files/{file['id']}/versions/current", json={"id": found}, expect=201)
    return (await api.ask("GET", f"/files/{file['id']}"))["name"]


async def test_promotion_restores_the_old_name(api):
    file = await api.upload("old.txt", b"aardvark")
    await api.version(file["id"], b"bobolink", name="new.txt")
    assert await _promote(api, file, number=0) == "old.txt"
    assert await api.names("aardvark") == {"old.txt"}
    # And forth again.
    assert await _promote(api, file, number=1) == "new.txt"
    assert await api.bytes(file["id"]) == b"bobolink"


async def test_promotion_undoes_no_renaming(api):
    file = await api.upload("draft.txt", b"one")
    await api.version(file["id"], b"two")
    await api.ask("PUT", f"/files/{file['id']}", json={"name": "final.txt"})
    assert await _promote(api, file, number=0) == "final.txt"
    other = await api.upload("a.txt", b"one")
    await api.version(other["id"], b"two", name="b.txt")
    await api.ask("PUT", f"/files/{other['id']}", json={"name": "c.txt"})
    assert await _promote(api, other, number=0) == "c.txt"
    assert await api.bytes(other["id"]) == b"one"


async def test_promotion_to_taken_name_restores_content(api):
    file = await api.upload("old.txt", b"one")
    await api.version(file["id"], b"two", name="new.txt")
    await api.upload("OLD.TXT", b"somebody else's")
    assert await _promote(api, file, number=0) == "new.txt"
    assert await api.bytes(file["id"]) == b"one"


async def test_nobody_elses_versions(api, uwe, file):
    url = f"/files/{file['id']}/versions"
    first = (await past(api, file))[1]
    for method, path in (("GET", ""), ("GET", f"/{first['id']}"), ("DELETE", f"/{first['id']}")):
        await uwe.ask(method, f"{url}{path}", expect=404)
    await uwe.ask("PUT", f"{url}/{first['id']}", json={"trashed_at": None}, expect=404)
    await uwe.ask("POST", f"{url}/current", json={"id": first["id"]}, expect=404)


async def test_the_public_client(client):
    def story():
        found = client.search.search_for_content(query="budget", type="file").entries[0]
        client.uploads.upload_file_version(
            found.id, UploadFileVersionAttributes(name=found.name), BytesIO(b"new")
        )
        [old] = client.file_versions.get_file_versions(found.id).entries
        made = client.file_versions.promote_file_version(
            found.id, id=old.id, type=PromoteFileVersionType.FILE_VERSION
        )
        assert client.file_versions.get_file_version_by_id(found.id, made.id).sha_1 == found.sha_1
        client.file_versions.delete_file_version_by_id(found.id, old.id)
        back = client.file_versions.update_file_version_by_id(found.id, old.id)
        assert back.id == old.id

    await trio.to_thread.run_sync(story)
