"""One daemon per account: a file lock that the kernel releases however the process ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cmsfs import errors

ALREADY_RUNNING = 8


@contextmanager
def single_instance(lock: Path, *, account: str, inherited: int | None = None) -> Iterator[int]:
    """Hold the lock, by a descriptor; `inherited` is one that holds it already.

    Raises `UserError` if another daemon of this account does.
    """
    try:
        fd = (
            inherited
            if inherited is not None
            else os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )
    except OSError as error:
        raise errors.UserError(f"{lock} cannot be opened: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise errors.UserError(
                f"The drive of the account {account!r} is already running{_by_whom(fd)}.",
                exit_code=ALREADY_RUNNING,
            ) from None
        os.ftruncate(fd, 0)
        os.write(fd, f"{os.getpid()}\n".encode())
        yield fd
    finally:
        os.close(fd)


def _by_whom(fd: int) -> str:
    text = os.pread(fd, 32, 0).decode("ascii", "replace").strip()
    return f" (process {text})" if text.isdigit() else ""
