"""Return values of file system calls: plain types, independent of the kernel protocol."""

import stat
from dataclasses import dataclass
from typing import NamedTuple

from cmsfs.replica.nodes import Ino, Node, NodeKind

_TYPES = {NodeKind.FOLDER: stat.S_IFDIR, NodeKind.SYMLINK: stat.S_IFLNK}

# Attribute cache time while online: the kernel is notified of all remote changes.
TIMEOUT_SECONDS = 300.0
# While offline, remote changes are unknown, so the kernel should ask again soon.
OFFLINE_TIMEOUT_SECONDS = 1.0

_BLOCK = 4096
_UNLIMITED = 1 << 50


# Objects created for each entry of a folder are tuples: a frozen dataclass takes four times as long.


class Attributes(NamedTuple):
    """The result of `stat`; `mode` includes the file type, `timeout` is the cache time in seconds."""

    ino: Ino
    mode: int
    size: int
    nlink: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    timeout: float
    number: int = 0  # the inode number shown to programs; 0: `ino`, the kernel's


@dataclass(frozen=True, slots=True)
class SetAttr:
    """The changes of a `setattr` call; None leaves an attribute unchanged."""

    size: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


class DirEntry(NamedTuple):
    """One entry of a folder; `cookie` is the position after it."""

    name: str
    attributes: Attributes
    cookie: int


@dataclass(frozen=True, slots=True)
class OpenResult:
    """An open file.  `keep_cache`: the kernel's pages are of this version; `direct_io`: it must not cache
    pages; `is_news`: its cached size may be of another version, and reads would end there."""

    fh: int
    keep_cache: bool = False
    direct_io: bool = False
    is_news: bool = False


@dataclass(frozen=True, slots=True)
class Statfs:
    """The result of `statfs`, in units of `block_size`."""

    block_size: int
    blocks: int
    blocks_free: int
    files: int
    files_free: int
    name_max: int


def timeout(*, is_online: bool) -> float:
    """Return how long the kernel may cache attributes, in seconds."""
    return TIMEOUT_SECONDS if is_online else OFFLINE_TIMEOUT_SECONDS


def of_node(
    node: Node, *, mode: int, timeout: float, size: int | None = None, mtime_ns: int | None = None
) -> Attributes:
    """Return the attributes of a node with these permission bits; `size` and `mtime_ns` are those of its
    draft, if it has one in memory."""
    mtime = node.mtime_ns if mtime_ns is None else mtime_ns
    # Positional arguments: keyword arguments take twice as long.
    return Attributes(
        node.ino,
        _TYPES.get(node.kind, stat.S_IFREG) | mode,
        node.size if size is None else size,
        # 1 for folders too: programs read it as "the number of subfolders is unknown".
        0 if node.parent is None and node.ino > 2 else 1,
        mtime if node.atime_ns is None else node.atime_ns,
        mtime,
        max(node.ctime_ns, mtime) if mtime_ns is not None else node.ctime_ns,
        timeout,
        node.number or 0,
    )


def of_space(space: tuple[int, int] | None) -> Statfs:
    """Return the `statfs` result for the total and used bytes of an account; an unlimited (not positive) or
    unknown total is shown as one pebibyte."""
    total, used = space or (0, 0)
    blocks = max(total if total > 0 else _UNLIMITED, used) // _BLOCK
    return Statfs(_BLOCK, blocks, blocks - used // _BLOCK, files=1 << 32, files_free=1 << 31, name_max=255)


def clamped_time(time_ns: int | None) -> int | None:
    """Clamp a time in nanoseconds to the range of a row, from 1677 to 2262."""
    return None if time_ns is None else min(max(time_ns, -(2**63)), 2**63 - 1)
