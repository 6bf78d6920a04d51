"""Contents at real servers of S3: every way in and out, restarts, faults, and whose a bucket is.

One after the other: the gateway of JuiceFS, which is MinIO's, and Swift.
"""

import hashlib
import json
import os
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import httpx
import pytest
import trio

from cmsfs import errors
from cmsfs.runtime import threads
from cmsfs.service.renditions import indexing
from cmsfs.service.server import sweeper
from cmsfs.service.storage import blob_check, store
from tests.service.conftest import CONTENT, UPLOADS, ServiceClient
from tests.support import s3_server, sample_documents, swift_server
from tests.support.server_process import ServerProcess

pytest.importorskip("obstore")
pytestmark = pytest.mark.long

HOUR = 3_600 * 1_000_000
MIB = 1024 * 1024


@pytest.fixture(scope="module", params=["juicefs", "swift"])
def s3(tmp_path_factory, request):
    is_swift = request.param == "swift"
    if is_swift and (lacks := swift_server.lacks()) is not None:
        pytest.skip(lacks)
    if not is_swift and s3_server.program() is None:
        pytest.skip("juicefs, whose gateway serves S3, is missing")
    module = swift_server if is_swift else s3_server
    with module.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def blobs_url(s3, monkeypatch, request):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server.place(request.node.name)


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


async def test_a_signed_address_gives_the_bytes_under_a_name(api, service):
    file = await api.upload("a.bin", b"a heron")
    said = {"content-disposition": "attachment; filename*=UTF-8''%C3%9Cber%20uns.pdf", "content-type": "a/b"}
    signer = service.blobs.bucket.signer()
    key = service.blobs.key(file["sha1"])
    async with httpx.AsyncClient(timeout=60) as anybody:
        answer = await anybody.get(signer.sign_url(key, said, at=int(time.time())))
        assert (answer.status_code, answer.content) == (200, b"a heron")
        assert {name: answer.headers[name] for name in said} == said
        headers = {"range": "bytes=2-4"}
        answer = await anybody.get(signer.sign_url(key, said, at=int(time.time())), headers=headers)
        assert (answer.status_code, answer.content) == (206, b"her")
        over = signer.sign_url(key, said, at=int(time.time()) - 400)
        assert (await anybody.get(over)).status_code == 403


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
    assert list(service.blobs.local_folder.iterdir()) == []


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


@pytest.mark.embedded  # a database on a server knows itself where the contents are
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
    with pytest.raises(errors.UserError, match="no data of this store"):
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


class Uploader:
    """Uploads file after file, whatever happens to the service; knows what was acknowledged."""

    def __init__(self, server, name):
        self._server = server
        self._name = name
        self.acknowledged = {}
        self.refused = 0

    def run(self, stop):
        token = None
        while not stop.is_set():
            name = f"{self._name}-{len(self.acknowledged)}-{self.refused}"
            # Every fourth has the bytes of somebody else.
            data = os.urandom(2000) if len(self.acknowledged) % 4 else b"what many have"
            try:
                token = token or access_token(self._server)
                body, headers = ServiceClient.form({"name": name, "parent": {"id": "0"}}, data)
                headers |= {"authorization": f"Bearer {token}"}
                answer = httpx.post(
                    f"{self._server.url}/2.0/files/content", content=body, headers=headers, timeout=60
                )
            except (OSError, httpx.HTTPError):
                self.refused += 1
                continue
            if answer.status_code == 201:
                self.acknowledged[name] = data
            else:
                assert answer.status_code == 503, answer.text
                assert answer.headers["retry-after"]
                self.refused += 1


def access_token(server):
    form = {
        "grant_type": "client_credentials",
        "client_id": server.credentials["client_id"],
        "client_secret": server.credentials["client_secret"],
        "box_subject_type": "user",
        "box_subject_id": server.credentials["user_id"],
    }
    return httpx.post(f"{server.url}/oauth2/token", data=form, timeout=60).json()["access_token"]


def _until(condition):
    give_up = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < give_up
        time.sleep(0.01)


@pytest.fixture
def quick_s3(s3):
    if isinstance(s3, swift_server.SwiftServer):
        pytest.skip("its four servers take too long to be there again")
    return s3


@pytest.mark.embedded  # the process has a folder alone
@pytest.mark.timeout(300)
async def test_what_was_acknowledged_outlives_kills_and_outages(tmp_path, blobs_url, quick_s3):
    """Four upload at once, while the service and the bucket's server are killed in turn."""
    s3 = quick_s3
    root = tmp_path / "data"
    server = ServerProcess(root, "--blobs", blobs_url, env=os.environ | s3.environment).start()
    stop = threading.Event()
    everybody = [Uploader(server, f"u{number}") for number in range(4)]

    def play():
        with ThreadPoolExecutor() as pool:
            running = [pool.submit(one.run, stop) for one in everybody]
            try:
                for number in range(6):
                    before = sum(len(one.acknowledged) for one in everybody)
                    _until(lambda before=before: sum(len(one.acknowledged) for one in everybody) > before + 5)
                    if number % 3 == 2:
                        refused = sum(one.refused for one in everybody)
                        s3.stop()
                        try:
                            _until(lambda refused=refused: sum(one.refused for one in everybody) > refused)
                        finally:
                            s3.start()
                    else:
                        server.process.kill()
                        server.stop()
                        server.start()
            finally:
                stop.set()
            for one in running:
                one.result()
        server.stop()

    try:
        await threads.run_sync(play)
    finally:
        server.stop()
    known = {name: data for one in everybody for name, data in one.acknowledged.items()}
    assert len(known) > 36
    async with store.open_store(root, blobs_url) as opened:
        report = await blob_check.BlobCheck(opened, read_all=True, repair=True).run(lambda _: None)
        assert (report.missing, report.damaged) == ([], [])
        rows = opened.read("SELECT name, sha1 FROM item WHERE kind = 1 AND status = 0")
        there = {row["name"]: row["sha1"] for row in rows}
        sha1s = {name: hashlib.sha1(data, usedforsecurity=False).hexdigest() for name, data in known.items()}
        assert there.items() >= sha1s.items()
        (used,) = opened.read("SELECT sum(space_used) AS n FROM account")
        (sizes,) = opened.read("SELECT sum(size) AS n FROM version")
        assert used["n"] == sizes["n"]
        assert opened.read("PRAGMA integrity_check")[0][0] == "ok"
