"""Uploads: what is taken, what is refused, and what is left behind."""

import hashlib
from typing import Any

import httpx
import pytest
import trio

from cmsfs.models.content import items, uploads
from cmsfs.service.server import app

HELLO = hashlib.sha1(b"hello", usedforsecurity=False).hexdigest()
UPLOADS = "http://service.test/api/2.0"
SCOPE = {
    "type": "http",
    "method": "POST",
    "path": "/api/2.0/files/content",
    "raw_path": b"/api/2.0/files/content",
    "root_path": "",
    "query_string": b"",
    "headers": [],
    "scheme": "http",
    "server": ("x", 80),
}


async def test_a_new_file(api):
    found = await api.send("/files/content", {"name": "a.txt", "parent": {"id": "0"}}, b"hello", expect=201)
    file = uploads.UploadResult.model_validate(found).entries[0]
    assert found["total_count"] == 1
    assert (file.name, file.size, file.sha1, file.etag, file.item_status) == (
        "a.txt",
        5,
        HELLO,
        "0",
        "active",
    )
    assert file.created_at == file.modified_at == file.content_created_at == file.content_modified_at
    assert await api.bytes(file.id) == b"hello"


async def test_the_times_of_the_content_are_kept(api):
    times = {
        "content_created_at": "2001-02-03T04:05:06+01:00",
        "content_modified_at": "1969-01-01T00:00:00.5Z",
    }
    file = await api.upload("old", b"", **times)
    assert file["content_created_at"] == "2001-02-03T03:05:06+00:00"
    assert file["content_modified_at"] == "1969-01-01T00:00:00.500000+00:00"


async def test_a_large_file_comes_back_as_it_was(api):
    content = bytes(range(256)) * 20_000
    file = await api.upload("large", content)
    assert file["sha1"] == hashlib.sha1(content, usedforsecurity=False).hexdigest()
    assert await api.bytes(file["id"]) == content


async def test_fields(api):
    body, headers = api.form({"name": "a", "parent": {"id": "0"}}, b"")
    found = await api.ask(
        *("POST", f"{UPLOADS}/files/content?fields=size"), content=body, headers=headers, expect=201
    )
    assert found["entries"][0].keys() == {
        *("type", "id", "sequence_id", "etag", "name", "sha1", "file_version", "size"),
    }


@pytest.mark.parametrize(
    ("attributes", "status", "code"),
    [
        ({"name": "a.txt"}, 400, "bad_request"),
        ({"parent": {"id": "0"}}, 400, "bad_request"),
        ({"name": "x", "parent": {}}, 400, "bad_request"),
        ({"name": 5.5, "parent": "0"}, 400, "bad_request"),
        ("{", 400, "bad_request"),
        ("[]", 400, "bad_request"),
        ('{"name": "\\ud800", "parent": {"id": "0"}}', 400, "bad_request"),
        ({"name": "x", "parent": {"id": "0"}, "content_created_at": "now"}, 400, "bad_request"),
        ({"name": "x", "parent": {"id": "0"}, "content_created_at": 12}, 400, "bad_request"),
        (
            {"name": "x", "parent": {"id": "0"}, "content_modified_at": "2024-01-01T00:00:00"},
            400,
            "bad_request",
        ),
        ({"name": "", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "a/b", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "a\\b", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "a\x07b", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "..", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "a ", "parent": {"id": "0"}}, 400, "item_name_invalid"),
        ({"name": "a" * 256, "parent": {"id": "0"}}, 400, "item_name_too_long"),
        ({"name": "x", "parent": {"id": "77"}}, 404, "not_found"),
        ({"name": "x", "parent": {"id": "root"}}, 404, "not_found"),
        ({"name": "x", "parent": {"id": "0" * 30}}, 404, "not_found"),
        ({"name": "taken", "parent": {"id": "0"}}, 409, "item_name_in_use"),
        ({"name": "TAKEN", "parent": {"id": "0"}}, 409, "item_name_in_use"),
        ({"name": "Straße", "parent": {"id": "0"}}, 409, "item_name_in_use"),
        ({"name": "cafe\u0301", "parent": {"id": "0"}}, 409, "item_name_in_use"),
    ],
)
async def test_what_is_refused(api, service, attributes, status, code):
    await api.folder("Taken")
    await api.link("STRASSE")
    await api.upload("Café")
    problem = await api.send("/files/content", attributes, b"content", expect=status)
    assert (problem["type"], problem["status"], problem["code"]) == ("error", status, code)
    assert list(service.blobs.incoming.iterdir()) == []


