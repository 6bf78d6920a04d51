"""What rclone's backend for this API sends and needs, request by request."""

import base64
import hashlib
import json

import pytest

from cmsfs.models.content import upload_sessions as models_upload_sessions
from cmsfs.service.uploads import upload_sessions

# What it asks for with every item.
FIELDS = (
    "type,id,sequence_id,etag,sha1,name,size,created_at,modified_at,content_created_at,"
    "content_modified_at,item_status,shared_link,owned_by"
)
TIMES = ("created_at", "modified_at", "content_created_at", "content_modified_at")


def judge(item):
    """What its decoder needs of an item; anything else makes a whole listing fail."""
    assert item["sequence_id"] is None or item["sequence_id"].isdigit()
    assert "size" not in item or type(item["size"]) is int
    for name in TIMES:
        assert name not in item or isinstance(item[name], str), name
    assert item["item_status"] == "active"


async def chunked(body):
    """A body of unknown length."""
    for start in range(0, len(body), 7):
        yield body[start : start + 7]


async def upload(api, path, attributes, content):
    body = (
        '--b\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n'
        + json.dumps(attributes).replace("<", "\\u003c").replace("&", "\\u0026")
        + '\r\n--b\r\nContent-Disposition: form-data; name="contents"; filename="x.txt"\r\n'
        + "Content-Type: application/octet-stream\r\n\r\n"
    ).encode() + content
    answer = await api.http.post(
        f"http://service.test/api/2.0{path}",
        content=chunked(body + b"\r\n--b--\r\n"),
        headers={"content-type": "multipart/form-data; boundary=b"},
    )
    assert answer.request.headers["transfer-encoding"] == "chunked"
    assert answer.status_code in (200, 201), answer.text
    found = answer.json()
    assert (found["total_count"], len(found["entries"])) == (1, 1)
    judge(found["entries"][0])
    return found["entries"][0]


async def stat(api, name, parent="0"):
    """The preflight as a look-up by name, without a size."""
    return await api.http.request("OPTIONS", "/files/content/", json={"name": name, "parent": {"id": parent}})


async def test_stat_is_a_preflight(api):
    answer = await stat(api, "a<b&c.txt")
    assert answer.status_code == 200
    assert "upload_url" in answer.json()
    when = "2020-01-02T03:04:05.123456789+01:00"
    attributes = {"name": "a<b&c.txt", "parent": {"id": "0"}, "content_created_at": when}
    file = await upload(api, "/files/content", attributes | {"content_modified_at": when}, b"hello")
    assert file["name"] == "a<b&c.txt"
    folder = await api.folder("f")
    for name, kind, wire_id in (("A<B&C.TXT", "file", file["id"]), ("f", "folder", folder["id"])):
        answer = await stat(api, name)
        found = answer.json()
        assert (answer.status_code, found["code"]) == (409, "item_name_in_use")
        # One object, not a list.
        conflict = found["context_info"]["conflicts"]
        assert (conflict["type"], conflict["id"]) == (kind, wire_id)
    judge(await api.ask("GET", f"/files/{file['id']}?fields={FIELDS}"))
    version = {"name": "a<b&c.txt", "parent": {"id": "0"}, "content_created_at": when}
    new = await upload(api, f"/files/{file['id']}/content", version, b"more")
    assert (new["id"], new["size"]) == (file["id"], 4)


async def test_a_listing_comes_to_its_end(api):
    for number in range(5):
        await api.folder(f"d{number}")
        await api.upload(f"f{number}", b"x")
    # One null among the dates of a web link would hide the rest.
    await api.link("l")
    params = {"fields": FIELDS, "limit": "4", "usemarker": "true"}
    seen = []
    for _ in range(10):
        page = await api.ask("GET", "/folders/0/items", params=params)
        seen += page["entries"]
        if page.get("next_marker") is None:
            break
        assert page["next_marker"] != ""
        params["marker"] = page["next_marker"]
    assert len(seen) == len({one["id"] for one in seen}) == 11
    for one in seen:
        judge(one)


