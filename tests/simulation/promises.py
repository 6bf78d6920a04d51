"""What the programs of a machine were promised, and what each of them has seen of a file."""

import errno
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from cmsfs import errors
from tests.simulation.kernel import Kernel
from tests.simulation.ledger import Ledger, sha1
from tests.simulation.machines import Killed, Machine
from tests.simulation.remembered import File

FOLDERS = ("", "p", "q", "p/r")
NAMES = ("a.txt", "b.txt", "c.txt")
PATHS = len(FOLDERS) * len(NAMES)


def path_of(number: int) -> str:
    """One of the few paths that everybody uses."""
    folder, name = FOLDERS[number // len(NAMES) % len(FOLDERS)], NAMES[number % len(NAMES)]
    return f"{folder}/{name}".lstrip("/")


@dataclass
class Held:
    """A file that is left open, and the bytes that its handle has to show."""

    file: File
    path: str
    model: bytes
    base: bytes
    is_read_only: bool = False
    wrote: bool = False
    given_up: bool = False


SMALL_CACHE = 2**20


class Promises:
    """Acts of programs on one drive: how each ends, and what is so then."""

    def __init__(self, machine: Machine, ledger: Ledger) -> None:
        self.machine = machine
        self.ledger = ledger
        self.world = machine.world
        self.held: list[Held] = []
        self._incarnation = 0
        self.done = 0
        self.refused = 0
        self.wrong: list[str] = []
        # What is about to be replaced: by a call that nobody hears the end of, perhaps.
        self._risked: set[str] = set()

    async def act(self, name: str, args: tuple[int, ...]) -> None:
        """Do it; what it is refused, it is refused."""
        self._risked.clear()
        work: Callable[..., Awaitable[None]] = getattr(self, f"do_{name}")
        try:
            async with self.machine.calling() as kernel:
                self._forget_the_dead()
                died = self.machine.deaths
                await work(kernel, *args)
                if self.machine.deaths != died:
                    raise Killed
            self.done += 1
            self.world.note(f"{name} {args}: done")
        except Killed:
            self.ledger.torn = True
            self.ledger.replaced |= self._risked
            self.world.note(f"{name} {args}: killed")
        except OSError as error:
            self.refused += 1
            if error.errno in (errno.ENOSPC, errno.EIO):
                # What came before that is there.
                self.ledger.torn = True
                self.ledger.replaced |= self._risked
            self.world.note(f"{name} {args}: {error.errno}")
        except errors.CmsfsError as error:
            self.refused += 1
            self.world.note(f"{name} {args}: {type(error).__name__}")
        except Exception as error:
            # What a dying process still does is nobody's business.
            if self.machine.is_alive and self._incarnation == self.machine.deaths:
                raise
            self.ledger.torn = True
            self.ledger.replaced |= self._risked
            self.world.note(f"{name} {args}: killed, {type(error).__name__}")

    def _forget_the_dead(self) -> None:
        if self._incarnation != self.machine.deaths:
            self._incarnation = self.machine.deaths
            self.held.clear()

    def _check_alive(self) -> None:
        """What was answered by a process that had ended by then was not answered."""
        if self.machine.is_dying or self._incarnation != self.machine.deaths:
            raise Killed

    # ---- where ----

    def path(self, number: int) -> str:
        """One of the paths that everybody uses, as this drive has it."""
        path = path_of(number)
        return f"{self.machine.shelf}{path}" if "/" in path else path

    def folder(self, number: int) -> str:
        """One of the folders."""
        return self.machine.shelf + FOLDERS[1 + number % (len(FOLDERS) - 1)]

    # ---- what is promised ----

    def _text(self, size: int) -> bytes:
        self.ledger.number += 1
        line = f"{self.machine.name} {self.ledger.number}\n".encode()
        # Where the cache has room for few of them there are many large ones.
        is_any = size % (3 if self.machine.settings.cache_bytes < SMALL_CACHE else 10) == 0
        wanted = (30, 700, 6000, 70_000, 300_000)[size // 10 % 5] if is_any else 30 + size
        return line * max(1, wanted // len(line))

    def _wrote(self, path: str, data: bytes, over: str | None, *, durable: bool = False) -> None:
        self._check_alive()
        self.ledger.know(data)
        if sha1(data) != over:
            self.ledger.wrote(data, over=over)
            self.ledger.promised[sha1(data)] = (self.machine.name, trio.current_time(), durable)
        self.world.note(f"{path} has {self.ledger.label(data)}")

    def _risk(self, *data: bytes) -> None:
        """The next call is to replace this."""
        self._risked.update(map(sha1, data))

    def _replaced(self, path: str, data: bytes) -> None:
        self._check_alive()
        self.ledger.saw_and_replaced(data)
        self.world.note(f"{path} had {self.ledger.label(data)}")

    async def _begun(self, kernel: Kernel, file: File, path: str) -> bytes:
        try:
            before = await kernel.read(file)
        except BaseException:
            with trio.CancelScope(shield=False):
                await kernel.close(file)
            raise
        self.ledger.seen(before, f"{self.machine.name}: {path}")
        return before

    async def _whole(self, kernel: Kernel, path: str) -> bytes:
        file = await kernel.open(path, os.O_RDONLY)
        try:
            data = await kernel.read(file)
        finally:
            await kernel.close(file)
        self.ledger.seen(data, f"{self.machine.name}: {path}")
        return data

    def _now(self, file: File, before: bytes, after: bytes) -> None:
        """The file has other bytes by now, for everybody here who has it open."""
        self.ledger.made(after, before)
        for held in self.held:
            if held.file.inode is file.inode:
                held.model = after

    async def _giving_up(self, kernel: Kernel, path: str) -> None:
        """The file at this path goes by a program's will: what handles still write to it goes, too."""
        try:
            ino = (await kernel.stat(path)).ino
        except OSError:
            return
        for held in self.held:
            if held.file.inode.ino == ino:
                held.given_up = True
                if held.wrote:
                    self.ledger.saw_and_replaced(held.model)
