"""Routes each call to the account's tree or to a virtual folder, by inode number.

Hidden folders at the root (`.trash`, `.search`, `.shared`) and views of an item (`report.odt@versions`) are
virtual nodes.  `VirtualFilesystem` handles them, `Filesystem` everything else, with the same methods.  This
module handles what involves both: names at the root, views beside an item, and moves between the two.

Rule: a number below `node.FIRST` is a row and goes to the tree directly; nothing here may slow that down.
"""

import errno
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cmsfs.cache.blocks import BlockCache, Fetcher
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import Attributes, DirEntry, OpenResult, SetAttr, Statfs
from cmsfs.vfs.tree.filesystem import Filesystem
from cmsfs.vfs.tree.renaming import EXCHANGE
from cmsfs.vfs.virtual.carried_names import CarriedNames
from cmsfs.vfs.virtual.node import FIRST, Views, VirtualFolder, VirtualInodes, with_deadline
from cmsfs.vfs.virtual.virtual_filesystem import VirtualFilesystem


@dataclass(frozen=True, slots=True)
class HiddenFolder:
    """A folder at the root; `listed`: `ls -a` shows it, otherwise it can only be opened by name."""

    name: str
    folder: VirtualFolder
    listed: bool = False


class Router:
    """A drive with two kinds of nodes; implements `fuse.drive.FilesystemPort`."""

    def __init__(
        self,
        fs: Filesystem,
        blocks: BlockCache,
        fetcher: Fetcher,
        hub: Hub,
        *,
        hidden: Sequence[HiddenFolder] = (),
        views: Sequence[Views] = (),
    ) -> None:
        self._tree = fs
        self._hub = hub
        self._carried = CarriedNames(hub)
        self._hidden: Mapping[str, HiddenFolder] = {one.name: one for one in hidden}
        self._views = views
        self._inodes = VirtualInodes(fs.inodes)
        self._fixed = {self._inodes.use(one.folder): one for one in hidden}
        self._virtual = VirtualFilesystem(self._inodes, blocks, fetcher)
        # Open handles of the account's root: listed hidden folders follow its entries.
        self._roots: set[int] = set()

    def _of(self, ino: Ino) -> tuple[Filesystem | VirtualFilesystem, Ino]:
        """Return the file system of an inode, and its number there."""
        if ino < FIRST:
            return self._tree, ino
        real = self._inodes.real(ino)
        return (self._tree if real < FIRST else self._virtual), real

    def _holding(self, fh: int) -> Filesystem | VirtualFilesystem:
        """Return the file system that opened a handle."""
        return self._tree if fh < FIRST else self._virtual

    # ---- names ---------------------------------------------------------------------------------

    async def lookup(self, parent: Ino, name: str) -> Attributes:
        """Return the entry with this name; counts as a lookup."""
        fs, real = self._of(parent)
        if real == ROOT and name in self._hidden:
            return self._virtual.looked_up(self._hidden[name].folder)
        try:
            return await fs.lookup(real, name)
        except FileNotFoundError as error:
            if fs is self._virtual:
                raise
            # atomic: no await since the lookup
            self._tree.inodes.denied(real)
            for views in self._views:
                if not views.covers(name):
                    continue
                if (node := await with_deadline(views.find(real, name))) is not None:
                    return self._virtual.looked_up(node)
                if views.comes_and_goes:
                    raise errno_map.TransientEnoent(errno.ENOENT, os.strerror(errno.ENOENT), name) from error
            raise

    def forget(self, pairs: list[tuple[Ino, int]]) -> None:
        """Subtract lookups, by inode and count, that the kernel has forgotten."""
        self._virtual.forget([pair for pair in pairs if pair[0] >= FIRST])
        self._tree.forget([pair for pair in pairs if pair[0] < FIRST])

    async def opendir(self, ino: Ino) -> int:
        fs, real = self._of(ino)
        fh = await fs.opendir(real)
        if fs is self._tree and real == ROOT:
            self._roots.add(fh)
        return fh

    async def readdir(self, fh: int, after: int) -> list[DirEntry]:
        """Return entries after the cookie `after`; call `counted` with those delivered."""
        if fh not in self._roots:
            return await self._holding(fh).readdir(fh, after)
        # Listed hidden folders follow the tree's entries.
        lines = await self._tree.readdir(fh, after) if after < FIRST else []
        return lines or self._listed_hidden(after)

    def _listed_hidden(self, after: int) -> list[DirEntry]:
        return [
            DirEntry(one.name, one.folder.attributes(ino), FIRST + place)
            for place, (ino, one) in enumerate(self._fixed.items(), 1)
            if one.listed and FIRST + place > after
        ]

    def above(self, ino: Ino) -> Ino:
        """Return the parent of a folder; for virtual folders, the root."""
        fs, real = self._of(ino)
        return fs.above(real)

    def counted(self, inos: Sequence[Ino]) -> None:
        """Count a lookup for each of these entries, which were delivered with their attributes."""
        # The number as delivered counts, even if it refers to a row by now.
        if virtual := [ino for ino in inos if ino >= FIRST]:
            self._virtual.counted(virtual)
            inos = [ino for ino in inos if ino < FIRST]
        self._tree.counted(inos)

    def releasedir(self, fh: int) -> None:
        self._roots.discard(fh)
        self._holding(fh).releasedir(fh)

    # ---- attributes ----------------------------------------------------------------------------

    def getattr(self, ino: Ino) -> Attributes:
        fs, real = self._of(ino)
        # With the number that the kernel requested.
        found = fs.getattr(real)
        return found if real == ino else found._replace(ino=ino)

    async def setattr(self, ino: Ino, changes: SetAttr, fh: int | None = None) -> Attributes:
        fs, real = self._of(ino)
        found = await fs.setattr(real, changes, fh)
        if real == ino:
            return found
        # The kernel may have the row under its own number, too.
        self._hub.publish([Change(ChangeKind.CONTENT, real)])
        return found._replace(ino=ino)

    async def readlink(self, ino: Ino) -> bytes:
        fs, real = self._of(ino)
        return await fs.readlink(real)

    async def getxattr(self, ino: Ino, name: str) -> bytes:
        fs, real = self._of(ino)
        return await fs.getxattr(real, name)

    async def listxattr(self, ino: Ino) -> list[str]:
        fs, real = self._of(ino)
        return await fs.listxattr(real)

    async def setxattr(self, ino: Ino, name: str, value: bytes) -> None:
        fs, real = self._of(ino)
        self._hub.publish(await fs.setxattr(real, name, value))

    async def removexattr(self, ino: Ino, name: str) -> None:
        fs, real = self._of(ino)
        await fs.removexattr(real, name)

    # ---- files ---------------------------------------------------------------------------------

    async def open(self, ino: Ino, flags: int) -> OpenResult:
        """Raises, beside what open(2) does, `OSError` (ESTALE) to have the kernel look up the name again: of
        two of its inodes for one file, one would not know what is written through the other."""
        if ino < FIRST:
            return await self._tree.open(ino, flags)
        fs, real = self._of(ino)
        if fs is self._tree and flags & (os.O_WRONLY | os.O_RDWR):
            raise errno_map.oserror(errno.ESTALE, f"ino {ino} was moved to the tree as ino {real}")
        return await fs.open(real, flags)

    async def create(self, parent: Ino, name: str, mode: int, flags: int) -> tuple[OpenResult, Attributes]:
        fs, real = self._into(parent, name)
        return await fs.create(real, name, mode, flags)

    async def read(self, fh: int, offset: int, size: int) -> bytes | bytearray:
        fs = self._tree if fh < FIRST else self._virtual
        return await fs.read(fh, offset, size)

    async def write(self, fh: int, offset: int, data: bytes) -> int:
        fs = self._tree if fh < FIRST else self._virtual
        return await fs.write(fh, offset, data)

    async def flush(self, fh: int) -> None:
        fs = self._tree if fh < FIRST else self._virtual
        await fs.flush(fh)

    async def fsync(self, fh: int) -> None:
        await self._holding(fh).fsync(fh)

    async def fsyncdir(self, fh: int) -> None:
        await self._holding(fh).fsyncdir(fh)

    async def release(self, fh: int) -> None:
        fs = self._tree if fh < FIRST else self._virtual
        await fs.release(fh)

    # ---- the entries of a folder ---------------------------------------------------------------

    async def mkdir(self, parent: Ino, name: str, mode: int) -> Attributes:
        fs, real = self._into(parent, name)
        return await fs.mkdir(real, name, mode)

    async def mknod(self, parent: Ino, name: str, mode: int) -> Attributes:
        fs, real = self._into(parent, name)
        return await fs.mknod(real, name, mode)

    async def symlink(self, parent: Ino, name: str, target: bytes) -> Attributes:
        fs, real = self._into(parent, name)
        return await fs.symlink(real, name, target)

    async def link(self, ino: Ino, new_parent: Ino, new_name: str) -> Attributes:
        fs, real = self._of(ino)
        _, parent = self._into(new_parent, new_name)
        return await fs.link(real, parent, new_name)

    async def unlink(self, parent: Ino, name: str) -> None:
        fs, real = self._into(parent, name)
        try:
            await fs.unlink(real, name)
        except FileNotFoundError:
            await self._check_no_view(real, name)
            raise

    async def rmdir(self, parent: Ino, name: str) -> None:
        fs, real = self._into(parent, name)
        try:
            await fs.rmdir(real, name)
        except FileNotFoundError:
            await self._check_no_view(real, name)
            raise

    async def rename(self, parent: Ino, name: str, new_parent: Ino, new_name: str, flags: int) -> None:
        """Rename within the tree as rename(2) does; virtual folders handle all other cases."""
        source, old = self._into(parent, name)
        target, new = self._into(new_parent, new_name)
        if source is self._tree and target is self._tree:
            try:
                await self._tree.rename(old, name, new, new_name, flags)
            except FileNotFoundError:
                await self._check_no_view(old, name)
                raise
            self._carried.renamed((old, name), (new, new_name), is_exchange=bool(flags & EXCHANGE))
            return
        if source is target:
            await self._virtual.rename(old, name, new, new_name, flags)
        elif target is self._virtual:
            await with_deadline(self._inodes.folder(new).take_in(old, name, new_name, flags))
        else:
            key, row = await with_deadline(self._inodes.folder(old).move_out(name, new, new_name, flags))
            self._inodes.became(key, row)
        # The kernel has moved the entry with its old inode; the drive has a new one for it.
        self._hub.publish([Change(ChangeKind.ENTRY, 0, new_parent, new_name)], is_own=True)

    def _into(self, parent: Ino, name: str) -> tuple[Filesystem | VirtualFilesystem, Ino]:
        """Return where to change a name in a folder.  Raises PermissionError (EPERM) for reserved names."""
        fs, real = self._of(parent)
        if real == ROOT and name in self._hidden:
            raise errno_map.oserror(errno.EPERM, f"{name} is reserved by the drive")
        return fs, real

    async def _check_no_view(self, parent: Ino, name: str) -> None:
        """Raise PermissionError (EPERM) if the drive shows a view with this name."""
        if parent >= FIRST:
            return
        for views in self._views:
            if views.covers(name) and await with_deadline(views.find(parent, name)) is not None:
                raise errno_map.oserror(errno.EPERM, f"{name} is shown by the drive")

    # ---- the rest ------------------------------------------------------------------------------

    async def statfs(self) -> Statfs:
        return await self._tree.statfs()

    # ---- for the next process that serves the same mount ----------------------------------------

    @property
    def fixed(self) -> list[str]:
        """Return the names of the virtual folders at the root; their numbers depend on them."""
        return list(self._hidden)

    def reads_from(self, fh: int) -> object:
        """Return the source of an open virtual file as in `handed_over`; None if it cannot be continued."""
        return self._virtual.handles.reads_from(fh)

    async def handed_over(self) -> dict[str, Any]:
        """Return the state that the next process needs, as JSON; no further requests may be served."""
        return {
            "tree": await self._tree.handed_over(),
            "virtual": self._virtual.handles.handed_over(),
            "numbers": self._inodes.handed_over(),
            "fixed": self.fixed,
            "roots": list(self._roots),
        }

    def take_over(self, given: dict[str, Any]) -> None:
        """Continue with the state that another process has `handed_over`."""
        self._tree.take_over(given["tree"])
        self._inodes.take_over(given["numbers"])
        self._virtual.handles.take_over(given["virtual"])
        if given["fixed"] != self.fixed:
            # The numbers belong to other folders there.
            self._fixed = {self._inodes.renumbered(one.folder): one for one in self._hidden.values()}
        self._roots.update(given["roots"])
