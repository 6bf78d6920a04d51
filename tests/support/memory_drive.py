"""An in-memory file system to test the FUSE layer with: implements `cmsfs.fuse.drive.FilesystemPort`.

It counts calls, counts lookups as the real one does, can be made to fail or to wait, and can be changed
"remotely" with `put`.  Run as a program it mounts itself at the given path, for tests that kill it.
"""

import collections
import errno
import os
import stat
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from cmsfs.fuse import mount, operations
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr, Statfs

RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2


@dataclass
class Thing:
    ino: Ino
    mode: int
    data: bytes = b""
    mtime_ns: int = 1_600_000_000_123_456_789
    entries: dict[str, Ino] = field(default_factory=dict)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    dirty_pages: bool = False  # the kernel may have pages of another version


@dataclass
class Handle:
    ino: Ino
    flags: int
    snapshot: bytes | None = None


class MemoryDrive:
    def __init__(self) -> None:
        self.things: dict[Ino, Thing] = {ROOT: Thing(ROOT, stat.S_IFDIR | 0o755)}
        self.handles: dict[int, Handle] = {}
        self.lookups: collections.Counter[Ino] = collections.Counter()
        self.calls: collections.Counter[str] = collections.Counter()
        self.trace: list[tuple[object, ...]] = []
        self.failing: dict[str, Exception] = {}
        self.waiting: dict[str, trio.Event] = {}  # "op" or "op name" -> until when it waits
        self.entered: dict[str, trio.Event] = collections.defaultdict(trio.Event)
        self.timeout = 300.0
        self.denied: set[Ino] = set()  # folders with a failed lookup
        self.news: set[Ino] = set()  # files whose bytes the kernel has not been notified of
        self.is_all_known = False  # to the notifier; then the kernel itself is asked
        self._last_ino, self._last_fh = 10, 0
        self.numbers: dict[Ino, int] = {}  # inode numbers shown to programs, where they differ

    # Remote changes

    def put(self, path: str, data: bytes = b"", *, mode: int = stat.S_IFREG | 0o644) -> Thing:
        """Create or replace a node, as a remote change would."""
        folder, _, name = path.rpartition("/")
        parent = self._walk(folder)
        if (ino := parent.entries.get(name)) is not None:
            thing = self.things[ino]
            thing.data, thing.mtime_ns, thing.dirty_pages = data, thing.mtime_ns + 10**9, True
            return thing
        return self._make(parent.ino, name, mode, data)

    def ino(self, path: str) -> Ino:
        return self._walk(path).ino

    def opens(self, ino: Ino) -> int:
        return sum(handle.ino == ino for handle in list(self.handles.values()))

    def is_refreshed(self, ino: Ino) -> bool:
        return ino in self.news and self.opens(ino) > 0

    def has_denied(self, ino: Ino) -> bool:
        return ino in self.denied

    def is_known(self, ino: Ino) -> bool:
        return self.is_all_known or ino == ROOT or self.lookups[ino] > 0

    def _walk(self, path: str) -> Thing:
        thing = self.things[ROOT]
        for name in filter(None, path.split("/")):
            thing = self.things[thing.entries[name]]
        return thing

    def _make(self, parent: Ino, name: str, mode: int, data: bytes = b"") -> Thing:
        if name in self.things[parent].entries:
            raise FileExistsError(errno.EEXIST, name)
        self._last_ino += 1
        thing = self.things[self._last_ino] = Thing(self._last_ino, mode, data)
        self.things[parent].entries[name] = thing.ino
        return thing

    def _child(self, parent: Ino, name: str) -> Thing:
        try:
            return self.things[self.things[parent].entries[name]]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, name) from None

    def _attributes(self, thing: Thing) -> Attributes:
        size = len(thing.data)
        times = (thing.mtime_ns, thing.mtime_ns, thing.mtime_ns)
        return Attributes(
            thing.ino, thing.mode, size, 1, *times, self.timeout, self.numbers.get(thing.ino, 0)
        )

    def _handle(self, ino: Ino, flags: int) -> int:
        self._last_fh += 1
        self.handles[self._last_fh] = Handle(ino, flags)
        return self._last_fh

    def _called(self, op: str) -> None:
        self.calls[op] += 1
        self.entered[op].set()
        if op in self.failing:
            raise self.failing[op]

    async def _enter(self, op: str, name: str = "") -> None:
        self._called(op)
        for key in (op, f"{op} {name}"):
            if key in self.waiting:
                self.entered[key].set()
                await self.waiting[key].wait()

    # As the kernel sees it

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        await self._enter("lookup", name)
        by_number = {".": parent, "..": self.above(parent)}.get(name)
        if by_number is not None and by_number not in self.things:
            raise OSError(errno.ESTALE, name)
        thing = self._child(parent, name) if by_number is None else self.things[by_number]
        self.lookups[thing.ino] += 1
        answer = self._attributes(thing)
        await self._enter("answer", name)
        return answer

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        for ino, count in pairs:
            self.lookups[ino] -= count
        self._called("forget")

    def getattr(self, ino: Ino) -> Attributes:
        self._called("getattr")
        return self._attributes(self.things[ino])

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None) -> Attributes:
        await self._enter("setattr")
        self.trace.append(("setattr", changes, fh is not None))
        thing = self.things[ino]
        if changes.size is not None:
            thing.data = thing.data[: changes.size].ljust(changes.size, b"\0")
        if changes.mode is not None:
            thing.mode = stat.S_IFMT(thing.mode) | changes.mode
        if changes.mtime_ns is not None:
            thing.mtime_ns = changes.mtime_ns
        return self._attributes(thing)

    async def readlink(self, ino: Ino) -> bytes:
        await self._enter("readlink")
        if not stat.S_ISLNK(self.things[ino].mode):
            raise OSError(errno.EINVAL, "not a symlink")
        return bytes(self.things[ino].data)

    async def opendir(self, ino: Ino) -> int:
        await self._enter("opendir")
        return self._handle(ino, 0)

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        self._called("readdir")
        entries = sorted(self.things[self.handles[fh].ino].entries.items(), key=lambda pair: pair[1])
        rest = [(name, ino) for name, ino in entries if ino > after][:256]
        return [DirEntry(name, self._attributes(self.things[ino]), ino) for name, ino in rest]

    def above(self, ino: Ino) -> Ino:
        holders = (number for number, thing in self.things.items() if ino in thing.entries.values())
        return next(holders, ino)

    def counted(self, inos: Sequence[Ino]) -> None:
        for ino in inos:
            self.lookups[ino] += 1

    def releasedir(self, fh: int) -> None:
        self._called("releasedir")
        del self.handles[fh]

    async def fsyncdir(self, fh: int) -> None:
        await self._enter("fsyncdir")

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        await self._enter("open")
        thing = self.things[ino]
        if flags & os.O_TRUNC:
            thing.data = b""
        old = any(h.ino == ino and h.snapshot not in (None, thing.data) for h in self.handles.values())
        fh = self._handle(ino, flags)
        if flags & os.O_ACCMODE == os.O_RDONLY:
            self.handles[fh].snapshot = thing.data
        keep = not thing.dirty_pages
        opened = OpenResult(fh, keep_cache=keep, direct_io=old, is_news=ino in self.news)
        thing.dirty_pages = old
        return opened

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        await self._enter("create", name)
        thing = self._make(parent, name, stat.S_IFREG | mode)
        self.lookups[thing.ino] += 1
        return OpenResult(self._handle(thing.ino, flags)), self._attributes(thing)

    async def read(self, fh: int, offset: int, size: int) -> bytes:
        await self._enter("read")
        handle = self.handles[fh]
        data = self.things[handle.ino].data if handle.snapshot is None else handle.snapshot
        return data[offset : offset + size]

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        await self._enter("write")
        thing = self.things[self.handles[fh].ino]
        thing.data = thing.data[:offset].ljust(offset, b"\0") + data + thing.data[offset + len(data) :]
        return len(data)

    async def flush(self, fh: int) -> None:
        await self._enter("flush")

    async def fsync(self, fh: int) -> None:
        await self._enter("fsync")

    async def release(self, fh: int) -> None:
        del self.handles[fh]
        await self._enter("release")

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        await self._enter("mkdir", name)
        thing = self._make(parent, name, stat.S_IFDIR | mode)
        self.lookups[thing.ino] += 1
        return self._attributes(thing)

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        raise PermissionError(errno.EPERM, name)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        raise PermissionError(errno.EPERM, name)

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        raise PermissionError(errno.EPERM, new_name)

    async def unlink(self, parent: Ino, name: str) -> None:
        await self._enter("unlink", name)
        self._child(parent, name)
        del self.things[parent].entries[name]

    async def rmdir(self, parent: Ino, name: str) -> None:
        await self._enter("rmdir", name)
        if self._child(parent, name).entries:
            raise OSError(errno.ENOTEMPTY, name)
        del self.things[parent].entries[name]

    async def rename(
        self, old_parent: Ino, old_name: str, new_parent: Ino, new_name: str, flags: int
    ) -> None:
        await self._enter("rename", old_name)
        self.trace.append(("rename", old_name, new_name, flags))
        if flags & ~(RENAME_NOREPLACE | RENAME_EXCHANGE):
            raise OSError(errno.EINVAL, "unknown flag")
        old, new = self.things[old_parent].entries, self.things[new_parent].entries
        thing = self._child(old_parent, old_name)
        if flags & RENAME_NOREPLACE and new_name in new:
            raise FileExistsError(errno.EEXIST, new_name)
        if flags & RENAME_EXCHANGE:
            old[old_name], new[new_name] = new[new_name], thing.ino
            return
        del old[old_name]
        new[new_name] = thing.ino

    async def statfs(self) -> Statfs:
        await self._enter("statfs")
        return Statfs(4096, 1000, 600, 200, 150, 255)

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        await self._enter("getxattr", name)
        try:
            return self.things[ino].xattrs[name]
        except KeyError:
            raise OSError(errno.ENODATA, name) from None

    async def listxattr(self, ino: Ino) -> list[str]:
        await self._enter("listxattr")
        return list(self.things[ino].xattrs)

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        await self._enter("setxattr", name)
        self.things[ino].xattrs[name] = value

    async def removexattr(self, ino: Ino, name: str) -> None:
        await self._enter("removexattr", name)
        if self.things[ino].xattrs.pop(name, None) is None:
            raise OSError(errno.ENODATA, name)


async def _serve(mountpoint: Path, tell: Callable[[str], object]) -> None:
    drive = MemoryDrive()
    drive.put("a.txt", b"hello")
    async with mount.mounted(operations.Operations(drive), mountpoint) as served:
        tell("mounted\n")
        await served.unmounted.wait()


if __name__ == "__main__":
    trio.run(_serve, Path(sys.argv[1]), lambda text: os.write(1, text.encode()))
