"""Hands the mounted drive to the version of cmsfs that is installed now.

That version is started and loads beside the old one, which goes on serving; so programs wait only while the
local state is closed here and opened there.  It is given what stays open: the kernel's descriptor, the folder
below the mount, the lock of the account, and a file in memory that says what the kernel and programs hold
(`cmsfs/fuse/takeover.py`).  Where whoever started the drive waits for this very process, it executes the
installed version in its own place instead.  What is asked meanwhile waits in the kernel.

Rules: everything that can fail beforehand is tried beforehand, while the drive can still go on as it is.
Nothing is handed over that is not recorded: should the next version not come up, this is a crash like any
other, and loses nothing.
"""

import json
import logging
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import trio

from cmsfs import errors, sd_notify
from cmsfs.fuse.mount import Inheritance
from cmsfs.replica import database
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.runtime import threads
from daemon.survival import survival
from daemon.survival.survival import Survival

log = logging.getLogger(__name__)

# What a handover says; whoever changes its meaning counts on, and is not given what is of before.
FORMAT = 2

# How long the version that is installed may take to load.
LOAD_SECONDS = 60.0

_TAKE_OVER = "--take-over"
_READY = "--ready-fd"
_DETACHED = "--detached"

# What a version says that does not start, before the reason.
_REFUSAL = "refused: "


@dataclass(slots=True)
class Handover:
    """A mounted drive between two processes; the numbers are descriptors."""

    connection: int
    ground: int
    mode: int
    lock: int
    state: dict[str, Any]
    # Who is given it; None: the version that is executed in the place of this one.
    successor: "Successor | None" = None
    # Of a drive that stays mounted when its daemon dies.
    survival: Survival | None = None
    # What is handed over was found after a crash.
    is_revived: bool = False
    # From here on what goes wrong is no failure of the handover.
    is_served: bool = False

    @property
    def held(self) -> set[int]:
        """The inodes that programs have open."""
        tree = self.state["tree"]["tree"]
        return {ino for _, ino, _ in tree["handles"]} | set(tree["held"])

    @property
    def inheritance(self) -> Inheritance:
        return Inheritance(self.connection, self.ground, self.mode, is_blind=self.is_revived)

    @property
    def untold(self) -> list[Change]:
        """Changes that the kernel has not heard of."""
        return [Change(ChangeKind(what), *rest) for what, *rest in self.state["untold"]]


def packed(change: Change) -> list[Any]:
    """As JSON has it."""
    return [change.what.value, change.ino, change.parent, change.name, change.is_new, change.is_same]


class Successor:
    """The installed version: loaded, and waiting for the drive."""

    def __init__(self, process: "subprocess.Popen[bytes]", line: socket.socket) -> None:
        self._process = process
        self._line = line

    async def dismiss(self) -> None:
        """It is not to have the drive after all."""
        self._line.close()
        await threads.run_sync(self._process.wait)

    async def hello(self) -> None:
        """Wait until it is ready.  Raises `UserError` if it does not start, or does not read what we hand
        over."""
        said = ""
        with trio.move_on_after(LOAD_SECONDS):
            await trio.lowlevel.wait_readable(self._line.fileno())
            said = self._line.recv(4096).decode("utf-8", "replace")
        if said.startswith(_REFUSAL):
            raise errors.UserError(f"The installed version does not start: {said.removeprefix(_REFUSAL)}")
        if said:
            check(said)
        if not said:
            self._process.kill()
            raise errors.UserError("The installed version does not start; see the log of the drive.")

    def give(self, spool: int, given: "Handover") -> None:
        """Give it the drive; this process has nothing more to do.  Raises `OSError`."""
        # First: what it tells the service manager counts only then.
        sd_notify.tell(MAINPID=self._process.pid)
        record = [] if given.survival is None else [given.survival.fd]
        socket.send_fds(self._line, [b"!"], [spool, given.connection, given.ground, given.lock, *record])
        self._process.returncode = 0  # it is nobody's to wait for


def hello() -> str:
    """What a version that is ready says: which handovers it reads, and which local state."""
    return f"{FORMAT} {database.VERSION}"