async def test_a_name_clash_tells_the_one_holder(api):
    held = await api.upload("a.txt", b"hello")
    problem = await api.send("/files/content", {"name": "A.TXT", "parent": {"id": "0"}}, expect=409)
    assert problem["context_info"]["conflicts"] == {
        "type": "file",
        "id": held["id"],
        "sequence_id": "0",
        "etag": "0",
        "name": "a.txt",
        "sha1": HELLO,
        "file_version": held["file_version"],
    }


async def test_a_name_in_the_trash_is_free(api):
    file = await api.upload("a.txt")
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.upload("a.txt")


@pytest.mark.parametrize("name", ["ö" * 255, " leading", "a.", 'q"<>:|?*', "😀", "-", "..."])
async def test_unusual_names_are_kept_as_they_are(api, name):
    assert (await api.upload(name))["name"] == name


@pytest.mark.parametrize("digest", ["0" * 40, "nonsense", HELLO[:-1]])
async def test_damage_on_the_way_is_noticed(api, digest):
    wish = {"name": "a", "parent": {"id": "0"}}
    problem = await api.send("/files/content", wish, b"hello", expect=400, **{"content-md5": digest})
    assert problem["code"] == "bad_digest"
    assert await api.names() == set()
    await api.send("/files/content", wish, b"hello", expect=201, **{"content-md5": HELLO.upper()})


async def test_limits_of_the_account(api, service):
    await service.write(lambda conn: conn.execute("UPDATE account SET max_upload_size = 10"))
    wish = {"name": "a", "parent": {"id": "0"}}
    problem = await api.send("/files/content", wish, b"x" * 11, expect=403)
    assert problem["code"] == "file_size_limit_exceeded"
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 7"))
    problem = await api.send("/files/content", wish, b"x" * 8, expect=403)
    assert problem["code"] == "storage_limit_exceeded"
    await api.send("/files/content", wish, b"x" * 7, expect=201)
    user = await api.ask("GET", "/users/me")
    assert (user["space_used"], user["space_amount"]) == (7, 7)


async def test_a_new_version_keeps_the_file(api):
    file = await api.upload("a.txt", b"one", content_modified_at="2020-01-01T00:00:00Z")
    new = await api.version(file["id"], b"second", content_modified_at="2021-01-01T00:00:00Z", name="b.txt")
    assert (new["id"], new["name"], new["size"], new["etag"]) == (file["id"], "b.txt", 6, "1")
    assert new["created_at"] == file["created_at"] < new["modified_at"]
    assert new["content_modified_at"] == "2021-01-01T00:00:00+00:00"
    assert new["file_version"]["id"] != file["file_version"]["id"]
    assert await api.bytes(file["id"]) == b"second"
    assert await api.bytes(file["id"], params={"version": file["file_version"]["id"]}) == b"one"
    versions = await api.ask("GET", f"/files/{file['id']}/versions")
    assert [(one["id"], one["name"]) for one in versions["entries"]] == [
        (file["file_version"]["id"], "a.txt")
    ]
    assert (await api.ask("GET", "/users/me"))["space_used"] == 9
    assert (await api.ask("GET", "/folders/0"))["size"] == 6


async def test_version_upload_checks_if_match(api):
    file = await api.upload("a.txt", b"one")
    await api.send(f"/files/{file['id']}/content", {}, b"two", expect=200, **{"if-match": "0"})
    problem = await api.send(f"/files/{file['id']}/content", {}, b"three", expect=412, **{"if-match": "0"})
    assert problem["code"] == "precondition_failed"
    await api.send(f"/files/{file['id']}/content", {}, b"three", expect=200, **{"if-match": '"1"'})
    assert await api.bytes(file["id"]) == b"three"


async def test_a_new_version_of_nothing_is_404(api):
    folder = await api.folder("folder")
    file = await api.upload("a.txt", b"one")
    await api.upload("b.txt")
    await api.send(f"/files/{file['id']}/content", {"name": "B.TXT"}, b"", expect=409)
    for wire_id in (folder["id"], "0", "x", "999999"):
        await api.send(f"/files/{wire_id}/content", {}, b"two", expect=404)
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert (await api.send(f"/files/{file['id']}/content", {}, b"two", expect=404))["code"] == "trashed"


