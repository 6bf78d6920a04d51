"""Content of files: exactly the bytes that were asked for, or an exception."""

from datetime import UTC, datetime

import httpx
import pytest
import trio
import trio.testing
from starlette.responses import JSONResponse, Response

from cmsfs import errors
from cmsfs.client import session
from cmsfs.client.transport import download_urls, retry

DATA = bytes(range(256)) * 40
ONCE = retry.Policy(attempts=1, connect_attempts=1)


async def read(client, **wanted):
    async with client.files.content("5", **wanted) as pieces:
        return b"".join([piece async for piece in pieces])


def ranged(request):
    """A good service's answer to a range."""
    first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
    headers = {"Content-Range": f"bytes {first}-{last}/{len(DATA)}"}
    return Response(DATA[first : last + 1], 206, headers=headers)


class Pieces(Response):
    """An answer that announces no length and comes in pieces; `made` counts them."""

    def __init__(self, pieces, status=200, **headers):
        self.made = 0
        self.status_code = status
        self._pieces = pieces
        self._fields = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]

    async def __call__(self, scope, receive, send):
        start = {"type": "http.response.start", "status": self.status_code, "headers": self._fields}
        await send(start)
        for piece in self._pieces:
            self.made += 1
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def streamed(data, status=200, **headers):
    return Pieces([data[start : start + 100] for start in range(0, len(data), 100)], status, **headers)


async def test_a_range_is_asked_for_and_given(connect):
    requests = []

    async def handler(request):
        requests.append(request)
        return ranged(request)

    client = await connect(handler)
    assert await read(client, first=100, last=4000, version="17") == DATA[100:4001]
    assert await read(client, first=0, last=0) == DATA[:1]
    assert requests[0].url.path == "/2.0/files/5/content"
    assert requests[0].headers["range"] == "bytes=100-4000"
    assert requests[0].headers["accept-encoding"] == "identity"
    assert requests[0].query_params["version"] == "17"
    assert client.counters == {"download": 2}


async def test_whole_file_request_has_no_range(connect):
    async def handler(request):
        assert "range" not in request.headers
        return Response(DATA)

    assert await read(await connect(handler)) == DATA


@pytest.mark.parametrize(("first", "last"), [(0, 99), (150, 4000), (10_000, 10_239), (0, 10_239)])
@pytest.mark.parametrize("announced", [True, False])
async def test_response_without_ranges_is_cut(connect, first, last, announced):
    async def handler(request):
        return Response(DATA) if announced else streamed(DATA)

    assert await read(await connect(handler), first=first, last=last) == DATA[first : last + 1]


@pytest.mark.parametrize(
    "content_range", ["", "bytes 0-99/10240", "bytes 100-198/10240", "bytes */10240", "x"]
)
async def test_another_range_than_asked_for_is_refused(connect, content_range):
    async def handler(request):
        return Response(bytes(100), 206, headers={"Content-Range": content_range})

    with pytest.raises(errors.ProtocolError):
        await read(await connect(handler), first=100, last=199)


@pytest.mark.parametrize("count", [0, 99, 101, 250])
async def test_body_shorter_than_range_is_detected(connect, count):
    async def handler(request):
        return streamed(bytes(count), 206, content_range="bytes 100-199/10240")

    with pytest.raises(errors.ProtocolError):
        await read(await connect(handler), first=100, last=199)


async def test_wrong_range_length_is_refused_early(connect):
    async def handler(request):
        return Response(bytes(50), 206, headers={"Content-Range": "bytes 100-199/10240"})

    with pytest.raises(errors.ProtocolError):
        async with (await connect(handler)).files.content("5", first=100, last=199):
            raise AssertionError("not reached")


@pytest.mark.parametrize("announced", [True, False])
async def test_short_whole_file_is_detected(connect, announced):
    async def handler(request):
        return Response(DATA[:150]) if announced else streamed(DATA[:150])

    with pytest.raises(errors.ProtocolError):
        await read(await connect(handler), first=100, last=199)


async def test_truncated_body_is_a_broken_connection(connect):
    async def handler(request):
        return streamed(DATA[:150], 206, content_range="bytes 0-199/10240", content_length="200")

    with pytest.raises(errors.Offline):
        await read(await connect(handler), first=0, last=199)


