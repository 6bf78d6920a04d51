"""A strict parser for the head of an HTTP/1.1 request, and for chunked bodies.

Framing is never guessed: there must be one length or one `chunked`, lines that end in CRLF, valid characters
in names and values, and one `Host`.  This prevents request smuggling, here and through a proxy in front.

Rule: an ambiguous request is refused, and the connection is closed.
"""

import enum
import re

# The maximum size of a head, and of the trailers after a chunked body.
MAX_HEAD_BYTES = 16 * 1024

END = b"\r\n\r\n"

_TOKEN = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_REQUEST = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/(1\.[01])" % _TOKEN)
_OTHER_VERSION = re.compile(rb".* HTTP/\d(\.\d)?")
_FIELD = re.compile(rb"(%b):[ \t]*(%b)" % (_TOKEN, _VALUE))
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,16})(?:;%b)?" % _VALUE)
# Framing headers are not allowed in trailers.
_FRAMING = (b"content-length", b"transfer-encoding", b"host")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class Malformed(Exception):
    """A malformed request, with the status to refuse it with."""

    def __init__(self, status: int = 400) -> None:
        super().__init__(status)
        self.status = status


class RequestHead:
    """A parsed head, from its first byte to the empty line.  Raises `Malformed`."""

    __slots__ = ("expects_continue", "headers", "keep_alive", "length", "method", "target", "version")

    def __init__(self, data: bytes) -> None:
        first, *lines = data[: -len(END)].split(b"\r\n")
        if (found := _REQUEST.fullmatch(first)) is None:
            ours = first.endswith((b" HTTP/1.1", b" HTTP/1.0"))
            raise Malformed(505 if not ours and _OTHER_VERSION.fullmatch(first) else 400)
        self.method = found[1].decode("ascii")
        self.target: bytes = found[2]
        self.version = found[3].decode("ascii")
        self.headers: list[tuple[bytes, bytes]] = []
        self.length: int | None = 0  # of the body; None: chunked
        self.expects_continue = False  # the client waits for 100 Continue before it sends the body
        self.keep_alive = self.version == "1.1"  # another request may follow
        framing_headers = hosts = 0
        for line in lines:
            if (found := _FIELD.fullmatch(line)) is None:
                raise Malformed
            name, value = found[1].lower(), found[2].rstrip(b" \t")
            self.headers.append((name, value))
            if name == b"host":
                hosts += 1
            elif name == b"connection":
                self.keep_alive = self.keep_alive and b"close" not in value.lower()
            elif name == b"expect":
                self.expects_continue = self.version == "1.1" and value.lower() == b"100-continue"
            elif name in (b"content-length", b"transfer-encoding"):
                framing_headers += 1
                self.length = self._length(name, value)
        if framing_headers > 1 or hosts > 1 or (not hosts and self.version == "1.1"):
            raise Malformed

    def _length(self, name: bytes, value: bytes) -> int | None:
        if name == b"content-length":
            if _LENGTH.fullmatch(value) is None:
                raise Malformed
            return int(value)
        if self.version != "1.1":
            raise Malformed
        if value.lower() != b"chunked":
            raise Malformed(501)
        return None


class _ChunkState(enum.Enum):
    SIZE = enum.auto()
    DATA = enum.auto()
    BREAK = enum.auto()
    TRAILER = enum.auto()


class ChunkedBody:
    """An incremental decoder of a chunked body."""

    def __init__(self) -> None:
        self.is_complete = False
        self.buffer = b""  # received but not decoded yet; after the end, the bytes that follow the body
        self._state = _ChunkState.SIZE
        self._left = 0
        self._trailer_size = 0

    def feed(self, data: bytes) -> bytes:
        """Decode received bytes and return the body's part of them.  Raises `Malformed`."""
        data, at, found = self.buffer + data, 0, []
        while not self.is_complete:
            if self._state is _ChunkState.DATA:
                piece = data[at : at + self._left]
                if not piece:
                    break
                found.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._state = _ChunkState.DATA if self._left else _ChunkState.BREAK
            elif self._state is _ChunkState.BREAK:
                if len(data) - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Malformed
                at, self._state = at + 2, _ChunkState.SIZE
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                self._parse_line(data[at:end])
                at = end + 2
        self.buffer = data[at:]
        if not self.is_complete and len(self.buffer) > MAX_HEAD_BYTES:
            raise Malformed(431)
        return b"".join(found)

    def _parse_line(self, line: bytes) -> None:
        if self._state is _ChunkState.TRAILER:
            self._trailer_size += len(line)
            self.is_complete = not line
            field = _FIELD.fullmatch(line)
            if line and (field is None or field[1].lower() in _FRAMING):
                raise Malformed
        elif (found := _CHUNK.fullmatch(line)) is None:
            raise Malformed
        else:
            self._left = int(found[1], 16)
            self._state = _ChunkState.DATA if self._left else _ChunkState.TRAILER
        # Trailers are ignored, but their size is limited.
        if self._trailer_size > MAX_HEAD_BYTES:
            raise Malformed(431)
