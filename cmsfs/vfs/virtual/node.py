"""Virtual nodes: folders, files and links that are not items of the account.

The trash, the results of a search and the past versions of a file are made of these.  `VirtualFilesystem`
gives them inode numbers and answers the kernel; whoever shows something derives from these classes and says
what it is, what is in it, and what may be done there.  Everything that is not said is refused.

Rule: a method raises `OSError`, or a `CmsfsError` that `deadline` translates; it may wait for the service,
and is given up at `deadline.DEADLINE_SECONDS`.
"""

import errno
import stat
import time
from collections.abc import Hashable, Mapping, Sequence

from cmsfs.replica.nodes import Content, Ino
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import Attributes

# What is shown here is asked for anew after this long, unless a node says otherwise.
TIMEOUT_SECONDS = 1.0


class VirtualNode:
    """One virtual node.

    Two objects with one `key` stand for the same thing: the kernel sees one inode, and the newer object
    answers for it.
    """

    key: Hashable
    kind: int  # stat.S_IFDIR, S_IFREG or S_IFLNK
    mode: int = 0o400
    size: int = 0
    timeout: float = TIMEOUT_SECONDS

    def __init__(self, key: Hashable, *, mtime_ns: int | None = None) -> None:
        self.key = key
        self.mtime_ns = time.time_ns() if mtime_ns is None else mtime_ns

    def attributes(self, ino: Ino) -> Attributes:
        """What `stat` shows."""
        times = {"atime_ns": self.mtime_ns, "mtime_ns": self.mtime_ns, "ctime_ns": self.mtime_ns}
        return Attributes(
            ino=ino, mode=self.kind | self.mode, size=self.size, nlink=1, timeout=self.timeout, **times
        )

    async def xattrs(self) -> Mapping[str, bytes]:
        """The extended attributes by their whole names."""
        return {}

    async def xattr(self, name: str) -> bytes | None:
        """One of them; may wait for what `xattrs` leaves out, as every `ls -l` asks for all."""
        return (await self.xattrs()).get(name)

    async def set_xattr(self, name: str, value: bytes | None) -> None:
        """Set an attribute, or remove it (None)."""
        # What copying programs pass over in silence.
        raise errno_map.oserror(errno.ENOTSUP, name)


class VirtualFolder(VirtualNode):
    """A virtual folder; subclasses provide its entries."""

    kind = stat.S_IFDIR
    mode = 0o500

    async def child(self, name: str) -> VirtualNode:
        """What has this name; FileNotFoundError."""
        position = 0
        while lines := await self.entries(position):
            for known, node in lines:
                if known == name:
                    return node
            position += len(lines)
        raise errno_map.oserror(errno.ENOENT, name)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        """Some entries from this position (a count of entries) on, at least one; none at the end."""
        return []

    async def opened(self) -> "VirtualFolder | None":
        """A program begins to read the folder: what was kept of it may be asked for anew.  The object that
        it reads from until it closes the folder; None: this one."""
        return None

    async def create(self, name: str) -> "VirtualFile":
        """Make an empty file in it, which can be written."""
        raise errno_map.oserror(errno.EPERM, name)

    async def mkdir(self, name: str) -> VirtualNode:
        """Make a folder in it."""
        raise errno_map.oserror(errno.EPERM, name)

    async def symlink(self, name: str, target: bytes) -> VirtualNode:
        """Make a symbolic link in it."""
        raise errno_map.oserror(errno.EPERM, name)

    async def remove(self, name: str, *, folder: bool) -> None:
        """Remove an entry (`unlink`, or `rmdir` where it is a folder)."""
        raise errno_map.oserror(errno.EPERM, name)

    async def rename(self, name: str, into: "VirtualFolder", new_name: str, flags: int) -> None:
        """Rename an entry within what is shown; `into` may be this folder."""
        raise errno_map.oserror(errno.EPERM, name)

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        """Move an entry into a folder of the account: the key that it had, and the node that it is there."""
        # EXDEV would make `mv` copy and remove.
        raise errno_map.oserror(errno.EPERM, name)

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        """Take in an item of the account; from then on it is not where it was."""
        raise errno_map.oserror(errno.EPERM, new_name)


class VirtualFile(VirtualNode):
    """A virtual file, readable and optionally writable; subclasses provide its contents."""

    kind = stat.S_IFREG
    is_writable = False

    async def open(self) -> bytes | Content:
        """What a reader gets: the bytes themselves, or where the service has them."""
        raise errno_map.oserror(errno.EACCES)

    async def write(self, offset: int, data: bytes) -> None:
        """Take in what a program writes."""
        raise errno_map.oserror(errno.EACCES)

    async def truncate(self, size: int) -> None:
        """Cut it, or fill it up with zeros."""
        raise errno_map.oserror(errno.EACCES)


class VirtualLink(VirtualNode):
    """A symbolic link."""

    kind = stat.S_IFLNK
    mode = 0o777

    def __init__(self, key: Hashable, target: bytes, *, mtime_ns: int | None = None) -> None:
        super().__init__(key, mtime_ns=mtime_ns)
        self.target = target
        self.size = len(target)


class Views:
    """Unlisted folders that belong to an item, under a derived name (`report.odt@versions`)."""

    def covers(self, name: str) -> bool:
        """Whether it may stand for something, by the name alone: asked of every name that is looked up in
        vain."""
        return True

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        """What such a name stands for in a folder that has no item of the name; None: nothing."""
        return None