@pytest.mark.parametrize("status", [204, 203, 304])
async def test_an_answer_that_is_no_content_is_refused(connect, status):
    async def handler(request):
        return Response(status_code=status)

    with pytest.raises(errors.RemoteError):
        await read(await connect(handler), first=0, last=9)


async def test_compressed_content_is_refused(connect):
    async def handler(request):
        return Response(b"\x1f\x8b", headers={"Content-Encoding": "gzip"})

    with pytest.raises(errors.ProtocolError):
        await read(await connect(handler))


@pytest.mark.parametrize(("first", "last"), [(5, 4), (-1, 4), (7, None)])
async def test_invalid_range_is_a_caller_error(connect, first, last):
    client = await connect(ranged)
    with pytest.raises(ValueError):
        await read(client, first=first, last=last)


async def test_content_streams(connect):
    answer = Pieces([bytes(1000)] * 50)

    async def handler(request):
        return answer

    client = await connect(handler)
    async with client.files.content("5") as pieces:
        await anext(pieces)
        await trio.testing.wait_all_tasks_blocked()
        assert answer.made == 2


class Hosts(httpx.AsyncBaseTransport):
    """Several hosts, each a function; the requests are kept."""

    def __init__(self, **hosts):
        self.requests = []
        self._hosts = hosts

    async def handle_async_request(self, request):
        self.requests.append(request)
        return self._hosts[request.url.host](request)


class Static(httpx.Auth):
    def auth_flow(self, request):
        request.headers["authorization"] = "Bearer secret"
        yield request


def moved(to):
    return lambda request: httpx.Response(302, headers={"location": to})


async def downloads(hosts, url="https://api"):
    endpoints = session.ServiceEndpoints.of_server(url)
    async with session.open_client(endpoints, transport=hosts, auth=Static(), policy=ONCE) as client:
        return await read(client, first=2, last=5)


def bytes_2_to_5(request):
    assert request.headers["range"] == "bytes=2-5"
    return httpx.Response(206, stream=httpx.ByteStream(b"2345"), headers={"content-range": "bytes 2-5/10"})


async def test_redirect_to_other_host_drops_token():
    hosts = Hosts(api=moved("https://dl/d/1/signed"), dl=bytes_2_to_5)
    assert await downloads(hosts) == b"2345"
    first, second = hosts.requests
    assert first.headers["authorization"] == "Bearer secret"
    assert "authorization" not in second.headers
    assert (second.url.path, second.headers["host"]) == ("/d/1/signed", "dl")


async def test_another_host_is_not_told_the_shared_link():
    hosts = Hosts(api=moved("https://dl/d/1/signed"), dl=bytes_2_to_5)
    endpoints = session.ServiceEndpoints.of_server("https://api")
    async with session.open_client(endpoints, transport=hosts, auth=Static(), policy=ONCE) as client:
        client.files.shown_by("https://api/s/word", "5")
        assert await read(client, first=2, last=5) == b"2345"
    first, second = hosts.requests
    assert first.headers["boxapi"] == "shared_link=https://api/s/word"
    assert "boxapi" not in second.headers


async def test_another_port_is_another_host():
    answers = [moved("https://api:444/x"), bytes_2_to_5]
    hosts = Hosts(api=lambda request: answers.pop(0)(request))
    assert await downloads(hosts) == b"2345"
    assert "authorization" not in hosts.requests[1].headers


async def test_a_redirection_out_of_tls_is_refused():
    hosts = Hosts(api=moved("http://dl/d/1/signed"), dl=bytes_2_to_5)
    with pytest.raises(errors.ProtocolError):
        await downloads(hosts)
    assert len(hosts.requests) == 1


async def test_redirections_end():
    with pytest.raises(errors.ProtocolError):
        await downloads(Hosts(api=moved("/again")))


async def test_other_hosts_error_is_not_the_services():
    hosts = Hosts(api=moved("https://dl/x"), dl=lambda request: httpx.Response(403))
    with pytest.raises(errors.NotOurs):
        await downloads(hosts)


