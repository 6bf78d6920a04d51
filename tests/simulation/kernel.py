"""The system calls of programs on one drive, on top of the simulated kernel's caches."""

import errno
import os
import stat

import trio

from cmsfs.replica.nodes import Ino
from cmsfs.vfs.tree.attributes import Attributes, SetAttr
from tests.simulation.remembered import PAGE, File, Inode, KernelCache

_READAHEAD = 128 * 1024
_WRITE = 128 * 1024


class Kernel(KernelCache):
    """The system calls."""

    # ---- calls on names ----

    async def stat(self, path: str) -> Attributes:
        async def call(fresh: bool) -> Attributes:
            inode = await self._walk([part for part in path.split("/") if part], fresh=fresh)
            return await self._attributes(inode)

        return await self._retry_stale(call)  # type: ignore[return-value]

    async def _attributes(self, inode: Inode) -> Attributes:
        if inode.attributes is None or inode.until <= self._now():
            asked_at = self._version
            self.calls["getattr"] += 1
            await trio.lowlevel.checkpoint()
            found = self._drive.getattr(inode.ino)
            await trio.lowlevel.checkpoint()
            self._store_attributes(found, asked_at)
        assert inode.attributes is not None
        return inode.attributes

    async def exists(self, path: str) -> bool:
        try:
            await self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def is_folder(self, path: str) -> bool:
        return stat.S_ISDIR((await self.stat(path)).mode)

    async def enter(self, path: str) -> Inode:
        """Return a folder that is some process's working directory from now on."""
        inode = await self._walk([part for part in path.split("/") if part])
        self._reference(inode.ino, 1)
        return inode

    def leave(self, folder: Inode) -> None:
        self._reference(folder.ino, -1)

    async def listdir(self, path: str = "") -> list[str]:
        async def call(fresh: bool) -> list[str]:
            inode = await self._walk([part for part in path.split("/") if part], fresh=fresh)
            self._reference(inode.ino, 1)
            try:
                return await self._read_folder(inode)
            finally:
                self._reference(inode.ino, -1)

        return await self._retry_stale(call)  # type: ignore[return-value]

    async def _read_folder(self, inode: Inode) -> list[str]:
        fh = await self._drive.opendir(inode.ino)
        names: list[str] = []
        try:
            after = 0
            while True:
                async with self._locks[inode.ino]:
                    asked_at = self._version
                    lines = await self._drive.readdir(fh, after)
                    # atomic: no await until all are counted
                    self._drive.counted([line.attributes.ino for line in lines])
                    for line in lines:
                        self._add_dentry(inode.ino, line.name, line.attributes, asked_at)
                if not lines:
                    return names
                names += [line.name for line in lines]
                after = lines[-1].cookie
        finally:
            self._drive.releasedir(fh)

    async def mkdir(self, path: str) -> None:
        folder, name = await self._resolve_parent(path, False)
        async with self._locks[folder.ino]:
            asked_at = self._version
            found = await self._drive.mkdir(folder.ino, name, 0o755)
            self._add_dentry(folder.ino, name, found, asked_at)

    async def unlink(self, path: str) -> Ino:
        """Remove a file; return its number, which is another file's if a remote change gave it the name."""
        return await self._remove(path, folder=False)

    async def rmdir(self, path: str) -> None:
        await self._remove(path, folder=True)

    async def _remove(self, path: str, *, folder: bool) -> Ino:
        async def call(fresh: bool) -> Ino:
            above, name = await self._resolve_parent(path, fresh)
            inode = await self._lookup(above.ino, name, fresh=fresh)
            assert inode.attributes is not None
            if stat.S_ISDIR(inode.attributes.mode) is not folder:
                raise OSError(errno.ENOTDIR if folder else errno.EISDIR, name)
            async with self._locks[above.ino]:
                await (self._drive.rmdir if folder else self._drive.unlink)(above.ino, name)
                self._drop_name(above.ino, name)
                if inode.ino in self._inodes:
                    self._mark_changed(inode)
            return inode.ino

        removed = await self._retry_stale(call)
        assert isinstance(removed, int)
        return Ino(removed)

    async def rename(self, old: str, new: str, flags: int = 0) -> None:
        async def call(fresh: bool) -> None:
            source, name = await self._resolve_parent(old, fresh)
            target, new_name = await self._resolve_parent(new, fresh)
            moved = await self._lookup(source.ino, name, fresh=fresh)
            self._reference(moved.ino, 1)
            try:
                try:
                    over: Inode | None = await self._lookup(target.ino, new_name, fresh=fresh)
                except FileNotFoundError:
                    over = None
                self._check_kinds(moved, over, new_name)
                locks = [self._locks[ino] for ino in sorted({source.ino, target.ino})]
                for lock in locks:
                    await lock.acquire()
                try:
                    await self._drive.rename(source.ino, name, target.ino, new_name, flags)
                finally:
                    for lock in locks:
                        lock.release()
                self._drop_name(source.ino, name)
                self._set_name(target.ino, new_name, moved.ino, 300.0)
                for one in (moved, over):
                    if one is not None and one.ino in self._inodes:
                        self._mark_changed(one)
            finally:
                self._reference(moved.ino, -1)

        await self._retry_stale(call)

    def _check_kinds(self, moved: Inode, over: Inode | None, name: str) -> None:
        if over is None or over is moved:
            return
        assert moved.attributes is not None and over.attributes is not None
        kinds = stat.S_ISDIR(moved.attributes.mode), stat.S_ISDIR(over.attributes.mode)
        if kinds == (True, False):
            raise NotADirectoryError(errno.ENOTDIR, name)
        if kinds == (False, True):
            raise IsADirectoryError(errno.EISDIR, name)

    async def chmod(self, path: str, mode: int) -> None:
        inode = await self._walk(path.split("/"))
        self._store_attributes(await self._drive.setattr(inode.ino, SetAttr(mode=mode), None), self._version)

    async def utime(self, path: str, mtime_ns: int) -> None:
        inode = await self._walk(path.split("/"))
        self._store_attributes(
            await self._drive.setattr(inode.ino, SetAttr(mtime_ns=mtime_ns), None), self._version
        )

    async def setxattr(self, path: str, name: str, value: bytes) -> None:
        inode = await self._walk(path.split("/"))
        await self._drive.setxattr(inode.ino, name, value)

    async def getxattr(self, path: str, name: str) -> bytes:
        inode = await self._walk(path.split("/"))
        return await self._drive.getxattr(inode.ino, name)

    # ---- open files ----

    async def open(self, path: str, flags: int) -> File:
        async def call(fresh: bool) -> File:
            above, name = await self._resolve_parent(path, fresh)
            try:
                inode = await self._lookup(above.ino, name, fresh=fresh)
            except FileNotFoundError:
                if not flags & os.O_CREAT:
                    raise
                return await self._create(above, name, flags)
            if flags & os.O_EXCL:
                raise FileExistsError(errno.EEXIST, name)
            assert inode.attributes is not None
            if stat.S_ISDIR(inode.attributes.mode):
                raise IsADirectoryError(errno.EISDIR, name)
            return await self._open(inode, name, flags)

        return await self._retry_stale(call)  # type: ignore[return-value]

    async def _create(self, above: Inode, name: str, flags: int) -> File:
        async with self._locks[above.ino]:
            asked_at = self._version
            opened, found = await self._drive.create(above.ino, name, 0o644, flags & ~os.O_CREAT)
            inode = self._add_dentry(above.ino, name, found, asked_at)
        inode.references += 1
        return File(inode, opened.fh, flags, opened.direct_io, name)

    async def _open(self, inode: Inode, name: str, flags: int) -> File:
        self._reference(inode.ino, 1)
        try:
            opened = await self._drive.open(inode.ino, flags & ~(os.O_CREAT | os.O_EXCL))
        except BaseException:
            self._reference(inode.ino, -1)
            raise
        if opened.is_news:
            self._expire(inode)
        await trio.lowlevel.checkpoint()
        if flags & os.O_TRUNC:
            inode.size = 0
            self._mark_changed(inode)
            self._drop_pages(inode)
        if not opened.keep_cache:
            self._drop_pages(inode)
        return File(inode, opened.fh, flags, opened.direct_io, name)

    async def read(self, file: File, offset: int = 0, count: int = 1 << 24) -> bytes:
        """Read until end of file, as repeated calls of read(2) do."""
        if file.direct:
            return await self._read_direct(file, offset, count)
        parts = []
        inode = file.inode
        while count:
            if offset + count > inode.size:
                await self._attributes(inode)
            if offset >= inode.size:
                break
            page, skip = divmod(offset, PAGE)
            data = inode.pages.get(page)
            if data is None:
                data = await self._read_pages(file, page)
            # The size may have changed while the page was read.
            piece = data[skip : skip + min(count, max(0, inode.size - offset))]
            if not piece:
                break
            parts.append(piece)
            offset += len(piece)
            count -= len(piece)
        return b"".join(parts)

    async def _read_pages(self, file: File, first: int) -> bytes:
        inode = file.inode
        last = first
        while (last + 1) * PAGE < inode.size and last + 1 not in inode.pages and last - first < 31:
            last += 1
        wanted = (last - first + 1) * PAGE
        dropped, version = inode.dropped, inode.version
        self.calls["read"] += 1
        data = bytes(await self._drive.read(file.fh, first * PAGE, wanted))
        end = first * PAGE + len(data)
        if len(data) < wanted and version == inode.version and end < inode.size:
            # A short read marks the end of the file.
            inode.size = end
        padded = data.ljust(wanted, b"\0")
        if dropped == inode.dropped:
            for page in range(first, last + 1):
                start = (page - first) * PAGE
                inode.pages[page] = padded[start : start + PAGE]
        return padded[:PAGE]

    async def _read_direct(self, file: File, offset: int, count: int) -> bytes:
        parts = []
        while count:
            piece = bytes(await self._drive.read(file.fh, offset, min(count, _READAHEAD)))
            if not piece:
                break
            parts.append(piece)
            offset += len(piece)
            count -= len(piece)
        return b"".join(parts)

    async def write(self, file: File, offset: int, data: bytes) -> None:
        if file.flags & os.O_APPEND:
            await self._attributes(file.inode)
            offset = file.inode.size
        while data:
            piece, data = data[:_WRITE], data[_WRITE:]
            count = await self._drive.write(file.fh, offset, piece)
            self._cache_written(file, offset, piece[:count])
            if count < len(piece):
                raise OSError(errno.ENOSPC, "short write")
            offset += count

    def _cache_written(self, file: File, offset: int, data: bytes) -> None:
        inode = file.inode
        inode.size = max(inode.size, offset + len(data))
        self._mark_changed(inode)
        at = 0
        while at < len(data) and not file.direct:
            page, skip = divmod(offset + at, PAGE)
            piece = data[at : at + PAGE - skip]
            if (known := inode.pages.get(page)) is not None:
                inode.pages[page] = known[:skip] + piece + known[skip + len(piece) :]
            elif len(piece) == PAGE:
                inode.pages[page] = piece
            at += len(piece)

    async def truncate(self, file: File, size: int) -> None:
        await self._set_size(file.inode, size, file.fh)

    async def truncate_path(self, path: str, size: int) -> None:
        async def call(fresh: bool) -> None:
            await self._set_size(await self._walk(path.split("/"), fresh=fresh), size, None)

        await self._retry_stale(call)

    async def _set_size(self, inode: Inode, size: int, fh: int | None) -> None:
        self._reference(inode.ino, 1)
        try:
            found = await self._drive.setattr(inode.ino, SetAttr(size=size), fh)
            inode.attributes = None
            self._store_attributes(found, self._version)
            self._drop_pages(inode)
        finally:
            self._reference(inode.ino, -1)

    def is_same_file(self, one: File, other: File) -> bool:
        """Return whether the drive has one file for both; an item from the trash keeps its inode there."""
        real = self._drive._inodes.real
        return real(one.inode.ino) == real(other.inode.ino)

    async def fsync(self, file: File) -> None:
        await self._drive.fsync(file.fh)

    async def close(self, file: File) -> None:
        """Flush and release, as close(2) does; the error of the flush is raised."""
        try:
            if file.flags & (os.O_WRONLY | os.O_RDWR):
                await self._drive.flush(file.fh)
        finally:
            await self._drive.release(file.fh)
            self._reference(file.inode.ino, -1)
