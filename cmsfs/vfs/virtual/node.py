"""Virtual nodes: folders, files and links that are not items of the account; their inode numbers and the
deadline of their operations.

The trash, search results and past versions of a file are virtual nodes.  `VirtualFilesystem` assigns inode
numbers and handles the kernel's calls; modules derive from these classes and implement attributes, entries
and the supported operations.  All other operations are rejected.

Rows of the tree have numbers from 1 on, virtual nodes from `FIRST` on, so that the number alone tells which
file system is responsible; a number is kept while the kernel or a handle uses it.

Rule: a method raises `OSError`, or a `CmsfsError` that `with_deadline` translates; it may wait for the
service, and is cancelled after `DEADLINE_SECONDS`.
"""

import errno
import os
import stat
from collections.abc import Awaitable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import trio

from cmsfs import errors
from cmsfs.replica.inodes import Inodes
from cmsfs.replica.nodes import Content, Ino
from cmsfs.runtime import clock
from cmsfs.vfs import errno_map
from cmsfs.vfs.tree.attributes import Attributes

# Default cache timeout of attributes and entries.
TIMEOUT_SECONDS = 1.0

# Maximum time that a call waits for the service.
DEADLINE_SECONDS = 30.0

FIRST: Ino = 1 << 62

T = TypeVar("T")


class VirtualNode:
    """A virtual node.

    Two objects with the same `key` are the same node: the kernel sees one inode, and the newer object handles
    its calls.
    """

    key: Hashable
    kind: int  # stat.S_IFDIR, S_IFREG or S_IFLNK
    mode: int = 0o400
    size: int = 0
    timeout: float = TIMEOUT_SECONDS
    # A past state, which is immutable: all changes raise EROFS.
    is_past = False

    def __init__(self, key: Hashable, *, mtime_ns: int | None = None) -> None:
        self.key = key
        self.mtime_ns = clock.time_ns() if mtime_ns is None else mtime_ns

    def attributes(self, ino: Ino) -> Attributes:
        """Return the result of `stat`."""
        times = {"atime_ns": self.mtime_ns, "mtime_ns": self.mtime_ns, "ctime_ns": self.mtime_ns}
        return Attributes(
            ino=ino, mode=self.kind | self.mode, size=self.size, nlink=1, timeout=self.timeout, **times
        )

    async def xattrs(self) -> Mapping[str, bytes]:
        """Return the extended attributes by their full names."""
        return {}

    async def xattr(self, name: str) -> bytes | None:
        """Return one attribute; may wait for the service, unlike `xattrs`, which every `ls -l` calls."""
        return (await self.xattrs()).get(name)

    async def set_xattr(self, name: str, value: bytes | None) -> None:
        """Set an attribute, or remove it (None)."""
        # Copying programs silently ignore ENOTSUP.
        raise self.refused(name, errno.ENOTSUP)

    def refused(self, name: str = "", number: int = errno.EPERM) -> OSError:
        """Return the error for a rejected change."""
        return errno_map.oserror(errno.EROFS if self.is_past else number, name)


class VirtualFolder(VirtualNode):
    """A virtual folder; subclasses provide its entries."""

    kind = stat.S_IFDIR
    mode = 0o500

    async def child(self, name: str) -> VirtualNode:
        """Return the entry with this name.  Raises FileNotFoundError."""
        position = 0
        while lines := await self.entries(position):
            for known, node in lines:
                if known == name:
                    return node
            position += len(lines)
        raise errno_map.oserror(errno.ENOENT, name)

    async def entries(self, position: int) -> Sequence[tuple[str, VirtualNode]]:
        """Return entries from this position (a number of entries) on, at least one; none at the end."""
        return []

    async def opened(self) -> "VirtualFolder | None":
        """Handle `opendir`, which may refresh cached entries.  Return the object that the handle reads until
        the folder is closed; None: this one."""
        return None

    async def create(self, name: str) -> "VirtualFile":
        """Create an empty, writable file in it."""
        raise self.refused(name)

    async def mkdir(self, name: str) -> VirtualNode:
        """Create a folder in it."""
        raise self.refused(name)

    async def symlink(self, name: str, target: bytes) -> VirtualNode:
        """Create a symbolic link in it."""
        raise self.refused(name)

    async def remove(self, name: str, *, folder: bool) -> None:
        """Remove an entry (`unlink`, or `rmdir` for a folder)."""
        raise self.refused(name)

    async def rename(self, name: str, into: "VirtualFolder", new_name: str, flags: int) -> None:
        """Rename an entry within the virtual folders; `into` may be this folder."""
        raise self.refused(name)

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        """Move an entry into a folder of the account; return its key here and its node there.
        Must check that the new name is valid there."""
        # Not EXDEV, on which `mv` would copy and delete.
        raise self.refused(name)

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        """Take an item of the account, which is removed from its previous folder."""
        raise self.refused(new_name)


