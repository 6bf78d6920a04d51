"""A server of S3 that is too busy, silent, or breaks off: clients hear of it, and nothing is half."""

import hashlib
import io
import os
import random
import zipfile
from collections import Counter
from datetime import timedelta
from typing import Any

import httpx
import pytest
import trio

from cmsfs.models.content import upload_sessions
from cmsfs.runtime import threads
from cmsfs.service.server import serve, sweeper
from cmsfs.service.storage import blob_check
from cmsfs.service.storage.s3 import s3_bucket, s3_reader
from tests.service.conftest import CONTENT, PART, SESSIONS, UPLOADS
from tests.support import faults, s3_server

pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing"),
]

# As Amazon's says it.
SLOW_DOWN = faults.Answer(
    503,
    {"Content-Type": "application/xml"},
    b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>',
)
ALWAYS = 1_000_000


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def plan(s3):
    found = faults.Plan()
    async with faults.running("127.0.0.1", int(s3.url.rpartition(":")[2]), found) as relay:
        found.url = f"http://127.0.0.1:{relay.port}"
        yield found


@pytest.fixture
def blobs_url(s3, plan, monkeypatch, request):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", plan.url)
    # Nobody waits here for what does not come.
    monkeypatch.setitem(s3_bucket.RETRY_CONFIG, "max_retries", 1)
    monkeypatch.setitem(s3_bucket.RETRY_CONFIG, "retry_timeout", timedelta(seconds=1))
    monkeypatch.setitem(s3_bucket.TIMEOUTS, "timeout", "2s")
    return s3_server.place(request.node.name)


async def keys(service, top):
    """What the bucket has; asked in a thread, since the relay is on the loop."""
    return await threads.run_sync(lambda: {one.key for one in service.blobs.bucket.list(top)})


def spools(service):
    return [path for path in service.blobs.incoming.rglob("*") if path.is_file()]


FAULTS = [SLOW_DOWN, faults.Stall(before=True), faults.Reset(before=True)]
IDS = ["slow-down", "silent", "reset"]


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
async def test_an_upload_is_refused_and_nothing_is_left(api, service, plan, fault, expect_log):
    expect_log("the contents are out of reach")
    body, headers = api.form({"name": "new", "parent": {"id": "0"}}, b"precious")
    plan.add(fault, method="PUT", times=ALWAYS)
    answer = await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
    assert service.read("SELECT 1 FROM item WHERE kind = 1") == service.read("SELECT 1 FROM version") == []
    assert service.read("SELECT sum(space_used) AS n FROM account")[0]["n"] == 0
    assert spools(service) == []
    plan.clear()
    answer = await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers)
    assert answer.status_code == 201
    assert await api.bytes(answer.json()["entries"][0]["id"]) == b"precious"


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
async def test_an_upload_in_parts_goes_on_when_the_bucket_does(api, service, plan, fault, small, expect_log):
    expect_log("the contents are out of reach")
    session = await api.begin()
    parts = [(await api.put(session, 0))["part"]]
    plan.add(fault, method="PUT", part="/sessions/", times=ALWAYS)
    await api.put(session, PART, expect=503)
    listed = (await api.ask("GET", f"{SESSIONS}/{session['id']}/parts"))["entries"]
    assert listed == parts
    plan.clear()
    parts += [(await api.put(session, offset))["part"] for offset in (PART, 2 * PART)]
    # The parts cannot be read, then the whole cannot be put; either leaves the upload as it was.
    for method, part in (("GET", "/sessions/"), ("PUT", "/blobs/")):
        plan.add(fault, method=method, part=part, times=ALWAYS)
        await api.commit(session, parts, expect=503)
        assert service.read("SELECT 1 FROM version") == []
        plan.clear()
    # The file is there, though its parts cannot be removed now.
    plan.add(fault, method="DELETE", part="/sessions/", times=ALWAYS)
    made = (await api.commit(session, parts))["entries"][0]
    plan.clear()
    assert await api.bytes(made["id"]) == CONTENT
    assert await keys(service, "sessions") != set()
    await sweeper.sweep(service, service.now() + 2 * 3_600_000_000)
    assert await keys(service, "sessions") == set()
    assert spools(service) == []


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
async def test_a_download_says_so_or_breaks_off(api, service, plan, fault, nursery, monkeypatch, expect_log):
    expect_log("the contents are out of reach")
    expect_log("download aborted")
    monkeypatch.setattr(s3_reader, "WINDOW", 100_000)
    # More than sockets hold.
    data = os.urandom(20_000_000)
    file = await api.upload("a.bin", data)
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    headers = {"authorization": api.http.headers["authorization"], "prefer": "return=representation"}
    async with httpx.AsyncClient(headers=headers, timeout=60) as client:
        address = f"{url}/2.0/files/{file['id']}/content"
        plan.add(fault, method="GET", part="/blobs/", times=ALWAYS)
        answer = await client.get(address)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        plan.clear()
        asked = plan.count("GET", "/blobs/")
        async with client.stream("GET", address) as answer:
            assert answer.status_code == 200
            plan.add(fault, method="GET", part="/blobs/", times=ALWAYS)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in answer.aiter_raw():
                    pass
        assert plan.count("GET", "/blobs/") > asked
        plan.clear()
        assert (await client.get(address)).content == data


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
async def test_an_archive_says_so_or_breaks_off(
    api, service, plan, fault, nursery, monkeypatch, log_watch, expect_log
):
    expect_log("the contents are out of reach")
    expect_log("archive aborted")
    monkeypatch.setattr(s3_reader, "WINDOW", 100_000)
    files = [await api.upload(f"{number}.bin", os.urandom(4_000_000)) for number in range(2)]
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    body = {"items": [{"type": "file", "id": one["id"]} for one in files]}
    async with httpx.AsyncClient(headers=api.http.headers, timeout=60) as client:
        asked = (await client.post(f"{url}/2.0/zip_downloads", json=body)).json()
        address = asked["download_url"]
        plan.add(fault, method="GET", part="/blobs/", times=ALWAYS)
        answer = await client.get(address)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        plan.clear()
        async with client.stream("GET", address) as answer:
            assert answer.status_code == 200
            plan.add(fault, method="GET", part="/blobs/", times=ALWAYS)
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in answer.aiter_raw():
                    pass
        assert len(log_watch.lines) == 2
        assert (await client.get(asked["status_url"])).json()["state"] == "failed"
        plan.clear()
        whole = (await client.get(address)).content
        assert zipfile.ZipFile(io.BytesIO(whole)).testzip() is None
        assert (await client.get(asked["status_url"])).json()["state"] == "succeeded"


