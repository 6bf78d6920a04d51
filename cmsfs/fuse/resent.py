"""Requests that a daemon had read and not answered when it died: which these are, from the kernel itself.

The kernel sends them once more when it is asked to, marked, before everything else (FUSE_NOTIFY_RESEND).
They are only looked at here: whoever serves the connection next asks for them again.

Rule: what is read here and comes once only (lookups that are given back) is told to the caller.
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

# As large as a write may be, and its head.
_LARGEST = (1 << 21) + 4096

_MARK = 1 << 63

_FORGET, _BATCH_FORGET, _INTERRUPT = 2, 42, 36
_PAIR = struct.Struct("<QQ")


@dataclass(frozen=True, slots=True)
class Resent:
    """A request: its kind with what it names, and the thread that waits for it."""

    key: tuple[Any, ...]
    pid: int


@dataclass(slots=True)
class Unanswered:
    """What there was to be read."""

    requests: list[Resent] = field(default_factory=list)
    forgotten: list[tuple[Ino, int]] = field(default_factory=list)


def look(descriptor: int, *, refused: int = 0) -> Unanswered:
    """What was read and not answered; requests of the process `refused` are answered EIO.

    Raises `OSError` if the connection has ended.
    """
    found = Unanswered()
    os.write(descriptor, ANSWER.pack(ANSWER.size, RESEND, 0))
    with _not_waiting(descriptor):
        while (data := _next(descriptor)) is not None:
            _, opcode, unique, node, _, _, pid, _, _ = REQUEST.unpack_from(data)
            body = data[REQUEST.size :]
            if opcode in (_FORGET, _BATCH_FORGET):
                found.forgotten += _forgotten(opcode, node, body)
            elif opcode == _INTERRUPT:
                continue
            elif refused and pid == refused:
                with suppress(OSError):  # it has died of it
                    os.write(descriptor, ANSWER.pack(ANSWER.size, -errno.EIO, unique))
            elif unique & _MARK:
                if (key := _key(opcode, node, body)) is not None:
                    found.requests.append(Resent(key, pid))
            else:
                break  # nobody has seen that one yet
    return found


@contextmanager
def _not_waiting(descriptor: int) -> Iterator[None]:
    before = fcntl.fcntl(descriptor, fcntl.F_GETFL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, before | os.O_NONBLOCK)
    try:
        yield
    finally:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, before)


def _next(descriptor: int) -> bytes | None:
    while True:
        try:
            return os.read(descriptor, _LARGEST)
        except BlockingIOError:
            return None
        except OSError as error:
            # It was given up while it was read.
            if error.errno != errno.ENOENT:
                raise


def _forgotten(opcode: int, node: Ino, body: bytes) -> list[tuple[Ino, int]]:
    if opcode == _FORGET:
        return [(node, int.from_bytes(body[:8], "little"))]
    count = int.from_bytes(body[:4], "little")
    return [_PAIR.unpack_from(body, 8 + place * _PAIR.size) for place in range(count)]


def _names(body: bytes, count: int) -> list[str]:
    # One that is not UTF-8 is refused by whoever is asked for it.
    return [name.decode("utf-8", "replace") for name in body.split(b"\0")[:count]]


def _entry(kind: str, before: int) -> Callable[[Ino, bytes], tuple[Any, ...]]:
    """A name in a folder, behind so many bytes."""
    return lambda node, body: (kind, node, *_names(body[before:], 1))


def _moved(before: int) -> Callable[[Ino, bytes], tuple[Any, ...]]:
    def key(node: Ino, body: bytes) -> tuple[Any, ...]:
        old, new = _names(body[before:], 2)
        return "rename", node, old, int.from_bytes(body[:8], "little"), new

    return key


# Those that must not be carried out twice, and those that make a handle (linux/fuse.h).
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
