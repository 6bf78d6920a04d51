"""What the processes that serve one folder have together, and know of each other: by files in it.

Each holds a shared lock on the file `lock` as long as it has the store open; whoever finds itself alone holds
it exclusively while it sweeps.  What one process does for all has a lock of its own.  The kernel gives them
back when a process is gone.
"""

import fcntl
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import trio

from cmsfs import durability
from cmsfs.runtime import chance, threads
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

    def value(self, name: str) -> bytes | None:
        """What the processes have noted under a name: a file of the folder."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Note something, durably, unless another process has; what is noted then."""
        await threads.run_sync(partial(self._write, self._root / name, data, new=True))
        found = self.value(name)
        assert found is not None
        return found

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Note something in place of what was noted, durably; None: nothing."""
        path = self._root / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            await threads.run_sync(partial(self._write, path, data, new=False))

    async def drop_values(self, first: str, end: str) -> None:
        """Forget what is noted under names from one up to but without another."""
        for path in self._root.iterdir():
            if path.is_file() and first <= path.name < end:
                path.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes, *, new: bool) -> None:
        fresh = path.with_name(f"{path.name}.{os.getpid()}.{chance.token_hex(4)}")
        fresh.touch(mode=0o600)
        try:
            fresh.write_bytes(data)
            durability.sync(fresh)
            if new:
                with suppress(FileExistsError):
                    path.hardlink_to(fresh)
            else:
                fresh.rename(path)
        finally:
            fresh.unlink(missing_ok=True)
        durability.sync(path.parent)

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
