"""What the parser takes for a request means the same to h11, whatever bytes came."""

import random
from dataclasses import dataclass

import h11
import pytest

from cmsfs.service.server.request_head import END, ChunkedBody, Malformed, RequestHead

HEADS = (
    b"GET /2.0/folders/0?fields=id,name HTTP/1.1\r\nHost: drive.test\r\nAccept: */*\r\n\r\n",
    b"POST /files HTTP/1.1\r\nHost: a:80\r\nContent-Length: 11\r\n\r\nhello\r\nGET GET / HTTP/1.1\r\n",
    b"POST /x HTTP/1.1\r\nhost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\nGET /",
    b"PUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n"
    b"A;x=1\r\n0123456789\r\n0\r\nTrailer: v\r\n\r\nrest",
    b"POST /x HTTP/1.0\r\nContent-Length: 3\r\nConnection: keep-alive\r\n\r\nabcdef",
    b"OPTIONS /files/content HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
)
PIECES = (
    b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b"\xff", b"0", b"1", b"-", b"+", b";", b"chunked",
    b"gzip, ", b"Host: b\r\n",
    b"Content-Length: 5\r\n", b"Content-Length: +5\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n",
    b" folded\r\n", b"Content-Length : 5\r\n", b"HTTP/1.1", b"HTTP/2.0", b"\x0b", b"0x5", b"_", b"\r\n\r\n",
)  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What one request says, and how the bytes after it begin."""

    method: bytes
    target: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    rest: bytes


def _ours(data: bytes) -> Request | None:
    """None: refused, or more is to come."""
    data = data.lstrip(b"\r\n")
    end = data.find(END)
    if end < 0:
        return None
    end += len(END)
    try:
        head = RequestHead(data[:end])
        rest = data[end:]
        if head.length is None:
            chunks = ChunkedBody()
            body = chunks.feed(rest)
            if not chunks.is_complete:
                return None
            rest = chunks.buffer
        elif len(rest) < head.length:
            return None
        else:
            body, rest = rest[: head.length], rest[head.length :]
    except Malformed:
        return None
    # h11 writes this one value in lower case.
    headers = [
        (name, value.lower() if name == b"transfer-encoding" else value) for name, value in head.headers
    ]
    return Request(head.method.encode(), head.target, headers, body, rest)


def _theirs(data: bytes) -> Request:
    """Raises `h11.RemoteProtocolError`, and `AssertionError` where it is not all there."""
    # Empty lines before a request are its client's fault, and no part of it.
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data.lstrip(b"\r\n"))
    event = connection.next_event()
    assert isinstance(event, h11.Request), event
    body = b""
    while not isinstance(part := connection.next_event(), h11.EndOfMessage):
        assert isinstance(part, h11.Data), part
        body += bytes(part.data)
    return Request(event.method, event.target, list(event.headers), body, connection.trailing_data[0])


def _mutated(chance: random.Random) -> bytes:
    data = chance.choice(HEADS)
    for _ in range(chance.randrange(4)):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0:
                data = data[:at] + chance.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + data[at + chance.randrange(1, 4) :]
            case 2:
                data = data[:at] + bytes([chance.randrange(256)]) + data[at + 1 :]
            case _:
                lines = data.split(b"\r\n")
                lines.insert(chance.randrange(len(lines)), chance.choice(lines))
                data = b"\r\n".join(lines)
    return data


def _compare(seed: int, count: int) -> int:
    """How many of so many mutated requests were taken."""
    chance, taken = random.Random(seed), 0
    for _ in range(count):
        data = _mutated(chance)
        if (found := _ours(data)) is not None:
            taken += 1
            assert found == _theirs(data), data
    return taken


def test_requests_mean_the_same_to_h11() -> None:
    assert all(_ours(head) for head in HEADS)
    assert _compare(random.randrange(10**9), 3000) > 300


@pytest.mark.long
def test_many_requests_mean_the_same_to_h11() -> None:
    _compare(random.randrange(10**9), 1_000_000)


def test_pieces_of_chunks_make_the_same_body() -> None:
    chance = random.Random(7)
    wire = b"".join(b"%x\r\n%b\r\n" % (n, b"x" * n) for n in (1, 500, 16, 70_000)) + b"0\r\na: b\r\n\r\nGET"
    whole = ChunkedBody()
    body = whole.feed(wire)
    assert (len(body), whole.is_complete, whole.buffer) == (70_517, True, b"GET")
    for _ in range(50):
        chunks, found, at = ChunkedBody(), b"", 0
        while not chunks.is_complete:
            size = chance.choice((1, 2, 3, 100, 40_000))
            found += chunks.feed(wire[at : at + size])
            at += size
        assert (found, chunks.buffer + wire[at:]) == (body, b"GET")
