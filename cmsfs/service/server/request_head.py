"""The head of an HTTP/1.1 request, strictly, and a body in chunks after it.

Where bytes end is never guessed: one length or one `chunked`, lines that end in CRLF, names and values of the
characters that they may have, one `Host`.  So nothing of one request can become part of the next, neither
here nor for a proxy in front.

Rule: what is not certain to mean one thing is refused, and the connection ends with that.
"""

import enum
import re

# As much as a head may have before its end has come; and what is said after a body in chunks.
MOST_HEAD = 16 * 1024

END = b"\r\n\r\n"

_TOKEN = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*"
_REQUEST = re.compile(rb"(%b) ([\x21-\x7e]+) HTTP/(1\.[01])" % _TOKEN)
_OTHER_VERSION = re.compile(rb".* HTTP/\d(\.\d)?")
_FIELD = re.compile(rb"(%b):[ \t]*(%b)" % (_TOKEN, _VALUE))
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,16})(?:;%b)?" % _VALUE)
# What says where bytes end is said before them.
_FRAMING = (b"content-length", b"transfer-encoding", b"host")
_LENGTH = re.compile(rb"[0-9]{1,18}")


class Malformed(Exception):
    """No request that can be answered; with which status it is refused."""

    def __init__(self, status: int = 400) -> None:
        super().__init__(status)
        self.status = status


class RequestHead:
    """What a head says, from its first byte to the empty line.  Raises `Malformed`."""

    __slots__ = ("expects", "headers", "keeps", "length", "method", "target", "version")

    def __init__(self, data: bytes) -> None:
        first, *lines = data[: -len(END)].split(b"\r\n")
        if (found := _REQUEST.fullmatch(first)) is None:
            ours = first.endswith((b" HTTP/1.1", b" HTTP/1.0"))
            raise Malformed(505 if not ours and _OTHER_VERSION.fullmatch(first) else 400)
        self.method = found[1].decode("ascii")
        self.target: bytes = found[2]
        self.version = found[3].decode("ascii")
        self.headers: list[tuple[bytes, bytes]] = []
        self.length: int | None = 0  # of the body; None: it comes in chunks
        self.expects = False  # the client waits for a word before it sends the body
        self.keeps = self.version == "1.1"  # another request may follow
        of_length = hosts = 0
        for line in lines:
            if (found := _FIELD.fullmatch(line)) is None:
                raise Malformed
            name, value = found[1].lower(), found[2].rstrip(b" \t")
            self.headers.append((name, value))
            if name == b"host":
                hosts += 1
            elif name == b"connection":
                self.keeps = self.keeps and b"close" not in value.lower()
            elif name == b"expect":
                self.expects = self.version == "1.1" and value.lower() == b"100-continue"
            elif name in (b"content-length", b"transfer-encoding"):
                of_length += 1
                self.length = self._length(name, value)
        if of_length > 1 or hosts > 1 or (not hosts and self.version == "1.1"):
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


class _Place(enum.Enum):
    SIZE = enum.auto()
    DATA = enum.auto()
    BREAK = enum.auto()
    TRAILER = enum.auto()


class ChunkedBody:
    """A body in chunks, as it comes."""

    def __init__(self) -> None:
        self.whole = False
        self.rest = b""  # what has come and is not understood yet; in the end, what follows the body
        self._place = _Place.SIZE
        self._left = 0
        self._beside = 0

    def take(self, data: bytes) -> bytes:
        """What of the body is in the bytes that came.  Raises `Malformed`."""
        data, at, found = self.rest + data, 0, []
        while not self.whole:
            if self._place is _Place.DATA:
                piece = data[at : at + self._left]
                if not piece:
                    break
                found.append(piece)
                at += len(piece)
                self._left -= len(piece)
                self._place = _Place.DATA if self._left else _Place.BREAK
            elif self._place is _Place.BREAK:
                if len(data) - at < 2:
                    break
                if data[at : at + 2] != b"\r\n":
                    raise Malformed
                at, self._place = at + 2, _Place.SIZE
            else:
                end = data.find(b"\r\n", at)
                if end < 0:
                    break
                self._line(data[at:end])
                at = end + 2
        self.rest = data[at:]
        if not self.whole and len(self.rest) > MOST_HEAD:
            raise Malformed(431)
        return b"".join(found)

    def _line(self, line: bytes) -> None:
        if self._place is _Place.TRAILER:
            self._beside += len(line)
            self.whole = not line
            field = _FIELD.fullmatch(line)
            if line and (field is None or field[1].lower() in _FRAMING):
                raise Malformed
        elif (found := _CHUNK.fullmatch(line)) is None:
            raise Malformed
        else:
            self._left = int(found[1], 16)
            self._place = _Place.DATA if self._left else _Place.TRAILER
        # Trailers say nothing here; but they may not go on for ever.
        if self._beside > MOST_HEAD:
            raise Malformed(431)
