"""Downloads: the address that a question for bytes is answered with, what it opens and when it dies."""

import base64
import json
import os
import time

import httpx
import pytest
import trio

from cmsfs.client import session
from cmsfs.client.transport import embedded
from cmsfs.service.server import app, serve
from cmsfs.service.storage import blobs, folder_blobs, store
from tests.support.sharing import share

CONTENT = bytes(range(200))


@pytest.fixture
async def file(api):
    return await api.upload("a b.bin", CONTENT)


@pytest.fixture
async def visitor(service):
    """Somebody without a token."""
    transport = httpx.ASGITransport(app.build(service, "http://service.test"))
    async with httpx.AsyncClient(transport=transport) as client:
        yield client


async def address(api, file, **options):
    path = f"/files/{file['id']}/content"
    answer = await api.http.get(path, follow_redirects=False, **options)
    assert (answer.status_code, answer.content) == (302, b""), answer.text
    assert answer.headers["cache-control"] == "no-store"
    return answer.headers["location"]


async def test_download_url_needs_no_token(api, file, visitor):
    found = await address(api, file)
    assert found.startswith("http://service.test/d/")
    token = api.http.headers["authorization"].removeprefix("Bearer ")
    assert token not in found and token not in str(base64.urlsafe_b64decode(found.split("/")[4] + "=="))
    answer = await visitor.get(found)
    assert (answer.status_code, answer.content) == (200, CONTENT)
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''a%20b.bin"
    answer = await visitor.get(found, headers={"range": "bytes=10-19"})
    assert (answer.status_code, answer.content) == (206, CONTENT[10:20])
    assert answer.headers["content-range"] == "bytes 10-19/200"
    assert (await visitor.get(found, headers={"range": "bytes=200-"})).status_code == 416
    assert (await visitor.head(found)).headers["content-length"] == "200"


async def test_who_prefers_the_bytes_gets_them(api, file):
    path = f"/files/{file['id']}/content"
    for preference in ("return=representation", "respond-async, Return = Representation"):
        headers = {"prefer": preference, "range": "bytes=5-6"}
        answer = await api.http.get(path, headers=headers, follow_redirects=False)
        assert (answer.status_code, answer.content) == (206, CONTENT[5:7])
    await address(api, file, headers={"prefer": "return=minimal"})


async def test_an_address_is_of_one_version(api, file, visitor):
    old = file["file_version"]["id"]
    first = await address(api, file)
    await api.version(file["id"], b"second")
    assert (await visitor.get(first)).content == CONTENT
    assert (await visitor.get(await address(api, file))).content == b"second"
    assert (await visitor.get(await address(api, file, params={"version": old}))).content == CONTENT


async def test_an_address_ends(api, file, visitor, service, monkeypatch):
    found = await address(api, file)
    later = time.time_ns() // 1000 + 899 * 1_000_000
    monkeypatch.setattr(service, "now", lambda: later)
    assert (await visitor.get(found)).status_code == 200
    monkeypatch.setattr(service, "now", lambda: later + 2_000_000)
    assert (await visitor.get(found)).status_code == 404


async def test_an_address_that_was_tampered_with_opens_nothing(api, file, visitor, service):
    found = await address(api, file)
    other = await api.upload("other", b"other")
    start, word = found.rsplit("/", 2)[0], found.split("/")[4]
    data = base64.urlsafe_b64decode(word + "=" * (-len(word) % 4))
    values = json.loads(data[20:])
    values[2] = int(other["id"])
    forged = base64.urlsafe_b64encode(data[:20] + json.dumps(values).encode()).decode()
    flipped = base64.urlsafe_b64encode(bytes([data[0] ^ 1]) + data[1:]).decode()
    cut = base64.urlsafe_b64encode(data[:10]).decode()
    for bad in (
        forged,
        flipped,
        cut,
        "x",
        "%C3%A9",
        word + "AAAA",
        service.url_signer.sign("other", 1, expires=1),
    ):
        answer = await visitor.get(f"{start}/{bad}/download")
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), bad
    of_another_kind = service.url_signer.sign("other", *values[2:], expires=values[1])
    assert (await visitor.get(f"{start}/{of_another_kind}/download")).status_code == 404


