"""A wrapper of the drive that records what the next daemon needs after a crash.

It sits between the kernel's requests and the drive and does three things: it records lookups, handles and
requests that change names; it flushes written data to the local state before the program gets its answer;
and after a crash it recognises resent requests that the dead daemon may have carried out.

Rule: a resent request is decided by comparing the nodes at its names now with those recorded before it.
Inode numbers are never reused, so the comparison shows whether it was carried out.  Where it does not, the
request fails with EIO and a line in the log.
"""

import errno
import logging
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from cmsfs import crashpoints
from cmsfs.crashpoints import Point
from cmsfs.fuse.drive import FilesystemPort
from cmsfs.replica.nodes import Ino
from cmsfs.vfs.heuristics import callers
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr
from cmsfs.vfs.virtual.node import FIRST
from daemon.survival.record import CrashRecord, RequestRecord

log = logging.getLogger(__name__)

_WRITING = os.O_WRONLY | os.O_RDWR

# Returns the inode at a name in a folder; 0 for none.
ChildLookup = Callable[[Ino, str], Ino]


@dataclass(slots=True)
class CrashLeftovers:
    """State left by a crashed daemon: requests that may have been carried out, with the nodes at their names
    before; and stale handles, which cannot be opened again."""

    requests: dict[tuple[Any, ...], tuple[Ino, ...]] = field(default_factory=dict)
    stale_handles: set[int] = field(default_factory=set)


