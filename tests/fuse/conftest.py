"""Mounts for tests: a watchdog for hung tests, a check for leftover mounts, an in-memory drive.

A test calls the mount through `outside`, in a thread: a call from the event loop would deadlock with the loop
that has to answer it.
"""

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs import mounts
from cmsfs.fuse import mount, notifier, operations
from cmsfs.fuse.echoes import Echoes
from cmsfs.replica import changes
from tests.support import fuse_watchdog, memory_drive

# A test with a mount takes a fraction of a second; one that takes this long is deadlocked.
WATCHDOG_SECONDS = 30.0


Watchdog = fuse_watchdog.Watchdog


def _drives_under(folder: Path) -> list[mounts.Mount]:
    return [m for m in mounts.listing() if m.is_drive and Path(m.mountpoint).is_relative_to(folder)]


@pytest.fixture(scope="session", autouse=True)
def _swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Check that no mount of this process's tests is left at the end; mounts of others are ignored."""
    own = tmp_path_factory.getbasetemp()
    mounts.ensure_fusectl()
    yield
    for left in reversed(_drives_under(own)):
        if Path(left.mountpoint).relative_to(own).parts[0].startswith("everyday"):
            continue  # the drive that tests of tests/drive share in this process ends with their fixture
        mounts.abort(left.connection)
        mounts.detach(Path(left.mountpoint))


@pytest.fixture(autouse=True)
def _start_with_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Python 3.11.4 nothing else runs until a process that is started with vfork runs its program
    (gh-104372), which is on the drive that the test serves, or has files there to close."""
    if sys.version_info < (3, 11, 4):
        monkeypatch.setattr("subprocess._USE_VFORK", False)


@pytest.fixture(scope="session")
def watchdog_process() -> Iterator[Any]:
    """The process behind `watchdog`."""
    dog = Watchdog()
    yield dog
    dog.close()


@pytest.fixture(autouse=True)
def watchdog(tmp_path: Path, watchdog_process: Any) -> Iterator[Any]:
    """Abort the mount of a deadlocked test, and fail it."""
    watchdog_process.arm(seconds=WATCHDOG_SECONDS, under=tmp_path)
    yield watchdog_process
    if watchdog_process.disarm():
        pytest.fail(f"the test hung, and its mounts were aborted; the load is {os.getloadavg()[0]:.1f}")


Outside = Callable[..., Awaitable[Any]]


@pytest.fixture
def outside() -> Outside:
    """`await outside(os.stat, path)`: call the mount from a thread, as another program would."""

    async def call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return await trio.to_thread.run_sync(partial(fn, *args, **kwargs), abandon_on_cancel=True)

    return call


@pytest.fixture
async def outcome(outside: Outside) -> Callable[..., Awaitable[int]]:
    """`await outcome(os.unlink, path)`: the errno of a call on the mount, 0 on success."""

    async def call(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
        try:
            await outside(fn, *args, **kwargs)
        except OSError as error:
            return error.errno or -1
        return 0

    return call


@pytest.fixture
def fs() -> Any:
    """An empty file system in memory."""
    return memory_drive.MemoryDrive()


Mounting = Callable[..., AbstractAsyncContextManager[mount.Mounted]]


@pytest.fixture
def echoes(fs: Any) -> Echoes:
    """The responses to the process that notifies watchers of changes in `fs`."""
    return Echoes(child=lambda parent, name: fs.things[parent].entries.get(name, 0))


@pytest.fixture
def mounting(tmp_path: Path, watchdog: Any, echoes: Echoes) -> Mounting:
    """`async with mounting(fs) as drive`: mounted at `tmp_path / "drive"`, watched."""

    @asynccontextmanager
    async def start(fs: Any, **options: Any) -> AsyncIterator[mount.Mounted]:
        place, options = tmp_path / "drive", {"create": True, "linger": 0.2, "deadline": 5.0} | options
        handlers = operations.Operations(fs, echoes=echoes)
        async with mount.mounted(handlers, place, **options) as drive:
            watchdog.watch(drive.connection)
            yield drive
        watchdog.ended(drive.connection)

    return start


@pytest.fixture
async def drive(fs: Any, mounting: Mounting) -> AsyncIterator[mount.Mounted]:
    """`fs`, mounted."""
    async with mounting(fs) as mounted:
        yield mounted


@pytest.fixture
def top(drive: mount.Mounted) -> Path:
    """The mountpoint of `drive`."""
    return drive.mountpoint


@pytest.fixture
def hub() -> changes.Hub:
    return changes.Hub()


@pytest.fixture
async def told(fs: Any, hub: changes.Hub, nursery: trio.Nursery) -> Callable[..., Awaitable[None]]:
    """`await told(Change(…))`: publish the change, and wait until the kernel has been notified."""
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)

    async def publish(*news: changes.Change) -> None:
        hub.publish(news)
        await tells.settled()

    return publish
