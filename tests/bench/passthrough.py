"""A file system over another folder, in as little Python as pyfuse3 allows: a drive cannot be faster.

    python passthrough.py FOLDER MOUNTPOINT

It serves FOLDER at MOUNTPOINT until it is unmounted.  No promise is kept beside those of the folder's own
file system; what it does not need for copying, saving and removing files it refuses.
"""

import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyfuse3
import trio


class Passthrough(pyfuse3.Operations):
    """The calls of programs, as system calls on the folder."""

    enable_writeback_cache = False

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._paths = {pyfuse3.ROOT_INODE: os.fsencode(folder)}
        self._lookups: Counter[int] = Counter()

    def _below(self, parent: int, name: bytes) -> bytes:
        return self._paths[parent] + b"/" + name

    def _entry(self, found: os.stat_result, path: bytes, *, counted: bool = True) -> pyfuse3.EntryAttributes:
        entry = pyfuse3.EntryAttributes()
        entry.st_ino = found.st_ino
        if counted:
            self._paths[found.st_ino] = path
            self._lookups[found.st_ino] += 1
        for name in ("st_mode", "st_nlink", "st_uid", "st_gid", "st_rdev", "st_size"):
            setattr(entry, name, getattr(found, name))
        for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns"):
            setattr(entry, name, getattr(found, name))
        entry.st_blksize, entry.st_blocks = 4096, found.st_blocks
        entry.entry_timeout = entry.attr_timeout = 300
        return entry

    async def lookup(self, parent: int, name: bytes, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        path = self._below(parent, name)
        try:
            return self._entry(os.lstat(path), path)
        except FileNotFoundError:
            entry = pyfuse3.EntryAttributes()
            entry.st_ino, entry.entry_timeout = 0, 300
            return entry

    async def forget(self, pairs: Sequence[tuple[int, int]]) -> None:
        for ino, count in pairs:
            self._lookups[ino] -= count
            if self._lookups[ino] <= 0 and ino != pyfuse3.ROOT_INODE:
                del self._lookups[ino]
                self._paths.pop(ino, None)

    async def getattr(self, ino: int, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        path = self._paths[ino]
        entry = self._entry(os.lstat(path), path, counted=False)
        entry.st_ino = ino
        return entry

    async def setattr(
        self,
        ino: int,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        path = self._paths[ino]
        if fields.update_size:
            os.truncate(path if fh is None else fh, attr.st_size)
        if fields.update_mode:
            os.chmod(path, stat.S_IMODE(attr.st_mode))
        if fields.update_mtime or fields.update_atime:
            before = os.lstat(path)
            atime = attr.st_atime_ns if fields.update_atime else before.st_atime_ns
            mtime = attr.st_mtime_ns if fields.update_mtime else before.st_mtime_ns
            os.utime(path, ns=(atime, mtime))
        return await self.getattr(ino, ctx)

    async def opendir(self, ino: int, ctx: pyfuse3.RequestContext) -> int:
        return ino

    async def readdir(self, ino: int, after: int, token: pyfuse3.ReaddirToken) -> None:
        for number, name in enumerate(sorted(os.listdir(self._paths[ino])), 1):
            if number > after:
                path = self._below(ino, name)
                entry = self._entry(os.lstat(path), path)
                if not pyfuse3.readdir_reply(token, name, entry, number):
                    await self.forget([(entry.st_ino, 1)])
                    return

    async def open(self, ino: int, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        return pyfuse3.FileInfo(fh=os.open(self._paths[ino], flags | os.O_CLOEXEC))

    async def create(
        self, parent: int, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        path = self._below(parent, name)
        fd = os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, mode & 0o7777)
        return pyfuse3.FileInfo(fh=fd), self._entry(os.fstat(fd), path)

    async def read(self, fh: int, offset: int, size: int) -> bytes:
        return os.pread(fh, size, offset)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        return os.pwrite(fh, data, offset)

    async def flush(self, fh: int) -> None:
        """Nothing is kept back."""

    async def fsync(self, fh: int, datasync: bool) -> None:
        # In a thread, as nobody else may wait for it.
        await trio.to_thread.run_sync(os.fsync, fh)

    async def release(self, fh: int) -> None:
        os.close(fh)

    async def mkdir(
        self, parent: int, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        path = self._below(parent, name)
        os.mkdir(path, mode & 0o7777)
        return self._entry(os.lstat(path), path)

    async def unlink(self, parent: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        os.unlink(self._below(parent, name))

    async def rmdir(self, parent: int, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        os.rmdir(self._below(parent, name))

    async def rename(
        self,
        parent: int,
        name: bytes,
        new_parent: int,
        new_name: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        old, new = self._below(parent, name), self._below(new_parent, new_name)
        ino = os.lstat(old).st_ino
        os.rename(old, new)
        if ino in self._paths:
            self._paths[ino] = new

    async def getxattr(self, ino: int, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        raise pyfuse3.FUSEError(errno.ENOTSUP)


def _answered(name: str) -> None:
    """Let an `OSError` of this call be the errno that it is answered with."""
    call = getattr(Passthrough, name)

    async def answered(self: Passthrough, *args: object) -> object:
        try:
            return await call(self, *args)
        except OSError as error:
            raise pyfuse3.FUSEError(error.errno or errno.EIO) from None

    setattr(Passthrough, name, answered)


for _name in ("getattr", "setattr", "open", "create", "write", "fsync", "mkdir", "unlink", "rmdir", "rename"):
    _answered(_name)


if __name__ == "__main__":
    pyfuse3.init(
        Passthrough(Path(sys.argv[1])), sys.argv[2], {*pyfuse3.default_options, "fsname=passthrough"}
    )
    try:
        trio.run(pyfuse3.main)
    finally:
        pyfuse3.close(unmount=False)
