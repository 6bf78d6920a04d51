"""A process that has loaded the program already and waits to be the next daemon.

Loading takes half a second of processor time, and after a crash every program on the drive waits for it.  So
a daemon under a holder forks before it starts threads or opens anything.  The fork shares its memory until
one of the two writes to it, and waits for the descriptors of the drive, which the holder sends when the
daemon is dead.  The first thing that it does then is to fork again.

Rules: it takes over at most once, and only on the holder's word.  It ends when that word cannot come any
more: the holder is gone, or has the spare of a later daemon.
"""

import ctypes
import gc
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from cmsfs import process_env, sd_notify
from daemon.survival import holder

log = logging.getLogger(__name__)

_PR_SET_NAME = 15
_NAME = b"cmsfsd-spare"


class Spare:
    """The spare of this daemon; it ends unless it is left to the holder."""

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line = line
        self._pid = pid

    def leave(self) -> None:
        """Leave it to the holder, which ends the one that it has."""
        try:
            pidfd = os.pidfd_open(self._pid)
            try:
                sd_notify.send({holder.SPARE: self._pid}, [self._line.fileno(), pidfd])
            finally:
                os.close(pidfd)
        except OSError as error:
            _leave_none(error)
        self._line.close()


def is_wanted() -> bool:
    """Whether this process has a holder that keeps a spare for it."""
    return sd_notify.is_enabled() and process_env.variable(holder.KEEPS_SPARE) is not None


def fork(
    on_turn: Callable[[Mapping[str, int]], None] = lambda given: None,
) -> tuple[Spare | None, dict[str, int]]:
    """Fork a spare and return it; None, and none is kept, if that fails.

    In the spare this returns when it is to be the daemon, with the descriptors of the drive and a spare of
    its own; `on_turn` is called before, and need not return.  Call it while there is one thread."""
    given: dict[str, int] = {}
    while True:
        sys.stdout.flush()
        sys.stderr.flush()
        gc.freeze()  # a collection would write to every object, and so to memory that is shared
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            pid = os.fork()
        except OSError as error:
            ours.close()
            theirs.close()
            _leave_none(error)
            return None, given
        if pid:
            theirs.close()
            return Spare(ours, pid), given
        ours.close()
        try:
            given = _wait(theirs)
            on_turn(given)
        except BaseException:  # a signal, for example: what called `fork` is not ours to run
            os._exit(1)


def _wait(line: socket.socket) -> dict[str, int]:
    """Wait in the spare for the descriptors of the drive; do not return if they cannot come any more."""
    _close_all_but(line.fileno())
    name = _rename(_NAME)
    names, descriptors, _, _ = socket.recv_fds(line, holder.LONGEST, holder.MOST_FDS)
    if not descriptors:
        os._exit(0)
    line.close()
    for fd in descriptors:
        os.set_inheritable(fd, False)
    _rename(name)
    return dict(zip(names.decode().split(":"), descriptors, strict=True))


def _close_all_but(kept: int) -> None:
    """Close what the daemon has open: its connection would not end with it."""
    os.closerange(3, kept)
    os.closerange(kept + 1, max(int(fd.name) for fd in Path("/proc/self/fd").iterdir()) + 1)


def _rename(name: bytes) -> bytes:
    """Set what `ps -e` and `top` show; return what they showed."""
    before = Path("/proc/self/comm").read_bytes().rstrip(b"\n")
    ctypes.CDLL(None).prctl(_PR_SET_NAME, name, 0, 0, 0)
    return before


def _leave_none(error: OSError) -> None:
    log.warning("no spare process; after a crash the drive waits for its program to load: %s", error)
    sd_notify.notify(**{holder.SPARE: ""})