class RecordedDrive:
    """Records requests and passes them to the drive; implements `FilesystemPort`."""

    def __init__(
        self,
        drive: FilesystemPort,
        record: CrashRecord,
        child: ChildLookup,
        leftovers: CrashLeftovers,
        *,
        reads_from: Callable[[int], object] = lambda fh: None,
    ) -> None:
        """`reads_from` returns where the contents of an open virtual file come from, as JSON."""
        self._drive = drive
        self._reads_from = reads_from
        self._record = record
        self._child = child
        self._leftovers = leftovers
        self.getattr, self.above = drive.getattr, drive.above
        self.readlink, self.statfs, self.link = drive.readlink, drive.statfs, drive.link
        self.getxattr, self.listxattr = drive.getxattr, drive.listxattr

    # ---- lookups ----

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        return self._count_lookup(await self._drive.lookup(parent, name))

    def counted(self, inos: Sequence[Ino]) -> None:
        for ino in inos:
            self._record.count_lookup(ino)
        self._drive.counted(inos)

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        self._drive.forget(pairs)
        for ino, count in pairs:
            self._record.count_forget(ino, count)

    def _count_lookup(self, found: Attributes) -> Attributes:
        self._record.count_lookup(found.ino)
        return found

    # ---- folders ----

    async def opendir(self, ino: Ino) -> int:
        key = ("opendir", ino)
        self._record_begin(key)
        fh = await self._drive.opendir(ino)
        self._record_opened(key, fh, ino, -1)
        return fh

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        if fh in self._leftovers.stale_handles:
            raise _stale_error()
        return await self._drive.readdir(fh, after)

    async def fsyncdir(self, fh: int) -> None:
        if fh not in self._leftovers.stale_handles:
            await self._drive.fsyncdir(fh)

    def releasedir(self, fh: int) -> None:
        if self._must_close(fh):
            self._drive.releasedir(fh)
            self._record.remove_handle(fh)

    # ---- files ----

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        key = ("open", ino)
        self._record_begin(key)
        opened = await self._drive.open(ino, flags)
        self._record_opened(key, opened.fh, ino, flags)
        return opened

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        key = ("create", parent, name)
        if self._was_created(key):
            made = await self.lookup(parent, name)
            opened = await self._drive.open(made.ino, flags & ~(os.O_CREAT | os.O_EXCL | os.O_TRUNC))
        else:
            self._record_begin(key, self._child(parent, name))
            opened, made = await self._drive.create(parent, name, mode, flags)
            if opened.fh < FIRST:
                await self._drive.flush(opened.fh)  # else a new file survives only when it is closed
            self._count_lookup(made)
        self._record_opened(key, opened.fh, made.ino, flags, 0)
        return opened, made

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        self._check_usable(fh)
        return await self._drive.read(fh, offset, size)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        self._check_usable(fh)
        written = await self._drive.write(fh, offset, data)
        if fh < FIRST:
            await self._drive.flush(fh)
        crashpoints.reached(Point.REQUEST_DONE)
        return written

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        crashpoints.reached(Point.REQUEST_BEGUN)
        found = await self._drive.setattr(ino, changes, None if fh in self._leftovers.stale_handles else fh)
        return self._reach_done(found)

    async def flush(self, fh: int) -> None:
        if fh not in self._leftovers.stale_handles:
            await self._drive.flush(fh)

    async def fsync(self, fh: int) -> None:
        self._check_usable(fh)
        await self._drive.fsync(fh)

    async def release(self, fh: int) -> None:
        if self._must_close(fh):
            try:
                await self._drive.release(fh)
            finally:
                self._record.remove_handle(fh)

    # ---- extended attributes ----

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        is_resent = self._was_started(key := ("setxattr", ino, name))
        self._record_begin(key, ino)
        try:
            await self._drive.setxattr(ino, name, value)
        except OSError:
            # If it was already set, setting it again may be refused: the value it replaces has changed.
            if not is_resent or await self._value(ino, name) != value:
                raise
        crashpoints.reached(Point.REQUEST_DONE)

    async def removexattr(self, ino: Ino, name: str) -> None:
        is_resent = self._was_started(key := ("removexattr", ino, name))
        self._record_begin(key, ino)
        try:
            await self._drive.removexattr(ino, name)
        except OSError:
            if not is_resent or await self._value(ino, name) is not None:
                raise
        crashpoints.reached(Point.REQUEST_DONE)

    def _was_started(self, key: tuple[Any, ...]) -> bool:
        return self._leftovers.requests.pop(key, None) is not None

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
        if self._was_created(key):
            return await self.lookup(parent, name)
        self._record_begin(key, self._child(parent, name))
        return self._reach_done(self._count_lookup(await self._drive.mkdir(parent, name, mode)))

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        key = ("mknod", parent, name)
        if self._was_created(key):
            return await self.lookup(parent, name)
        self._record_begin(key, self._child(parent, name))
        return self._reach_done(self._count_lookup(await self._drive.mknod(parent, name, mode)))

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        key = ("symlink", parent, name)
        if self._was_created(key):
            return await self.lookup(parent, name)
        self._record_begin(key, self._child(parent, name))
        return self._reach_done(self._count_lookup(await self._drive.symlink(parent, name, target)))

    async def unlink(self, parent: Ino, name: str) -> None:
        if not self._was_removed(key := ("unlink", parent, name)):
            self._record_begin(key, self._child(parent, name))
            await self._drive.unlink(parent, name)
            crashpoints.reached(Point.REQUEST_DONE)

    async def rmdir(self, parent: Ino, name: str) -> None:
        if not self._was_removed(key := ("rmdir", parent, name)):
            self._record_begin(key, self._child(parent, name))
            await self._drive.rmdir(parent, name)
            crashpoints.reached(Point.REQUEST_DONE)

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        key = ("rename", parent, name, new_parent, new_name)
        now = self._child(parent, name), self._child(new_parent, new_name)
        before = self._leftovers.requests.pop(key, None)
        if before is not None and before[0] and now != before:
            if now[1] != before[0]:
                raise _unknown_outcome(key)
            return
        self._record_begin(key, *now)
        await self._drive.rename(parent, name, new_parent, new_name, flags)
        crashpoints.reached(Point.REQUEST_DONE)

    # ---- resent requests ----

    def _record_begin(self, key: tuple[Any, ...], *before: Ino) -> None:
        self._record.add_request(RequestRecord(key, callers.CALLER.get(), before))
        crashpoints.reached(Point.REQUEST_BEGUN)

    def _record_opened(self, key: tuple[Any, ...], fh: int, ino: Ino, flags: int, *before: Ino) -> None:
        if flags != -1:
            flags = (os.O_RDWR if flags & _WRITING else 0) | flags & os.O_APPEND
        self._record.add_handle(fh, ino, flags)
        if fh >= FIRST and (data := self._reads_from(fh)) is not None:
            self._record.add_content_source(fh, data)
        # If the answer never reaches the program, the handle has no owner.
        self._record.add_request(RequestRecord(key, callers.CALLER.get(), before, fh))
        crashpoints.reached(Point.REQUEST_DONE)

    def _reach_done(self, found: Attributes) -> Attributes:
        crashpoints.reached(Point.REQUEST_DONE)
        return found

    def _was_created(self, key: tuple[Any, ...]) -> bool:
        """Whether the dead daemon has created the requested item.

        If the name was taken before the request, the request is carried out again and fails again."""
        before = self._leftovers.requests.pop(key, None)
        return before == (0,) and bool(self._child(*key[1:]))

    def _was_removed(self, key: tuple[Any, ...]) -> bool:
        """Whether the dead daemon has removed the item.  Raises `OSError` (EIO) if that cannot be told."""
        before = self._leftovers.requests.pop(key, None)
        if before is None or before == (0,):
            return False
        now = self._child(*key[1:])
        if now and now != before[0]:
            raise _unknown_outcome(key)
        return not now

    # ---- handles ----

    def _check_usable(self, fh: int) -> None:
        if fh in self._leftovers.stale_handles:
            log.warning("a handle cannot be used any more, since the daemon that had opened it died")
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    def _must_close(self, fh: int) -> bool:
        """Whether the handle must be closed: not if it is stale, or was closed by a request that is now
        resent."""
        if fh in self._leftovers.stale_handles:
            self._leftovers.stale_handles.discard(fh)
            self._record.remove_handle(fh)
            return False
        return self._record.has_handle(fh)


def _stale_error() -> OSError:
    return OSError(errno.ESTALE, os.strerror(errno.ESTALE))


def _unknown_outcome(key: tuple[Any, ...]) -> OSError:
    log.warning("the daemon died during a %s, and what is there now is neither before nor after it", key[0])
    return OSError(errno.EIO, os.strerror(errno.EIO))
