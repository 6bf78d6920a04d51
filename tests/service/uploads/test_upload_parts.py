"""The parts of an upload as they arrive."""

import base64
import hashlib

import pytest
import trio

from cmsfs.models.content import upload_sessions

UPLOADS = "http://service.test/api/2.0"
SESSIONS = f"{UPLOADS}/files/upload_sessions"
PART = 1000
CONTENT = bytes(range(256)) * 10  # two whole parts and a rest


def sha1(data):
    return hashlib.sha1(data, usedforsecurity=False)


def digest(data):
    return upload_sessions.digest(sha1(data).digest())


async def code(answer):
    return (await answer)["code"]


NO_PART = [
    ({"content_range": "bytes 0-998/2560"}, 416),  # not a whole part
    ({"content_range": "bytes 1-1000/2560"}, 416),  # not where a part begins
    ({"content_range": "bytes 0-1999/2560"}, 416),  # two parts
    ({"content_range": "bytes 0-999/9999"}, 416),  # of another file
    ({"content_range": "bytes 3000-3999/2560"}, 416),  # behind the end
    ({"content_range": "0-999"}, 416),
    ({"content_range": ""}, 400),
    ({"content_range": "bytes 2000-2559/2560"}, 400),  # more bytes than announced
    ({"digest": ""}, 400),
    ({"digest": "md5=abc"}, 400),
    ({"digest": "sha=*"}, 400),
    ({"digest": digest(b"other")}, 412),
    ({"digest": "sha=YWJj"}, 412),
]


@pytest.mark.parametrize(("headers", "status"), NO_PART, ids=str)
async def test_what_is_no_part(api, small, headers, status):
    session = await api.begin()
    await api.put(session, 0, expect=status, **headers)
    assert (await api.ask("GET", f"{SESSIONS}/{session['id']}"))["num_parts_processed"] == 0
    assert list(api.store.parts.path(session["id"]).iterdir()) == []
    # The place is still free.
    await api.put(session, 0)


async def test_a_part_is_never_replaced(api, small):
    session = await api.begin()
    first = (await api.put(session, 0))["part"]
    assert await code(api.put(session, 0, expect=409)) == "range_overlaps_existing_part"
    assert await code(api.put(session, 0, b"x" * PART, expect=409)) == "range_overlaps_existing_part"
    listed = await api.ask("GET", f"{SESSIONS}/{session['id']}/parts")
    assert listed["entries"] == [first]


async def test_two_that_send_the_same_part_at_once(api, small):
    session = await api.begin()
    answers = []

    async def one(data):
        headers = {"digest": digest(data), "content-range": f"bytes 0-{PART - 1}/{len(CONTENT)}"}
        url = f"{SESSIONS}/{session['id']}"
        answers.append((await api.http.put(url, content=data, headers=headers), data))

    async with trio.open_nursery() as nursery:
        for data in (b"a" * PART, b"b" * PART, b"c" * PART):
            nursery.start_soon(one, data)
    winners = [(answer, data) for answer, data in answers if answer.status_code == 200]
    assert len(winners) == 1
    assert {answer.status_code for answer, _ in answers} == {200, 409}
    listed = await api.ask("GET", f"{SESSIONS}/{session['id']}/parts")
    assert [one["sha1"] for one in listed["entries"]] == [sha1(winners[0][1]).hexdigest()]
    assert len(list(api.store.parts.path(session["id"]).iterdir())) == 1


async def test_a_sha512_is_a_digest_too(api, small):
    session = await api.begin()
    good = "sha-512=" + base64.b64encode(hashlib.sha512(CONTENT[:PART]).digest()).decode()
    bad = "sha-512=" + base64.b64encode(hashlib.sha512(b"").digest()).decode()
    await api.put(session, 0, digest=bad, expect=412)
    await api.put(session, 0, digest=good)


async def test_a_plan_finds_what_need_not_be_sent(api, small):
    old = CONTENT[:PART] + b"x" * 1560
    file = await api.upload("a", old)
    url = f"{UPLOADS}/files/{file['id']}/upload_sessions"
    session = await api.ask("POST", url, json={"file_size": len(CONTENT)}, expect=201)
    third = (await api.put(session, 2 * PART))["part"]
    pieces = [(at, CONTENT[at : at + PART]) for at in (0, PART, 2 * PART)]
    wish = [
        {"offset": at, "size": len(data), "sha512": hashlib.sha512(data).hexdigest()} for at, data in pieces
    ]
    answer = await api.ask("POST", session["session_endpoints"]["plan"], json={"parts": wish})
    assert answer["upload_session_id"] == session["id"]
    assert [one["offset"] for one in answer["hits"]] == [0, 2 * PART]
    assert answer["hits"][1]["part_id"] == third["part_id"]
    assert answer["misses"] == [wish[1]]
    second = (await api.put(session, PART))["part"]
    parts = [answer["hits"][0], second, answer["hits"][1]]
    new = (await api.commit(session, parts))["entries"][0]
    assert (new["sha1"], await api.bytes(file["id"])) == (sha1(CONTENT).hexdigest(), CONTENT)