async def test_an_address_dies_with_the_right_to_download(api, uwe, service, visitor):
    folder = await api.folder("ours")
    file = await api.upload("a.txt", b"hello", folder["id"])
    given = await share(api, folder, uwe, "viewer")
    found = await address(uwe, file)

    async def status():
        return (await visitor.get(found)).status_code

    assert await status() == 200
    lock = {"lock": {"access": "lock", "is_download_prevented": True}}
    await api.ask("PUT", f"/files/{file['id']}", json=lock)
    assert await status() == 403
    await api.ask("PUT", f"/files/{file['id']}", json={"lock": None})
    await api.ask("PUT", f"/collaborations/{given['id']}", json={"role": "previewer"})
    assert await status() == 404
    await api.ask("PUT", f"/collaborations/{given['id']}", json={"role": "viewer"})
    assert await status() == 200
    await api.ask("PUT", f"/users/{uwe.user}", json={"status": "inactive"})
    assert await status() == 404
    await api.ask("PUT", f"/users/{uwe.user}", json={"status": "active"})
    await api.ask("DELETE", f"/files/{file['id']}", expect=204)
    assert await status() == 404


async def test_shared_link_download_ends_with_link(api, uwe, file, visitor):
    path = f"/files/{file['id']}?fields=shared_link"
    url = (await api.ask("PUT", path, json={"shared_link": {"access": "open"}}))["shared_link"]["url"]
    found = await address(uwe, file, headers={"boxapi": f"shared_link={url}"})
    assert (await visitor.get(found)).content == CONTENT
    assert (await visitor.get(found, headers={"range": "bytes=10-19"})).status_code == 206
    assert (await api.ask("GET", path))["shared_link"]["download_count"] == 1
    await api.ask("PUT", path, json={"shared_link": None})
    assert (await visitor.get(found)).status_code == 404


async def test_the_address_of_a_bound_token_is_bound(api, visitor):
    folder = await api.folder("in")
    file = await api.upload("a.txt", b"hello", folder["id"])
    token = await api.narrowed("item_download", resource=f"http://service.test/2.0/folders/{folder['id']}")
    found = await address(api, file, headers={"authorization": f"Bearer {token}"})
    assert (await visitor.get(found)).content == b"hello"
    await api.ask("PUT", f"/files/{file['id']}", json={"parent": {"id": "0"}})
    assert (await visitor.get(found)).status_code == 404


@pytest.mark.embedded
async def test_download_url_survives_restart(root, fill, as_user):
    async with store.open_store(root) as first:
        await fill(first)
        api = await as_user(first, "ann@example.com")
        found = await address(api, await api.upload("a", b"hello"))
        key = first.root / "addresses.key"
        assert key.stat().st_mode & 0o777 == 0o600
    async with store.open_store(root) as second:
        transport = httpx.ASGITransport(app.build(second, "http://service.test"))
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get(found)).content == b"hello"
    assert [one.name for one in root.iterdir() if one.name.startswith("addresses")] == ["addresses.key"]


async def test_download_urls_are_fetched_once(api, service, file, nursery):
    asked = []
    built = app.build(service, "http://service.test")

    async def as_others_do(scope, receive, send):
        asked.append(scope["path"].split("/")[1])
        scope["headers"] = [one for one in scope["headers"] if one[0] != b"prefer"]
        await built(scope, receive, send)

    class Bearer(httpx.Auth):
        def auth_flow(self, request):
            request.headers["Authorization"] = api.http.headers["authorization"]
            yield request

    endpoints = session.ServiceEndpoints.of_server("http://service.test")
    transport = embedded.EmbeddedTransport(as_others_do, nursery)
    async with session.open_client(endpoints, auth=Bearer(), transport=transport) as client:
        for first in (0, 50, 100):
            version = file["file_version"]["id"]
            wanted = client.files.content(file["id"], first=first, last=first + 9, version=version)
            async with wanted as pieces:
                assert b"".join([one async for one in pieces]) == CONTENT[first : first + 10]
    assert asked == ["2.0", "d", "d", "d"]


