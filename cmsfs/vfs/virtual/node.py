"""Virtual nodes: folders, files and links that are not items of the account; their inode numbers, and how
long what is asked of them may take.

The trash, the results of a search and the past versions of a file are made of these.  `VirtualFilesystem`
gives them inode numbers and answers the kernel; whoever shows something derives from these classes and says
what it is, what is in it, and what may be done there.  Everything that is not said is refused.

Rows of the tree count up from 1, virtual nodes from far above, so that a number alone says which side
answers; a number is kept while the kernel or a handle uses it.

Rule: a method raises `OSError`, or a `CmsfsError` that `with_deadline` translates; it may wait for the
service, and is given up after `DEADLINE_SECONDS`.
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

# What is shown here is asked for anew after this long, unless a node says otherwise.
TIMEOUT_SECONDS = 1.0

# How long a program waits for what is asked of the service on its behalf.
DEADLINE_SECONDS = 30.0

FIRST: Ino = 1 << 62

T = TypeVar("T")


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
    # Part of the past, which nobody changes: EROFS, whatever is tried.
    is_past = False

    def __init__(self, key: Hashable, *, mtime_ns: int | None = None) -> None:
        self.key = key
        self.mtime_ns = clock.time_ns() if mtime_ns is None else mtime_ns

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
        raise self.refused(name, errno.ENOTSUP)

    def refused(self, name: str = "", number: int = errno.EPERM) -> OSError:
        """What a change that is not to be is answered with."""
        return errno_map.oserror(errno.EROFS if self.is_past else number, name)


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
        raise self.refused(name)

    async def mkdir(self, name: str) -> VirtualNode:
        """Make a folder in it."""
        raise self.refused(name)

    async def symlink(self, name: str, target: bytes) -> VirtualNode:
        """Make a symbolic link in it."""
        raise self.refused(name)

    async def remove(self, name: str, *, folder: bool) -> None:
        """Remove an entry (`unlink`, or `rmdir` where it is a folder)."""
        raise self.refused(name)

    async def rename(self, name: str, into: "VirtualFolder", new_name: str, flags: int) -> None:
        """Rename an entry within what is shown; `into` may be this folder."""
        raise self.refused(name)

    async def move_out(self, name: str, parent: Ino, new_name: str, flags: int) -> tuple[Hashable, Ino]:
        """Move an entry into a folder of the account: the key that it had, and the node that it is there.
        Whether it can be called so there is to be checked here."""
        # EXDEV would make `mv` copy and remove.
        raise self.refused(name)

    async def take_in(self, parent: Ino, name: str, new_name: str, flags: int) -> None:
        """Take in an item of the account; from then on it is not where it was."""
        raise self.refused(new_name)


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
    """Unlisted nodes that belong to an item, under a derived name (`report.odt@versions`).

    `comes_and_goes`: without a change of the tree, so that the kernel must not remember that there is none.
    """

    comes_and_goes = False

    def covers(self, name: str) -> bool:
        """Whether it may stand for something, by the name alone: asked of every name that is looked up in
        vain."""
        return True

    async def find(self, parent: Ino, name: str) -> VirtualNode | None:
        """What such a name stands for in a folder that has no item of the name; None: nothing."""
        return None


# ---- numbers -----------------------------------------------------------------------------------


@dataclass(slots=True)
class _Known:
    node: VirtualNode
    uses: int = 0
    # What it became when it was moved into the account's tree: the row answers from then on.
    real: Ino | None = None


class VirtualInodes:
    """The virtual nodes that somebody may still ask for, by number and by key.

    `counts`: the kernel's lookups are counted with those of the tree, whose numbers are others.
    """

    def __init__(self, counts: Inodes) -> None:
        self._counts = counts
        self._next = FIRST
        self._known: dict[Ino, _Known] = {}
        self._by_key: dict[Hashable, Ino] = {}

    def use(self, node: VirtualNode) -> Ino:
        """The number of a node, kept until `unused`; from now on this object answers for it."""
        ino = self._by_key.get(node.key)
        if ino is None:
            ino, self._next = self._next, self._next + 1
            self._known[ino] = _Known(node)
            self._by_key[node.key] = ino
        self._known[ino].node = node
        self._known[ino].uses += 1
        return ino

    def unused(self, ino: Ino) -> None:
        """One `use` less."""
        self._known[ino].uses -= 1
        self._consider(ino)

    def looked_up(self, ino: Ino) -> None:
        """The kernel holds a lookup more; only of a number that is in use."""
        self._counts.looked_up(ino)

    def forgotten(self, ino: Ino, count: int) -> None:
        self._counts.forgotten(ino, count)
        if ino in self._known:
            self._consider(ino)

    def node(self, ino: Ino) -> VirtualNode:
        """Raises `OSError` (ESTALE) where nobody may ask for the number."""
        if (known := self._known.get(ino)) is None:
            raise errno_map.oserror(errno.ESTALE, f"ino {ino}")
        return known.node

    def folder(self, ino: Ino) -> VirtualFolder:
        """As `node`; `OSError` (ENOTDIR) for what is no folder."""
        node = self.node(ino)
        if not isinstance(node, VirtualFolder):
            raise errno_map.oserror(errno.ENOTDIR)
        return node

    def became(self, key: Hashable, real: Ino) -> None:
        """What has this key is a row of the tree now, which answers for its number."""
        # Should the like of it appear again, it is another one.
        if (ino := self._by_key.pop(key, None)) is not None:
            self._known[ino].real = real

    def real(self, ino: Ino) -> Ino:
        """The row that answers for a number; the number itself if there is none."""
        if ino < FIRST:
            return ino
        known = self._known.get(ino)
        return ino if known is None or known.real is None else known.real

    def __len__(self) -> int:
        return len(self._known)

    def handed_over(self) -> dict[str, Any]:
        """Which numbers were given, and which are rows by now; as JSON has it."""
        return {"next": self._next, "real": [(ino, one.real) for ino, one in self._known.items() if one.real]}

    def renumbered(self, node: VirtualNode) -> Ino:
        """The number of a node from now on, which is another than it had."""
        self._known.pop(self._by_key.pop(node.key, -1), None)
        return self.use(node)

    def take_over(self, given: dict[str, Any]) -> None:
        """Give no number that another process has given; nodes are asked for anew."""
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
    """The answer.  Raises `OSError` for what went wrong; what is absent now may be there in a moment, and
    as nobody would tell the kernel, it must not remember that."""
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
