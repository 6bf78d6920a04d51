"""Starts the daemon in the background: own session, log file, and waits until it reports ready or failed.

`cmsfsd --ready-fd N` writes `READY` when the mount responds, or the message of its failure; only then does
the command return.  Called by `drive.demo` and `drive.mount`.

Rule: a failed start leaves nothing behind: no process, no mount, no folder that we created.
"""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cmsfs import config, errors, logs, mountpoint_guard, mounts
from cmsfs.ipc import ready as ipc_ready
from cmsfs.runtime import clock

# The mount responds within milliseconds; the rest is for a slow service on a first start.
START_SECONDS = 90.0


# A daemon that has reported its failure only closes its files; one that was told to exit may be unmounting.
EXIT_SECONDS = 15.0


def arguments(settings: config.Settings, mountpoint: Path, *, sample: bool) -> list[str]:
    """Return the command line of the daemon."""
    # -P: the module `daemon` must not be imported from the working directory; in a package, nor from
    # PYTHONPATH.
    return [
        *(sys.executable, "-I" if sys.flags.isolated else "-P", "-m", "daemon"),
        *("--account", settings.account),
        *("--profile", settings.profile),
        *("--mountpoint", str(mountpoint)),
        *(["--folder", settings.folder] if settings.folder else []),
        *(["--read-only"] if settings.read_only else []),
        *(["--ttl", f"{settings.ttl_seconds:g}"] if settings.ttl_seconds else []),
        *(["--sample"] if sample else []),
    ]


def start(settings: config.Settings, mountpoint: Path, *, sample: bool) -> str:
    """Start a daemon and wait until its mount responds; return its message.

    Raises `UserError` with the daemon's error message.
    """
    paths = settings.paths
    paths.ensure()
    ready, ready_for_child = os.pipe()
    with os.fdopen(ready, "rb", buffering=0) as told:
        try:
            logs.set_aside(paths.log)
            with paths.log.open("ab") as log:
                child = subprocess.Popen(
                    [*arguments(settings, mountpoint, sample=sample), "--ready-fd", str(ready_for_child)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[ready_for_child],
                    start_new_session=True,
                )
        finally:
            os.close(ready_for_child)
        try:
            line = _line(told.fileno(), seconds=START_SECONDS)
        except BaseException:
            _end(child)
            raise
    if line is None:
        _end(child)
        raise errors.UserError(f"The drive was not ready after {START_SECONDS:.0f} s; see {paths.log}.")
    exit_code, sentence = ipc_ready.parse_ready_line(line)
    if exit_code:
        _end(child)
        raise errors.UserError(
            sentence or f"The daemon exited before the drive was ready; see {paths.log}.", exit_code=exit_code
        )
    # The daemon outlives this command: suppress Popen's warning about a child still running.
    child.returncode = 0
    return sentence


@contextmanager
def folder(mountpoint: Path, *, create: bool) -> Iterator[None]:
    """Provide the mountpoint: create it if allowed, and remove it again if the block fails."""
    made = False
    if create:
        try:
            mountpoint.mkdir(mode=mountpoint_guard.BARRED)
            made = True
        except FileExistsError:
            pass
        except OSError as error:
            raise errors.UserError(
                f"The mountpoint {mountpoint} cannot be created: {error.strerror}.",
                exit_code=mounts.BAD_MOUNTPOINT,
            ) from None
    try:
        yield
    except BaseException:
        if made:
            with suppress(OSError):
                mountpoint.rmdir()
        raise


def _line(fd: int, *, seconds: float) -> str | None:
    """Read a line from `fd`; a partial one if the writer exited, None after `seconds`."""
    deadline = clock.monotonic() + seconds
    data = b""
    while not data.endswith(b"\n"):
        readable, _, _ = select.select([fd], [], [], max(0.0, deadline - clock.monotonic()))
        if not readable:
            return None
        if not (chunk := os.read(fd, 4096)):
            break
        data += chunk
    return data.decode("utf-8", "replace")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Make sure that the child exits: wait, then terminate, then kill it."""
    for sign in (None, signal.SIGTERM, signal.SIGKILL):
        if sign is not None:
            child.send_signal(sign)
        with suppress(subprocess.TimeoutExpired):
            child.wait(timeout=1.0 if sign is None else EXIT_SECONDS)
            return