class VirtualFile(VirtualNode):
    """A virtual file, readable and optionally writable; subclasses provide its contents."""

    kind = stat.S_IFREG
    is_writable = False

    async def open(self) -> bytes | Content:
        """Return the contents for a handle: the bytes, or a reference to content at the service."""
        raise errno_map.oserror(errno.EACCES)

    async def write(self, offset: int, data: bytes) -> None:
        """Write data at an offset."""
        raise errno_map.oserror(errno.EACCES)

    async def truncate(self, size: int) -> None:
        """Truncate it, or extend it with zeros."""
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
    """Unlisted nodes that belong to an item, with a derived name (`report.odt@versions`).

    `comes_and_goes`: without a change of the tree, so the kernel must not cache that there is none.
    """

    comes_and_goes = False

    def covers(self, name: str) -> bool:
        """Whether the name alone may be that of a view; called for every failed lookup."""
        return True

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        """Return the node for such a name in a folder without an item of the name; None if there is none."""
        return None


# ---- numbers -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    node: VirtualNode
    uses: int = 0
    # Its row after it was moved into the account's tree; calls go to the row from then on.
    real: Ino | None = None


class VirtualInodes:
    """The virtual nodes in use, by number and by key.

    `counts` counts the kernel's lookups, together with those of the tree, whose numbers are disjoint.
    """

    def __init__(self, counts: Inodes) -> None:
        self._counts = counts
        self._next = FIRST
        self._known: dict[Ino, _Known] = {}
        self._by_key: dict[Hashable, Ino] = {}

    def use(self, node: VirtualNode) -> Ino:
        """Return the number of a node, kept until `unused`; from now on this object handles its calls."""
        ino = self._by_key.get(node.key)
        if ino is None:
            ino, self._next = self._next, self._next + 1
            self._known[ino] = _Known(node)
            self._by_key[node.key] = ino
        self._known[ino].node = node
        self._known[ino].uses += 1
        return ino

    def unused(self, ino: Ino) -> None:
        """Release one `use` of a number."""
        self._known[ino].uses -= 1
        self._consider(ino)

    def looked_up(self, ino: Ino) -> None:
        """Count a lookup by the kernel; the number must be in use."""
        self._counts.looked_up(ino)

    def forgotten(self, ino: Ino, count: int) -> None:
        self._counts.forgotten(ino, count)
        if ino in self._known:
            self._consider(ino)

    def node(self, ino: Ino) -> VirtualNode:
        """Return the node of a number.  Raises `OSError` (ESTALE) if the number is not in use."""
        if (known := self._known.get(ino)) is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return known.node

    def folder(self, ino: Ino) -> VirtualFolder:
        """Return a folder as `node` does.  Raises `OSError` (ENOTDIR) if it is not a folder."""
        node = self.node(ino)
        if not isinstance(node, VirtualFolder):
            raise errno_map.oserror(errno.ENOTDIR)
        return node

    def became(self, key: Hashable, real: Ino) -> None:
        """Record that the node with this key is now a row of the tree, which its number refers to."""
        # If the key appears again, it is a new node.
        if (ino := self._by_key.pop(key, None)) is not None:
            self._known[ino].real = real

    def real(self, ino: Ino) -> Ino:
        """Return the row that a number refers to; the number itself if there is none."""
        if ino < FIRST:
            return ino
        known = self._known.get(ino)
        return ino if known is None or known.real is None else known.real

    def __len__(self) -> int:
        return len(self._known)

    def handed_over(self) -> dict[str, Any]:
        """Return the assigned numbers, and which of them are rows by now, as JSON."""
        return {"next": self._next, "real": [(ino, one.real) for ino, one in self._known.items() if one.real]}

    def renumbered(self, node: VirtualNode) -> Ino:
        """Assign a new number to a node and return it."""
        self._known.pop(self._by_key.pop(node.key, -1), None)
        return self.use(node)

    def take_over(self, given: dict[str, Any]) -> None:
        """Avoid the numbers that another process has assigned; nodes must be looked up again."""
        self._next = max(self._next, given["next"])
        for ino, real in given["real"]:
            self._known[ino] = _Known(VirtualNode(("handed over", ino)), real=real)

    def _consider(self, ino: Ino) -> None:
        known = self._known[ino]
        if not known.uses and not self._counts.lookups(ino):
            del self._known[ino]
            if self._by_key.get(known.node.key) == ino:
                del self._by_key[known.node.key]


# ---- answers -----------------------------------------------------------------------------------


async def with_deadline(answer: Awaitable[T]) -> T:
    """Return the answer.  Raises `OSError` for errors; an absent name may exist a moment later without a
    notification of the kernel, which therefore must not cache its absence."""
    try:
        with trio.fail_after(DEADLINE_SECONDS):
            return await answer
    except FileNotFoundError as error:
        raise errno_map.TransientEnoent(errno.ENOENT, os.strerror(errno.ENOENT), error.filename) from error
    except trio.TooSlowError as error:
        raise errno_map.oserror(errno.ETIMEDOUT) from error
    except errors.NotFound as error:
        raise errno_map.TransientEnoent(errno.ENOENT, os.strerror(errno.ENOENT), str(error)) from error
    except errors.CmsfsError as error:
        raise errno_map.to_oserror(error) from error
