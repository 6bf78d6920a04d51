"""Runs a machine's programs, and records what they were promised and which contents they have read."""

import errno
import os
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

import trio

from cmsfs import errors
from cmsfs.models import wire_names
from cmsfs.replica import tree
from cmsfs.replica.nodes import Ino
from daemon.fetch import block_download
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger, sha1
from tests.simulation.machines import Killed, Machine
from tests.simulation.remembered import File, Inode

FOLDERS = ("", "p", "q", "p/r")
NAMES = ("a.txt", "b.txt", "c.txt")
PATHS = len(FOLDERS) * len(NAMES)

# Files of a name that programs have replaced or removed, and whose deletion is not sent yet.
_REPLACED = """
  SELECT node.base_sha1 FROM node JOIN op ON op.ino = node.ino
  WHERE op.kind = 'trash' AND node.parent IS NULL AND node.base_key = ? AND node.base_sha1 IS NOT NULL
"""

_CALLED = "SELECT ino FROM node WHERE kind = 'file' AND parent IS NOT NULL AND name_key = ?"


def path_of(number: int) -> str:
    """Return one of the few paths that everybody uses."""
    folder, name = FOLDERS[number // len(NAMES) % len(FOLDERS)], NAMES[number % len(NAMES)]
    return f"{folder}/{name}".lstrip("/")


@dataclass
class HeldFile:
    """A file that stays open, and the bytes that its handle must show (`model`)."""

    file: File
    path: str
    model: bytes
    base: bytes
    is_read_only: bool = False
    wrote: bool = False
    given_up: bool = False
    # It was changed through another inode of the kernel's, as one that is moved out of `.trash` has: the
    # handle may show the bytes before or after.
    is_shared: bool = False


SMALL_CACHE = 2**20


class Promises:
    """Base of programs on one drive: runs each act and records its outcome."""

    def __init__(self, machine: Machine, ledger: Ledger) -> None:
        self.machine = machine
        self.ledger = ledger
        self.world = machine.world
        self.held: list[HeldFile] = []
        # Of a program that works in a folder.
        self.cwd: Inode | None = None
        self.is_large = False  # most files are
        self.is_rotten = False  # the disk could not read some of its cached contents
        self._incarnation = 0
        self.done = 0
        self.refused = 0
        self.wrong: list[str] = []
        # Contents that the current call may replace, even if it is killed before it returns.
        self._at_risk: set[str] = set()

    async def act(self, name: str, args: tuple[int, ...]) -> None:
        """Run one act; errors of the drive are counted as refused."""
        self._at_risk.clear()
        work: Callable[..., Awaitable[None]] = getattr(self, f"do_{name}")
        try:
            async with self.machine.program_call() as kernel:
                self._drop_dead_handles()
                died = self.machine.deaths
                await work(kernel, *args)
                if self.machine.deaths != died:
                    raise Killed
            self.done += 1
            self.world.note(f"{name} {args}: done")
        except Killed:
            self.ledger.has_torn_writes = True
            self.ledger.replaced |= self._at_risk
            self.world.note(f"{name} {args}: killed")
        except OSError as error:
            self.refused += 1
            if error.errno in (errno.ENOSPC, errno.EIO):
                # Earlier writes of the act are there.
                self.ledger.has_torn_writes = True
                self.ledger.replaced |= self._at_risk
            self.world.note(f"{name} {args}: {error.errno}")
        except errors.CmsfsError as error:
            self.refused += 1
            self.world.note(f"{name} {args}: {type(error).__name__}")
        except Exception as error:
            # Errors of a dying process do not count.
            if self.machine.is_alive and self._incarnation == self.machine.deaths:
                raise
            self.ledger.has_torn_writes = True
            self.ledger.replaced |= self._at_risk
            self.world.note(f"{name} {args}: killed, {type(error).__name__}")

    def _drop_dead_handles(self) -> None:
        if self._incarnation != self.machine.deaths:
            self._incarnation = self.machine.deaths
            self.drop_handles()

    def drop_handles(self) -> None:
        """The process died, and the handles with it; what was written since the last fsync may be torn."""
        if any(held.wrote for held in self.held):
            self.ledger.has_torn_writes = True
        self.held.clear()
        self.cwd = None

    def _check_alive(self) -> None:
        """Raise `Killed` if the process that answered has died: then its answer does not count."""
        if self.machine.is_dying or self._incarnation != self.machine.deaths:
            raise Killed

    # ---- paths ----

    def path(self, number: int) -> str:
        """Return one of the common paths, as seen on this drive."""
        path = path_of(number)
        return f"{self.machine.shared_prefix}{path}" if "/" in path else path

    def folder(self, number: int) -> str:
        """Return one of the common folders."""
        return self.machine.shared_prefix + FOLDERS[1 + number % (len(FOLDERS) - 1)]

    # ---- contents and promises ----

    def _new_text(self, size: int) -> bytes:
        self.ledger.number += 1
        line = f"{self.machine.name} {self.ledger.number}\n".encode()
        # With a small cache, write large files more often.
        is_any = size % (3 if self.machine.settings.cache_bytes < SMALL_CACHE else 10) == 0
        wanted = (30, 700, 6000, 70_000, 300_000)[size // 10 % 5] if is_any else 30 + size
        if self.is_large and size % 3:
            wanted = (40_000, 70_000, 150_000, 300_000)[size % 4]
        return line * max(1, wanted // len(line))

    def _record_write(self, path: str, data: bytes, over: str | None, *, durable: bool = False) -> None:
        self._check_alive()
        self.ledger.register(data)
        if sha1(data) != over:
            self.ledger.wrote(data, over=over)
            self.ledger.promised[sha1(data)] = (self.machine.name, trio.current_time(), durable)
        self.world.note(f"{path} has {self.ledger.label(data)}")

    def _mark_at_risk(self, *data: bytes) -> None:
        """Note contents that the next call may replace."""
        self._at_risk.update(map(sha1, data))

    def _record_replaced(self, path: str, data: bytes) -> None:
        self._check_alive()
        self.ledger.saw_and_replaced(data)
        self.world.note(f"{path} had {self.ledger.label(data)}")

    async def _read_opened(self, kernel: Kernel, file: File, path: str) -> bytes:
        try:
            before = await kernel.read(file)
        except BaseException:
            with trio.CancelScope(shield=False):
                await kernel.close(file)
            raise
        self._record_read(before, path)
        return before

    async def _read_file(self, kernel: Kernel, path: str) -> bytes:
        file = await kernel.open(path, os.O_RDONLY)
        try:
            data = await kernel.read(file)
        finally:
            await kernel.close(file)
        self._record_read(data, path)
        return data

    def _record_read(self, data: bytes, path: str) -> None:
        self.ledger.record_read(
            data, f"{self.machine.name}: {path}", is_verified=not self._may_be_unverified(len(data))
        )

    def _may_be_unverified(self, size: int) -> bool:
        """Whether a file of this size may be shown with damaged bytes: it is verified when its last block
        arrives, but the disk, or a cache that has hardly room for it, may not keep the others until then."""
        is_evicted = size > block_download.WHOLE_BYTES and self.machine.settings.cache_bytes < SMALL_CACHE
        return (self.is_rotten or is_evicted) and self.machine.wire.faults["damaged download"] > 0

    def _update_models(self, file: File, before: bytes, after: bytes) -> None:
        """Update the expected bytes of all open handles of the file."""
        self.ledger.record_derived(after, before)
        for held in self.held:
            if held.file.inode is file.inode:
                held.model = after
            elif self.machine.kernel.is_same_file(held.file, file):
                held.is_shared = True

    async def _abandon_handles(self, kernel: Kernel, path: str) -> None:
        """A program removes the file at this path: later writes through its handles are given up, too."""
        try:
            ino = (await kernel.stat(path)).ino
        except OSError:
            return
        for held in self.held:
            # The kernel may have the name from before a remote change: then it is another file.
            if held.file.inode.ino == ino or kernel.invalidating:
                held.given_up = True
                if held.wrote:
                    self.ledger.saw_and_replaced(held.model)

    async def _remove_file(self, kernel: Kernel, path: str) -> None:
        """Remove a file that was read before."""
        before = await self._read_file(kernel, path)
        await self._abandon_handles(kernel, path)
        self._mark_at_risk(before)
        await self._unlink(kernel, path, before)
        self._record_replaced(path, before)

    async def _unlink(self, kernel: Kernel, path: str, before: bytes) -> None:
        """Remove a name whose file had these bytes.  A file that a remote change gave it meanwhile, or before
        and the kernel has not heard of it, is then in the trash."""
        key = wire_names.name_key(path.rpartition("/")[2])
        called: set[Ino] = set()
        with suppress(sqlite3.ProgrammingError):  # the process has died: then nothing is removed
            called.update(row["ino"] for row in self.machine.agents.state.db.rows(_CALLED, key))
        called.add(await kernel.unlink(path))
        for ino in called:
            node = tree.find(self.machine.agents.state.db, ino)
            # One with unsent bytes is not another's.  A backup has no item any more.
            if node is None or node.parent is not None or node.draft is not None:
                continue
            if node.base_sha1 in (None, node.sha1) and node.sha1 not in (None, sha1(before)):
                self.ledger.thrown_away.add(node.sha1)

    def _note_thrown_away(self, path: str) -> None:
        """Note what a rename to this path has replaced, and is then in the trash: it may be a file that a
        remote change gave the name during the call."""
        key = wire_names.name_key(path.rpartition("/")[2])
        for row in self.machine.agents.state.db.rows(_REPLACED, key):
            self.ledger.thrown_away.add(row["base_sha1"])