def check(said: str) -> None:
    """Raises `UserError` unless whoever says `hello` so can go on from here."""
    form, _, state = said.partition(" ")
    if form != str(FORMAT) or not state.isdigit():
        raise errors.UserError(
            "The installed version cannot take over from this one; unmount the drive and mount it again."
        )
    if int(state) < database.VERSION:
        # It would find that out when it has the drive, and there is no way back then.
        raise errors.UserError("The installed version is older, and does not read this one's local state.")


async def load(arguments: Sequence[str]) -> Successor:
    """Start the version that is installed with this command line, and wait until it is ready.

    Raises `UserError`, and `OSError`.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        command = [*_program(), *_without(arguments), _DETACHED, _TAKE_OVER, str(number)]
        successor = Successor(await threads.run_sync(_start, command, number), ours)
    try:
        await successor.hello()
    except BaseException:
        with trio.CancelScope(shield=True):
            await successor.dismiss()
        raise
    return successor


def _start(command: list[str], number: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])


def may_be_another_process(arguments: Sequence[str]) -> bool:
    """Whether nobody waits for this process to end: a service manager can be told, a launcher is gone."""
    return sd_notify.is_heard() or _READY in arguments or _DETACHED in arguments


def refuse(fd: int, reason: str) -> None:
    """Tell the drive that we were to take over that we cannot."""
    with socket.socket(fileno=fd) as line:
        line.sendall(f"{_REFUSAL}{reason}".encode())


def is_asked(fd: int) -> bool:
    """Whether the drive goes on as it is unless we say that we are ready."""
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def spooled(state: dict[str, Any]) -> int:
    """A file in memory with this state."""
    fd = os.memfd_create("cmsfs")
    with os.fdopen(os.dup(fd), "w", encoding="utf-8") as file:
        json.dump(state, file)
    return fd


def received(fd: int) -> Handover:
    """What the process before us has handed over; waits for it.  Raises `ValueError`, `KeyError`, and
    `SystemExit` if it keeps the drive."""
    numbers: list[int] = []
    if is_asked(fd):
        with socket.socket(fileno=fd) as line:
            line.sendall(hello().encode())
            _, descriptors, _, _ = socket.recv_fds(line, 1, 5)
        if not descriptors:
            sys.exit(0)
        fd, *numbers = descriptors
        sd_notify.is_main_process()
    os.lseek(fd, 0, os.SEEK_SET)
    with os.fdopen(fd, "rb") as file:
        given = json.load(file)
    if given["format"] != FORMAT:
        raise ValueError(f"a handover of format {given['format']}")
    connection, ground, lock, *record = numbers or [
        *(given["connection"], given["ground"], given["lock"]),
        *given.get("record", []),
    ]
    for one in (connection, ground, lock, *record):
        os.set_inheritable(one, False)
    kept = Survival.taken_over(record[0], given["state"]) if record else None
    return Handover(connection, ground, given["mode"], lock, given["state"], survival=kept)


def revived(kept: Mapping[str, int]) -> Handover:
    """What a daemon that died has left with whoever keeps it.

    Raises `OSError`, `KeyError` and `ValueError` if it is of no use, `UserError` if the drive is unmounted.
    """
    state, found = survival.revived(kept)
    connection, ground, lock = (kept[name] for name in survival.NAMES[:3])
    return Handover(connection, ground, found.mode, lock, state, survival=found, is_revived=True)


def pass_on(given: Handover, arguments: Sequence[str]) -> None:
    """Have the installed version go on from here, in another process or in this one.  Raises `OSError`."""
    record = [] if given.survival is None else [given.survival.fd]
    spool = spooled(
        {
            "format": FORMAT,
            "connection": given.connection,
            "ground": given.ground,
            "mode": given.mode,
            "lock": given.lock,
            "state": given.state,
            "record": record,
        }
    )
    if given.successor is not None:
        try:
            given.successor.give(spool, given)
        except OSError:
            log.exception("the process that was to take over has gone")
        else:
            return
    for one in (given.connection, given.ground, given.lock, *record, spool):
        os.set_inheritable(one, True)
    _execute([*_without(arguments), _TAKE_OVER, str(spool)])


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
        elif one != _DETACHED:
            kept.append(one)
    return kept
