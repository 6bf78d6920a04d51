"""The client of the control socket: finds running daemons and sends them requests.

Plain blocking sockets: a command asks one thing and waits for it.  `ipc.control` says what may be
said.  Commands call `find_for` to learn whom to ask, then `status` or `exchange`.

Rule: a socket that nobody listens on is no daemon, whatever process ids or mounts may say.
"""

import contextlib
import os
import select
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import pydantic

from cmsfs import config, errors
from cmsfs.ipc import control
from cmsfs.runtime import clock

# A daemon answers between two awaits and reports progress every second; longer silence means it hangs.
SILENCE_SECONDS = 15.0

# For so long a command that is done waits for the drive to show it.
LOOK_SECONDS = 3.0

# A drive that was unmounted from outside uploads what is left, for as long as its settings allow.
EXIT_SECONDS = 40.0
EXIT_POLL_SECONDS = 0.05

Answer = TypeVar("Answer", bound=pydantic.BaseModel)


class DaemonExitedError(errors.UserError):
    """The daemon hung up before it responded."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A running daemon."""

    socket: Path
    account: str
    mountpoint: Path
    pid: int
    version: str
    stage: control.Stage = "mounted"


def find_account(account: str) -> Daemon | None:
    """The daemon of an account, if one runs."""
    return _probe(config.Paths(account).socket)


def find_mounted(account: str) -> Daemon | None:
    """The daemon that has an account mounted.

    One that says that it is starting or stopping (it was unmounted from outside, for example) is waited for
    until it has mounted or exited, and returned as it is after `EXIT_SECONDS`.
    """
    deadline = clock.monotonic() + EXIT_SECONDS
    while (daemon := find_account(account)) is not None:
        if daemon.stage == "mounted" or clock.monotonic() > deadline:
            break
        clock.sleep(EXIT_POLL_SECONDS)
    return daemon


def sockets() -> list[Path]:
    """The sockets of this user's daemons, of some that have gone among them."""
    return sorted(config.Paths("any").runtime.glob("*.sock"))


def running() -> list[Daemon]:
    """All daemons of this user."""
    found = [_probe(path) for path in sockets()]
    return [daemon for daemon in found if daemon]


def find_mountpoint(mountpoint: Path) -> Daemon | None:
    """The daemon that serves a mountpoint (resolved, as `mounts.located` gives it)."""
    return next((daemon for daemon in running() if daemon.mountpoint == mountpoint), None)


def find_for(account: str | None, settings: config.Settings) -> Daemon | None:
    """The daemon a command means: that of the named account; unnamed, the configured account's or,
    if that one is not mounted, the only one there is.

    Raises `UserError` if several could be meant.
    """
    if (daemon := find_account(settings.place)) or account:
        return daemon
    others = running()
    if len(others) > 1:
        names = ", ".join(sorted(other.account for other in others))
        raise errors.UserError(
            f"Several drives are mounted; choose one with --account: {names}.", exit_code=2
        )
    return others[0] if others else None


def require(account: str | None, settings: config.Settings) -> Daemon:
    """As `find_for`.  Raises `UserError` also if there is none."""
    if (daemon := find_for(account, settings)) is None:
        raise errors.UserError("No drive is mounted; `cmsfs mount` mounts one.")
    return daemon


def on_drive(daemon: Daemon, given: str) -> str:
    """A path of this machine below the mountpoint, or of the drive, from the top of the drive."""
    if given.startswith("("):
        return given  # something deleted, as a status calls it
    path = Path(os.path.normpath(Path(given).expanduser().absolute()))
    if path.is_relative_to(daemon.mountpoint):
        return f"/{path.relative_to(daemon.mountpoint)}".removesuffix("/.")
    if given.startswith("/"):
        return os.path.normpath(given)
    raise errors.UserError(f"{path} is not below {daemon.mountpoint}, where the drive is.")


def ask(daemon: Daemon, request: control.Request, answer: type[Answer]) -> Answer:
    """Ask for what is answered by one message of this class.  Raises `UserError`."""
    for found in exchange(daemon.socket, request):
        if isinstance(found, answer):
            return found
    raise errors.UserError("Unexpected response from the daemon.")


def carry_out(daemon: Daemon, request: control.Request) -> control.Done:
    """Ask for something to be done.  Raises `UserError`."""
    return ask(daemon, request, control.Done)


