"""A disk that loses unsynced data: an in-memory file system that simulates power cuts.

    python -m tests.support.forgetful_disk MOUNTPOINT IMAGE [--lie drafts|log|names]

It starts with the contents of the folder IMAGE.  A line `cut SEED` on its standard input is a power cut: from
then on every call fails, IMAGE is what the disk still has, and the process ends once it is unmounted.  What
survives:

    bytes    the contents at the last fsync of the file; each page written since may or may not survive
    names    the names at the last fsync of a folder, and some of the later changes, in order

A rename is atomic, as on a file system with a journal.  `--lie` ignores fsyncs: of drafts, of the database's
WAL, or of folders.
"""

import argparse
import errno
import os
import random
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import trio

from cmsfs.fuse import mount, operations
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr, Statfs

PAGE = 4096

# A name and its new target; None: removed.
Entry = tuple[Ino, str, Ino | None]


@dataclass
class Thing:
    ino: Ino
    mode: int
    data: bytearray = field(default_factory=bytearray)
    entries: dict[str, Ino] = field(default_factory=dict)
    name: str = ""  # the first one it had, by which `lie` knows what it is
    # As of the last fsync; and what was done since: (offset, bytes), or (size, None) for a truncation.
    kept: bytes = b""
    since: list[tuple[int, bytes | None]] = field(default_factory=list)
    mtime_ns: int = 1_600_000_000 * 10**9

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)


class ForgetfulDisk:
    """The methods of `cmsfs.fuse.drive.FilesystemPort`."""

    def __init__(self, image: Path, *, lie: str) -> None:
        self.image = image
        self.things: dict[Ino, Thing] = {ROOT: Thing(ROOT, stat.S_IFDIR | 0o700)}
        self.kept_names: dict[tuple[Ino, str], Ino] = {}
        self.log: list[list[Entry]] = []  # changes of names since the last fsync of a folder
        self.handles: dict[int, Ino] = {}
        self.is_cut = False
        self._lie = lie
        self._last = 10
        self._load(image, ROOT)
        self._keep_names()

    def _load(self, folder: Path, parent: Ino) -> None:
        links: dict[int, Ino] = {}
        for path in sorted(folder.iterdir()):
            if path.is_dir():
                self._load(path, self._made(parent, path.name, stat.S_IFDIR | 0o700).ino)
                continue
            number = path.stat().st_ino
            if number in links:
                self._change((parent, path.name, links[number]))
                continue
            thing = self._made(parent, path.name, stat.S_IFREG | 0o600)
            links[number] = thing.ino
            thing.data, thing.kept = bytearray(path.read_bytes()), path.read_bytes()

    # ---- the power cut ----

    def cut(self, seed: int) -> None:
        """Fail all further calls, and write what survives to the image."""
        self.is_cut = True
        chance = random.Random(seed)
        names = dict(self.kept_names)
        for change in self.log[: chance.randrange(len(self.log) + 1) if chance.random() < 0.5 else 0]:
            _apply(names, change)
        shutil.rmtree(self.image)
        self.image.mkdir()
        self._dump(names, ROOT, self.image, chance, {})

    def _dump(
        self,
        names: dict[tuple[Ino, str], Ino],
        folder: Ino,
        target: Path,
        chance: random.Random,
        seen: dict[Ino, Path],
    ) -> None:
        for (parent, name), ino in sorted(names.items()):
            if parent != folder:
                continue
            thing, path = self.things[ino], target / name
            if thing.is_folder:
                path.mkdir(mode=0o700)
                self._dump(names, ino, path, chance, seen)
            elif ino in seen:
                os.link(seen[ino], path)
            else:
                seen[ino] = path
                path.write_bytes(_survived(thing, chance))

    def _check(self) -> None:
        if self.is_cut:
            raise OSError(errno.EIO, "the power is off")

    # ---- names ----

    def _change(self, *entries: Entry) -> None:
        for parent, name, ino in entries:
            folder = self.things[parent]
            if ino is None:
                del folder.entries[name]
            else:
                folder.entries[name] = ino
        self.log.append(list(entries))

    def _keep_names(self) -> None:
        for change in self.log:
            _apply(self.kept_names, change)
        self.log.clear()

    def _made(self, parent: Ino, name: str, mode: int) -> Thing:
        if name in self.things[parent].entries:
            raise FileExistsError(errno.EEXIST, name)
        self._last += 1
        thing = self.things[self._last] = Thing(self._last, mode, name=name)
        self._change((parent, name, thing.ino))
        return thing

    def _child(self, parent: Ino, name: str) -> Thing:
        try:
            return self.things[self.things[parent].entries[name]]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, name) from None

    def _attributes(self, thing: Thing) -> Attributes:
        links = sum(ino == thing.ino for one in self.things.values() for ino in one.entries.values())
        times = (thing.mtime_ns, thing.mtime_ns, thing.mtime_ns)
        nlink = 1 if thing.is_folder else links
        return Attributes(thing.ino, thing.mode, len(thing.data), nlink, *times, timeout=0.0)

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        self._check()
        return self._attributes(self._child(parent, name))

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        pass

    def counted(self, inos: Sequence[Ino]) -> None:
        pass

    def getattr(self, ino: Ino) -> Attributes:
        self._check()
        return self._attributes(self.things[ino])

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None) -> Attributes:
        self._check()
        thing = self.things[ino]
        if changes.size is not None:
            _resize(thing.data, changes.size)
            thing.since.append((changes.size, None))
        if changes.mode is not None:
            thing.mode = stat.S_IFMT(thing.mode) | changes.mode
        if changes.mtime_ns is not None:
            thing.mtime_ns = changes.mtime_ns
        return self._attributes(thing)

    async def opendir(self, ino: Ino) -> int:
        self._check()
        return self._handle(ino)

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        self._check()
        # Cookies are places in the order of names, good enough for a disk with one user.
        names = sorted(self.things[self.handles[fh]].entries.items())
        return [
            DirEntry(name, self._attributes(self.things[ino]), number)
            for number, (name, ino) in list(enumerate(names, 1))[after : after + 256]
        ]

    def above(self, ino: Ino) -> Ino:
        return ino  # nobody looks at it here

    def releasedir(self, fh: int) -> None:
        del self.handles[fh]

    async def fsyncdir(self, fh: int) -> None:
        self._check()
        if self._lie != "names":
            self._keep_names()

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        self._check()
        return self._attributes(self._made(parent, name, stat.S_IFDIR | mode))

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        self._check()
        if new_name in self.things[new_parent].entries:
            raise FileExistsError(errno.EEXIST, new_name)
        self._change((new_parent, new_name, ino))
        return self._attributes(self.things[ino])

    async def unlink(self, parent: Ino, name: str) -> None:
        self._check()
        self._child(parent, name)
        self._change((parent, name, None))

    async def rmdir(self, parent: Ino, name: str) -> None:
        self._check()
        if self._child(parent, name).entries:
            raise OSError(errno.ENOTEMPTY, name)
        self._change((parent, name, None))

    async def rename(
        self, old_parent: Ino, old_name: str, new_parent: Ino, new_name: str, flags: int
    ) -> None:
        self._check()
        ino = self._child(old_parent, old_name).ino
        if self.things[new_parent].entries.get(new_name) != ino:
            self._change((old_parent, old_name, None), (new_parent, new_name, ino))

    # ---- bytes ----

    def _handle(self, ino: Ino) -> int:
        self._last += 1
        self.handles[self._last] = ino
        return self._last

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        self._check()
        if flags & os.O_TRUNC:
            await self.setattr(ino, SetAttr(size=0), None)
        return OpenResult(self._handle(ino), keep_cache=True)

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        self._check()
        thing = self._made(parent, name, stat.S_IFREG | mode)
        return OpenResult(self._handle(thing.ino)), self._attributes(thing)

    async def read(self, fh: int, offset: int, size: int) -> bytes:
        self._check()
        return bytes(self.things[self.handles[fh]].data[offset : offset + size])

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        self._check()
        thing = self.things[self.handles[fh]]
        _put(thing.data, offset, data)
        thing.since.append((offset, bytes(data)))
        return len(data)

    async def flush(self, fh: int) -> None:
        pass

    async def release(self, fh: int) -> None:
        del self.handles[fh]

    async def fsync(self, fh: int) -> None:
        self._check()
        thing = self.things[self.handles[fh]]
        is_draft, is_log = thing.name.endswith(".draft"), thing.name.endswith("-wal")
        if (self._lie == "drafts" and is_draft) or (self._lie == "log" and is_log):
            return
        thing.kept, thing.since = bytes(thing.data), []

    async def statfs(self) -> Statfs:
        return Statfs(4096, 1 << 22, 1 << 21, 1 << 20, 1 << 19, 255)

    # ---- what a database and a cache do not use ----

    async def readlink(self, ino: Ino) -> bytes:
        raise OSError(errno.EINVAL, "no symlink")

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        raise PermissionError(errno.EPERM, name)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        raise PermissionError(errno.EPERM, name)

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        raise OSError(errno.ENODATA, name)

    async def listxattr(self, ino: Ino) -> list[str]:
        return []

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        raise OSError(errno.ENOTSUP, name)

    async def removexattr(self, ino: Ino, name: str) -> None:
        raise OSError(errno.ENODATA, name)


