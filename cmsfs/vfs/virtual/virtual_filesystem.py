"""The file system operations on virtual nodes, to which `router` dispatches.

It has the methods of `tree.filesystem.Filesystem`, for the inode numbers and handles from `node.FIRST` on.
Each node implements the operations that it supports (`node`).
"""

import errno
from collections.abc import Sequence

from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.replica.changes import Change
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr
from cmsfs.vfs.virtual.handles import VirtualHandles
from cmsfs.vfs.virtual.node import VirtualFile, VirtualInodes, VirtualLink, VirtualNode, with_deadline


class VirtualFilesystem:
    """The file system of all nodes that are not rows of the tree."""

    def __init__(self, inodes: VirtualInodes, blocks: BlockCache, fetcher: Fetcher) -> None:
        self._inodes = inodes
        self.handles = VirtualHandles(inodes, blocks, fetcher)

    # ---- names ---------------------------------------------------------------------------------

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        if name == ".":
            return self.looked_up(self._inodes.node(parent))
        return self.looked_up(await with_deadline(self._inodes.folder(parent).child(name)))

    def looked_up(self, node: VirtualNode) -> Attributes:
        """Return the attributes of a node; counts as a lookup."""
        # atomic: no await until the reply
        ino = self._inodes.use(node)
        self._inodes.looked_up(ino)
        self._inodes.unused(ino)
        return node.attributes(ino)

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        for ino, count in pairs:
            self._inodes.forgotten(ino, count)

    async def opendir(self, ino: Ino) -> int:
        return await self.handles.opendir(self._inodes.folder(ino))

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        return await self.handles.readdir(fh, after)

    def above(self, ino: Ino) -> Ino:
        """Return the root, the parent of all virtual folders."""
        return ROOT

    def counted(self, inos: Sequence[Ino]) -> None:
        for ino in inos:
            self._inodes.looked_up(ino)

    def releasedir(self, fh: int) -> None:
        self.handles.releasedir(fh)

    # ---- attributes ----------------------------------------------------------------------------

    def getattr(self, ino: Ino) -> Attributes:
        return self._inodes.node(ino).attributes(ino)

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        node = self._inodes.node(ino)
        if not isinstance(node, VirtualFile) or not node.is_writable:
            raise node.refused("this is a virtual item, which cannot be changed")
        if changes.size is not None:
            await with_deadline(node.truncate(changes.size))
        return node.attributes(ino)

    async def readlink(self, ino: Ino) -> bytes:
        node = self._inodes.node(ino)
        if not isinstance(node, VirtualLink):
            raise errno_map.oserror(errno.EINVAL)
        return node.target

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        value = await with_deadline(self._inodes.node(ino).xattr(name))
        if value is None:
            raise errno_map.oserror(errno.ENODATA, name)
        return value

    async def listxattr(self, ino: Ino) -> list[str]:
        return list(await with_deadline(self._inodes.node(ino).xattrs()))

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> list[Change]:
        await with_deadline(self._inodes.node(ino).set_xattr(name, value))
        return []

    async def removexattr(self, ino: Ino, name: str) -> None:
        await with_deadline(self._inodes.node(ino).set_xattr(name, None))

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        node = self._inodes.node(ino)
        if not isinstance(node, VirtualFile):
            raise errno_map.oserror(errno.EISDIR)
        return await self.handles.open(node, flags)

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        node = await with_deadline(self._inodes.folder(parent).create(name))
        opened = await self.handles.open(node, flags)
        # atomic: no await until the reply
        return opened, self.looked_up(node)

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        return await self.handles.read(fh, offset, size)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        return await self.handles.write(fh, offset, data)

    async def flush(self, fh: int) -> None:
        """Do nothing: writes go to the node at once."""

    async def fsync(self, fh: int) -> None:
        """The same."""

    async def fsyncdir(self, fh: int) -> None:
        """The same."""

    async def release(self, fh: int) -> None:
        self.handles.release(fh)

    # ---- the entries of a folder ---------------------------------------------------------------

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        return self.looked_up(await with_deadline(self._inodes.folder(parent).mkdir(name)))

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        raise self._inodes.folder(parent).refused(name)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        return self.looked_up(await with_deadline(self._inodes.folder(parent).symlink(name, target)))

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        raise errno_map.oserror(errno.EPERM, new_name)

    async def unlink(self, parent: Ino, name: str) -> None:
        await with_deadline(self._inodes.folder(parent).remove(name, folder=False))

    async def rmdir(self, parent: Ino, name: str) -> None:
        await with_deadline(self._inodes.folder(parent).remove(name, folder=True))

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        await with_deadline(
            self._inodes.folder(parent).rename(name, self._inodes.folder(new_parent), new_name, flags)
        )
