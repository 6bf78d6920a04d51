"""Serves a connection to the kernel that another process, or another session of this one, has mounted.

The kernel says its first word (FUSE_INIT) once a mount, and libfuse answers nothing before it has heard
that.  So a session is given one end of a socket in place of `/dev/fuse`, hears the word from the other end,
and then finds the kernel's descriptor under the number of that socket (`dup2`).  From there on nothing is
between them: no request is copied or passed on.

What the session before had read and not answered waits in the kernel, which sends it once more when it is
asked to (FUSE_NOTIFYRESEND, Linux 6.9).

Rule: the descriptor that is handed in stays the caller's; if anything fails, it is as good as before.
"""

import errno
import os
import re
import select
import socket
import struct
from pathlib import Path

import pyfuse3
import trio

from cmsfs.fuse.operations import Operations

# A request's head: length, opcode, unique, nodeid, uid, gid, pid, length of extensions; an answer's: length,
# error, unique (linux/fuse.h).
REQUEST = struct.Struct("<IIQQIIIHH")
ANSWER = struct.Struct("<IiQ")

# FUSE_INIT: major, minor, max_readahead, flags, flags2, unused.  libfuse takes of the flags what it knows.
# All that it keeps of them is how large a request may be, and a kernel that knows less sends smaller ones.
_INIT = 26
_HELLO = struct.Struct("<IIIII44x")
_MAJOR, _MINOR, _READAHEAD, _FLAGS = 7, 38, 128 * 1024, 0x7FFFFFFF

RESEND = 7
_RESENDING_KERNEL = (6, 9)

# Every name that the kernel remembers is looked up before it is used again (Linux 6.16).
_INC_EPOCH = 8
_DOUBTING_KERNEL = (6, 16)

# libfuse answers at once; what does not is no libfuse that we know.
SECONDS = 10.0


def can_resend(release: str | None = None) -> bool:
    """Whether this kernel sends requests once more that were read and not answered."""
    return _is_since(_RESENDING_KERNEL, release)


def can_doubt(release: str | None = None) -> bool:
    """Whether this kernel can be told that it knows no name for sure."""
    return _is_since(_DOUBTING_KERNEL, release)


def _is_since(version: tuple[int, int], release: str | None) -> bool:
    found = re.match(r"(\d+)\.(\d+)", release or os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= version


def doubt_names(descriptor: int) -> None:
    """Have the kernel look up every name before it is used again.  Raises `OSError`."""
    os.write(descriptor, ANSWER.pack(ANSWER.size, _INC_EPOCH, 0))


def duplicate() -> int:
    """Another descriptor of this process's connection, which outlives its session."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(entry) == "/dev/fuse":  # noqa: PTH115  (a string is compared)
                return os.dup(int(entry.name))
        except OSError:
            continue  # the one by which this folder is listed
    raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))


def has_ended(descriptor: int) -> bool:
    """Whether the connection has ended: the drive was unmounted, or the connection was broken."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


async def begin(operations: Operations, options: set[str], descriptor: int) -> None:
    """Begin pyfuse3's session on a connection that is mounted already.  Raises `OSError`."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        theirs.setblocking(False)
        number = theirs.detach()
        try:
            pyfuse3.init(operations, f"/dev/fd/{number}", options)
        except RuntimeError as error:
            os.close(number)
            raise OSError(errno.EIO, str(error)) from None
        try:
            await _introduce(ours)
            os.dup2(descriptor, number, inheritable=False)
            if can_resend():
                os.write(number, ANSWER.pack(ANSWER.size, RESEND, 0))
        except BaseException:
            pyfuse3.close(unmount=False)
            raise


async def _introduce(kernel: socket.socket) -> None:
    """Say the kernel's first word to the session, and hear its answer."""
    hello = _HELLO.pack(_MAJOR, _MINOR, _READAHEAD, _FLAGS, 0)
    kernel.send(REQUEST.pack(REQUEST.size + len(hello), _INIT, 2, 0, 0, 0, 0, 0, 0) + hello)
    answer = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pyfuse3.main, 1, 1)
        with trio.move_on_after(SECONDS):
            await trio.lowlevel.wait_readable(kernel.fileno())
            answer = kernel.recv(4096)
        nursery.cancel_scope.cancel()
    if len(answer) < ANSWER.size or ANSWER.unpack_from(answer)[1]:
        raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
