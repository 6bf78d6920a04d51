"""A process on a machine, with its files: it can be killed, its power cut, its files put back."""

import abc
import contextlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import trio

from tests.simulation import gauges
from tests.simulation.disk import Disks, copy_tree
from tests.simulation.world import World, current_actor


class Process(abc.ABC):
    """A service or drive that runs in one simulated process at a time, and the folders of its state."""

    def __init__(self, world: World, disks: Disks, name: str) -> None:
        self.world = world
        self.disks = disks
        self.power_cuts: list[float] = []  # when its power was cut
        # When the snapshot of its files was taken; and spans of time that a restored snapshot undid.
        self.snapshot_at: float | None = None
        self.undone_spans: list[tuple[float, float]] = []
        self.leaked_fds: set[int] = set()  # descriptors left open by killed processes
        self._after_kill: list[Callable[[], None]] = []
        self.name = name
        self.is_alive = False
        self.is_dying = False
        self.deaths = 0
        self._scope = trio.CancelScope()
        self._ended = trio.Event()

    @property
    @abc.abstractmethod
    def folders(self) -> list[Path]:
        """The folders of its files."""

    @property
    def is_up(self) -> bool:
        """Whether it runs, and does not end by itself soon."""
        return self.is_alive and not self.is_dying

    async def start(self, nursery: trio.Nursery) -> None:
        """Start it, and return when it is ready."""
        self._scope, self._ended = trio.CancelScope(), trio.Event()
        await nursery.start(self._run)

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        current_actor.set(self.name)
        ended, scope = self._ended, self._scope
        try:
            with scope, contextlib.ExitStack() as stack:
                stack.callback(setattr, self, "is_alive", False)
                await self._live(task_status)
        except BaseException:
            if not scope.cancel_called:
                raise
        finally:
            ended.set()

    @abc.abstractmethod
    async def _live(self, task_status: trio.TaskStatus[None]) -> None:
        """Run until cancelled; call `task_status.started` when ready."""

    def kill(self, *, power: random.Random | None = None) -> None:
        """Kill the process here and now: the next one finds its files as they are at this moment.

        `power`: cut the machine's power, so that unsynced data survives at random.
        """
        if not self.is_alive or self.is_dying:
            return
        self.is_dying = True
        self.deaths += 1
        self.world.note(f"{self.name} is killed" if power is None else f"the power of {self.name} is cut")
        for folder in self.folders:
            target = folder.with_name(f"{folder.name}.left")
            if power is None:
                copy_tree(folder, target)
            else:
                self.disks.copy_survivors(folder, target, power)
        if power is not None:
            self.power_cuts.append(trio.current_time())
        self._scope.cancel()

    def take_snapshot(self) -> None:
        """Take a snapshot of the files for `restore_snapshot`."""
        if not self.is_alive or self.is_dying:
            return
        for folder in self.folders:
            target = folder.with_name(f"{folder.name}.remembered")
            shutil.rmtree(target, ignore_errors=True)
            copy_tree(folder, target)
        self.snapshot_at = trio.current_time()

    def restore_snapshot(self) -> bool:
        """Kill the process and restore the snapshot; return whether there was one."""
        if self.snapshot_at is None or not self.is_alive or self.is_dying:
            return False
        self.undone_spans.append((self.snapshot_at, trio.current_time()))
        self.kill()

        def back() -> None:
            for folder in self.folders:
                shutil.rmtree(folder)
                copy_tree(folder.with_name(f"{folder.name}.remembered"), folder)

        self._after_kill.append(back)
        return True

    def lose_folder(self, folder: Path) -> None:
        """Kill the process and empty this folder."""
        self.kill()

        def empty() -> None:
            shutil.rmtree(folder)
            folder.mkdir(mode=0o700)

        self._after_kill.append(empty)

    async def wait_ended(self) -> None:
        """Return when the process has ended."""
        await self._ended.wait()

    async def wait_cleaned_up(self) -> None:
        """Return when all its tasks have ended and its files are as the kill left them."""
        await self._ended.wait()
        if self.is_dying:
            self.leaked_fds |= gauges.open_descriptors(self.folders).keys()
            for folder in self.folders:
                shutil.rmtree(folder)
                folder.with_name(f"{folder.name}.left").rename(folder)
            while self._after_kill:
                self._after_kill.pop()()
            self.is_dying = False

    async def stop(self) -> None:
        """Shut it down cleanly."""
        self._scope.cancel()
        await self._ended.wait()
