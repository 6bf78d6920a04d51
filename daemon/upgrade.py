"""Hands the mounted drive to the version of cmsfs that is installed now, in this very process.

The process executes that version in its place: with the same number, so that a service manager notices
nothing, and with what is open across that: the kernel's descriptor, the folder below the mount, the lock of
the account, and a file in memory that says what the kernel and programs hold (`cmsfs/fuse/takeover.py`).
What is asked meanwhile waits in the kernel.

Rules: everything that can fail beforehand is tried beforehand, while the drive can still go on as it is.
Nothing is handed over that is not recorded: should the next version not come up, this is a crash like any
other, and loses nothing.
"""

import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import trio

from cmsfs import errors
from cmsfs.fuse.mount import Inheritance
from cmsfs.replica.changes import Change, ChangeKind

log = logging.getLogger(__name__)

# What a handover says; whoever changes its meaning counts on, and is not given what is of before.
FORMAT = 1

# How long the version that is installed may take to say that it is whole.
CHECK_SECONDS = 60.0

_TAKE_OVER = "--take-over"
_READY = "--ready-fd"


@dataclass(slots=True)
class Handover:
    """A mounted drive between two processes; the numbers are descriptors."""

    connection: int
    ground: int
    mode: int
    lock: int
    state: dict[str, Any]
    # From here on what goes wrong is no failure of the handover.
    is_served: bool = False

    @property
    def held(self) -> set[int]:
        """The inodes that programs have open."""
        tree = self.state["tree"]["tree"]
        return {ino for _, ino, _ in tree["handles"]} | set(tree["held"])

    @property
    def inheritance(self) -> Inheritance:
        return Inheritance(self.connection, self.ground, self.mode)

    @property
    def untold(self) -> list[Change]:
        """Changes that the kernel has not heard of."""
        return [Change(ChangeKind(what), *rest) for what, *rest in self.state["untold"]]


def packed(change: Change) -> list[Any]:
    """As JSON has it."""
    return [change.what.value, change.ino, change.parent, change.name, change.is_new, change.is_same]


async def check(arguments: Sequence[str]) -> None:
    """See that the version that is installed starts with this command line, and reads what we hand over.

    Raises `UserError`.
    """
    said = ""
    with trio.move_on_after(CHECK_SECONDS):
        done = await trio.run_process(
            [*_program(), *_without(arguments), "--check-take-over"],
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
        said = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise errors.UserError(
                f"The installed version does not start: {lines[-1] if lines else done.returncode}"
            )
    if said != str(FORMAT):
        raise errors.UserError(
            "The installed version cannot take over from this one; unmount the drive and mount it again."
        )


def spooled(state: dict[str, Any]) -> int:
    """A file in memory with this state."""
    fd = os.memfd_create("cmsfs")
    with os.fdopen(os.dup(fd), "w", encoding="utf-8") as file:
        json.dump(state, file)
    return fd


def received(fd: int) -> Handover:
    """What the process before us has handed over.  Raises `ValueError`, and `KeyError`."""
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb") as file:
        given = json.load(file)
    if given["format"] != FORMAT:
        raise ValueError(f"a handover of format {given['format']}")
    for name in ("connection", "ground", "lock"):
        os.set_inheritable(given[name], False)
    return Handover(given["connection"], given["ground"], given["mode"], given["lock"], given["state"])


def execute(given: Handover, arguments: Sequence[str]) -> NoReturn:
    """Have the installed version go on from here.  Raises `OSError`."""
    fd = spooled(
        {
            "format": FORMAT,
            "connection": given.connection,
            "ground": given.ground,
            "mode": given.mode,
            "lock": given.lock,
            "state": given.state,
        }
    )
    for one in (given.connection, given.ground, given.lock, fd):
        os.set_inheritable(one, True)
    _execute([*_without(arguments), _TAKE_OVER, str(fd)])


def execute_afresh(arguments: Sequence[str]) -> NoReturn:
    """The take-over has failed: start as if this process had died and another had been started."""
    _execute(_without(arguments))


def _execute(arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    command = [*_program(), *arguments]
    os.execv(command[0], command)


def _program() -> list[str]:
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "daemon"]


def _without(arguments: Sequence[str]) -> list[str]:
    """The command line but for what was meant for one start alone."""
    kept, rest = [], iter(arguments)
    for one in rest:
        if one in (_READY, _TAKE_OVER):
            next(rest, None)
        elif not one.startswith((f"{_READY}=", f"{_TAKE_OVER}=")):
            kept.append(one)
    return kept
