"""What an application sees of the requests of a connection, and clients of its answers."""

import json

import pytest
import trio

from cmsfs.service.server import http1, request_head


async def echo(scope, receive, send):
    """Answer what came; `/early` unseen, `/slow` in pieces, `/torn` in part, `/bad` and `/short` wrongly."""
    body = b""
    more = scope["path"] != "/early"
    while more:
        message = await receive()
        assert message["type"] == "http.request"
        body, more = body + message["body"], message["more_body"]
    said = {
        "method": scope["method"],
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "headers": [f"{name.decode()}={value.decode()}" for name, value in scope["headers"]],
        "body": body.decode(),
    }
    data = json.dumps(said).encode()
    headers = [] if scope["path"] in ("/slow", "/torn") else [(b"content-length", b"%d" % len(data))]
    headers += [(b"x", b"a\r\nset-cookie: b")] if scope["path"] == "/bad" else []
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    if scope["path"] == "/short":
        data = data[:-1]
    if scope["path"] in ("/slow", "/torn"):
        await send({"type": "http.response.body", "body": data[:5], "more_body": True})
        data = data[5:]
    if scope["path"] == "/torn":
        return
    await send({"type": "http.response.body", "body": data})


@pytest.fixture
async def connect(nursery):
    server = http1.Http1Server(echo, scheme="http", keep_alive_seconds=60)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    nursery.start_soon(trio.serve_listeners, server.serve, [listener])

    async def run():
        return await trio.open_tcp_stream("127.0.0.1", port)

    return run


async def ask(connect, *sent: bytes) -> bytes:
    """What comes until the server has ended the connection."""
    got = b""
    with trio.fail_after(10):
        async with await connect() as stream:
            for part in sent:
                await stream.send_all(part)
            while data := await stream.receive_some():
                got += data
    return got


def said(answer):
    return json.loads(answer.partition(b"\r\n\r\n")[2])


POST = b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"


async def test_a_request_in_pieces(connect):
    whole = b"POST /a%20b?c=%20 HTTP/1.1\r\nHost: a\r\nX-Y:  z \r\nConnection: close\r\n"
    whole += b"Content-Length: 4\r\n\r\nabcd"
    for cut in range(1, len(whole), 7):
        found = said(await ask(connect, whole[:cut], whole[cut:]))
        assert (found["method"], found["path"], found["query"]) == ("POST", "/a b", "c=%20")
        assert (found["body"], "x-y=z" in found["headers"]) == ("abcd", True)


async def test_chunks_are_joined_and_trailers_are_no_headers(connect):
    body = (
        b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n2\r\nde\r\n0\r\nAuthorization: Bearer x\r\n\r\n"
    )
    found = said(await ask(connect, POST + body))
    assert found["body"] == "abcde"
    assert not [one for one in found["headers"] if one.startswith("authorization")]


async def test_chunks_in_pieces(connect):
    body = b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0A\r\n0123456789\r\n0\r\nX: y\r\n\r\n"
    next_one = b"GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    whole = POST.replace(b"Connection: close\r\n", b"") + body + next_one
    for cut in range(len(POST), len(whole), 5):
        got = await ask(connect, whole[:cut], whole[cut:])
        assert b'"body": "abc0123456789"' in got
        assert b'"path": "/2"' in got


