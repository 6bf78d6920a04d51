"""Who asks: the program behind a call of the kernel, for what is judged by it.

Rule: the name is read while the program runs, since many live for one file, and remembered for a moment.
"""

import os
from collections import OrderedDict
from contextvars import ContextVar
from typing import NamedTuple

from cmsfs.runtime import clock

# The process on whose behalf the call is made that this task answers; 0: unknown.
CALLER: ContextVar[int] = ContextVar("caller", default=0)

FRESH_SECONDS = 1.0
REMEMBERED = 64

_LONGEST = 64


class CallingProgram(NamedTuple):
    """A process and its name."""

    pid: int
    name: str


_known: "OrderedDict[int, tuple[float, CallingProgram]]" = OrderedDict()


def current() -> CallingProgram:
    """Who has made the call that is answered now."""
    pid = CALLER.get()
    now = clock.monotonic()
    found = _known.get(pid)
    if found is not None and now - found[0] < FRESH_SECONDS:
        return found[1]
    caller = CallingProgram(pid, _name(pid))
    _known[pid] = now, caller
    _known.move_to_end(pid)
    if len(_known) > REMEMBERED:
        _known.popitem(last=False)
    return caller


def is_running(pid: int, name: str) -> bool:
    """Whether a process still runs, and is still this program."""
    return pid > 0 and _name(pid) == name != ""


def _name(pid: int) -> str:
    try:
        # Asked at every open for writing: a third of the time that `Path` takes.
        fd = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _LONGEST).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
