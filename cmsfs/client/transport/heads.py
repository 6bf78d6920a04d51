"""Heads of HTTP/1.1 messages: builds those of requests, and reads plain ones of responses.

h11 takes as long for a response's head as TLS, SHA-1 and the disk together for a small file.  So a head that
needs no interpretation is matched by one regular expression here: a final response whose body has a length.
All others are left to h11: chunked bodies, informational responses, folded or malformed lines.
"""

import functools
import re
from typing import NamedTuple

import httpx

_NAME = rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+"
_VALUE = rb"[^\x00-\x08\x0a-\x1f\x7f]*"

_GOOD_NAME = re.compile(_NAME)
_GOOD_VALUE = re.compile(_VALUE)
_RESPONSE = re.compile(
    rb"HTTP/1\.1 ([2-5]\d\d)(?: " + _VALUE + rb")?\r\n((?:" + _NAME + rb":" + _VALUE + rb"\r\n)*)\r\n"
)

# Status codes of responses that never have a body, whatever their headers say.
_BODYLESS = (204, 304)

# Digits of a length that fits into 63 bits.
_MAX_DIGITS = 18


class ResponseHead(NamedTuple):
    """The head of a response whose body has a length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    length: int
    closes: bool  # the connection ends with this response
    end: int  # where the body begins


def read_plain(data: bytes) -> ResponseHead | None:
    """Read the head at the beginning of `data`; None if it is incomplete or not plain."""
    found = _RESPONSE.match(data)
    if found is None:
        return None
    headers, length, closes = [], None, False
    for line in found[2].split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        value = value.strip(b" \t")
        headers.append((name, value))
        match name.lower():
            case b"content-length":
                if length is not None or not value.isdigit() or len(value) > _MAX_DIGITS:
                    return None
                length = int(value)
            case b"transfer-encoding":
                return None
            case b"connection":
                closes = closes or b"close" in value.lower()
    status = int(found[1])
    if length is None or status in _BODYLESS:
        return None
    return ResponseHead(status, headers, length, closes, found.end())


def of_request(request: httpx.Request) -> bytes:
    """Return the head of a request.  Raises `httpx.LocalProtocolError` if a header could inject another
    line."""
    target = request.url.raw_path
    lines = [b"%b %b HTTP/1.1\r\n" % (request.method.encode("ascii"), target)]
    is_good = not (b" " in target or b"\r" in target or b"\n" in target)
    for name, value in request.headers.raw:
        is_good &= _is_name(name) and _GOOD_VALUE.fullmatch(value) is not None
        lines.append(b"%b: %b\r\n" % (name, value))
    if not is_good:
        raise httpx.LocalProtocolError("a request has a header that could be read as another one")
    lines.append(b"\r\n")
    return b"".join(lines)


@functools.lru_cache(maxsize=256)
def _is_name(name: bytes) -> bool:
    return _GOOD_NAME.fullmatch(name) is not None
