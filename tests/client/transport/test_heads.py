"""Plain heads of responses are read as h11 reads them; all others are left to it."""

import h11
import httpx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cmsfs.client.transport import heads

PLAIN = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-A: \t b c \r\n\r\nabc"


def by_h11(data: bytes) -> tuple[int, list[tuple[bytes, bytes]], bytes] | None:
    """The status, the headers and the beginning of the body; None if it is no response's head."""
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("host", "-")]))
    http.send(h11.EndOfMessage())
    http.receive_data(data)
    try:
        event = http.next_event()
    except h11.RemoteProtocolError:
        return None
    if not isinstance(event, h11.Response):
        return None
    return event.status_code, event.headers.raw_items(), http.trailing_data[0]


def test_a_plain_head_is_read() -> None:
    head = heads.read_plain(PLAIN)
    assert head is not None
    assert (head.status, head.length, head.closes) == (200, 3, False)
    assert head.headers == [(b"Content-Length", b"3"), (b"X-A", b"b c")]
    assert PLAIN[head.end :] == b"abc"


@pytest.mark.parametrize(
    "data",
    [
        PLAIN[:20],
        PLAIN.replace(b"\r\n\r\nabc", b"\r\n"),
        PLAIN.replace(b"HTTP/1.1", b"HTTP/1.0"),
        PLAIN.replace(b"200", b"100"),
        PLAIN.replace(b"200", b"204"),
        PLAIN.replace(b"200", b"304"),
        PLAIN.replace(b"Content-Length: 3\r\n", b""),
        PLAIN.replace(b": 3", b": 3, 3"),
        PLAIN.replace(b": 3", b": -3"),
        PLAIN.replace(b": 3", b": " + b"9" * 30),
        PLAIN.replace(b"X-A", b"Content-Length: 4\r\nX-A"),
        PLAIN.replace(b"X-A", b"Transfer-Encoding: chunked\r\nX-A"),
        PLAIN.replace(b"X-A", b" folded\r\nX-A"),
        PLAIN.replace(b"X-A", b"X A"),
        PLAIN.replace(b"b c", b"b\0c"),
        PLAIN.replace(b"b c", b"b\nc"),
        PLAIN.replace(b"\r\n", b"\n"),
    ],
)
def test_others_are_left_to_h11(data: bytes) -> None:
    assert heads.read_plain(data) is None


@pytest.mark.parametrize(("value", "closes"), [(b"close", True), (b"Keep-Alive, Close", True), (b"x", False)])
def test_the_end_of_the_connection_is_seen(value: bytes, closes: bool) -> None:
    head = heads.read_plain(PLAIN.replace(b"X-A:", b"Connection: " + value + b"\r\nX-A:"))
    assert head is not None
    assert head.closes is closes


PIECES = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"HTTP/1.1 206 Partial\r\n",
                b"HTTP/1.1 200\r\n",
                b"Content-Length: 5\r\n",
                b"content-length:0\r\n",
            ]
        ),
        st.sampled_from(
            [b"A: b\r\n", b"\r\n", b"\n", b" ", b"\t", b":", b"\xff", b"Transfer-Encoding: x\r\n"]
        ),
        st.binary(max_size=3),
    ),
    max_size=8,
).map(b"".join)


@given(PIECES)
@example(PLAIN)
@settings(max_examples=300, deadline=None)
def test_what_is_read_is_what_h11_reads(tail: bytes) -> None:
    for data in (tail, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n" + tail + b"\r\n\r\n"):
        head = heads.read_plain(data)
        if head is not None:
            assert by_h11(data) == (head.status, head.headers, data[head.end :])
            assert (b"content-length", b"%d" % head.length) in [
                (name.lower(), b"%d" % int(value)) for name, value in head.headers if value.isdigit()
            ]


@pytest.mark.parametrize(
    "header", [("x: y", "z"), ("x", "y\r\nz: 1"), ("x", "y\nz"), ("x", "y\0"), ("x\r\ny", "z"), ("", "z")]
)
def test_no_header_of_a_request_is_two(header: tuple[str, str]) -> None:
    request = httpx.Request("GET", "https://example.com/a")
    request.headers = httpx.Headers([header])
    with pytest.raises(httpx.LocalProtocolError):
        heads.of_request(request)