@pytest.mark.timeout(300)
async def test_what_is_acknowledged_is_there_however_the_bucket_fails(
    api, service, plan, small, monkeypatch, expect_log
):
    """Eight upload at once, whole files and in parts, while every third request to the bucket goes wrong."""
    expect_log("the contents are out of reach")
    chance = random.Random(7)
    kinds = [SLOW_DOWN, faults.Reset(before=True), faults.LOST, faults.Reset(after=0), faults.UNAVAILABLE]
    plan.choose = lambda method, target: chance.choice(kinds) if chance.random() < 0.33 else None
    acknowledged = {}
    answers: Counter[Any] = Counter()

    async def whole(name):
        data = chance.choice([b"what many have", chance.randbytes(3000)])
        body, headers = api.form({"name": name, "parent": {"id": "0"}}, data)
        answer = await api.http.post(f"{UPLOADS}/files/content", content=body, headers=headers)
        return answer, data

    async def in_parts(name):
        data = chance.randbytes(2 * PART)
        wish = {"folder_id": "0", "file_size": len(data), "file_name": name}
        session = (await api.http.post(SESSIONS, json=wish)).json()
        parts = []
        for offset in (0, PART):
            piece = data[offset : offset + PART]
            answer = await api.http.put(
                f"{SESSIONS}/{session['id']}",
                content=piece,
                headers={
                    "digest": digest(piece),
                    "content-range": f"bytes {offset}-{offset + PART - 1}/{len(data)}",
                },
            )
            if answer.status_code != 200:
                return answer, data
            parts.append(answer.json()["part"])
        answer = await api.http.post(
            f"{SESSIONS}/{session['id']}/commit", json={"parts": parts}, headers={"digest": digest(data)}
        )
        return answer, data

    async def play(player):
        for number in range(12):
            name = f"{player}-{number}"
            answer, data = await (in_parts if number % 3 == 2 else whole)(name)
            answers[answer.status_code] += 1
            if answer.status_code == 201:
                acknowledged[name] = hashlib.sha1(data, usedforsecurity=False).hexdigest()
            else:
                assert (answer.status_code, answer.headers.get("retry-after")) == (503, "2"), answer.text

    async with trio.open_nursery() as players:
        for player in range(8):
            players.start_soon(play, player)
    assert answers[201] > 20
    assert answers[503] > 10
    plan.clear()
    rows = service.read("SELECT name, sha1 FROM item WHERE kind = 1 AND status = 0")
    assert {row["name"]: row["sha1"] for row in rows} == acknowledged
    report = await blob_check.BlobCheck(service, read_all=True, repair=False).run(lambda _: None)
    assert (report.missing, report.damaged, report.broken_uploads) == ([], [], [])
    (used,) = service.read("SELECT sum(space_used) AS n FROM account")
    (sizes,) = service.read("SELECT sum(size) AS n FROM version")
    assert used["n"] == sizes["n"]
    service.parts.close()  # some wait for their commits to be sent again
    assert spools(service) == []


def digest(data):
    return upload_sessions.digest(hashlib.sha1(data, usedforsecurity=False).digest())
