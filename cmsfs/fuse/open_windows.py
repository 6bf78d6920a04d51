"""Open windows follow: programs that watch a folder hear of what was changed in it elsewhere.

Cache invalidations (`notifier`) raise no inotify event; a request through the mount does.  So a helper
process makes each change once more there, and `echoes` answers it without doing anything.  It is done in
folders that some process of this user watches, as `/proc` says, or that somebody has listed within a minute:
a watch of another user, or of a process that hides its descriptors, cannot be seen.

Rules: nothing waits for the helper but this task, neither a publisher, nor a handler, nor an unmount.
Watchers hear of a change after the kernel has, so that what they look at then is the truth.  Nothing looks
into `/proc` but after a change in a folder that the kernel knows.
"""

import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

import trio

from cmsfs.fuse import convert
from cmsfs.fuse.echo_helper import EchoHelper
from cmsfs.fuse.echo_plan import Places, Unheard
from cmsfs.fuse.echoes import Echoes, EchoTask
from cmsfs.replica.changes import Change, Hub
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.wakeup import Signal

log = logging.getLogger(__name__)

# What comes within so long is told together.
MERGE_SECONDS = 0.05

# Looking for watchers takes 3 ms a thousand descriptors: so many times as long as it took is rested then, but
# no longer than this, since on a busy machine it takes long for other reasons.
REST_AFTER_LOOKING = 20.0
LONGEST_REST_SECONDS = 2.0

# The helper ends when there was nothing to tell for so long.
IDLE_SECONDS = 60.0

# So many tasks are one message to the helper.
_CHUNK = 128


class Known(Protocol):
    """What is known of an inode outside the tree."""

    def is_known(self, ino: Ino, /) -> bool:
        """Whether the kernel may remember anything of it, or of names in it."""


class OpenWindows:
    """Takes changes from the hub and has the kernel tell watchers, once the drive is mounted."""

    def __init__(
        self,
        hub: Hub,
        inodes: Known,
        places: Places,
        echoes: Echoes,
        *,
        mountpoint: Path,
        told: Callable[[], Awaitable[None]],
    ) -> None:
        """`told` returns when the kernel has heard of what was published so far."""
        self._inodes = inodes
        self._places = places
        self._echoes = echoes
        self._mountpoint = os.fsencode(mountpoint)
        self._told = told
        self._unheard = Unheard(places)
        self._posted = Signal()
        self._heard = Signal(is_set=True)
        self._next = 0.0  # not before this time is looked for watchers again
        self._device: int | None = None
        self._helper: EchoHelper | None = None
        self._hub = hub

    @property
    def helper_pid(self) -> int | None:
        """The helper's process, while there is one."""
        return None if self._helper is None else self._helper.pid

    def mounted(self, connection: int) -> None:
        """From now on there is something to watch: the drive of this connection."""
        self._device = os.makedev(0, connection)
        self._hub.subscribe(self._post)

    def resumed(self, connection: int) -> None:
        """It was not unmounted after all."""
        self._device = os.makedev(0, connection)

    def unmounting(self) -> None:
        """Nobody is told anything more, and the helper is not in the way."""
        self._device = None
        if self._helper is not None:
            self._helper.end()

    async def alone(self) -> None:
        """Wait until no helper lives that could ask the drive for anything."""
        while self._echoes.pids:
            await self._echoes.helper_died.wait()

    async def run(self) -> None:
        """Tell watchers until cancelled."""
        async with trio.open_nursery() as nursery:
            self._helper = helper = EchoHelper(self._echoes, nursery)
            try:
                while True:
                    with trio.move_on_after(IDLE_SECONDS) as idle:
                        await self._posted.wait()
                    if idle.cancelled_caught:
                        helper.end()
                        await self._posted.wait()
                    await trio.sleep_until(max(trio.current_time() + MERGE_SECONDS, self._next))
                    self._posted.clear()
                    await self._tell(helper)
                    if not self._unheard:
                        self._heard.set()
            finally:
                helper.end()

    async def heard(self) -> None:
        """Wait until watchers were told of everything published so far, or could not be."""
        await self._heard.wait()

    def _post(self, changes: list[Change]) -> None:
        if self._device is None:
            return
        self._unheard.note(changes, self._inodes.is_known)
        if self._unheard:
            self._heard.clear()
            self._posted.set()

    async def _tell(self, helper: EchoHelper) -> None:
        if (device := self._device) is None:
            return
        await self._told()
        began = trio.current_time()
        watched = await helper.watched(device)
        if watched is None:
            watched = await helper.watched(device) or set()
        took = trio.current_time() - began
        self._next = trio.current_time() + min(REST_AFTER_LOOKING * took, LONGEST_REST_SECONDS)
        tasks = self._unheard.take(self._places.shown_as(watched) | self._echoes.listed_lately())
        for chunk in _chunks(tasks):
            # Once more with another helper, if this one hangs or dies.
            if self._device == device and not await self._make(helper, device, chunk):
                log.info(
                    "the helper that tells programs of changes made elsewhere did not answer; it was ended"
                )
                await self._make(helper, device, chunk)

    async def _make(self, helper: EchoHelper, device: int, chunk: list[EchoTask]) -> bool:
        parent, new_parent = chunk[0].parent, chunk[0].new_parent
        folder = self._path(parent)
        other = self._path(new_parent) if new_parent not in (0, parent) else b""
        if folder is None or other is None:
            return True  # gone since
        return await helper.make(device, (folder, parent), (other, new_parent), chunk)

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
    """Neighbours in one folder together, each name once; a move to another folder alone."""
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
