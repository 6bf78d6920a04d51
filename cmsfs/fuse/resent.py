"""Reads from the kernel which requests a daemon had read but not answered when it died.

On FUSE_NOTIFY_RESEND the kernel sends them again, flagged, before everything else.  Here they are only
inspected: the process that serves the connection next asks for them again.

Rule: requests that the kernel sends only once (FORGET) are returned to the caller.
"""

import errno
import fcntl
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from cmsfs.fuse.takeover import ANSWER, REQUEST, RESEND
from cmsfs.replica.nodes import Ino

# The largest write, with its header.
_MAX_REQUEST_BYTES = (1 << 21) + 4096

_RESENT_FLAG = 1 << 63

_FORGET, _BATCH_FORGET, _INTERRUPT = 2, 42, 36
_PAIR = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Resent:
    """A resent request: its kind and arguments, and the thread that waits for it."""

    key: tuple[Any, ...]
    pid: int


@dataclass(slots=True)
class Unanswered:
    """The unanswered requests, and the lookup counts that the kernel gave back."""

    requests: list[Resent] = field(default_factory=list)
    forgotten: list[tuple[Ino, int]] = field(default_factory=list)


def read_unanswered(descriptor: int, *, refused_pid: int = 0) -> Unanswered:
    """Return the requests that were read but not answered; those of process `refused_pid` get EIO.

    Raises `OSError` if the connection has ended.
    """
    found = Unanswered()
    os.write(descriptor, ANSWER.pack(ANSWER.size, RESEND, 0))
    with _non_blocking(descriptor):
        while (data := _next(descriptor)) is not None:
            _, opcode, unique, node, _, _, pid, _, _ = REQUEST.unpack_from(data)
            body = data[REQUEST.size :]
            if opcode in (_FORGET, _BATCH_FORGET):
                found.forgotten += _forgotten(opcode, node, body)
            elif opcode == _INTERRUPT:
                continue
            elif refused_pid and pid == refused_pid:
                with suppress(OSError):  # the caller has died meanwhile
                    os.write(descriptor, ANSWER.pack(ANSWER.size, -errno.EIO, unique))
            elif unique & _RESENT_FLAG:
                if (key := _key(opcode, node, body)) is not None:
                    found.requests.append(Resent(key, pid))
            else:
                break  # a new request: no resent ones follow
    return found


@contextmanager
def _non_blocking(descriptor: int) -> Iterator[None]:
    before = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, before | os.O_NONBLOCK)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, before)


def _next(descriptor: int) -> bytes | None:
    while True:
        try:
            return os.read(descriptor, _MAX_REQUEST_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            # ENOENT: the request was interrupted while it was being read.
            if error.errno != errno.ENOENT:
                raise


def _forgotten(opcode: int, node: Ino, body: bytes) -> list[tuple[Ino, int]]:
    if opcode == _FORGET:
        return [(node, int.from_bytes(body[:8], "little"))]
    count = int.from_bytes(body[:4], "little")
    return [_PAIR.unpack_from(body, 8 + place * _PAIR.size) for place in range(count)]


def _names(body: bytes, count: int) -> list[str]:
    # Names that are not UTF-8 are rejected later by the handler.
    return [name.decode("utf-8", "replace") for name in body.split(b"\0")[:count]]


def _entry(kind: str, before: int) -> Callable[[Ino, bytes], tuple[Any, ...]]:
    """Return a parser of a name in a folder that follows `before` bytes of arguments."""
    return lambda node, body: (kind, node, *_names(body[before:], 1))


def _moved(before: int) -> Callable[[Ino, bytes], tuple[Any, ...]]:
    def key(node: Ino, body: bytes) -> tuple[Any, ...]:
        old, new = _names(body[before:], 2)
        return "rename", node, old, int.from_bytes(body[:8], "little"), new

    return key


# Opcodes of requests that must not be carried out twice or that create a handle (linux/fuse.h).
_KINDS: dict[int, Callable[[Ino, bytes], tuple[Any, ...]]] = {
    6: _entry("symlink", 0),
    8: _entry("mknod", 16),
    9: _entry("mkdir", 8),
    10: _entry("unlink", 0),
    11: _entry("rmdir", 0),
    12: _moved(8),
    14: lambda node, body: ("open", node),
    21: _entry("setxattr", 8),
    24: _entry("removexattr", 0),
    27: lambda node, body: ("opendir", node),
    35: _entry("create", 16),
    45: _moved(16),
}


def _key(opcode: int, node: Ino, body: bytes) -> tuple[Any, ...] | None:
    kind = _KINDS.get(opcode)
    return None if kind is None else kind(node, body)
