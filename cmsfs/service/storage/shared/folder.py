"""State and locks shared by the processes that serve one store folder, as files in it.

Each process holds a shared lock on the file `lock` while it has the store open; the only process holds it
exclusively while it sweeps.  Each leader role has a lock file of its own.  The kernel releases the locks when
a process dies.
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

# How often a process polls for a leader role that another one holds.
_LEADER_POLL_SECONDS = 5.0


class SharedFolder:
    """This process's shared state and locks in a folder.  `close` it.  Raises `OSError`."""

    # Other processes send no notifications of their writes.
    receives_notifications = False
    on_remote_write: Callable[[], None]

    def __init__(self, root: Path) -> None:
        self.attempts: attempt_limits.Attempts = attempt_limits.AttemptLimits()
        self.url_signer = signed_urls.UrlSigner(
            partial(signed_urls.read_or_create_key, root / "addresses.key")
        )
        self._root = root
        self._lock = _open(root / "lock")

    def value(self, name: str) -> bytes | None:
        """The shared value stored under a name (a file in the folder), or None."""
        try:
            return (self._root / name).read_bytes()
        except FileNotFoundError:
            return None

    async def add_value(self, name: str, data: bytes) -> bytes:
        """Store a value durably unless the name has one already; returns the stored value."""
        await threads.run_sync(partial(write_file, self._root / name, data, new=True))
        found = self.value(name)
        assert found is not None
        return found

    async def set_value(self, name: str, data: bytes | None) -> None:
        """Replace a value durably; None deletes it."""
        path = self._root / name
        if data is None:
            path.unlink(missing_ok=True)
        else:
            await threads.run_sync(partial(write_file, path, data, new=False))

    async def drop_values(self, first: str, end: str) -> None:
        """Delete the values with names in the range from `first` to before `end`."""
        for path in self._root.iterdir():
            if path.is_file() and first <= path.name < end:
                path.unlink(missing_ok=True)

    def try_exclusive(self) -> bool:
        """Try to get exclusive access; see `engine.StoreCoordination`."""
        return _take(self._lock)

    async def open_shared(self) -> None:
        """Register as a user of the store, after any exclusive holder has finished."""
        await threads.run_sync(fcntl.flock, self._lock, fcntl.LOCK_SH)

    async def run_as_leader(self, name: str, job: Callable[[], Awaitable[None]]) -> None:
        """Run a job as the leader of that name; polls until no other process is."""
        lock = _open(self._root / f"{name}.lock")
        try:
            while not _take(lock):  # noqa: ASYNC110  (it waits for another process)
                await trio.sleep(_LEADER_POLL_SECONDS)
            await job()
        finally:
            os.close(lock)

    def close(self) -> None:
        os.close(self._lock)


def write_file(path: Path, data: bytes, *, new: bool) -> None:
    """Write a small file durably and at once; `new`: one that is there stays as it is.  Blocking."""
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


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
