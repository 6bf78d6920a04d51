"""Three processes, each with a folder of its own: they share a PostgreSQL database and a bucket alone."""

import base64
import hashlib
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack

import httpx
import pytest
import trio

from cmsfs.models.content import upload_sessions
from tests.service.server.test_processes import ENTERPRISE, SECONDS, upload
from tests.support import s3_server, sample_documents
from tests.support.server_process import ServerProcess

pytest.importorskip("obstore")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(s3_server.program() is None, reason="juicefs, whose gateway serves S3, is missing"),
]

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def url(postgres):
    made = postgres.empty()
    yield made
    postgres.drop(made)


@pytest.fixture
def blobs_url(request):
    return s3_server.place(request.node.name)


@pytest.fixture
def servers(url, blobs_url, s3, tmp_path):
    file = tmp_path / "enterprise.toml"
    file.write_text(ENTERPRISE)
    options = ("--database", url, "--blobs", blobs_url, "--enterprise-file", file)
    env = os.environ | s3.environment
    made = [
        ServerProcess(tmp_path / f"data {number}", *options, log=tmp_path / f"log {number}", env=env)
        for number in range(3)
    ]
    for server in made:
        server.start()
    yield made
    for server in made:
        assert server.stop() == 0


async def caller(server, stack):
    client = await stack.enter_async_context(
        httpx.AsyncClient(base_url=f"{server.url}/2.0", timeout=SECONDS, follow_redirects=True)
    )
    form = {
        "grant_type": "client_credentials",
        "client_id": "tests",
        "client_secret": "a secret of the tests",
        "box_subject_type": "user",
        "box_subject_id": server.ready_info["user_ids"]["ann@example.com"],
    }
    answer = await client.post(f"{server.url}/oauth2/token", data=form)
    assert answer.status_code == 200, answer.text
    client.headers["authorization"] = f"Bearer {answer.json()['access_token']}"
    return client


@pytest.fixture
async def clients(servers):
    async with AsyncExitStack() as stack:
        yield [await caller(server, stack) for server in servers]


def _sha1(data):
    return hashlib.sha1(data, usedforsecurity=False).digest()