async def test_directories(api):
    folder = await api.ask(
        "POST", f"/folders?fields={FIELDS}", json={"name": "d", "parent": {"id": "0"}}, expect=201
    )
    judge(folder)
    file = await api.upload("a", b"x", folder["id"])
    refused = await api.ask("DELETE", f"/folders/{folder['id']}?recursive=false", expect=400)
    assert (refused["code"], refused["status"]) == ("folder_not_empty", 400)
    both = {"name": "e", "parent": {"id": "0"}}
    judge(await api.ask("PUT", f"/folders/{folder['id']}?fields={FIELDS}", json=both))
    judge(await api.ask("PUT", f"/files/{file['id']}?fields={FIELDS}", json=both | {"name": "b"}))
    when = {"content_modified_at": "2001-02-03T04:05:06Z"}
    changed = await api.ask("PUT", f"/files/{file['id']}?fields={FIELDS}", json=when)
    assert changed["content_modified_at"].startswith("2001-02-03T04:05:06")
    link = await api.ask("PUT", f"/files/{file['id']}", json={"shared_link": {}})
    assert link["shared_link"]["url"]
    assert type((await api.ask("GET", "/users/me"))["space_used"]) in (int, float)


async def test_the_trash_is_emptied_one_by_one(api):
    for name in ("a", "b"):
        file = await api.upload(name)
        await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    params = {"fields": FIELDS, "limit": "1000", "usemarker": "true"}
    page = await api.ask("GET", "/folders/trash/items", params=params)
    assert page["next_marker"] is None
    for one in page["entries"]:
        assert one["item_status"] == "trashed"
        await api.ask("DELETE", f"/files/{one['id']}/trash", expect=204)
    assert (await api.ask("GET", "/folders/trash/items", params=params))["entries"] == []


async def test_changes_are_polled(api):
    params = {"fields": FIELDS, "stream_position": "now", "stream_type": "changes"}
    start = await api.ask("GET", "/events", params=params)
    assert (start["chunk_size"], type(start["next_stream_position"])) == (0, int)
    file = await api.upload("a", b"x")
    params |= {"stream_position": str(start["next_stream_position"]), "limit": "500"}
    page = await api.ask("GET", "/events", params=params)
    assert page["chunk_size"] == len(page["entries"]) == 1
    event = page["entries"][0]
    assert event["event_id"]
    assert event["event_type"] == "ITEM_UPLOAD"
    judge(event["source"])
    assert (event["source"]["id"], event["source"]["parent"]["id"]) == (file["id"], "0")
    params["stream_position"] = str(page["next_stream_position"])
    assert (await api.ask("GET", "/events", params=params))["entries"] == []


@pytest.mark.parametrize("version", [False, True])
async def test_large_files(api, monkeypatch, version):
    monkeypatch.setattr(upload_sessions, "PART_SIZE", 1000)
    monkeypatch.setattr(models_upload_sessions, "MIN_FILE_SIZE", 100)
    data = bytes(range(256)) * 10
    base = "http://service.test/api/2.0/files"
    if version:
        file = await api.upload("big", b"old")
        session = await api.ask(
            "POST", f"{base}/{file['id']}/upload_sessions", json={"file_size": len(data)}, expect=201
        )
    else:
        body = {"folder_id": "0", "file_size": len(data), "file_name": "big"}
        session = await api.ask("POST", f"{base}/upload_sessions", json=body, expect=201)
    assert isinstance(session["session_expires_at"], str)
    # The addresses in the session are not looked at: they are made of the host and the id.
    url = f"{base}/upload_sessions/{session['id']}"
    parts = []
    for number in range(session["total_parts"]):
        offset = number * session["part_size"]
        piece = data[offset : offset + session["part_size"]]
        headers = {
            "digest": "sha=" + base64.b64encode(hashlib.sha1(piece).digest()).decode(),
            "content-range": f"bytes {offset}-{offset + len(piece) - 1}/{len(data)}",
            "content-type": "application/octet-stream",
        }
        answer = await api.ask("PUT", url, content=piece, headers=headers)
        parts.append(answer["part"])
    when = "2020-01-02T03:04:05Z"
    body = {"parts": parts, "attributes": {"content_created_at": when, "content_modified_at": when}}
    whole = "sha=" + base64.b64encode(hashlib.sha1(data).digest()).decode()
    result = await api.ask("POST", f"{url}/commit", json=body, headers={"digest": whole}, expect=201)
    assert (result["total_count"], len(result["entries"])) == (1, 1)
    judge(result["entries"][0])
    assert result["entries"][0]["content_modified_at"].startswith("2020-01-02T03:04:05")
    assert await api.bytes(result["entries"][0]["id"]) == data