async def test_requests_are_answered_in_turn(connect):
    one = b"POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab"
    got = await ask(connect, one % 1 + one % 2 + b"GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    answers = [json.loads(part.partition(b"\r\n\r\n")[2]) for part in got.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert [(one["path"], one["body"]) for one in answers] == [("/1", "ab"), ("/2", "ab"), ("/3", "")]


@pytest.mark.parametrize(
    ("status", "sent"),
    [
        (400, POST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"),
        (400, POST + b"Content-Length: +3\r\n\r\nabc"),
        (400, POST + b"Content-Length: 3, 3\r\n\r\nabc"),
        (400, POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Transfer-Encoding: chunked\r\n\r\n0x3\r\nabc\r\n0\r\n\r\n"),
        (400, POST + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n"),
        (501, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Host: b\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\n\r\n"),
        (400, b"GET / HTTP/1.1\nHost: a\n\n\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX\x00: y\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\x00z\r\n\r\n"),
        (400, b"GET /\xc3\xa4 HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET / x HTTP/1.1\r\nHost: a\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n z\r\n\r\n"),
        (400, b"GET / HTTP/1.1\r\nHost: a\r\nX: y\nZ: z\r\n\r\n"),
        (400, POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        (400, POST + b"Transfer-Encoding: chunked\r\n\r\n1;\n\r\na\r\n0\r\n\r\n"),
        (400, POST + b"Transfer-Encoding: chunked\r\n\r\n11111111111111111\r\na"),
        (431, POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 30_000),
        (400, b"\x16\x03\x01\x02\x00\x01\x00"),
        (505, b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
        (431, b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * request_head.MAX_HEAD_BYTES),
        (431, POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + b"y" * 300_000),
    ],
)
async def test_what_is_ambiguous_is_refused(connect, status, sent):
    got = await ask(connect, sent)
    assert got.startswith(b"HTTP/1.1 %d " % status)
    assert got.count(b"HTTP/1.1") == 1


async def test_the_wish_for_another_protocol_is_passed_over(connect):
    inside = b"GET /in HTTP/1.1\r\nHost: b\r\n\r\n"
    wish = b"Upgrade: websocket\r\nConnection: Upgrade\r\nContent-Length: %d\r\n\r\n" % len(inside)
    last = b"GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    got = await ask(connect, b"POST /1 HTTP/1.1\r\nHost: a\r\n" + wish + inside + last)
    assert got.count(b"HTTP/1.1 200") == 2
    assert b'"path": "/in"' not in got


async def test_a_refused_client_keeps_its_body(connect):
    expecting = b"Host: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: %b\r\n\r\n"
    got = await ask(connect, b"POST /early HTTP/1.1\r\n" + expecting % b"keep-alive")
    assert got.startswith(b"HTTP/1.1 200 ")
    assert b"connection: close" in got
    got = await ask(connect, b"POST /x HTTP/1.1\r\n" + expecting % b"close", b"abc")
    assert got.startswith(b"HTTP/1.1 100 ")
    assert '"body": "abc"' in got.decode()


async def test_a_body_that_nobody_read_is_no_request(connect):
    inside = b"GET /in HTTP/1.1\r\nHost: a\r\n\r\n"
    early = b"POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(inside)
    got = await ask(connect, early + inside + b"GET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert got.count(b"HTTP/1.1 200") == 2
    assert b'"path": "/2"' in got


async def test_an_answer_of_unknown_length(connect):
    got = await ask(connect, b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    head, _, rest = got.partition(b"\r\n\r\n")
    assert b"transfer-encoding: chunked" in head
    assert rest.startswith(b"5\r\n") and rest.endswith(b"\r\n0\r\n\r\n")
    got = await ask(connect, b"GET /slow HTTP/1.0\r\n\r\n")
    assert b"transfer-encoding" not in got
    assert said(got)["path"] == "/slow"


async def test_head_is_answered_without_a_body(connect):
    got = await ask(connect, b"HEAD /x HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.0\r\n\r\n")
    first, _, second = got.partition(b"\r\n\r\n")
    assert b"content-length: " in first
    assert second.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("path", ["bad", "short"])
async def test_a_wrong_answer_ends_the_connection(connect, expect_log, path):
    expect_log("an answer broke off")
    got = await ask(connect, b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n" % path.encode())
    assert b"set-cookie" not in got
    assert not got.endswith(b"}")


async def test_a_torn_answer_does_not_look_whole(connect):
    got = await ask(connect, b"GET /torn HTTP/1.1\r\nhost: x\r\n\r\n")
    assert got.endswith(b'5\r\n{"met\r\n')  # without the last chunk
    # Here only the end of the connection tells where the body ends.
    assert (await ask(connect, b"GET /slow HTTP/1.0\r\n\r\n")).endswith(b"}")
    with pytest.raises(trio.BrokenResourceError):
        await ask(connect, b"GET /torn HTTP/1.0\r\n\r\n")
