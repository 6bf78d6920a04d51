"""What the processes that serve one folder have together, and know of each other: by files in it.

Each holds a shared lock on the file `lock` as long as it has the store open; whoever finds itself alone holds
it exclusively while it sweeps.  What one process does for all has a lock of its own.  The kernel gives them
back when a process is gone.
"""

import fcntl
import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import trio

from cmsfs.runtime import threads
from cmsfs.service.storage.shared import attempt_limits, signed_urls

# How often whoever wants to do what one does for all asks whether it may.
_LEAD_SECONDS = 5.0


class SharedFolder:
    """This process among those that have a folder open.  `close` it.  Raises `OSError`."""

    # Nobody tells this process what others write.
    is_told = False
    heard: Callable[[], None]

    def __init__(self, root: Path) -> None:
        self.attempts: attempt_limits.Attempts = attempt_limits.AttemptLimits()
        self.addresses = signed_urls.SignedUrls(partial(signed_urls.key_of, root / "addresses.key"))
        self._root = root
        self._lock = _open(root / "lock")

    def is_alone(self) -> bool:
        """Whether no other process has the store open; then none opens it until `open_to_others`."""
        return _take(self._lock)

    async def open_to_others(self) -> None:
        """Say that this process has the store open, when whoever wanted to be alone has finished."""
        await threads.run_sync(fcntl.flock, self._lock, fcntl.LOCK_SH)

    async def lead(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job when no other process does."""
        lock = _open(self._root / f"{name}.lock")
        try:
            while not _take(lock):  # noqa: ASYNC110  (it waits for another process)
                await trio.sleep(_LEAD_SECONDS)
            await job()
        finally:
            os.close(lock)

    def close(self) -> None:
        os.close(self._lock)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
