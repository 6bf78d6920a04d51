"""The FUSE request handlers: one short method per request, without decisions.

Every handler decodes the kernel's request, calls the file system, and encodes the answer; `handler.py`
translates errors.

Rule: the meaning of an operation is defined in `cmsfs.vfs.tree.filesystem`; GOTCHAS.md beside this file
describes what the kernel does with an answer.
"""

import errno
import os
from collections.abc import Awaitable, Callable, Iterable, Sequence

import pyfuse3

from cmsfs.fuse import convert, echo_process, notifier
from cmsfs.fuse.drive import FilesystemPort
from cmsfs.fuse.echoes import GHOST_BASE, HANDLE, Echoes
from cmsfs.fuse.handler import handler, no_reply_handler
from cmsfs.replica.nodes import Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.heuristics import callers, programs
from cmsfs.vfs.heuristics.copy_detector import CopyDetector

# The one namespace of extended attributes that the drive has.
_USER = b"user."

# What every folder's listing begins with: itself, and the folder above.
_DOTS = (b".", b"..")


class Operations(pyfuse3.Operations):
    """The handlers over one file system."""

    enable_writeback_cache = False  # with it the kernel ignores sizes and times that change elsewhere
    # With open_by_handle_at the kernel looks up `.` in an inode that it has dropped.
    supports_dot_lookup = True
    enable_acl = False

    def __init__(
        self,
        drive: FilesystemPort,
        *,
        owner: convert.Owner | None = None,
        copying: CopyDetector | None = None,
        background: programs.BackgroundReaders | None = None,
        pictures: Callable[[Ino], Awaitable[None]] | None = None,
        echoes: Echoes | None = None,
    ) -> None:
        super().__init__()
        self._copying = copying or CopyDetector()
        self._background = background
        # Called for folders that a file manager opens, after they are listed; it may wait, and never fails.
        self._pictures = pictures
        self._drive = drive
        self._folders: dict[int, Ino] = {}  # open folders, by handle
        self._owner = owner or convert.owner()
        # Answers the helper process that raises inotify events; its requests do not reach the drive.
        self._echoes = echoes or Echoes(self._owner)

    def handed_over(self) -> list[tuple[int, Ino]]:
        """Return the open folder handles, for the next process that serves this mount."""
        return list(self._folders.items())

    def take_over(self, folders: Iterable[tuple[int, Ino]]) -> None:
        """Adopt folder handles that were opened in another process."""
        self._folders.update(folders)

    # Names and attributes

    @handler
    async def lookup(self, parent: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        if ctx.pid in self._echoes.pids and (ghost := self._echoes.lookup(parent, name)) is not None:
            return ghost
        try:
            return convert.entry(await self._drive.lookup(parent, convert.known_name(name)), self._owner)
        except errno_map.TransientEnoent:
            raise
        except FileNotFoundError:
            return convert.absent()

    @no_reply_handler
    async def forget(self, pairs: Sequence[tuple[Ino, int]]) -> None:
        self._drive.forget([pair for pair in pairs if pair[0] < GHOST_BASE])

    @handler
    async def getattr(self, ino: Ino, ctx: pyfuse3.RequestContext) -> pyfuse3.EntryAttributes:
        if ino >= GHOST_BASE:
            return self._echoes.getattr(ino)
        found = convert.entry(self._drive.getattr(ino), self._owner)
        if ctx.pid in self._echoes.pids and self._echoes.may_write(ino):
            return convert.writable(found)
        return found

    @handler
    async def setattr(
        self,
        ino: Ino,
        attr: pyfuse3.EntryAttributes,
        fields: pyfuse3.SetattrFields,
        fh: int | None,
        ctx: pyfuse3.RequestContext,
    ) -> pyfuse3.EntryAttributes:
        if ctx.pid in self._echoes.pids:
            self._echoes.change(ino)
            return convert.entry(self._drive.getattr(ino), self._owner)
        callers.CALLER.set(ctx.pid)
        return convert.entry(
            await self._drive.setattr(ino, convert.changes(attr, fields, self._owner), fh), self._owner
        )

    @handler
    async def readlink(self, ino: Ino, ctx: pyfuse3.RequestContext) -> bytes:
        return await self._drive.readlink(ino)

    # Folders

    @handler
    async def opendir(self, ino: Ino, ctx: pyfuse3.RequestContext) -> int:
        callers.CALLER.set(ctx.pid)
        fh = await self._drive.opendir(ino)
        self._folders[fh] = ino
        if self._pictures and programs.of_thread(ctx.pid) is programs.Program.FILE_MANAGER:
            await self._pictures(ino)
        self._echoes.note_listing(ino)
        return fh

    @handler
    async def readdir(self, fh: int, after: int, token: pyfuse3.ReaddirToken) -> None:
        # `.` and `..` are not counted: the kernel does not count them as lookups.
        for name, ino in self._dots(fh)[after:]:
            after += 1
            if not pyfuse3.readdir_reply(token, name, convert.folder_entry(ino), after):
                return
        form = convert.EntryForm(self._owner)
        sent: list[Ino] = []
        # atomic: no await between the reply and the lookup counts, which the kernel lowers by `forget`.
        for entry, found, cookie in await self._drive.readdir(fh, after - len(_DOTS)):
            if not pyfuse3.readdir_reply(
                token, convert.raw_name(entry), form.filled(found), cookie + len(_DOTS)
            ):
                break
            sent.append(found.ino)
        self._drive.counted(sent)

    def _dots(self, fh: int) -> list[tuple[bytes, Ino]]:
        ino = self._folders[fh]
        return list(zip(_DOTS, (ino, self._drive.above(ino)), strict=True))

    @no_reply_handler
    async def releasedir(self, fh: int) -> None:
        self._folders.pop(fh, None)
        self._drive.releasedir(fh)

    @handler
    async def fsyncdir(self, fh: int, datasync: bool) -> None:
        await self._drive.fsyncdir(fh)

    # Open files

    @handler
    async def open(self, ino: Ino, flags: int, ctx: pyfuse3.RequestContext) -> pyfuse3.FileInfo:
        if ctx.pid in self._echoes.pids:
            return self._echoes.open(ino)
        if self._background is not None:
            self._background.check(ctx.pid, ino, flags)
        callers.CALLER.set(ctx.pid)
        opened = await self._drive.open(ino, flags)
        if opened.is_news:
            notifier.session.expire_attributes(ino)
        await notifier.session.wait_for_invalidation(ino)
        self._copying.opened(ctx.pid, opened.fh, ino, flags)
        return convert.file_info(opened)

    @handler
    async def create(
        self, parent: Ino, name: bytes, mode: int, flags: int, ctx: pyfuse3.RequestContext
    ) -> tuple[pyfuse3.FileInfo, pyfuse3.EntryAttributes]:
        if ctx.pid in self._echoes.pids:
            return convert.idle_file(HANDLE), self._echoes.make(parent, name, echo_process.CREATE)
        callers.CALLER.set(ctx.pid)
        opened, made = await self._drive.create(parent, convert.new_name(name), mode & 0o7777, flags)
        self._copying.opened(ctx.pid, opened.fh, made.ino, flags)
        return convert.file_info(opened), convert.entry(made, self._owner)

    @handler
    async def read(self, fh: int, offset: int, size: int) -> bytes:
        # pyfuse3 accepts any buffer, despite its annotation; this avoids a copy of each reply.
        return await self._drive.read(fh, offset, size)  # type: ignore[return-value]

    @handler
    async def write(self, fh: int, offset: int, data: bytes) -> int:
        return await self._drive.write(fh, offset, data)

    @handler
    async def flush(self, fh: int) -> None:
        if fh == HANDLE:
            return
        await self._drive.flush(fh)

    @handler
    async def fsync(self, fh: int, datasync: bool) -> None:
        await self._drive.fsync(fh)

    @no_reply_handler
    async def release(self, fh: int) -> None:
        if fh == HANDLE:
            return
        self._copying.released(fh)
        await self._drive.release(fh)

    # Making, moving, removing

    @handler
    async def mkdir(
        self, parent: Ino, name: bytes, mode: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        if ctx.pid in self._echoes.pids:
            return self._echoes.make(parent, name, echo_process.MKDIR)
        callers.CALLER.set(ctx.pid)
        made = await self._drive.mkdir(parent, convert.new_name(name), mode & 0o7777)
        return convert.entry(made, self._owner)

    @handler
    async def mknod(
        self, parent: Ino, name: bytes, mode: int, rdev: int, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        self._echoes.reject_helper(ctx.pid)
        callers.CALLER.set(ctx.pid)
        return convert.entry(await self._drive.mknod(parent, convert.new_name(name), mode), self._owner)

    @handler
    async def symlink(
        self, parent: Ino, name: bytes, target: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        self._echoes.reject_helper(ctx.pid)
        callers.CALLER.set(ctx.pid)
        made = await self._drive.symlink(parent, convert.new_name(name), target)
        return convert.entry(made, self._owner)

    @handler
    async def link(
        self, ino: Ino, new_parent: Ino, new_name: bytes, ctx: pyfuse3.RequestContext
    ) -> pyfuse3.EntryAttributes:
        self._echoes.reject_helper(ctx.pid)
        made = await self._drive.link(ino, new_parent, convert.new_name(new_name))
        return convert.entry(made, self._owner)

    @handler
    async def unlink(self, parent: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        if ctx.pid in self._echoes.pids:
            self._echoes.remove(parent, name, echo_process.UNLINK)
            return
        callers.CALLER.set(ctx.pid)
        await self._drive.unlink(parent, convert.known_name(name))

    @handler
    async def rmdir(self, parent: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        if ctx.pid in self._echoes.pids:
            self._echoes.remove(parent, name, echo_process.RMDIR)
            return
        callers.CALLER.set(ctx.pid)
        await self._drive.rmdir(parent, convert.known_name(name))

    @handler
    async def rename(
        self,
        parent: Ino,
        name: bytes,
        new_parent: Ino,
        new_name: bytes,
        flags: int,
        ctx: pyfuse3.RequestContext,
    ) -> None:
        if ctx.pid in self._echoes.pids:
            self._echoes.rename(parent, name, new_parent, new_name)
            return
        callers.CALLER.set(ctx.pid)
        old, new = convert.known_name(name), convert.new_name(new_name)
        await self._drive.rename(parent, old, new_parent, new, flags)

    # The drive as a whole, extended attributes

    @handler
    async def statfs(self, ctx: pyfuse3.RequestContext) -> pyfuse3.StatvfsData:
        return convert.statvfs(await self._drive.statfs())

    async def getxattr(self, ino: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        # The kernel asks for security.capability before every write, so other namespaces are answered without
        # the cost of a handler.  ENOTSUP makes `ls -l` stop asking every file for two names; with ENODATA it
        # took twenty times as long.
        if not name.startswith(_USER):
            raise pyfuse3.FUSEError(errno.ENOTSUP)
        return await self._getxattr(ino, name, ctx)

    @handler
    async def _getxattr(self, ino: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> bytes:
        return await self._drive.getxattr(ino, _user_name(name, errno.ENODATA))

    @handler
    async def listxattr(self, ino: Ino, ctx: pyfuse3.RequestContext) -> Sequence[bytes]:
        return [convert.raw_name(name) for name in await self._drive.listxattr(ino)]

    @handler
    async def setxattr(self, ino: Ino, name: bytes, value: bytes, ctx: pyfuse3.RequestContext) -> None:
        self._echoes.reject_helper(ctx.pid)
        callers.CALLER.set(ctx.pid)
        # cp -a and mv ignore ENOTSUP; EPERM would make them fail.
        await self._drive.setxattr(ino, _user_name(name, errno.ENOTSUP), value)

    @handler
    async def removexattr(self, ino: Ino, name: bytes, ctx: pyfuse3.RequestContext) -> None:
        self._echoes.reject_helper(ctx.pid)
        callers.CALLER.set(ctx.pid)
        await self._drive.removexattr(ino, _user_name(name, errno.ENODATA))


def _user_name(name: bytes, number: int) -> str:
    """Return the name as text; raise `OSError` with `number` if its namespace is not `user.` or it is not
    UTF-8."""
    try:
        if name.startswith(_USER):
            return name.decode("utf-8")
    except UnicodeDecodeError:
        pass
    raise OSError(number, os.strerror(number))
