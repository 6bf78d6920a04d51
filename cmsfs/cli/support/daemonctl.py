"""The client of the control socket: finds running daemons and sends them requests.

Plain blocking sockets: a command sends one request and waits for it.  `ipc.control` defines the messages.
Commands call `find_for` to find the daemon, then `status` or `exchange`.

Rule: without a listener on its socket there is no daemon, whatever process ids or mounts suggest.
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

# A daemon responds between two awaits and reports progress every second; a longer silence means that it
# hangs.
SILENCE_SECONDS = 15.0

# How long a finished command waits for the drive to show its change.
LOOK_SECONDS = 3.0

# A drive that was unmounted by other means uploads pending changes, for as long as its settings allow.
EXIT_SECONDS = 40.0
EXIT_POLL_SECONDS = 0.05

Answer = TypeVar("Answer", bound=pydantic.BaseModel)


class DaemonExitedError(errors.UserError):
    """The daemon closed the connection before it responded."""


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
    """Return the daemon of an account, if it is running."""
    return _probe(config.Paths(account).socket)


def find_mounted(account: str) -> Daemon | None:
    """Return the daemon that has an account mounted.

    Waits for a daemon that is starting or stopping (because it was unmounted by other means, for example)
    until it has mounted or exited; returns it as it is after `EXIT_SECONDS`.
    """
    deadline = clock.monotonic() + EXIT_SECONDS
    while (daemon := find_account(account)) is not None:
        if daemon.stage == "mounted" or clock.monotonic() > deadline:
            break
        clock.sleep(EXIT_POLL_SECONDS)
    return daemon


def sockets() -> list[Path]:
    """Return the sockets of this user's daemons, perhaps with some of exited ones."""
    return sorted(config.Paths("any").runtime.glob("*.sock"))


def running() -> list[Daemon]:
    """Return all running daemons of this user."""
    found = [_probe(path) for path in sockets()]
    return [daemon for daemon in found if daemon]


def find_mountpoint(mountpoint: Path) -> Daemon | None:
    """Return the daemon that serves a mountpoint (resolved, as by `mounts.located`)."""
    return next((daemon for daemon in running() if daemon.mountpoint == mountpoint), None)


def find_for(account: str | None, settings: config.Settings) -> Daemon | None:
    """Return the daemon for a command: that of the given account; without one, that of the configured account
    or, if it is not mounted, the only running one.

    Raises `UserError` if it is ambiguous.
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
    """Convert a local path below the mountpoint, or one of the drive, to a path from the drive's root."""
    if given.startswith("("):
        return given  # a deleted item, as a status shows it
    path = Path(os.path.normpath(Path(given).expanduser().absolute()))
    if path.is_relative_to(daemon.mountpoint):
        return f"/{path.relative_to(daemon.mountpoint)}".removesuffix("/.")
    if given.startswith("/"):
        return os.path.normpath(given)
    raise errors.UserError(f"{path} is not below {daemon.mountpoint}, where the drive is.")


def ask(daemon: Daemon, request: control.Request, answer: type[Answer]) -> Answer:
    """Send a request and return its answer, of this class.  Raises `UserError`."""
    for found in exchange(daemon.socket, request):
        if isinstance(found, answer):
            return found
    raise errors.UserError("Unexpected response from the daemon.")


def carry_out(daemon: Daemon, request: control.Request) -> control.Done:
    """Send a request and wait until it is done.  Raises `UserError`."""
    return ask(daemon, request, control.Done)


def poll_drive(account: str | None, settings: config.Settings) -> None:
    """After a change at the service, make the drive, if it is running, poll for changes now.

    It would do so a little later anyway, so a failure is not an error of the command, and there is no long
    wait.
    """
    end = clock.monotonic() + LOOK_SECONDS
    with contextlib.suppress(errors.UserError, OSError):
        if (daemon := find_for(account, settings)) is not None:
            for _ in exchange(daemon.socket, control.Poll()):
                if clock.monotonic() > end:
                    return


def status(daemon: Daemon) -> control.DriveStatus:
    """Return the daemon's status.  Raises `UserError`."""
    return ask(daemon, control.GetStatus(), control.DriveStatus)


def watching(daemon: Daemon) -> Iterator[control.DriveStatus]:
    """Yield the status every second until the daemon exits.  Raises `UserError`."""
    for answer in _answers(daemon.socket, control.Watch()):
        if isinstance(answer, control.DriveStatus):
            yield answer


def exchange(path: Path, request: control.Request) -> Iterator[control.Answer]:
    """Send a request and yield the answers as they arrive, including the last one.

    Raises `UserError` if the daemon fails, disconnects early or stops responding, and the `OSError` of
    connecting if there is no daemon.
    """
    for answer in _answers(path, request):
        yield answer
        if not isinstance(answer, control.Progress):
            return
    raise DaemonExitedError("The daemon exited before it responded.")


def _answers(path: Path, request: control.Request) -> Iterator[control.Answer]:
    """Yield all answers until the connection is closed."""
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
    """Return the remedy for a daemon that does not respond."""
    found = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, _, _ = struct.unpack("3i", found)
    return (
        f"The daemon (process {pid}) is running but not responding; `kill -9 {pid}` ends it, `cmsfs mount`"
        " starts it again, and nothing that was saved is lost."
    )


class _Silence(NamedTuple):
    """The error about a daemon that did not respond, and how long it is not asked again."""

    said: str
    until: float


# A command with several requests (`cmsfs doctor`) waits only once for a daemon that hangs.
silent_sockets: dict[Path, _Silence] = {}


def await_exit(daemon: Daemon, *, seconds: float) -> bool:
    """Wait until the daemon's process has exited; whether it has."""
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
    """Return the daemon behind a socket.

    An exiting daemon keeps its socket open until its last thread has ended, then closes connections without
    an answer: retry until nobody listens.
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
        pass  # never started, or exited without removing its socket
    return None


def connection(path: Path) -> socket.socket:
    """Connect to a Unix socket, even with a long path."""
    # sun_path holds 107 bytes; through a descriptor of the folder, any path is short.
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
