"""Uploads against small services: what is sent, and what is believed of the answer."""

import hashlib
from contextlib import aclosing
from datetime import UTC, datetime

import httpx
import pytest
import trio
from starlette.responses import JSONResponse, Response

from cmsfs import errors
from cmsfs.client import session
from cmsfs.client.content.uploads import PIECE, BytesSource, FileSource, SourceChanged
from cmsfs.models.base import Reference
from cmsfs.models.content import uploads

HELLO = b"hello"
SHA1 = hashlib.sha1(HELLO).hexdigest()
WISH = uploads.UploadAttributes(name="a.txt", parent=Reference(id="0"))


def result(*files):
    return JSONResponse({"total_count": len(files), "entries": list(files)}, 201)


def file(**fields):
    return {"id": "5", "type": "file", "name": "a.txt", "sha1": SHA1, **fields}


class Service:
    """Remembers what arrived, and answers as told."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.requests = []
        self.bodies = []

    async def __call__(self, request):
        self.requests.append(request)
        self.bodies.append(await request.body())
        return self.answers.pop(0)


async def test_upload_sends_attributes_and_sha1(connect):
    service = Service(result(file()))
    client = await connect(service)
    made = await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)
    assert (made.id, made.sha1) == ("5", SHA1)
    (request,) = service.requests
    assert (request.method, request.url.path) == ("POST", "/api/2.0/files/content")
    assert request.headers["content-md5"] == SHA1
    assert request.headers["content-length"] == str(len(service.bodies[0]))
    assert "transfer-encoding" not in request.headers
    assert "sha1" in request.query_params["fields"].split(",")
    assert b'{"name": "a.txt", "parent": {"id": "0"}}' in service.bodies[0]
    assert client.counters == {"upload": 1}


async def test_version_upload_sends_if_match(connect):
    service = Service(result(file()), result(file()))
    client = await connect(service)
    when = datetime(2026, 11, 21, 4, 5, 6, tzinfo=UTC)
    await client.uploads.new_version(
        "5", BytesSource(HELLO), sha1=SHA1, etag="3", name="b.txt", content_modified_at=when
    )
    await client.uploads.new_version("5", BytesSource(HELLO), sha1=SHA1)
    first, second = service.requests
    assert first.url.path == "/api/2.0/files/5/content"
    assert first.headers["if-match"] == "3"
    assert b'{"name": "b.txt", "content_modified_at": "2026-11-21T04:05:06+00:00"}' in service.bodies[0]
    assert "if-match" not in second.headers
    assert b"\r\n\r\n{}\r\n" in service.bodies[1]


async def test_wrong_sha1_in_response_is_integrity_error(connect):
    client = await connect(Service(result(file(sha1="0" * 40))))
    with pytest.raises(errors.IntegrityError) as caught:
        await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)
    assert (caught.value.expected, caught.value.actual) == (SHA1, "0" * 40)


async def test_damaged_upload_is_an_integrity_error(connect):
    client = await connect(Service(JSONResponse({"status": 400, "code": "bad_digest"}, 400)))
    with pytest.raises(errors.IntegrityError):
        await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)


@pytest.mark.parametrize("answer", [result(), result(file(), file()), result(file(sha1=None))])
async def test_upload_response_without_file_is_protocol_error(connect, answer):
    client = await connect(Service(answer))
    with pytest.raises(errors.ProtocolError):
        await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)


async def test_conflict_names_the_holder(connect):
    refusal = JSONResponse(
        {"status": 409, "code": "item_name_in_use", "context_info": {"conflicts": {"id": "9", "sha1": SHA1}}},
        409,
    )
    client = await connect(Service(refusal))
    with pytest.raises(errors.Conflict) as caught:
        await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)
    assert caught.value.conflict == {"id": "9", "sha1": SHA1}


async def test_a_repeat_sends_the_whole_body_again(connect, autojump_clock):
    service = Service(Response(status_code=429), result(file()))
    client = await connect(service)
    heard: list[int] = []
    await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1, progress=heard.append)
    assert service.bodies[0] == service.bodies[1]
    assert heard == [5, 5]


async def test_upload_of_unknown_outcome_is_not_repeated(connect):
    service = Service(Response(status_code=503, headers={"Retry-After": "1"}))
    client = await connect(service)
    with pytest.raises(errors.ServerError):
        await client.uploads.new_file(WISH, BytesSource(HELLO), sha1=SHA1)


async def test_early_refusal_closes_the_file(connect, tmp_path):
    path = tmp_path / "large"
    path.write_bytes(bytes(8 * PIECE))
    read = []

    async def handler(request):
        async with aclosing(request.stream()) as pieces:
            async for piece in pieces:
                read.append(len(piece))
                if len(read) == 2:
                    break
        return JSONResponse({"status": 403, "code": "storage_limit_exceeded"}, 403)

    client = await connect(handler)
    with pytest.raises(errors.Forbidden):
        await client.uploads.new_file(WISH, FileSource(path), sha1=SHA1)
    assert len(read) == 2
    # That the file is closed is what the test's own watch for ResourceWarnings says.


async def test_file_changed_during_upload_is_rejected(connect, tmp_path):
    path = tmp_path / "f"
    path.write_bytes(bytes(4 * PIECE))
    source = FileSource(path)
    arrived = []

    async def handler(request):
        async for piece in request.stream():
            arrived.append(piece)
            path.write_bytes(b"short")
        raise AssertionError("the body must not seem complete")

    client = await connect(handler)
    with pytest.raises(SourceChanged):
        await client.uploads.new_file(WISH, source, sha1=SHA1)
    assert not b"".join(arrived).endswith(b"--\r\n")


async def test_cancelling_an_upload_ends_it_at_once(connect):
    stuck = trio.Event()

    async def handler(request):
        await request.receive()
        stuck.set()
        await trio.sleep_forever()

    client = await connect(handler)
    async with trio.open_nursery() as nursery:

        async def upload():
            await client.uploads.new_file(WISH, BytesSource(bytes(3 * PIECE)), sha1=SHA1)

        nursery.start_soon(upload)
        await stuck.wait()
        nursery.cancel_scope.cancel()


async def test_early_refusal_leaves_no_generator(tmp_path):
    # httpx's own encoder would wrap the body in an async generator, which a broken upload abandons; the
    # test's watch for warnings would hear of it.
    path = tmp_path / "large"
    path.write_bytes(bytes(64 * PIECE))

    async def refuse(stream):
        async with stream:
            await stream.receive_some(1000)
            text = b'{"status":403,"code":"storage_limit_exceeded"}'
            head = b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/json\r\nConnection: close\r\n"
            await stream.send_all(head + b"Content-Length: %d\r\n\r\n" % len(text) + text)
            await stream.send_eof()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, refuse, [listener])
        url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        async with session.open_client(session.ServiceEndpoints.of_server(url)) as client:
            with pytest.raises((errors.Forbidden, errors.Offline)) as caught:
                await client.uploads.new_file(WISH, FileSource(path), sha1=SHA1)
        assert isinstance(caught.value, errors.Forbidden) or isinstance(
            caught.value.__cause__, httpx.NetworkError
        )
        nursery.cancel_scope.cancel()
