"""Downloads that are answered by an address in the bucket: where that leads, for whom, and for how long."""

import os
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest

from cmsfs import errors
from cmsfs.auth import bearer, grants
from cmsfs.client import session
from cmsfs.runtime import clock
from cmsfs.service.oauth import access_tokens
from cmsfs.service.server import serve
from cmsfs.service.storage import store
from cmsfs.service.storage.s3 import presigned
from tests.service.conftest import SECRET
from tests.support import faults, s3_server

pytest.importorskip("obstore")


def on_server(test):
    lacks = s3_server.program() is None
    return pytest.mark.long(
        pytest.mark.skipif(lacks, reason="juicefs, whose gateway serves S3, is missing")(test)
    )


KIB = 1024
CONTENT = os.urandom(300 * KIB)
NAME = 'Über die Reiher; 50 % "und" mehr.pdf'


def test_the_signature_is_as_published():
    """The example of Amazon's description of signatures in the query."""
    signer = presigned.Signer(
        "https://examplebucket.s3.amazonaws.com",
        "us-east-1",
        "AKIAIOSFODNN7EXAMPLE",
        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    )
    address = signer.sign_url("test.txt", {}, at=1_369_353_600, seconds=86_400)
    assert address.endswith(
        "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    )


async def test_without_a_bucket_there_is_nowhere_to_lead(root):
    with pytest.raises(errors.UserError, match="give --blobs"):
        async with store.open_store(root, redirects=True):
            raise AssertionError


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_server.running(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def plan(s3, monkeypatch):
    """What is asked of the bucket's server, by the service and by clients."""
    found = faults.Plan()
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    async with faults.running("127.0.0.1", int(s3.url.rpartition(":")[2]), found) as relay:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{relay.port}")
        yield found


@pytest.fixture
async def service(root, fill, plan, request):
    url = s3_server.place(request.node.name)
    async with store.open_store(root, url, redirects=True) as opened:
        await fill(opened)
        yield opened


@pytest.fixture
def ask(api):
    """`await ask(path)`: the answer of the service, which nobody follows."""

    async def run(path, method="GET", **options):
        return await api.http.request(method, path, follow_redirects=False, **options)

    return run


@on_server
async def test_an_address_gives_the_bytes_under_their_name(api, ask):
    file = await api.upload(NAME, CONTENT)
    for headers in ({}, {"prefer": "return=representation"}):
        answer = await ask(f"/files/{file['id']}/content", headers=headers)
        assert (answer.status_code, answer.content) == (302, b"")
        assert answer.headers["cache-control"] == "no-store"
        address = answer.headers["location"]
        assert "authorization" not in address.lower()
        assert parse_qs(urlsplit(address).query)["X-Amz-Expires"] == ["300"]
    async with httpx.AsyncClient() as anybody:
        got = await anybody.get(address)
        assert (got.status_code, got.content) == (200, CONTENT)
        assert got.headers["content-disposition"] == f"attachment; filename*=UTF-8''{quote(NAME)}"
        assert got.headers["content-type"] == "application/pdf"
        part = await anybody.get(address, headers={"range": "bytes=70000-70009"})
        assert (part.status_code, part.content) == (206, CONTENT[70_000:70_010])
        assert part.headers["content-range"] == f"bytes 70000-70009/{len(CONTENT)}"
        # It opens nothing else, and nobody puts anything there.
        sha1 = file["sha1"]
        for other in (address.replace(sha1, "0" * 40), address.replace("Expires=300", "Expires=900")):
            assert (await anybody.get(other)).status_code == 403
        assert (await anybody.put(address, content=b"x")).status_code == 403


@on_server
async def test_an_address_ends(api, service, monkeypatch):
    file = await api.upload("a.bin", CONTENT)
    before = clock.time() - presigned.LIFETIME_SECONDS - 1
    monkeypatch.setattr(clock, "time", lambda: before)
    address = service.blobs.presigned_url(file["sha1"], {})
    monkeypatch.undo()
    async with httpx.AsyncClient() as anybody:
        assert (await anybody.get(address)).status_code == 403


@on_server
async def test_what_passes_the_service_still(api, ask, service, monkeypatch):
    large = await api.upload("a.bin", CONTENT)
    small = await api.upload("b.bin", CONTENT[: 60 * KIB])
    folder = await api.folder("marked")
    marked = await api.upload("c.bin", CONTENT[::-1], folder["id"])
    mark = {"watermark": {"imprint": "default"}}
    await api.ask("PUT", f"/folders/{folder['id']}/watermark", json=mark, expect=201)

    async def location(file, token=None, **headers):
        if token is not None:
            headers["authorization"] = f"Bearer {token}"
        answer = await ask(f"/files/{file['id']}/content", headers=headers)
        assert answer.status_code == 302
        return answer.headers["location"]

    assert "X-Amz-Signature" in await location(large)
    bound = await service.write(
        lambda conn: access_tokens.access_token(
            conn, "tests", api.user, now=service.now(), granted="item_download", bound=int(large["id"])
        )
    )
    for address in (
        await location(small),
        await location(marked),
        await location(large, bound["access_token"]),
    ):
        assert address.startswith("http://service.test/d/")
        assert (await ask(address)).status_code == 200
    assert (await api.http.head(f"/files/{large['id']}/content")).status_code in (200, 405)
    answer = await ask(f"/files/{large['id']}/content", headers={"range": f"bytes={len(CONTENT)}-"})
    assert answer.status_code == 416


@on_server
async def test_versions_and_shared_links_lead_there_and_are_counted(api, ask, service):
    file = await api.upload("a.bin", CONTENT)
    await api.version(file["id"], CONTENT[::-1])
    (old,) = (await api.ask("GET", f"/files/{file['id']}/versions"))["entries"]
    answer = await ask(f"/files/{file['id']}/content", params={"version": old["id"]})
    async with httpx.AsyncClient() as anybody:
        assert (await anybody.get(answer.headers["location"])).content == CONTENT
        wish = {"shared_link": {"access": "open"}}
        shared = await api.ask("PUT", f"/files/{file['id']}?fields=shared_link", json=wish)
        link = shared["shared_link"]
        for place in (link["download_url"], f"{link['url']}/{file['id']}/download"):
            answer = await ask(place, headers={"authorization": ""})
            assert answer.status_code == 302, place
            assert (await anybody.get(answer.headers["location"])).content == CONTENT[::-1]
    shared = await api.ask("GET", f"/files/{file['id']}?fields=shared_link")
    assert shared["shared_link"]["download_count"] == 2


@on_server
async def test_our_client_reads_there_and_keeps_its_token(api, service, plan, nursery):
    """A server of S3 refuses who comes with a token besides."""
    file = await api.upload("a.bin", CONTENT)
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    async with httpx.AsyncClient(headers={"authorization": api.http.headers["authorization"]}) as other:
        # As the public API's clients follow.
        answer = await other.get(f"{url}/2.0/files/{file['id']}/content", follow_redirects=True)
        assert answer.content == CONTENT
    endpoints = session.ServiceEndpoints.of_server(url)
    async with session.open_client(endpoints) as anonymous:
        fetch = grants.client_credentials(anonymous, "tests", SECRET, "user", str(api.user))
        async with session.open_client(endpoints, auth=bearer.BearerAuth(fetch)) as client:
            version = file["file_version"]["id"]
            for first, last in ((0, None), (0, len(CONTENT) - 1), (70_000, 200_000), (1, 1)):
                got = b""
                async with client.files.content(file["id"], first=first, last=last, version=version) as body:
                    async for piece in body:
                        got += piece
                assert got == CONTENT[first : None if last is None else last + 1]
    assert plan.count("GET", "X-Amz-Signature") == 5