def have_looked(account: str | None, settings: config.Settings) -> None:
    """After a change at the service: have the drive that is meant, if one runs, show it already.

    By itself it would a little later, so whatever prevents this is no error of the command, and what takes
    long is not waited for.
    """
    end = clock.monotonic() + LOOK_SECONDS
    with contextlib.suppress(errors.UserError, OSError):
        if (daemon := find_for(account, settings)) is not None:
            for _ in exchange(daemon.socket, control.Poll()):
                if clock.monotonic() > end:
                    return


def status(daemon: Daemon) -> control.DriveStatus:
    """What the daemon tells about itself.  Raises `UserError`."""
    return ask(daemon, control.GetStatus(), control.DriveStatus)


def watching(daemon: Daemon) -> Iterator[control.DriveStatus]:
    """The status, again and again, until the daemon ends.  Raises `UserError`."""
    for answer in _answers(daemon.socket, control.Watch()):
        if isinstance(answer, control.DriveStatus):
            yield answer


def exchange(path: Path, request: control.Request) -> Iterator[control.Answer]:
    """Ask, and yield the answers as they come, the last one included.

    Raises `UserError` when the daemon refuses, hangs up early or falls silent, and the `OSError` of
    connecting when there is none.
    """
    for answer in _answers(path, request):
        yield answer
        if not isinstance(answer, control.Progress):
            return
    raise DaemonExitedError("The daemon exited before it responded.")


def _answers(path: Path, request: control.Request) -> Iterator[control.Answer]:
    """All that comes until the connection ends."""
    if (silent := silent_sockets.get(path)) is not None and clock.monotonic() < silent.until:
        raise errors.UserError(silent.said)
    with connection(path) as connected:
        connected.settimeout(SILENCE_SECONDS)
        try:
            connected.sendall(control.encode(request))
            with connected.makefile("rb") as lines:
                for line in lines:
                    answer = control.parse_answer(line)
                    if isinstance(answer, control.Failure):
                        raise errors.UserError(answer.message, exit_code=answer.exit_code)
                    yield answer
        except TimeoutError:
            said = _remedy(connected)
            silent_sockets[path] = _Silence(said, clock.monotonic() + SILENCE_SECONDS)
            raise errors.UserError(said) from None
        except pydantic.ValidationError:
            raise errors.UserError("The daemon speaks another protocol; is it an older version?") from None
        except (BrokenPipeError, ConnectionResetError):
            pass


def _remedy(connected: socket.socket) -> str:
    """What to do about the process at the other end, which does not answer."""
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", found)
    return (
        f"The daemon (process {pid}) is running but not responding; `kill -9 {pid}` ends it, `cmsfs mount`"
        " starts it again, and nothing that was saved is lost."
    )


class _Silence(NamedTuple):
    """What was said of a daemon that did not answer, and how long it is not asked again."""

    said: str
    until: float


# A command that asks several times (`cmsfs doctor`) waits for a daemon that hangs once.
silent_sockets: dict[Path, _Silence] = {}


def await_exit(daemon: Daemon, *, seconds: float) -> bool:
    """Wait until the daemon's process is gone; whether it is."""
    try:
        handle = os.pidfd_open(daemon.pid)
    except ProcessLookupError:
        return True
    try:
        readable, _, _ = select.select([handle], [], [], seconds)
        return bool(readable)
    finally:
        os.close(handle)


def _probe(path: Path) -> Daemon | None:
    """The daemon behind a socket.

    One that ends has its socket open until its last thread is gone, and then hangs up without a word: it is
    asked until nobody is there.
    """
    deadline = clock.monotonic() + EXIT_SECONDS
    while True:
        try:
            return _pinged(path)
        except DaemonExitedError:
            if clock.monotonic() > deadline:
                raise
            clock.sleep(EXIT_POLL_SECONDS)


def _pinged(path: Path) -> Daemon | None:
    try:
        for answer in exchange(path, control.Ping()):
            if isinstance(answer, control.Pong):
                return Daemon(
                    socket=path,
                    account=answer.account,
                    mountpoint=Path(answer.mountpoint),
                    pid=answer.pid,
                    version=answer.version,
                    stage=answer.stage,
                )
    except (ConnectionRefusedError, FileNotFoundError):
        pass  # never started, or gone without removing its socket
    return None


def connection(path: Path) -> socket.socket:
    """A connection to a Unix socket, however long its path is."""
    # sun_path holds 107 bytes; through a descriptor of the folder any path is short.
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.settimeout(SILENCE_SECONDS)
            made.connect(f"/proc/self/fd/{folder}/{path.name}")
        except BaseException:
            made.close()
            raise
        return made
    finally:
        os.close(folder)
