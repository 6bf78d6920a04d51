"""The head of an HTTP/1.1 request, strictly, and a body in chunks after it.

llhttp parses (by httptools), with none of its leniencies: one request is all that a parser sees, so nothing
of one can become part of the next.  What llhttp leaves to its user is judged here: how long a head may be,
one `Host`, a target of visible characters, no transfer coding but `chunked`.

Rule: what is not certain to mean one thing is refused, and the connection ends with that.
"""

import re

import httptools

# As much as a head may have before its end has come.
MOST_HEAD = 16 * 1024

END = b"\r\n\r\n"

_SPOKEN = (b" HTTP/1.1", b" HTTP/1.0")
_OTHER_VERSION = re.compile(rb" HTTP/\d(\.\d)?$")
_TARGET = re.compile(rb"[\x21-\x7e]+")
# The wish for another protocol may be passed over, and is: h2c, and what browsers ask of chats.
_UPGRADE = re.compile(rb"\r\nupgrade[ \t]*:[^\r\n]*", re.IGNORECASE)


class Malformed(Exception):
    """No request that can be answered; with which status it is refused."""

    def __init__(self, status: int = 400) -> None:
        super().__init__(status)
        self.status = status


class RequestHead:
    """What the head says.  Raises `Malformed`."""

    __slots__ = (
        "_begun", "_dry", "_inside", "_parser", "_parts",
        "headers", "keeps", "length", "method", "target", "version", "whole",
    )  # fmt: skip

    def __init__(self, data: bytes) -> None:
        line = data[: data.index(b"\r\n")]
        if not line.endswith(_SPOKEN):
            raise Malformed(505 if _OTHER_VERSION.search(line) else 400)
        if _UPGRADE.search(data):
            data = _UPGRADE.sub(b"", data)
        self.headers: list[tuple[bytes, bytes]] = []
        self.target = b""
        self.keeps = False  # another request may follow
        self.whole = False  # the body has come to its end
        self._begun = 0
        self._inside = True
        self._dry = 0
        self._parts: list[bytes] = []
        parser = self._parser = httptools.HttpRequestParser(self)
        self._feed(data)
        self._inside = False
        if self._begun != 1 or not _TARGET.fullmatch(self.target):
            raise Malformed
        self.method = parser.get_method().decode("ascii")
        self.version = line[-3:].decode("ascii")
        self.keeps = self.keeps and self.version == "1.1"
        self.length = self._judge()

    def _judge(self) -> int | None:
        """The length of the body; None if it comes in chunks."""
        hosts, length, coding = 0, 0, b""
        for name, value in self.headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                length = int(value)
            elif name == b"transfer-encoding":
                coding += value.lower()
        if hosts > 1 or (not hosts and self.version == "1.1"):
            raise Malformed
        if not coding:
            self.whole = not length
            return length
        if coding != b"chunked":
            raise Malformed(501)
        return None

    def expects(self) -> bool:
        """Whether the client waits for a word before it sends the body."""
        return self.version == "1.1" and any(
            name == b"expect" and value.lower() == b"100-continue" for name, value in self.headers
        )

    def chunks(self, data: bytes) -> bytes:
        """What of the body is in the bytes that came; `whole` says whether that was the last of it."""
        self._feed(data)
        if self._begun != 1:
            self.keeps = False  # where the next request begins is not told
        found = b"".join(self._parts)
        self._parts.clear()
        # What is said beside a body, in extensions and trailers, has a limit as a head has.
        self._dry = 0 if found else self._dry + len(data)
        if self._dry > MOST_HEAD and not self.whole:
            raise Malformed(431)
        return found

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # What follows a whole request is none of its parts.
            if not (self.whole and self._begun > 1):
                raise Malformed from error
            self.keeps = False

    # What llhttp tells.

    def on_message_begin(self) -> None:
        self._begun += 1

    def on_url(self, data: bytes) -> None:
        if self._begun == 1:
            self.target += data

    def on_header(self, name: bytes, value: bytes) -> None:
        # A trailer comes after the head has been judged, and says nothing here.
        if self._inside:
            self.headers.append((name.lower(), value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._begun == 1:  # it is forgotten with the end of the message
            self.keeps = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        if self._begun == 1:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        self.whole = True
