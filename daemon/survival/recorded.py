"""A drive of which everything is written down that its next daemon must know.

It stands between the kernel's requests and the drive, and does three things: it records lookups, handles and
requests that change names; it records what was written before the program is told that it was; and after a
crash it recognises requests that the dead daemon may have carried out.

Rule: a request that is sent once more is compared with what was under its names before it.  Numbers of inodes
are given once, so that tells whether it was carried out.  Where it does not, the answer is EIO, and a line in
the log.
"""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cmsfs import crashpoints
from cmsfs.crashpoints import Point
from cmsfs.fuse.drive import FilesystemPort
from cmsfs.replica.nodes import Ino
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr
from cmsfs.vfs.virtual.node import FIRST
from daemon.survival.record import CrashRecord, RequestNote

log = logging.getLogger(__name__)

_WRITING = os.O_WRONLY | os.O_RDWR

# The node under a name in a folder; 0 for none.
Child = Callable[[Ino, str], Ino]


@dataclass(slots=True)
class Remains:
    """What a dead daemon has left open: requests that may have been carried out, by what they name, with what
    was there before; and handles that nobody can open again."""

    requests: dict[tuple[Any, ...], tuple[Ino, ...]] = field(default_factory=dict)
    handles: set[int] = field(default_factory=set)