def _apply(names: dict[tuple[Ino, str], Ino], change: list[Entry]) -> None:
    for parent, name, ino in change:
        if ino is None:
            del names[(parent, name)]
        else:
            names[(parent, name)] = ino


def _resize(data: bytearray, size: int) -> None:
    if size <= len(data):
        del data[size:]
    else:
        data += bytes(size - len(data))


def _put(data: bytearray, offset: int, piece: bytes) -> None:
    if offset > len(data):
        _resize(data, offset)
    data[offset : offset + len(piece)] = piece


def _survived(thing: Thing, chance: random.Random) -> bytes:
    """Return the bytes of a file after the cut: with none, all, or some pages of the unsynced data."""
    mode = chance.choice(["nothing", "all", "some"])
    if mode == "all":
        return bytes(thing.data)
    data = bytearray(thing.kept)
    if mode == "nothing":
        return bytes(data)
    for place, piece in thing.since:
        if piece is None:
            if chance.random() < 0.5:
                _resize(data, place)
            continue
        at = 0
        while at < len(piece):
            # Pages go to the disk one by one, in any order.
            end = min(len(piece), at + PAGE - (place + at) % PAGE)
            if chance.random() < 0.5:
                _put(data, place + at, piece[at:end])
            at = end
    return bytes(data)


async def serve(mountpoint: Path, image: Path, lie: str) -> None:
    disk = ForgetfulDisk(image, lie=lie)
    async with mount.mounted(operations.Operations(disk), mountpoint, fsname="forgetful") as served:
        os.write(1, b"mounted\n")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_await_cut, disk)
            await served.unmounted.wait()
            nursery.cancel_scope.cancel()


async def _await_cut(disk: ForgetfulDisk) -> None:
    line = await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    if line.startswith("cut "):
        disk.cut(int(line.split()[1]))
        os.write(1, b"cut\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("mountpoint", type=Path)
    parser.add_argument("image", type=Path)
    parser.add_argument("--lie", default="")
    chosen = parser.parse_args()
    trio.run(serve, chosen.mountpoint, chosen.image, chosen.lie)
