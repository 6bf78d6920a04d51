"""Contents at a real server of S3: every way in and out, restarts, faults, and whose a bucket is."""

import json
import os
import urllib.request
from functools import partial

import pytest
import trio

from cmsfs import errors
from cmsfs.runtime import threads
from cmsfs.service.renditions import indexing
from cmsfs.service.server import sweeper
from cmsfs.service.storage import store
from tests.service.conftest import CONTENT, UPLOADS
from tests.support import s3_server, sample_documents
from tests.support.server_process import ServerProcess

pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing"),
]

HOUR = 3_600 * 1_000_000
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def blobs_url(s3, monkeypatch, request):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3_server.BUCKET}/{request.node.name}"


def _keys(service):
    return {one.key.rpartition("/")[2] for one in service.blobs.bucket.list("blobs")}


@pytest.mark.usefixtures("small")
async def test_every_way_in_and_out(api, service):
    short = await api.upload("small", b"a heron")
    large = os.urandom(20 * MIB)
    file = await api.upload("large", large)
    answer = await api.http.get(f"/files/{file['id']}/content")
    assert answer.content == large
    headers = {"range": f"bytes={9 * MIB - 3}-{18 * MIB}"}
    answer = await api.http.get(f"/files/{file['id']}/content", headers=headers)
    assert answer.content == large[9 * MIB - 3 : 18 * MIB + 1]
    session = await api.begin("parts")
    made = (await api.commit(session, await api.put_all(session)))["entries"][0]
    assert await api.bytes(made["id"]) == CONTENT
    second = await api.version(short["id"], b"an egret")
    assert _keys(service) == {short["sha1"], file["sha1"], made["sha1"], second["sha1"]}
    versions = (await api.ask("GET", f"/files/{short['id']}/versions"))["entries"]
    wish = {"type": "file_version", "id": versions[0]["id"]}
    await api.ask("POST", f"/files/{short['id']}/versions/current", json=wish, expect=201)
    assert (await api.http.get(f"/files/{short['id']}/content")).content == b"a heron"


async def test_what_is_purged_leaves_the_bucket(api, service):
    file = await api.upload("one", b"the same")
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    await api.ask("DELETE", f"/files/{file['id']}/trash", expect=204)
    now = service.now()
    await sweeper.sweep(service, now)
    assert _keys(service) == {file["sha1"]}
    await sweeper.sweep(service, now + 2 * HOUR)
    assert _keys(service) == set()
    again = await api.upload("two", b"the same")
    assert (await api.http.get(f"/files/{again['id']}/content")).content == b"the same"


async def test_documents_are_found_by_their_words(api, service, nursery, monkeypatch):
    monkeypatch.setattr(indexing, "SETTLE_SECONDS", 0)
    await api.upload("a.pdf", sample_documents.pdf("heron"))
    nursery.start_soon(indexing.run, service)
    with trio.fail_after(60):
        while await api.names("heron", content_types="file_content") != {"a.pdf"}:  # noqa: ASYNC110
            await trio.sleep(0.05)
    assert list(service.blobs.readable.iterdir()) == []


async def test_a_server_that_is_away_for_a_moment_costs_no_upload(api, service, s3, expect_log):
    before = await api.upload("before", b"before")
    s3.stop()
    try:
        expect_log("out of reach")
        body, headers = api.form({"name": "new", "parent": {"id": "0"}}, b"precious")
        send = partial(api.http.post, f"{UPLOADS}/files/content", content=body, headers=headers)
        answer = await send()
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        answer = await api.http.get(f"/files/{before['id']}/content")
        assert answer.status_code == 503
    finally:
        s3.start()
    with trio.fail_after(60):
        while (answer := await send()).status_code == 503:  # noqa: ASYNC110
            await trio.sleep(0.1)
    assert answer.status_code == 201
    assert (await api.http.get(f"/files/{before['id']}/content")).content == b"before"


async def test_a_bucket_belongs_to_one_store(root, blobs_url, tmp_path):
    async with store.open_store(root, blobs_url) as opened:
        await threads.run_sync(opened.blobs.keep_bytes, b"a heron")
    # Again, and again after a start was killed before it knew that the bucket is its own.
    said = root / "blobs.json"
    said.write_text(json.dumps(json.loads(said.read_text()) | {"claimed": False}))
    for _ in range(2):
        async with store.open_store(root, f"{blobs_url}/"):
            pass
    for folder, url, why in (
        (tmp_path / "other", blobs_url, "the contents of another store"),
        (root, None, f"give --blobs {blobs_url}"),
        (root, f"{blobs_url}-2", "not in s3"),
    ):
        with pytest.raises(errors.UserError, match=why):
            async with store.open_store(folder, url):
                pass
    said.write_text(json.dumps(json.loads(said.read_text()) | {"url": f"{blobs_url}-2"}))
    with pytest.raises(errors.UserError, match="nothing of this store"):
        async with store.open_store(root, f"{blobs_url}-2"):
            pass


async def test_contents_in_a_folder_stay_there(root, blobs_url):
    async with store.open_store(root) as opened:
        await threads.run_sync(opened.blobs.keep_bytes, b"a heron")
        # Somebody names it.
        with pytest.raises(errors.UserError, match="has contents in its own folder"):
            async with store.open_store(root, blobs_url):
                pass


def test_the_server_serves_from_a_bucket(tmp_path, blobs_url, s3):
    server = ServerProcess(tmp_path / "data", "--blobs", blobs_url, env=os.environ | s3.environment)
    for _ in range(2):
        server.start()
        try:
            assert urllib.request.urlopen(f"{server.url}/docs", timeout=30).status == 200
        finally:
            server.stop()
    assert not [path for path in (tmp_path / "data" / "blobs").rglob("*") if path.is_file()]
