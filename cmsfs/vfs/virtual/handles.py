"""Handles of virtual files and folders: what they read, and which inode numbers they keep alive.

Rule: a file is read as it was when it was opened; what is written goes to its node at once.
"""

import errno
import itertools
import os
from dataclasses import dataclass

from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.replica.nodes import Content, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import DirEntry, OpenResult
from cmsfs.vfs.virtual.node import FIRST, VirtualFile, VirtualFolder, VirtualInodes, with_deadline

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_APPEND


@dataclass(slots=True)
class _OpenFile:
    ino: Ino
    node: VirtualFile
    data: bytes | Content
    writes: bool


@dataclass(slots=True)
class _OpenFolder:
    ino: Ino
    folder: VirtualFolder
    # Numbers of the last page that was handed out: the kernel may count them until it asks for the next.
    page: list[Ino]


class VirtualHandles:
    """The handles on virtual nodes."""

    def __init__(self, numbers: VirtualInodes, blocks: BlockCache, fetcher: Fetcher) -> None:
        self._numbers = numbers
        self._blocks = blocks
        self._fetcher = fetcher
        self._handles: dict[int, _OpenFile | _OpenFolder] = {}
        self._fh = itertools.count(FIRST)

    # ---- folders -------------------------------------------------------------------------------

    async def opendir(self, folder: VirtualFolder) -> int:
        read_from: VirtualFolder | None = await with_deadline(folder.opened())
        folder = read_from or folder
        fh = next(self._fh)
        self._handles[fh] = _OpenFolder(self._numbers.use(folder), folder, [])
        return fh

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        opened = self._handles[fh]
        assert isinstance(opened, _OpenFolder)
        entries = await with_deadline(opened.folder.entries(after))
        # The new page is taken before the old one is let go: a node may be on both.
        page = [self._numbers.use(node) for _, node in entries]
        for ino in opened.page:
            self._numbers.unused(ino)
        opened.page = page
        return [
            DirEntry(name, node.attributes(ino), after + place)
            for place, ((name, node), ino) in enumerate(zip(entries, page, strict=True), 1)
        ]

    def releasedir(self, fh: int) -> None:
        opened = self._handles.pop(fh)
        assert isinstance(opened, _OpenFolder)
        for ino in (*opened.page, opened.ino):
            self._numbers.unused(ino)

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, node: VirtualFile, flags: int) -> OpenResult:
        if flags & _WRITING and not node.is_writable:
            raise errno_map.oserror(errno.EACCES, "this is read-only")
        if flags & os.O_TRUNC:
            await with_deadline(node.truncate(0))
        data = await with_deadline(node.open())
        if isinstance(data, Content):
            self._blocks.open(data.sha1, data.size)
        fh = next(self._fh)
        self._handles[fh] = _OpenFile(self._numbers.use(node), node, data, bool(flags & _WRITING))
        # Its size may be known only now, and another object may answer for it next time.
        return OpenResult(fh, direct_io=True)

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        opened = self._handles[fh]
        assert isinstance(opened, _OpenFile)
        data = await with_deadline(opened.node.open()) if opened.writes else opened.data
        if isinstance(data, bytes):
            return data[offset : offset + size]
        return await self._blocks.read(data, offset, size, self._fetcher)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        opened = self._handles[fh]
        assert isinstance(opened, _OpenFile)
        if not opened.writes:
            raise errno_map.oserror(errno.EBADF)
        await with_deadline(opened.node.write(offset, data))
        return len(data)

    def release(self, fh: int) -> None:
        opened = self._handles.pop(fh)
        assert isinstance(opened, _OpenFile)
        if isinstance(opened.data, Content):
            self._blocks.close(opened.data.sha1)
        self._numbers.unused(opened.ino)
