"""Hands the mounted drive over to the version of cmsfs that is installed now.

That version is started and loads while the old one still serves, so programs wait only while the local state
is closed here and opened there.  It receives what stays open: the kernel's descriptor, the folder below the
mount, the lock of the account, and a memory file with the state that the kernel and programs hold
(`cmsfs/fuse/takeover.py`).  If whoever started the drive waits for this very process, it executes the
installed version in its own place instead.  Requests that arrive meanwhile wait in the kernel.

Rules: every step that can fail is tried beforehand, while the drive can still continue as it is.  Everything
handed over is also recorded: if the next version does not start, this is a crash like any other and loses
nothing.
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

from cmsfs import errors, process_env, sd_notify
from cmsfs.fuse.mount import Inheritance
from cmsfs.replica import database
from cmsfs.replica.changes import Change, ChangeKind
from cmsfs.runtime import threads
from daemon.survival import holder, survival
from daemon.survival.survival import Survival

log = logging.getLogger(__name__)

# The format of a handover.  Increase it when the meaning changes; other formats are refused.
FORMAT = 2

# Time limit for the installed version to load.
LOAD_SECONDS = 60.0

_TAKE_OVER = "--take-over"
_READY = "--ready-fd"
_DETACHED = "--detached"

# Prefix of the reason that a version sends if it cannot start.
_REFUSAL = "refused: "


@dataclass(slots=True)
class Handover:
    """A mounted drive on its way to another process; the integers are descriptors, except `mode`."""

    connection: int
    ground: int
    mode: int
    lock: int
    state: dict[str, Any]
    # The process that receives it; None: the version executed in place of this one.
    successor: "Successor | None" = None
    # Set if the drive stays mounted when its daemon crashes.
    survival: Survival | None = None
    # It was recovered after a crash.
    is_recovered: bool = False
    # The handover has succeeded; later errors have another cause.
    is_served: bool = False

    @property
    def held(self) -> set[int]:
        """The inodes that programs have open."""
        tree = self.state["tree"]["tree"]
        return {ino for _, ino, _ in tree["handles"]} | set(tree["held"])

    @property
    def inheritance(self) -> Inheritance:
        return Inheritance(self.connection, self.ground, self.mode, is_blind=self.is_recovered)

    @property
    def unsent_changes(self) -> list[Change]:
        """Changes of which the kernel has not been notified."""
        return [Change(ChangeKind(what), *rest) for what, *rest in self.state["untold"]]


def change_to_json(change: Change) -> list[Any]:
    """Return the change as a list for JSON."""
    return [change.what.value, change.ino, change.parent, change.name, change.is_new, change.is_same]


class Successor:
    """The process of the installed version, which waits for the drive."""

    def __init__(self, process: "subprocess.Popen[bytes]", line: socket.socket) -> None:
        self._process = process
        self._line = line

    async def dismiss(self) -> None:
        """Cancel the handover and wait for the process to exit."""
        self._line.close()
        await threads.run_sync(self._process.wait)

    async def wait_until_ready(self) -> None:
        """Wait until it is ready.  Raises `UserError` if it does not start or cannot read our handover."""
        text = ""
        with trio.move_on_after(LOAD_SECONDS):
            await trio.lowlevel.wait_readable(self._line.fileno())
            text = self._line.recv(4096).decode("utf-8", "replace")
        if text.startswith(_REFUSAL):
            raise errors.UserError(f"The installed version does not start: {text.removeprefix(_REFUSAL)}")
        if text:
            check_greeting(text)
        if not text:
            self._process.kill()
            raise errors.UserError("The installed version does not start; see the log of the drive.")

    def send_drive(self, spool: int, given: "Handover") -> None:
        """Send it the drive; this process then only exits.  Raises `OSError`."""
        # Before the handover: the service manager ignores its messages until then.
        sd_notify.notify(MAINPID=self._process.pid)
        record = [] if given.survival is None else [given.survival.fd]
        socket.send_fds(self._line, [b"!"], [spool, given.connection, given.ground, given.lock, *record])
        self._process.returncode = 0  # so that Popen does not expect us to wait for it


def greeting() -> str:
    """Return the greeting of a ready version: the formats it reads of the handover and the local state."""
    return f"{FORMAT} {database.VERSION}"


def check_greeting(text: str) -> None:
    """Raise `UserError` unless the version that sent this greeting can take over from this one."""
    form, _, state = text.partition(" ")
    if form != str(FORMAT) or not state.isdigit():
        raise errors.UserError(
            "The installed version cannot take over from this one; unmount the drive and mount it again."
        )
    if int(state) < database.VERSION:
        # It would notice only after it has the drive, when there is no way back.
        raise errors.UserError("The installed version is older, and does not read this one's local state.")


async def start_successor(arguments: Sequence[str]) -> Successor:
    """Start the installed version with this command line and return it when it is ready.

    Raises `UserError`, and `OSError`.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        command = [*_program(), *_strip_one_time_options(arguments), _DETACHED, _TAKE_OVER, str(number)]
        successor = Successor(await threads.run_sync(_start, command, number), ours)
    try:
        await successor.wait_until_ready()
    except BaseException:
        with trio.CancelScope(shield=True):
            await successor.dismiss()
        raise
    return successor