async def test_update_sends_changes_with_etag(connect):
    requests = []

    async def handler(request):
        requests.append((request.method, request.url.path, request.headers, await request.body()))
        return JSONResponse({"id": "5", "type": "file"})

    client = await connect(handler)
    when = datetime(2026, 11, 21, 4, 5, 6, 789, tzinfo=UTC)
    await client.items.update("file", "5", name="b", etag="7")
    await client.items.update("file", "5", parent_id="9", content_modified_at=when)
    await client.files.copy("5", parent_id="9")
    (_, path, headers, body), (_, _, without, other), (method, copied, _, third) = requests
    assert (path, headers["if-match"], body) == ("/2.0/files/5", "7", b'{"name":"b"}')
    assert "if-match" not in without
    assert other == b'{"parent":{"id":"9"},"content_modified_at":"2026-11-21T04:05:06.000789+00:00"}'
    assert (method, copied, third) == ("POST", "/2.0/files/5/copy", b'{"parent":{"id":"9"}}')


class Elsewhere:
    """A service that answers with addresses, which end when they are told to."""

    def __init__(self):
        self.requests = []
        self.given = 0
        self.ended = False

    async def __call__(self, request):
        self.requests.append((request.url.path, "authorization" in request.headers))
        if request.url.path.startswith("/2.0/"):
            self.given += 1
            self.ended = False
            host = request.query_params.get("host", "other.test")
            return Response(status_code=302, headers={"location": f"http://{host}/d/{self.given}"})
        if self.ended:
            return Response(status_code=403)
        return ranged(request)


@pytest.fixture
def elsewhere():
    return Elsewhere()


async def _part(client, first, **more):
    got = await read(client, first=first, last=first + 9, **more)
    assert got == DATA[first : first + 10]


async def test_valid_download_url_is_reused(connect, elsewhere):
    client = await connect(elsewhere)
    for first in (0, 100, 200):
        await _part(client, first, version="17")
    paths = [path for path, _ in elsewhere.requests]
    assert paths == ["/2.0/files/5/content", "/d/1", "/d/1", "/d/1"]
    await _part(client, 0, version="18")
    assert [path for path, _ in elsewhere.requests[4:]] == ["/2.0/files/5/content", "/d/2"]


async def test_expired_download_url_is_renewed(connect, elsewhere):
    client = await connect(elsewhere)
    await _part(client, 0, version="17")
    elsewhere.ended = True
    await _part(client, 100, version="17")
    await _part(client, 200, version="17")
    paths = [path for path, _ in elsewhere.requests[2:]]
    assert paths == ["/d/1", "/2.0/files/5/content", "/d/2", "/d/2"]


async def test_an_address_lasts_only_so_long(connect, elsewhere, autojump_clock):
    client = await connect(elsewhere)
    await _part(client, 0, version="17")
    await trio.sleep(download_urls.LIFETIME_SECONDS)
    await _part(client, 0, version="17")
    assert elsewhere.given == 2


async def test_the_current_version_is_asked_for_each_time(connect, elsewhere):
    client = await connect(elsewhere)
    await _part(client, 0)
    await _part(client, 0)
    assert elsewhere.given == 2


async def test_no_token_goes_to_an_address(connect, elsewhere):
    class Bearer(httpx.Auth):
        def auth_flow(self, request):
            request.headers["Authorization"] = "Bearer secret"
            yield request

    client = await connect(elsewhere, auth=Bearer())
    await _part(client, 0, version="17")
    await _part(client, 100, version="17")
    assert [told for _, told in elsewhere.requests] == [True, False, False]


async def test_an_address_whose_bytes_are_wrong_is_forgotten(connect, elsewhere):
    client = await connect(elsewhere)
    await _part(client, 0, version="17")
    with pytest.raises(errors.ProtocolError):
        async with client.files.content("5", first=0, last=9, version="17"):
            raise errors.ProtocolError("not these bytes")
    await _part(client, 0, version="17")
    assert elsewhere.given == 2


async def test_there_are_never_too_many_addresses(connect, elsewhere, monkeypatch):
    monkeypatch.setattr(download_urls, "MOST", 2)
    client = await connect(elsewhere)
    for version in ("1", "2", "3", "2", "3"):
        await _part(client, 0, version=version)
    assert elsewhere.given == 3
    await _part(client, 0, version="1")
    assert elsewhere.given == 4
