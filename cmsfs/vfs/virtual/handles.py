"""Handles of virtual files and folders: their contents, and the inode numbers that they keep in use.

Rule: a file is read as it was when it was opened; writes go to its node at once.
"""

import errno
import itertools
import os
from base64 import b64decode, b64encode
from dataclasses import astuple, dataclass
from typing import Any

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
    # Numbers of the last page returned: the kernel may count lookups of them until it requests the next page.
    page: list[Ino]


class VirtualHandles:
    """The open handles of virtual nodes."""

    def __init__(self, numbers: VirtualInodes, blocks: BlockCache, fetcher: Fetcher) -> None:
        self._numbers = numbers
        self._blocks = blocks
        self._fetcher = fetcher
        self._handles: dict[int, _OpenFile | _OpenFolder] = {}
        self._fh = itertools.count(FIRST)

    # ---- for the next process that serves the same mount ----

    def handed_over(self) -> dict[str, Any]:
        """Return the sources of open files, as JSON."""
        files = [(fh, data) for fh in self._handles if (data := self.reads_from(fh)) is not None]
        return {"last": max(self._handles, default=FIRST), "files": files}

    def reads_from(self, fh: int) -> object:
        """Return the source of an open file, as JSON; None for a folder."""
        one = self._handles[fh]
        if not isinstance(one, _OpenFile):
            return None
        return astuple(one.data) if isinstance(one.data, Content) else b64encode(one.data).decode()

    def take_over(self, given: dict[str, Any]) -> None:
        """Continue with the handles of another process: files keep their contents, directories must be opened
        again (ESTALE), and files that were open for writing can no longer be written (EBADF)."""
        self._fh = itertools.count(given["last"] + 1)
        for fh, data in given["files"]:
            node = VirtualFile(("handed over", fh))
            content = b64decode(data) if isinstance(data, str) else Content(*data)
            if isinstance(content, Content):
                self._blocks.open(content.sha1, content.size)
            self._handles[fh] = _OpenFile(self._numbers.use(node), node, content, writes=False)

    # ---- folders -------------------------------------------------------------------------------

    async def opendir(self, folder: VirtualFolder) -> int:
        read_from: VirtualFolder | None = await with_deadline(folder.opened())
        folder = read_from or folder
        fh = next(self._fh)
        self._handles[fh] = _OpenFolder(self._numbers.use(folder), folder, [])
        return fh

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        opened = self._handles.get(fh)
        if opened is None:
            raise errno_map.oserror(errno.ESTALE, "the folder was open in another process")
        assert isinstance(opened, _OpenFolder)
        entries = await with_deadline(opened.folder.entries(after))
        # Use the numbers of the new page before releasing the old one's: a node may be on both.
        page = [self._numbers.use(node) for _, node in entries]
        for ino in opened.page:
            self._numbers.unused(ino)
        opened.page = page
        return [
            DirEntry(name, node.attributes(ino), after + place)
            for place, ((name, node), ino) in enumerate(zip(entries, page, strict=True), 1)
        ]

    def releasedir(self, fh: int) -> None:
        opened = self._handles.pop(fh, None)
        if opened is None:
            return  # opened in another process
        assert isinstance(opened, _OpenFolder)
        for ino in (*opened.page, opened.ino):
            self._numbers.unused(ino)

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, node: VirtualFile, flags: int) -> OpenResult:
        if flags & _WRITING and not node.is_writable:
            raise node.refused("this is read-only", errno.EACCES)
        if flags & os.O_TRUNC:
            await with_deadline(node.truncate(0))
        data = await with_deadline(node.open())
        if isinstance(data, Content):
            self._blocks.open(data.sha1, data.size)
        fh = next(self._fh)
        self._handles[fh] = _OpenFile(self._numbers.use(node), node, data, bool(flags & _WRITING))
        # Its size may be known only now, and the next open may use another object.
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
