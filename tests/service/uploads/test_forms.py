"""Forms of uploads: which part is the file, and which forms are refused."""

import hashlib
import json

import pytest

HELLO = hashlib.sha1(b"hello", usedforsecurity=False).hexdigest()
UPLOADS = "http://service.test/api/2.0"


async def test_the_file_before_its_attributes_is_refused_unread(api, service):
    parts = [
        b'--edge\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n',
        *[b"x" * 1024] * 5,
    ]
    sent = []

    async def body():
        for part in parts:
            sent.append(part)
            yield part

    answer = await api.http.post(
        f"{UPLOADS}/files/content",
        content=body(),
        headers={"content-type": "multipart/form-data; boundary=edge"},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "metadata_after_file_contents")
    assert list(service.blobs.incoming.iterdir()) == []


@pytest.mark.parametrize(
    ("content_type", "body", "status"),
    [
        ("application/json", b"{}", 415),
        ("multipart/form-data", b"", 415),
        ("multipart/form-data; boundary=edge", b"", 400),
        ("multipart/form-data; boundary=edge", b"no form at all", 400),
        ("multipart/form-data; boundary=edge", b"--edge--\r\n", 400),
        ("multipart/form-data; boundary=edge", b"--edge\r\nrubbish\r\n\r\n", 400),
        (
            "multipart/form-data; boundary=edge",
            b'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n',
            400,
        ),
        (
            "multipart/form-data; boundary=edge",
            b'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n'
            b'{"name":"x","parent":{"id":"0"}}\r\n--edge--\r\n',
            400,
        ),
        (
            "multipart/form-data; boundary=edge",
            b'--edge\r\nContent-Disposition: form-data; name="attributes"\r\n\r\n' + b" " * 70_000,
            400,
        ),
        ('multipart/form-data; boundary="\xe9\n"', b"x", 400),
    ],
)
async def test_broken_forms_are_4xx(api, content_type, body, status):
    answer = await api.http.post(
        f"{UPLOADS}/files/content", content=body, headers={"content-type": content_type.encode("latin-1")}
    )
    assert answer.status_code == status


async def test_a_body_that_breaks_off_leaves_nothing(api, service):
    body, headers = api.form({"name": "a", "parent": {"id": "0"}}, b"x" * 3_000_000)
    answer = await api.http.post(f"{UPLOADS}/files/content", content=body[:2_500_000], headers=headers)
    assert answer.status_code == 400
    assert await api.names() == set()
    assert list(service.blobs.incoming.iterdir()) == []


async def test_part_with_filename_is_the_file(api):
    attributes = json.dumps({"name": "a<b>", "parent": {"id": "0"}, "size": 5}).replace("<", "\\u003c")
    parts = [("attributes", (None, attributes)), ("contents", ("c", b"hello")), ("more", ("x", b"ignored"))]
    answer = await api.http.post(f"{UPLOADS}/files/content", files=parts)
    assert answer.status_code == 201
    file = answer.json()["entries"][0]
    assert (file["name"], file["size"], file["sha1"]) == ("a<b>", 5, HELLO)


FIRST = ("attributes", (None, json.dumps({"name": "a", "parent": {"id": "0"}})))


@pytest.mark.parametrize(
    "parts",
    [
        [FIRST, ("extra", (None, b"extra")), ("file", ("f", b"hello"))],
        [("extra", (None, b"extra")), FIRST, ("file", (None, b"hello"))],
        [FIRST, ("extra", (None, b"extra")), ("contents", ("c", b"hello")), ("more", ("m", b"more"))],
        [FIRST, ("more", ("m", b"m" * 3_000_000)), ("file", ("f", b"hello")), ("last", ("l", b"last"))],
        [FIRST, ("more", ("m", b"more")), ("file", (None, b"hello")), ("extra", (None, b"extra"))],
    ],
)
async def test_the_part_that_is_the_file(api, parts):
    answer = await api.http.post(f"{UPLOADS}/files/content", files=parts)
    assert answer.status_code == 201, answer.text
    file = answer.json()["entries"][0]
    assert (file["size"], file["sha1"]) == (5, HELLO)
    assert await api.bytes(file["id"]) == b"hello"
    assert await api.names("hello", content_types="file_content") == {"a"}


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([FIRST, ("extra", (None, b"extra"))], "bad_request"),
        ([FIRST, FIRST], "bad_request"),
        ([FIRST, FIRST, ("file", ("f", b"hello"))], "bad_request"),
        ([FIRST, ("file", ("f", b"1")), FIRST], "bad_request"),
        ([FIRST, ("file", ("f", b"1")), ("file", ("f", b"2"))], "bad_request"),
        ([("more", ("f", b"1")), FIRST], "metadata_after_file_contents"),
        ([("file", (None, b"1")), FIRST], "metadata_after_file_contents"),
    ],
)
async def test_a_form_without_one_file(api, parts, code):
    answer = await api.http.post(f"{UPLOADS}/files/content", files=parts)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert await api.names() == set()
