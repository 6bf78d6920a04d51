"""The calling program: identifies the process behind a file system call, for the heuristics that need it.

Rule: the name is read during the call, since many programs exit after one file, and is cached briefly.
"""

import os
from collections import OrderedDict
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from cmsfs.runtime import clock

# The process that made the call which this task handles; 0: unknown.
CALLER: ContextVar[int] = ContextVar("caller", default=0)

FRESH_SECONDS = 1.0
REMEMBERED = 64

_MAX_NAME_BYTES = 64


class CallingProgram(NamedTuple):
    """A process and its name."""

    pid: int
    name: str


class ProcessIdentity(NamedTuple):
    """A process; `since` is its start and the boot, which later ones of the same number do not share."""

    pid: int
    since: str


_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

_known: "OrderedDict[int, tuple[float, CallingProgram]]" = OrderedDict()


def current() -> CallingProgram:
    """Return the program that made the current call."""
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
    """Whether a process is still running and is still this program."""
    return pid > 0 and _name(pid) == name != ""


def current_process() -> ProcessIdentity | None:
    """Return the process that made the current call by one of its threads; None if it is not known."""
    thread = CALLER.get()
    try:
        status = Path(f"/proc/{thread}/status").read_bytes() if thread > 0 else b""
    except OSError:
        return None
    _, _, rest = status.partition(b"\nTgid:")
    return _identity(int(rest.split()[0])) if rest else None


def is_alive(process: ProcessIdentity) -> bool:
    """Whether this process still runs."""
    return _identity(process.pid) == process


def _identity(pid: int) -> ProcessIdentity | None:
    try:
        # The name before the parenthesis may contain anything.
        state, *fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        boot = _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return None if state in b"ZX" else ProcessIdentity(pid, f"{fields[18].decode()} {boot}")


def _name(pid: int) -> str:
    try:
        # Called for every open for writing: `Path` takes three times as long.
        fd = os.open(f"/proc/{pid}/comm", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, _MAX_NAME_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)
