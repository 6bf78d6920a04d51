"""Notifies programs that watch a folder (such as open file manager windows) of remote changes in it.

Cache invalidations (`notifier`) raise no inotify event; a request through the mount does.  So a helper
process repeats each change on the mount, and `echoes` answers its requests without doing anything.  This is
done for folders that a process of this user watches, according to `/proc`, or that were listed within the
last minute: watches of other users, or of processes that hide their descriptors, cannot be seen.

Rules: only this task waits for the helper; no publisher, handler or unmount does.  Watchers are notified
after the kernel's caches are invalidated, so that they see the new state.  `/proc` is scanned only after a
change in a folder that the kernel knows.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import trio

from cmsfs.fuse import convert
from cmsfs.fuse.echo_helper import EchoHelper
from cmsfs.fuse.echo_plan import PendingEvents, Places
from cmsfs.fuse.echoes import Echoes, EchoTask
from cmsfs.replica.changes import Change, Hub
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.wakeup import Signal

log = logging.getLogger(__name__)

# Changes within this time are reported together.
MERGE_SECONDS = 0.05

# A scan for watchers takes 3 ms per thousand descriptors.  After it we pause for this multiple of its
# duration, up to a maximum, because on a busy machine a scan may be slow for other reasons.
REST_FACTOR = 20.0
MAX_REST_SECONDS = 2.0

# The helper is stopped after this time without changes.
IDLE_SECONDS = 60.0

# Maximum number of tasks in one message to the helper.
_CHUNK = 128


class KnownInodes(Protocol):
    """Tells which inodes the kernel may have cached."""

    def is_known(self, ino: Ino, /) -> bool:
        """Whether the kernel may have cached anything about it, or names in it."""


class OpenWindows:
    """Takes changes from the hub and makes the kernel notify watchers, once the drive is mounted."""

    def __init__(
        self,
        hub: Hub,
        inodes: KnownInodes,
        places: Places,
        echoes: Echoes,
        *,
        mountpoint: Path,
        kernel_notified: Callable[[], Awaitable[None]],
    ) -> None:
        """`kernel_notified` returns when the kernel has been notified of all changes published so far."""
        self._inodes = inodes
        self._places = places
        self._echoes = echoes
        self._mountpoint = os.fsencode(mountpoint)
        self._kernel_notified = kernel_notified
        self._pending = PendingEvents(places)
        self._posted = Signal()
        self._all_notified = Signal(is_set=True)
        self._next_scan_at = 0.0  # the earliest time of the next scan for watchers
        self._device: int | None = None
        self._helper: EchoHelper | None = None
        self._hub = hub

    @property
    def helper_pid(self) -> int | None:
        """The PID of the helper, if one is running."""
        return None if self._helper is None else self._helper.pid

    def on_mounted(self, connection: int) -> None:
        """Start collecting changes: the drive is mounted as this connection."""
        self._device = os.makedev(0, connection)
        self._hub.subscribe(self._post)

    def on_resumed(self, connection: int) -> None:
        """Continue after `on_unmounting`, since the drive was not unmounted after all."""
        self._device = os.makedev(0, connection)

    def on_unmounting(self) -> None:
        """Stop notifying watchers and kill the helper, which would keep the drive busy."""
        self._device = None
        if self._helper is not None:
            self._helper.kill()

    async def wait_for_helper_exit(self) -> None:
        """Wait until no helper process is alive that could make requests."""
        while self._echoes.pids:
            await self._echoes.helper_died.wait()

    async def run(self) -> None:
        """Notify watchers until cancelled."""
        async with trio.open_nursery() as nursery:
            self._helper = helper = EchoHelper(self._echoes, nursery)
            try:
                while True:
                    with trio.move_on_after(IDLE_SECONDS) as idle:
                        await self._posted.wait()
                    if idle.cancelled_caught:
                        helper.kill()
                        await self._posted.wait()
                    await trio.sleep_until(max(trio.current_time() + MERGE_SECONDS, self._next_scan_at))
                    self._posted.clear()
                    await self._notify_watchers(helper)
                    if not self._pending:
                        self._all_notified.set()
            finally:
                helper.kill()

    async def wait_until_notified(self) -> None:
        """Wait until watchers have been notified of everything published so far, or could not be."""
        await self._all_notified.wait()

    def _post(self, changes: list[Change]) -> None:
        if self._device is None:
            return
        self._pending.note(changes, self._inodes.is_known)
        if self._pending:
            self._all_notified.clear()
            self._posted.set()

    async def _notify_watchers(self, helper: EchoHelper) -> None:
        if (device := self._device) is None:
            return
        await self._kernel_notified()
        began = trio.current_time()
        watched = await helper.find_watched(device)
        if watched is None:
            watched = await helper.find_watched(device) or set()
        took = trio.current_time() - began
        self._next_scan_at = trio.current_time() + min(REST_FACTOR * took, MAX_REST_SECONDS)
        tasks = self._pending.take(self._places.inodes_of(watched) | self._echoes.recently_listed())
        for chunk in _chunks(tasks):
            # If the helper hangs or dies, retry once with a new one.
            if self._device == device and not await self._run_chunk(helper, device, chunk):
                log.info("the helper that notifies programs of remote changes did not answer; it was killed")
                await self._run_chunk(helper, device, chunk)

    async def _run_chunk(self, helper: EchoHelper, device: int, chunk: list[EchoTask]) -> bool:
        parent, new_parent = chunk[0].parent, chunk[0].new_parent
        folder = self._path(parent)
        other = self._path(new_parent) if new_parent not in (0, parent) else b""
        if folder is None or other is None:
            return True  # deleted meanwhile
        return await helper.run_tasks(device, (folder, parent), (other, new_parent), chunk)

    def _path(self, ino: Ino) -> bytes | None:
        names: list[bytes] = []
        while ino != ROOT:
            place = self._places.find(ino)
            if place is None or place.parent is None:
                return None
            names.append(convert.raw_name(place.name))
            ino = place.parent
        return b"/".join([self._mountpoint, *reversed(names)])


def _chunks(tasks: Iterable[EchoTask]) -> Iterator[list[EchoTask]]:
    """Group consecutive tasks of one folder, each name once per group; a move between folders is alone."""
    chunk: list[EchoTask] = []
    names: set[str] = set()
    was_far = False
    for task in tasks:
        is_far = task.new_parent not in (0, task.parent)
        here = {task.name} if is_far or not task.new_name else {task.name, task.new_name}
        if chunk and (
            is_far or chunk[-1].parent != task.parent or names & here or len(chunk) == _CHUNK or was_far
        ):
            yield chunk
            chunk, names = [], set()
        chunk.append(task)
        names |= here
        was_far = is_far
    if chunk:
        yield chunk
