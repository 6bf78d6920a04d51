"""Return values of file system calls: plain types, independent of the kernel protocol."""

import stat
from dataclasses import dataclass
from typing import NamedTuple

from cmsfs.replica.nodes import Ino, Node, NodeKind

_TYPES = {NodeKind.FOLDER: stat.S_IFDIR, NodeKind.SYMLINK: stat.S_IFLNK}

# We tell the kernel of every change that we hear of, so it may rely on what it knows.
TIMEOUT_SECONDS = 300.0
# While nothing can be heard, it had better ask again.
OFFLINE_TIMEOUT_SECONDS = 1.0

_BLOCK = 4096
_UNLIMITED = 1 << 50


# What is made for each entry of a folder is a tuple: a frozen dataclass takes four times as long to make.


class Attributes(NamedTuple):
    """What `stat` shows; `mode` includes the file type, `timeout` (seconds) is how long it holds."""

    ino: Ino
    mode: int
    size: int
    nlink: int
    atime_ns: int
    mtime_ns: int
    ctime_ns: int
    timeout: float
    number: int = 0  # the inode number that programs see; 0: `ino`, by which the kernel names it


@dataclass(frozen=True, slots=True)
class SetAttr:
    """What `setattr` is asked to change; None leaves as it is."""

    size: int | None = None
    mode: int | None = None
    uid: int | None = None
    gid: int | None = None
    atime_ns: int | None = None
    mtime_ns: int | None = None


class DirEntry(NamedTuple):
    """One entry of a folder; `cookie` continues the reading behind it."""

    name: str
    attributes: Attributes
    cookie: int


@dataclass(frozen=True, slots=True)
class OpenResult:
    """An open file: `keep_cache`: the kernel's pages are of this version; `direct_io`: it must keep none;
    `is_news`: the size that the kernel remembers may be another version's, and reads would end there."""

    fh: int
    keep_cache: bool = False
    direct_io: bool = False
    is_news: bool = False


@dataclass(frozen=True, slots=True)
class Statfs:
    """What `df` shows, in units of `block_size`."""

    block_size: int
    blocks: int
    blocks_free: int
    files: int
    files_free: int
    name_max: int


def timeout(*, is_online: bool) -> float:
    """How long the kernel may rely on what it is told now."""
    return TIMEOUT_SECONDS if is_online else OFFLINE_TIMEOUT_SECONDS


def of_node(
    node: Node, *, mode: int, timeout: float, size: int | None = None, mtime_ns: int | None = None
) -> Attributes:
    """The attributes of a node with these permission bits; `size` and `mtime_ns` are those of its draft, if
    it has one in memory."""
    mtime = node.mtime_ns if mtime_ns is None else mtime_ns
    # In the order of the fields: by their names it takes twice as long.
    return Attributes(
        node.ino,
        _TYPES.get(node.kind, stat.S_IFREG) | mode,
        node.size if size is None else size,
        # 1 for folders too: "the number of subfolders is not known", as programs understand it.
        0 if node.parent is None and node.ino > 2 else 1,
        mtime if node.atime_ns is None else node.atime_ns,
        mtime,
        max(node.ctime_ns, mtime) if mtime_ns is not None else node.ctime_ns,
        timeout,
        node.number or 0,
    )


def of_space(space: tuple[int, int] | None) -> Statfs:
    """What `df` shows of the bytes an account may use and has used; unlimited (not positive) and unknown
    show as one pebibyte."""
    total, used = space or (0, 0)
    blocks = max(total if total > 0 else _UNLIMITED, used) // _BLOCK
    return Statfs(_BLOCK, blocks, blocks - used // _BLOCK, files=1 << 32, files_free=1 << 31, name_max=255)


def clamped_time(time_ns: int | None) -> int | None:
    """A time as a row can have it, from 1677 to 2262; what lies beyond becomes the nearest."""
    return None if time_ns is None else min(max(time_ns, -(2**63)), 2**63 - 1)
