"""Routes each call to the account's tree or to a virtual folder, by inode number.

Hidden folders at the root (`.trash`, `.search`) and views of an item (`report.odt@versions`) are virtual
nodes.  This module answers for them, hands all else to the `Filesystem`, and lets things be moved from one
to the other.

Rule: a number below `virtual_inodes.FIRST` is a row and goes to the tree at once; nothing here may slow
that down.
"""

import errno
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.deadline import with_deadline
from cmsfs.vfs.tree import naming
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr, Statfs
from cmsfs.vfs.tree.filesystem import Filesystem
from cmsfs.vfs.virtual.handles import VirtualHandles
from cmsfs.vfs.virtual.node import Views, VirtualFile, VirtualFolder, VirtualLink, VirtualNode
from cmsfs.vfs.virtual.virtual_inodes import FIRST, VirtualInodes

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HiddenFolder:
    """A folder at the root; `listed`: `ls -a` shows it too, otherwise it is reached by its name alone."""

    name: str
    folder: VirtualFolder
    listed: bool = False


class Router:
    """One drive of two kinds of nodes; offers `fuse.drive.Drive` and, to the notifier, its counts."""

    def __init__(
        self,
        fs: Filesystem,
        blocks: BlockCache,
        fetcher: Fetcher,
        hub: Hub,
        *,
        hidden: Sequence[HiddenFolder] = (),
        views: Sequence[Views] = (),
        opened: Callable[[Ino], Awaitable[None]] | None = None,
    ) -> None:
        self._fs = fs
        # Told of every folder of the tree that is opened, once it is listed; it may wait, and never fails.
        self._opened = opened
        self._hub = hub
        self._hidden: Mapping[str, HiddenFolder] = {one.name: one for one in hidden}
        self._views = views
        self._numbers = VirtualInodes()
        self._fixed = {self._numbers.use(one.folder): one for one in hidden}
        self._handles = VirtualHandles(self._numbers, blocks, fetcher)
        # Open handles of the account's root: hidden folders that are listed come behind its entries.
        self._roots: set[int] = set()

    # ---- names ---------------------------------------------------------------------------------

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        """What this name stands for; counted as a lookup."""
        if parent >= FIRST:
            parent = self._numbers.real(parent)
        if parent >= FIRST and name == ".":
            return self._counted(self._node(parent))
        if parent >= FIRST:
            folder = self._folder(parent)
            return self._counted(await with_deadline(folder.child(name)))
        if parent == ROOT and name in self._hidden:
            return self._counted(self._hidden[name].folder)
        try:
            return await self._fs.lookup(parent, name)
        except FileNotFoundError:
            # atomic: no await since the look
            self._fs.inodes.denied(parent)
            for views in self._views:
                if (node := await with_deadline(views.find(parent, name))) is not None:
                    return self._counted(node)
            raise

    def _counted(self, node: VirtualNode) -> Attributes:
        # atomic: no await until the reply
        ino = self._numbers.use(node)
        self._numbers.looked_up(ino)
        self._numbers.unused(ino)
        return node.attributes(ino)

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        """The kernel gives back lookups."""
        for ino, count in pairs:
            if ino >= FIRST:
                self._numbers.forgotten(ino, count)
        self._fs.forget([pair for pair in pairs if pair[0] < FIRST])

    async def opendir(self, ino: Ino) -> int:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            fh = await self._fs.opendir(real)
            if self._opened is not None:
                await self._opened(real)
            if real == ROOT:
                self._roots.add(fh)
            return fh
        return await self._handles.opendir(self._folder(real))

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        """Some entries behind the cookie `after`; call `counted` for each one delivered."""
        if fh < FIRST:
            lines = await self._fs.readdir(fh, after) if after < FIRST else []
            return lines or (self._listed_hidden(after) if fh in self._roots else [])
        return await self._handles.readdir(fh, after)

    def _listed_hidden(self, after: int) -> list[DirEntry]:
        return [
            DirEntry(one.name, one.folder.attributes(ino), FIRST + place)
            for place, (ino, one) in enumerate(self._fixed.items(), 1)
            if one.listed and FIRST + place > after
        ]

    def above(self, ino: Ino) -> Ino:
        """The folder that a folder is in; of a virtual one the root, below which all of them are."""
        real = ino if ino < FIRST else self._numbers.real(ino)
        return self._fs.above(real) if real < FIRST else ROOT

    def counted(self, ino: Ino) -> None:
        """An entry was delivered with its attributes: the kernel holds a lookup more."""
        if ino >= FIRST:
            self._numbers.looked_up(ino)
        else:
            self._fs.counted(ino)

    def releasedir(self, fh: int) -> None:
        if fh < FIRST:
            self._roots.discard(fh)
            self._fs.releasedir(fh)
            return
        self._handles.releasedir(fh)

    # ---- attributes ----------------------------------------------------------------------------

    def getattr(self, ino: Ino) -> Attributes:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return _as(ino, self._fs.getattr(real))
        return self._node(real).attributes(real)

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return _as(ino, await self._fs.setattr(real, changes, fh))
        node = self._node(real)
        if not isinstance(node, VirtualFile) or not node.is_writable:
            raise errno_map.oserror(errno.EPERM, "this is a virtual item, which cannot be changed")
        if changes.size is not None:
            await with_deadline(node.truncate(changes.size))
        return node.attributes(ino)

    async def readlink(self, ino: Ino) -> bytes:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return await self._fs.readlink(real)
        node = self._node(real)
        if not isinstance(node, VirtualLink):
            raise errno_map.oserror(errno.EINVAL)
        return node.target

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return await self._fs.getxattr(real, name)
        value = await with_deadline(self._node(real).xattr(name))
        if value is None:
            raise errno_map.oserror(errno.ENODATA, name)
        return value

    async def listxattr(self, ino: Ino) -> list[str]:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return await self._fs.listxattr(real)
        return list(await with_deadline(self._node(real).xattrs()))

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            self._hub.publish(await self._fs.setxattr(real, name, value))
        else:
            await self._change_xattr(real, name, value)

    async def removexattr(self, ino: Ino, name: str) -> None:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            await self._fs.removexattr(real, name)
        else:
            await self._change_xattr(real, name, None)

    async def _change_xattr(self, ino: Ino, name: str, value: bytes | None) -> None:
        await with_deadline(self._node(ino).set_xattr(name, value))

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real < FIRST:
            return await self._fs.open(real, flags)
        node = self._node(real)
        if not isinstance(node, VirtualFile):
            raise errno_map.oserror(errno.EISDIR)
        return await self._handles.open(node, flags)

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        real = parent if parent < FIRST else self._numbers.real(parent)
        if real >= FIRST:
            node = await with_deadline(self._folder(real).create(name))
            opened = await self._handles.open(node, flags)
            # atomic: no await until the reply
            return opened, self._counted(node)
        return await self._fs.create(self._into(parent, name), name, mode, flags)

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        if fh < FIRST:
            return await self._fs.read(fh, offset, size)
        return await self._handles.read(fh, offset, size)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        if fh < FIRST:
            return await self._fs.write(fh, offset, data)
        return await self._handles.write(fh, offset, data)

    async def flush(self, fh: int) -> None:
        if fh < FIRST:
            await self._fs.flush(fh)

    async def fsync(self, fh: int) -> None:
        if fh < FIRST:
            await self._fs.fsync(fh)

    async def fsyncdir(self, fh: int) -> None:
        if fh < FIRST:
            await self._fs.fsyncdir(fh)

    async def release(self, fh: int) -> None:
        if fh < FIRST:
            await self._fs.release(fh)
            return
        self._handles.release(fh)

    # ---- the tree ------------------------------------------------------------------------------

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        real = parent if parent < FIRST else self._numbers.real(parent)
        if real >= FIRST:
            return self._counted(await with_deadline(self._folder(real).mkdir(name)))
        return await self._fs.mkdir(self._into(parent, name), name, mode)

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        return await self._fs.mknod(self._into(parent, name), name, mode)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        real = parent if parent < FIRST else self._numbers.real(parent)
        if real >= FIRST:
            return self._counted(await with_deadline(self._folder(real).symlink(name, target)))
        return await self._fs.symlink(self._into(parent, name), name, target)

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        real = ino if ino < FIRST else self._numbers.real(ino)
        if real >= FIRST:
            raise errno_map.oserror(errno.EPERM, new_name)
        return await self._fs.link(real, self._into(new_parent, new_name), new_name)

    async def unlink(self, parent: Ino, name: str) -> None:
        await self._remove(parent, name, self._fs.unlink, folder=False)

    async def rmdir(self, parent: Ino, name: str) -> None:
        await self._remove(parent, name, self._fs.rmdir, folder=True)

    async def _remove(
        self, parent: Ino, name: str, of_tree: Callable[[Ino, str], Awaitable[None]], *, folder: bool
    ) -> None:
        real = parent if parent < FIRST else self._numbers.real(parent)
        if real >= FIRST:
            await with_deadline(self._folder(real).remove(name, folder=folder))
            return
        self._check_not_hidden(real, name)
        try:
            await of_tree(real, name)
        except FileNotFoundError:
            await self._check_no_view(real, name)
            raise

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        """Within the tree as rename(2) does; what else there is, the virtual folders say."""
        old, new = self._numbers.real(parent), self._numbers.real(new_parent)
        self._check_not_hidden(old, name)
        self._check_not_hidden(new, new_name)
        if old < FIRST and new < FIRST:
            try:
                await self._fs.rename(old, name, new, new_name, flags)
            except FileNotFoundError:
                await self._check_no_view(old, name)
                raise
            return
        if old < FIRST:
            await with_deadline(self._folder(new).take_in(old, name, new_name, flags))
        elif new >= FIRST:
            await with_deadline(self._folder(old).rename(name, self._folder(new), new_name, flags))
        else:
            await self._move_out(old, name, new, new_name, flags)
        # The kernel has moved the entry along with the inode that it knew; the drive has another for it.
        self._hub.publish([Change(ChangeKind.ENTRY, 0, new_parent, new_name)])

    async def _move_out(self, old: Ino, name: str, parent: Ino, new_name: str, flags: int) -> None:
        naming.check(parent, new_name)
        folder = self._folder(old)
        node = await with_deadline(folder.child(name))
        # Held: the kernel goes on asking for it by this number until it has heard of the other.
        ino = self._numbers.use(node)
        try:
            real = await with_deadline(folder.move_out(name, parent, new_name, flags))
            self._numbers.became(ino, real)
        finally:
            self._numbers.unused(ino)

    def _into(self, parent: Ino, name: str) -> Ino:
        """The folder of the tree to make something in."""
        real = parent if parent < FIRST else self._numbers.real(parent)
        if real >= FIRST:
            raise errno_map.oserror(errno.EPERM, name)
        self._check_not_hidden(real, name)
        return real

    def _check_not_hidden(self, parent: Ino, name: str) -> None:
        if parent == ROOT and name in self._hidden:
            raise errno_map.oserror(errno.EPERM, f"{name} is reserved by the drive")

    async def _check_no_view(self, parent: Ino, name: str) -> None:
        """Raise PermissionError (EPERM) where the drive shows something of this name that nobody has made."""
        for views in self._views:
            if await with_deadline(views.find(parent, name)) is not None:
                raise errno_map.oserror(errno.EPERM, f"{name} is shown by the drive")

    def _node(self, ino: Ino) -> VirtualNode:
        node = self._numbers.node(ino)
        if node is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return node

    def _folder(self, ino: Ino) -> VirtualFolder:
        node = self._node(ino)
        if not isinstance(node, VirtualFolder):
            raise errno_map.oserror(errno.ENOTDIR)
        return node

    # ---- the rest ------------------------------------------------------------------------------

    async def statfs(self) -> Statfs:
        return await self._fs.statfs()

    def opens(self, ino: Ino) -> int:
        """Handles open on an inode."""
        return self._numbers.uses(ino) if ino >= FIRST else self._fs.inodes.opens(ino)

    def is_known(self, ino: Ino) -> bool:
        """Whether the kernel may remember anything of this inode, or of names in it."""
        return self._numbers.lookups(ino) > 0 if ino >= FIRST else self._fs.inodes.is_known(ino)

    def has_denied(self, ino: Ino) -> bool:
        """Whether the kernel may remember of a name that it is not in this folder."""
        return ino >= FIRST or self._fs.inodes.has_denied(ino)


def _as(ino: Ino, found: Attributes) -> Attributes:
    """The attributes under the number that the kernel asked for."""
    return found if found.ino == ino else replace(found, ino=ino)