@pytest.mark.parametrize("path", ["/files/content", "/files/content/"])
async def test_the_question_beforehand(api, path):
    wish = {"name": "a.txt", "parent": {"id": "0"}, "size": 5}
    found = await api.ask("OPTIONS", path, json=wish)
    assert found == {"upload_url": f"{UPLOADS}/files/content", "upload_token": None}
    await api.ask("OPTIONS", path)
    file = await api.upload("a.txt")
    problem = await api.ask("OPTIONS", path, json=wish | {"name": "A.txt"}, expect=409)
    assert problem["context_info"]["conflicts"]["id"] == file["id"]
    assert problem["context_info"]["conflicts"]["type"] == "file"
    assert (await api.ask("OPTIONS", path, json=wish | {"name": "a/b"}, expect=400))[
        "code"
    ] == "item_name_invalid"
    await api.ask("OPTIONS", path, json=wish | {"parent": {"id": "5"}}, expect=404)
    await api.ask("OPTIONS", path, json=wish | {"name": "b", "size": -1}, expect=400)
    problem = await api.ask("OPTIONS", path, json=wish | {"name": "b", "size": 10**17}, expect=403)
    assert problem["code"] == "file_size_limit_exceeded"


async def test_the_question_before_a_new_version(api):
    file = await api.upload("a.txt", b"one")
    await api.upload("b.txt")
    path = f"/files/{file['id']}/content"
    found = await api.ask("OPTIONS", path, json={"size": 4, "name": "A.txt"})
    assert found["upload_url"] == UPLOADS + path
    await api.ask("OPTIONS", path, json={"name": "b.txt"}, expect=409)
    await api.ask("OPTIONS", "/files/5/content", json={}, expect=404)
    await api.ask("OPTIONS", path, headers={"if-match": "7"}, expect=412)


async def test_refusal_precedes_the_body(api, service):
    """A client without rights learns so at once, and what it is still sending is dropped."""
    events: list[Any] = []

    async def receive():
        events.append("received")
        return {"type": "http.request", "body": b"x" * 1024, "more_body": len(events) < 100}

    async def send(message):
        events.append((message["type"], message.get("status"), message.get("more_body")))

    await app.build(service)(dict(SCOPE), receive, send)
    assert events[:2] == [("http.response.start", 401, None), ("http.response.body", None, True)]
    assert events[-1] == ("http.response.body", None, False)


async def test_a_client_that_breaks_off_leaves_nothing(api, service):
    body, headers = api.form({"name": "a", "parent": {"id": "0"}}, b"x" * 3_000_000)
    arriving = []

    async def receive():
        arriving.append(len(list(service.blobs.incoming.iterdir())))
        if len(arriving) == 1:
            return {"type": "http.request", "body": body[:2_000_000], "more_body": True}
        return {"type": "http.disconnect"}

    async def send(message):
        raise AssertionError("there is nobody to answer")

    headers |= {"authorization": api.http.headers["authorization"]}
    scope = SCOPE | {"headers": [(name.encode(), value.encode()) for name, value in headers.items()]}
    await app.build(service)(scope, receive, send)
    assert arriving == [0, 1]
    assert list(service.blobs.incoming.iterdir()) == []
    assert await api.names() == set()


async def test_two_uploads_of_one_name_at_once(api):
    answers: list[httpx.Response] = []
    body, headers = api.form({"name": "a", "parent": {"id": "0"}}, b"x" * 100)

    async def send():
        answers.append(await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers))

    async with trio.open_nursery() as both:
        both.start_soon(send)
        both.start_soon(send)
    assert sorted(one.status_code for one in answers) == [201, 409]


async def test_an_upload_answers_the_whole_file(api):
    made = await api.upload("a.txt", b"hello")
    shown = set(items.File.model_fields) - {"representations", "expiring_embed_link"}
    assert set(made) == shown
    assert (made["extension"], made["version_number"], made["tags"]) == ("txt", "1", [])
    assert set(await api.version(made["id"], b"other")) == shown
    fields = ",".join(items.File.model_fields)
    assert (await api.ask("GET", f"/files/{made['id']}?fields={fields}")).keys() == set(
        items.File.model_fields
    )


async def test_upload_returns_requested_renditions(api):
    body, headers = api.form({"name": "a.txt", "parent": {"id": "0"}}, b"hello")
    path = f"{UPLOADS}/files/content?fields=representations,expiring_embed_link"
    (made,) = (await api.ask("POST", path, content=body, headers=headers, expect=201))["entries"]
    assert made["representations"]["entries"][0]["representation"] == "extracted_text"
    assert (await api.http.get(made["expiring_embed_link"]["url"])).status_code == 200