def _start(command: list[str], number: int) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number])


def may_be_another_process(arguments: Sequence[str]) -> bool:
    """Whether another process may take over: nobody waits for this one to exit, or a service manager does,
    which can be told the new PID."""
    return sd_notify.is_enabled() or _READY in arguments or _DETACHED in arguments


def refuse(fd: int, reason: str) -> None:
    """Tell the process that wants to hand its drive over that we cannot take it."""
    with socket.socket(fileno=fd) as line:
        line.sendall(f"{_REFUSAL}{reason}".encode())


def is_negotiated(fd: int) -> bool:
    """Whether the old process waits for our greeting and continues to serve without it."""
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def write_memory_file(state: dict[str, Any]) -> int:
    """Write the state to a memory file and return its descriptor."""
    fd = os.memfd_create("cmsfs")
    with os.fdopen(os.dup(fd), "w", encoding="utf-8") as file:
        json.dump(state, file)
    return fd


def receive(fd: int) -> Handover:
    """Wait for the handover of the previous process and return it.  Raises `ValueError`, `KeyError`, and
    `SystemExit` if it keeps the drive."""
    numbers: list[int] = []
    if is_negotiated(fd):
        with socket.socket(fileno=fd) as line:
            line.sendall(greeting().encode())
            _, descriptors, _, _ = socket.recv_fds(line, 1, 5)
        if not descriptors:
            sys.exit(0)
        fd, *numbers = descriptors
        sd_notify.claim_main_process()
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
    survival_state = Survival.from_handover(record[0], given["state"]) if record else None
    return Handover(connection, ground, given["mode"], lock, given["state"], survival=survival_state)


def recover(descriptors: Mapping[str, int]) -> Handover:
    """Return the handover of a crashed daemon, from the descriptors it had stored.

    Raises `OSError`, `KeyError` and `ValueError` if it is unusable, `UserError` if the drive is unmounted.
    """
    state, recovered = survival.recover(descriptors)
    connection, ground, lock = (descriptors[name] for name in survival.DESCRIPTORS[:3])
    return Handover(connection, ground, recovered.mode, lock, state, survival=recovered, is_recovered=True)


def hand_over(given: Handover, arguments: Sequence[str]) -> None:
    """Let the installed version take over, in another process or in this one.  Raises `OSError`."""
    record = [] if given.survival is None else [given.survival.fd]
    spool = write_memory_file(
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
            given.successor.send_drive(spool, given)
        except OSError:
            log.exception("the process that was to take over has gone")
        else:
            return
    for one in (given.connection, given.ground, given.lock, *record, spool):
        os.set_inheritable(one, True)
    _execute([*_strip_one_time_options(arguments), _TAKE_OVER, str(spool)])


def restart(arguments: Sequence[str], left_behind: Mapping[str, int] | None = None) -> NoReturn:
    """Execute the installed version in place of this process, as after a crash: with the descriptors that the
    dead daemon has left, if it is to take the drive over."""
    if left_behind is not None:
        process_env.pass_on(holder.pass_to_program(dict(left_behind)))
    _execute(_strip_one_time_options(arguments))


def _execute(arguments: list[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    command = [*_program(), *arguments]
    os.execv(command[0], command)


def _program() -> list[str]:
    return [sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "daemon"]


def _strip_one_time_options(arguments: Sequence[str]) -> list[str]:
    """Return the command line without the options that apply to one start only."""
    kept, rest = [], iter(arguments)
    for one in rest:
        if one in (_READY, _TAKE_OVER):
            next(rest, None)
        elif one != _DETACHED:
            kept.append(one)
    return kept