class RecordedDrive:
    """A drive that writes down what is asked of it; offers `FilesystemPort`."""

    def __init__(
        self,
        drive: FilesystemPort,
        record: CrashRecord,
        child: Child,
        remains: Remains,
        *,
        reads_from: Callable[[int], object] = lambda fh: None,
    ) -> None:
        """`reads_from` says what an open virtual file is read from, as JSON has it."""
        self._drive = drive
        self._reads_from = reads_from
        self._record = record
        self._child = child
        self._remains = remains
        self.getattr, self.above = drive.getattr, drive.above
        self.readlink, self.statfs, self.link = drive.readlink, drive.statfs, drive.link
        self.getxattr, self.listxattr = drive.getxattr, drive.listxattr

    # ---- lookups ----

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        return self._counted(await self._drive.lookup(parent, name))

    def counted(self, ino: Ino) -> None:
        self._record.looked_up(ino)
        self._drive.counted(ino)

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        self._drive.forget(pairs)
        for ino, count in pairs:
            self._record.forgotten(ino, count)

    def _counted(self, found: Attributes) -> Attributes:
        self._record.looked_up(found.ino)
        return found

    # ---- folders ----

    async def opendir(self, ino: Ino) -> int:
        key = ("opendir", ino)
        self._begin(key)
        fh = await self._drive.opendir(ino)
        self._opened(key, fh, ino, -1)
        return fh

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        if fh in self._remains.handles:
            raise _stale()
        return await self._drive.readdir(fh, after)

    async def fsyncdir(self, fh: int) -> None:
        if fh not in self._remains.handles:
            await self._drive.fsyncdir(fh)

    def releasedir(self, fh: int) -> None:
        if self._is_open(fh):
            self._drive.releasedir(fh)
            self._record.closed(fh)

    # ---- files ----

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        key = ("open", ino)
        self._begin(key)
        opened = await self._drive.open(ino, flags)
        self._opened(key, opened.fh, ino, flags)
        return opened

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        key = ("create", parent, name)
        if self._is_made(key):
            made = await self.lookup(parent, name)
            opened = await self._drive.open(made.ino, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        else:
            self._begin(key, self._child(parent, name))
            opened, made = await self._drive.create(parent, name, mode, flags)
            self._counted(made)
        self._opened(key, opened.fh, made.ino, flags, 0)
        return opened, made

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        self._check(fh)
        return await self._drive.read(fh, offset, size)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        self._check(fh)
        written = await self._drive.write(fh, offset, data)
        if fh < FIRST:
            await self._drive.flush(fh)
        crashpoints.reached(Point.REQUEST_DONE)
        return written

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        crashpoints.reached(Point.REQUEST_BEGUN)
        found = await self._drive.setattr(ino, changes, None if fh in self._remains.handles else fh)
        return self._done(found)

    async def flush(self, fh: int) -> None:
        if fh not in self._remains.handles:
            await self._drive.flush(fh)

    async def fsync(self, fh: int) -> None:
        self._check(fh)
        await self._drive.fsync(fh)

    async def release(self, fh: int) -> None:
        if self._is_open(fh):
            try:
                await self._drive.release(fh)
            finally:
                self._record.closed(fh)

    # ---- extended attributes ----

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        is_again = self._is_again(key := ("setxattr", ino, name))
        self._begin(key, ino)
        try:
            await self._drive.setxattr(ino, name, value)
        except OSError:
            # What was set already may be refused: the value that it takes the place of is another by now.
            if not is_again or await self._value(ino, name) != value:
                raise
        crashpoints.reached(Point.REQUEST_DONE)

    async def removexattr(self, ino: Ino, name: str) -> None:
        is_again = self._is_again(key := ("removexattr", ino, name))
        self._begin(key, ino)
        try:
            await self._drive.removexattr(ino, name)
        except OSError:
            if not is_again or await self._value(ino, name) is not None:
                raise
        crashpoints.reached(Point.REQUEST_DONE)

    def _is_again(self, key: tuple[Any, ...]) -> bool:
        return self._remains.requests.pop(key, None) is not None

    async def _value(self, ino: Ino, name: str) -> bytes | None:
        try:
            return await self._drive.getxattr(ino, name)
        except OSError as error:
            if error.errno != errno.ENODATA:
                raise
            return None

    # ---- names ----

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        key = ("mkdir", parent, name)
        if self._is_made(key):
            return await self.lookup(parent, name)
        self._begin(key, self._child(parent, name))
        return self._done(self._counted(await self._drive.mkdir(parent, name, mode)))

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        key = ("mknod", parent, name)
        if self._is_made(key):
            return await self.lookup(parent, name)
        self._begin(key, self._child(parent, name))
        return self._done(self._counted(await self._drive.mknod(parent, name, mode)))

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        key = ("symlink", parent, name)
        if self._is_made(key):
            return await self.lookup(parent, name)
        self._begin(key, self._child(parent, name))
        return self._done(self._counted(await self._drive.symlink(parent, name, target)))

    async def unlink(self, parent: Ino, name: str) -> None:
        if not self._is_removed(key := ("unlink", parent, name)):
            self._begin(key, self._child(parent, name))
            await self._drive.unlink(parent, name)
            crashpoints.reached(Point.REQUEST_DONE)

    async def rmdir(self, parent: Ino, name: str) -> None:
        if not self._is_removed(key := ("rmdir", parent, name)):
            self._begin(key, self._child(parent, name))
            await self._drive.rmdir(parent, name)
            crashpoints.reached(Point.REQUEST_DONE)

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        key = ("rename", parent, name, new_parent, new_name)
        now = self._child(parent, name), self._child(new_parent, new_name)
        before = self._remains.requests.pop(key, None)
        if before is not None and before[0] and now != before:
            if now[1] != before[0]:
                raise _unknown(key)
            return
        self._begin(key, *now)
        await self._drive.rename(parent, name, new_parent, new_name, flags)
        crashpoints.reached(Point.REQUEST_DONE)

    # ---- requests that are sent once more ----

    def _begin(self, key: tuple[Any, ...], *before: Ino) -> None:
        self._record.begun(RequestNote(key, callers.CALLER.get(), before))
        crashpoints.reached(Point.REQUEST_BEGUN)

    def _opened(self, key: tuple[Any, ...], fh: int, ino: Ino, flags: int, *before: Ino) -> None:
        if flags != -1:
            flags = (os.O_RDWR if flags & _WRITING else 0) | flags & os.O_APPEND
        self._record.opened(fh, ino, flags)
        if fh >= FIRST and (data := self._reads_from(fh)) is not None:
            self._record.reads_from(fh, data)
        # Should the program never hear of it, the handle is nobody's.
        self._record.begun(RequestNote(key, callers.CALLER.get(), before, fh))
        crashpoints.reached(Point.REQUEST_DONE)

    def _done(self, found: Attributes) -> Attributes:
        crashpoints.reached(Point.REQUEST_DONE)
        return found

    def _is_made(self, key: tuple[Any, ...]) -> bool:
        """Whether the dead daemon has made what is asked for.

        Where there was something before, whoever asks is told so once more."""
        before = self._remains.requests.pop(key, None)
        return before == (0,) and bool(self._child(*key[1:]))

    def _is_removed(self, key: tuple[Any, ...]) -> bool:
        """Whether the dead daemon has removed what is to go.  Raises `OSError` (EIO) if that is not known."""
        before = self._remains.requests.pop(key, None)
        if before is None or before == (0,):
            return False
        now = self._child(*key[1:])
        if now and now != before[0]:
            raise _unknown(key)
        return not now

    # ---- handles ----

    def _check(self, fh: int) -> None:
        if fh in self._remains.handles:
            log.warning("a handle cannot be used any more, since the daemon that had opened it died")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _is_open(self, fh: int) -> bool:
        """Whether it is to be closed: not if it was, by one who asks once more, and not if it is no use."""
        if fh in self._remains.handles:
            self._remains.handles.discard(fh)
            self._record.closed(fh)
            return False
        return self._record.has(fh)


def _stale() -> OSError:
    return OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _unknown(key: tuple[Any, ...]) -> OSError:
    log.warning("the daemon died during a %s, and what is there now is neither before nor after it", key[0])
    return OSError(errno.EIO, os.strerror(errno.EIO))
