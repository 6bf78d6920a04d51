"""Takes over a FUSE connection that another process, or another session of this one, has mounted.

The kernel sends FUSE_INIT once per mount, and libfuse answers no request before it.  So a new session gets
one end of a socket in place of `/dev/fuse` and receives an imitated FUSE_INIT from the other end; then the
kernel's descriptor replaces the socket under the same number (`dup2`).  From there on libfuse and the kernel
talk directly: no request is copied or forwarded.

Requests that the previous session had read but not answered wait in the kernel, which sends them again on
request (FUSE_NOTIFY_RESEND, Linux 6.9).

Rule: the caller keeps ownership of the descriptor that it passes in; if anything fails, it is unchanged.
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

# Header of a request: length, opcode, unique, nodeid, uid, gid, pid, length of extensions.  Header of an
# answer: length, error, unique (linux/fuse.h).
REQUEST = struct.Struct("<IIQQIIIHH")
ANSWER = struct.Struct("<IiQ")

# FUSE_INIT: major, minor, max_readahead, flags, flags2, unused.  libfuse ignores flags that it does not know.
# It keeps only the maximum request size from them, and a kernel that supports less sends smaller requests.
_INIT = 26
_INIT_BODY = struct.Struct("<IIIII44x")
_MAJOR, _MINOR, _READAHEAD, _FLAGS = 7, 38, 128 * 1024, 0x7FFFFFFF

RESEND = 7
_RESENDING_KERNEL = (6, 9)

# Makes the kernel look up every cached name before it uses it again (Linux 6.16).
_INC_EPOCH = 8
_EPOCH_KERNEL = (6, 16)

# libfuse answers FUSE_INIT at once; a longer wait means that something is wrong.
INIT_SECONDS = 10.0


def can_resend(release: str | None = None) -> bool:
    """Whether this kernel can send requests again that were read but not answered."""
    return _is_since(_RESENDING_KERNEL, release)


def can_expire_names(release: str | None = None) -> bool:
    """Whether this kernel can be told to look up all cached names again."""
    return _is_since(_EPOCH_KERNEL, release)


def _is_since(version: tuple[int, int], release: str | None) -> bool:
    found = re.match(r"(\d+)\.(\d+)", release or os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= version


def expire_names(descriptor: int) -> None:
    """Make the kernel look up every cached name before using it again.  Raises `OSError`."""
    os.write(descriptor, ANSWER.pack(ANSWER.size, _INC_EPOCH, 0))


def duplicate_connection() -> int:
    """Duplicate the descriptor of this process's FUSE connection; the duplicate outlives the session."""
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if os.readlink(entry) == "/dev/fuse":  # noqa: PTH115  (a string is compared)
                return os.dup(int(entry.name))
        except OSError:
            continue  # the descriptor that this listing uses
    raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))


def has_ended(descriptor: int) -> bool:
    """Whether the connection has ended: the drive was unmounted, or the connection was aborted."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))


async def begin_session(operations: Operations, options: set[str], descriptor: int) -> None:
    """Start pyfuse3's session on a connection that is already mounted.  Raises `OSError`."""
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
            await _perform_init(ours)
            os.dup2(descriptor, number, inheritable=False)
            if can_resend():
                os.write(number, ANSWER.pack(ANSWER.size, RESEND, 0))
        except BaseException:
            pyfuse3.close(unmount=False)
            raise


async def _perform_init(kernel: socket.socket) -> None:
    """Send FUSE_INIT to the session in place of the kernel, and read its answer."""
    body = _INIT_BODY.pack(_MAJOR, _MINOR, _READAHEAD, _FLAGS, 0)
    kernel.send(REQUEST.pack(REQUEST.size + len(body), _INIT, 2, 0, 0, 0, 0, 0, 0) + body)
    answer = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pyfuse3.main, 1, 1)
        with trio.move_on_after(INIT_SECONDS):
            await trio.lowlevel.wait_readable(kernel.fileno())
            answer = kernel.recv(4096)
        nursery.cancel_scope.cancel()
    if len(answer) < ANSWER.size or ANSWER.unpack_from(answer)[1]:
        raise OSError(errno.EPROTO, os.strerror(errno.EPROTO))
