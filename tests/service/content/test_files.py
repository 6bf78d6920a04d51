"""Files: get, change, copy, delete, and their content in parts."""

import pytest

from cmsfs.models.content import items

CONTENT = bytes(range(200))


@pytest.fixture
async def file(api):
    return await api.upload("data.bin", CONTENT)


async def test_a_file_has_every_field_of_the_specification(api, file):
    wanted = set(items.File.model_fields) - {"expiring_embed_link"}
    found = await api.ask("GET", f"/files/{file['id']}", params={"fields": ",".join(wanted)})
    assert found.keys() == wanted
    items.File.model_validate(found)
    usual = await api.ask("GET", f"/files/{file['id']}")
    assert usual == {name: file[name] for name in usual}  # an upload answers with more


@pytest.mark.parametrize(
    ("header", "status", "content", "content_range"),
    [
        (None, 200, CONTENT, None),
        ("bytes=0-9", 206, CONTENT[:10], "bytes 0-9/200"),
        ("bytes=190-", 206, CONTENT[190:], "bytes 190-199/200"),
        ("bytes=199-199", 206, CONTENT[199:], "bytes 199-199/200"),
        ("bytes=100-5000", 206, CONTENT[100:], "bytes 100-199/200"),
        ("bytes=200-", 416, None, "bytes */200"),
        ("bytes=200-300", 416, None, "bytes */200"),
        ("bytes=-5", 416, None, "bytes */200"),
        ("bytes=9-3", 200, CONTENT, None),
        ("bytes=-", 200, CONTENT, None),
        ("bytes=0-1,5-6", 200, CONTENT, None),
        ("lines=1-2", 200, CONTENT, None),
        ("bytes=a-b", 200, CONTENT, None),
        ("bytes=" + "9" * 30 + "-", 200, CONTENT, None),
    ],
)
async def test_content_in_parts(api, file, header, status, content, content_range):
    headers = {"range": header} if header else {}
    answer = await api.http.get(f"/files/{file['id']}/content", headers=headers)
    assert answer.status_code == status
    assert answer.headers.get("content-range") == content_range
    if content is None:
        assert answer.json()["code"] == "requested_page_out_of_range"
    else:
        assert answer.content == content
        assert answer.headers["content-length"] == str(len(content))


async def test_an_empty_file_has_no_part(api):
    file = await api.upload("empty")
    assert await api.bytes(file["id"]) == b""
    await api.ask("GET", f"/files/{file['id']}/content", headers={"range": "bytes=0-0"}, expect=416)


async def test_head_tells_the_length_alone(api, file):
    answer = await api.http.head(f"/files/{file['id']}/content")
    assert (answer.status_code, answer.headers["content-length"], answer.content) == (200, "200", b"")


async def test_content_of_what_is_not_there(api, uwe, file):
    other = await api.upload("other", b"x")
    await uwe.ask("GET", f"/files/{file['id']}/content", expect=404)
    for path in ("/files/0/content", "/files/7/content", "/files/x/content"):
        await api.ask("GET", path, expect=404)
    for version in (other["file_version"]["id"], "x", "-1"):
        await api.ask("GET", f"/files/{file['id']}/content?version={version}", expect=404)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert (await api.ask("GET", f"/files/{file['id']}/content", expect=404))["code"] == "trashed"


async def test_a_change(api, file):
    folder = await api.folder("docs")
    wish = {
        "name": "new.txt",
        "parent": {"id": folder["id"]},
        "content_modified_at": "2020-05-05T05:05:05+02:00",
    }
    changed = await api.ask("PUT", f"/files/{file['id']}", json=wish)
    assert (changed["name"], changed["parent"]["id"], changed["etag"]) == ("new.txt", folder["id"], "1")
    assert changed["content_modified_at"] == "2020-05-05T03:05:05+00:00"
    assert (changed["sha1"], changed["file_version"]) == (file["sha1"], file["file_version"])
    assert changed["modified_at"] > file["modified_at"]
    assert await api.names(file_extensions="txt") == {"new.txt"}
    assert await api.bytes(file["id"]) == CONTENT


@pytest.mark.parametrize(
    "wish",
    [
        {"content_modified_at": "never"},
        {"content_modified_at": 5},
        {"tags": "x"},
        {"tags": ["x"] * 101},
        {"name": ""},
        {"name": True},
        {"parent": "0"},
        {"description": ["x"]},
    ],
)
async def test_changes_that_make_no_sense_are_400(api, file, wish):
    await api.ask("PUT", f"/files/{file['id']}", json=wish, expect=400)


async def test_what_is_no_file_is_404(api, file):
    folder = await api.folder("docs")
    for wire_id in (folder["id"], "0", "1", "%00", "9" * 25, "..", "é"):
        await api.ask("GET", f"/files/{wire_id}", expect=404)
        await api.ask("PUT", f"/files/{wire_id}", json={}, expect=404)
    await api.ask("GET", f"/folders/{file['id']}", expect=404)


async def test_the_version_in_hand_need_not_come_again(api, file):
    await api.ask("GET", f"/files/{file['id']}", headers={"if-none-match": '"0"'}, expect=304)
    await api.ask("GET", f"/files/{file['id']}", headers={"if-none-match": '"7", "8"'})
    await api.ask("PUT", f"/files/{file['id']}", json={"name": "x"}, headers={"if-match": "*"})


async def test_a_copy_is_a_file_of_its_own(api, file):
    folder = await api.folder("docs")
    path = f"/files/{file['id']}/copy"
    copy = await api.ask("POST", path, json={"parent": {"id": folder["id"]}}, expect=201)
    assert copy["id"] != file["id"]
    assert (copy["name"], copy["sha1"], copy["etag"]) == ("data.bin", file["sha1"], "0")
    assert copy["content_modified_at"] == file["content_modified_at"]
    await api.version(file["id"], b"changed")
    assert await api.bytes(copy["id"]) == CONTENT
    older = {"parent": {"id": "0"}, "name": "older", "version": file["file_version"]["id"]}
    assert await api.bytes((await api.ask("POST", path, json=older, expect=201))["id"]) == CONTENT
    await api.ask("POST", path, json={"parent": {"id": "0"}}, expect=409)
    await api.ask("POST", path, json={"parent": {"id": "0"}, "name": "a/b"}, expect=400)
    await api.ask("POST", path, json={"parent": {"id": "5"}}, expect=404)
    await api.ask("POST", path, json={"parent": {"id": "0"}, "name": "x", "version": "5"}, expect=404)
    await api.ask("POST", path, json={}, expect=400)