async def begin(client, name, size):
    body = {"folder_id": "0", "file_size": size, "file_name": name}
    answer = await client.post("/files/upload_sessions", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


async def put(client, session, whole, number):
    size = session["part_size"]
    data = whole[number * size : (number + 1) * size]
    headers = {
        "digest": upload_sessions.digest(_sha1(data)),
        "content-range": f"bytes {number * size}-{number * size + len(data) - 1}/{len(whole)}",
    }
    answer = await client.put(f"/files/upload_sessions/{session['id']}", content=data, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()["part"]


async def commit(client, session, parts, whole):
    headers = {"digest": "sha=" + base64.b64encode(_sha1(whole)).decode()}
    path = f"/files/upload_sessions/{session['id']}/commit"
    while (answer := await client.post(path, json={"parts": parts}, headers=headers)).status_code == 202:
        pass
    return answer


def check(url, blobs_url, s3, folder, *more):
    command = [sys.executable, "-m", "cmsfs", "service", "check", "--data", folder, "--database", url]
    return subprocess.run(
        [*command, "--blobs", blobs_url, "--json", *more],
        env=os.environ | s3.environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)
async def test_an_upload_outlives_the_process_that_took_half_of_it(
    servers, clients, url, blobs_url, s3, tmp_path
):
    one, two, three = clients
    whole = os.urandom(33 * MIB + 5)
    session = await begin(one, "large.bin", len(whole))
    assert session["total_parts"] == 5
    parts = [await put(one, session, whole, 1), await put(two, session, whole, 0)]
    # The process dies with a part half received; its folder goes with its machine.
    async with trio.open_nursery() as nursery:

        async def half():
            yield b"x" * MIB
            servers[0].process.kill()
            servers[0].process.wait()

        async def send():
            size = session["part_size"]
            headers = {
                "digest": "sha=" + base64.b64encode(_sha1(b"")).decode(),
                "content-range": f"bytes {2 * size}-{3 * size - 1}/{len(whole)}",
            }
            with pytest.raises(httpx.HTTPError):
                await one.put(f"/files/upload_sessions/{session['id']}", content=half(), headers=headers)

        nursery.start_soon(send)
    servers[0].stop()
    parts += [await put(three, session, whole, number) for number in (2, 4)]
    parts.append(await put(two, session, whole, 3))
    wrong = await commit(two, session, parts, whole[:-1] + b"\0" if whole[-1] else whole[:-1] + b"\1")
    assert wrong.status_code == 400
    made = await commit(three, session, parts, whole)
    assert made.status_code == 201, made.text
    file = made.json()["entries"][0]
    assert file["sha1"] == _sha1(whole).hex()
    assert (await two.get(f"/files/{file['id']}/content")).content == whole
    servers[0].data.rename(tmp_path / "lost")
    servers[0].start()
    async with AsyncExitStack() as stack:
        again = await caller(servers[0], stack)
        headers = {"range": f"bytes={8 * MIB - 3}-{25 * MIB}"}
        answer = await again.get(f"/files/{file['id']}/content", headers=headers)
        assert answer.content == whole[8 * MIB - 3 : 25 * MIB + 1]
    found = check(url, blobs_url, s3, tmp_path / "a fourth")
    report = json.loads(found.stdout)
    assert (found.returncode, report["contents"], report["uploads"]) == (0, 1, 0), found.stderr
    assert report["missing"] == report["damaged"] == report["orphans"] == report["broken_uploads"] == []


@pytest.mark.timeout(300)
async def test_what_one_process_makes_of_files_the_others_have(clients, url, blobs_url, s3, tmp_path):
    one, two, three = clients
    number = await upload(one, "birds.pdf", sample_documents.pdf("heron"))
    with trio.fail_after(120):
        for client in (two, three):
            while True:
                params = {"query": "heron", "content_types": "file_content"}
                found = (await client.get("/search", params=params)).json()["entries"]
                if [entry["id"] for entry in found] == [number]:
                    break
                await trio.sleep(0.2)
        for client in (three, one, two):
            answer = await client.get(f"/files/{number}/thumbnail.png")
            while answer.status_code == 202:
                await trio.sleep(0.2)
                answer = await client.get(f"/files/{number}/thumbnail.png")
            assert answer.content.startswith(b"\x89PNG")
    # Versions, the trash and its end, at whichever process.
    attributes = {"attributes": (None, "{}"), "file": ("birds.pdf", sample_documents.pdf("egret"))}
    uploads = str(two.base_url).replace("/2.0", "/api/2.0")
    answer = await two.post(f"{uploads}files/{number}/content", files=attributes)
    assert answer.status_code == 200, answer.text
    versions = (await three.get(f"/files/{number}/versions")).json()["entries"]
    assert len(versions) == 1
    wish = {"type": "file_version", "id": versions[0]["id"]}
    assert (await one.post(f"/files/{number}/versions/current", json=wish)).status_code == 201
    assert (await two.get(f"/files/{number}/content")).content == sample_documents.pdf("heron")
    assert (await three.delete(f"/files/{number}")).status_code == 204
    assert (await one.post(f"/files/{number}", json={})).status_code == 201
    address = await two.get(f"/files/{number}/content", follow_redirects=False)
    elsewhere = httpx.URL(address.headers["location"]).path
    # An address that one process signed is good at the others.
    answer = await three.get(f"http://{three.base_url.host}:{three.base_url.port}{elsewhere}")
    assert answer.content == sample_documents.pdf("heron")
    found = check(url, blobs_url, s3, tmp_path / "a fourth", "--quick")
    assert found.returncode == 0, found.stdout + found.stderr


def test_a_process_without_the_bucket_or_with_another_is_refused(servers, url, blobs_url, s3, tmp_path):
    for options, said in (
        ((), "give --blobs"),
        (("--blobs", f"{blobs_url}-2"), "not in s3"),
    ):
        log = tmp_path / "refused"
        other = ServerProcess(
            tmp_path / "other", "--database", url, *options, log=log, env=os.environ | s3.environment
        )
        with pytest.raises(AssertionError, match="did not start"):
            other.start()
        assert said in log.read_text()
        log.unlink()
    # Nor has another service the prefix.
    log = tmp_path / "refused"
    other = ServerProcess(tmp_path / "other", "--blobs", blobs_url, log=log, env=os.environ | s3.environment)
    with pytest.raises(AssertionError, match="did not start"):
        other.start()
    assert "another store" in log.read_text()