async def test_a_lost_content_is_told_and_named_in_one_line(api, service, file, expect_log, log_watch):
    """With the status of the service's own fault, for an item that is still there."""
    expect_log(f"content {file['sha1']} is missing or incomplete: `cmsfs service check` tells whose files")
    place = service.blobs.path(file["sha1"])
    place.unlink()
    for method, headers in (("GET", {}), ("GET", {"range": "bytes=5-9"}), ("HEAD", {})):
        answer = await api.http.request(method, f"/files/{file['id']}/content", headers=headers)
        assert answer.status_code == 500, answer.text
        if method == "GET":
            assert answer.json()["code"] == "content_lost"
            assert "lost the content" in answer.json()["message"]
    assert len(log_watch.lines) == 3
    # So is one that is too short, before the response begins.
    place.write_bytes(CONTENT[:-1])
    answer = await api.http.get(f"/files/{file['id']}/content")
    assert (answer.status_code, answer.json()["code"]) == (500, "content_lost")
    assert len(log_watch.lines) == 4
    # The same bytes once more heal it.
    await api.upload("again", CONTENT)
    assert await api.bytes(file["id"]) == CONTENT


async def test_a_content_that_is_set_aside_is_read_from_there(api, service, file):
    """As while the transaction is open that deletes its last version, or once that was rolled back."""
    service.blobs.path(file["sha1"]).rename(service.blobs.aside / file["sha1"])
    assert await api.bytes(file["id"]) == CONTENT
    assert await api.bytes(file["id"], headers={"range": "bytes=3-7"}) == CONTENT[3:8]


async def test_a_download_of_a_content_that_ends_too_early_breaks_off(
    api, service, nursery, expect_log, log_watch
):
    size = 3 * blobs.CHUNK
    file = await api.upload("large", bytes(size))
    expect_log(f"content {file['sha1']} is missing or incomplete")
    with service.blobs.path(file["sha1"]).open("r+b") as damaged:
        damaged.truncate(size - 1)
    url = await nursery.start(lambda task_status: serve.serve(service, port=0, task_status=task_status))
    async with httpx.AsyncClient(headers=api.http.headers, follow_redirects=True) as client:
        with pytest.raises(httpx.RemoteProtocolError):
            await client.get(f"{url}/2.0/files/{file['id']}/content")
    assert len(log_watch.lines) == 1


async def test_few_bytes_are_read_soon_or_not_at_all(service, file):
    read_soon, sha1 = service.blobs.read_soon, file["sha1"]
    # Some file systems cannot tell whether they would wait.
    assert await read_soon(sha1, 5, 9) in (CONTENT[5:9], None)
    assert await read_soon(sha1, 150, 201) is None  # one more than there are
    service.blobs.path(sha1).unlink()
    assert await read_soon(sha1, 5, 9) is None


class SlowDisk:
    """In place of `os.preadv`: bytes are in memory from the look with this number on."""

    def __init__(self, there: int) -> None:
        self.there, self.looks = there, 0

    def preadv(self, file, buffers, offset, flags):
        self.looks += 1
        if self.looks < self.there:
            raise BlockingIOError
        buffers[0][:] = os.pread(file, len(buffers[0]), offset)
        return len(buffers[0])


async def test_few_bytes_that_a_disk_delivers_soon_need_no_thread(service, file, monkeypatch, nursery):
    disk, others = SlowDisk(4), []
    monkeypatch.setattr(os, "preadv", disk.preadv)

    async def other() -> None:
        while True:
            others.append(disk.looks)
            await trio.lowlevel.checkpoint()

    nursery.start_soon(other)
    assert await service.blobs.read_soon(file["sha1"], 5, 9) == CONTENT[5:9]
    assert disk.looks == 4
    assert {1, 2, 3} & set(others)


async def test_a_slow_disk_is_waited_for_by_a_thread(service, api, file, monkeypatch):
    disk = SlowDisk(10_000)
    monkeypatch.setattr(os, "preadv", disk.preadv)
    looks = []
    for _ in range(8):
        before = disk.looks
        assert await api.bytes(file["id"]) == CONTENT
        looks.append(disk.looks - before)
    most = folder_blobs.LOOKS
    assert looks == [most, 1, most, 1, 1, 1, most, 1]
