"""Cache files on disk: paths, open descriptors, reading and writing bytes.

A clean content is `root/ab/<sha1>`, a sparse file of the content's full size; a dirty one is
`dirty_root/<sha1>`.  Descriptors are kept open in a small bounded LRU and are lent out by count,
because a worker thread may still be reading when the content is dropped.

Rule: a file that is missing, has another size than its content, or gives fewer bytes than asked shows
as OSError with ENOENT or EIO: `is_damage` knows both.
"""

import errno
import hashlib
import itertools
import os
from collections import OrderedDict, deque
from pathlib import Path

from cmsfs import durability

# Hashing reads this much at a time: fits the L2 cache together with SHA-1's state.
HASH_CHUNK = 256 * 1024

_GONE = ".gone-"
_COPY = ".copy-"

Bytes = bytes | bytearray | memoryview


class ContentFile:
    """The file of one content and its descriptor, if open.  Only `Files` changes it."""

    __slots__ = ("fd", "path", "retired", "users")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fd = -1
        self.users = 0
        self.retired = False


class ContentFiles:
    """Both folders of the cache and every descriptor into them."""

    def __init__(self, root: Path, dirty_root: Path, *, max_open: int | None = None) -> None:
        self.root = root
        self.dirty_root = dirty_root
        # A share of what this process may have open; opening again costs 5 µs.
        self._max_open = durability.pool_share() if max_open is None else max_open
        self._open: OrderedDict[ContentFile, None] = OrderedDict()
        # Emptied by a worker thread while the loop adds: append and popleft are safe for that.
        self._discarded: deque[Path] = deque()
        self._names = 0
        for folder in (root, dirty_root):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def cached(self, sha1: str) -> Path:
        return self.root / sha1[:2] / sha1

    def dirty(self, sha1: str) -> Path:
        return self.dirty_root / sha1

    def borrow(self, file: ContentFile, *, size: int, writable: bool, create: bool = False) -> int:
        """A descriptor that stays open until `give_back`.  `create` starts the file anew."""
        assert not file.retired, "a content that was dropped is not opened again"
        if file.fd < 0:
            if len(self._open) >= self._max_open:
                self._close_idle(self._max_open - 1)
            file.fd = _open(file.path, size, writable=writable, create=create)
            self._open[file] = None
        else:
            self._open.move_to_end(file)
        file.users += 1
        return file.fd

    def give_back(self, file: ContentFile) -> None:
        file.users -= 1
        if file.retired:
            self.retire(file)
        elif len(self._open) > self._max_open:
            self._close_idle(self._max_open)

    def retire(self, file: ContentFile) -> None:
        """Close the descriptor as soon as nobody uses it."""
        file.retired = True
        if file.users == 0 and file.fd >= 0:
            self._open.pop(file, None)
            os.close(file.fd)
            file.fd = -1

    def _close_idle(self, most: int) -> None:
        """Close the longest unused until no more than `most` are open, but none that is lent out."""
        surplus = len(self._open) - most
        if surplus <= 0:
            return
        idle = itertools.islice((file for file in self._open if not file.users), surplus)
        for file in list(idle):
            del self._open[file]
            os.close(file.fd)
            file.fd = -1

    def discard(self, path: Path) -> None:
        """Take a file out of its place at once; `delete_discarded` removes it (a large one takes long)."""
        grave = self._new_name(_GONE)
        try:
            path.rename(grave)
        except FileNotFoundError:
            return
        self._discarded.append(grave)

    @property
    def has_discarded(self) -> bool:
        return bool(self._discarded)

    def delete_discarded(self) -> None:
        """Remove what was buried; runs in a worker thread."""
        while self._discarded:
            self._discarded.popleft().unlink(missing_ok=True)

    def new_copy(self) -> Path:
        """A name in the cache's own file system for a copy in the making."""
        return self._new_name(_COPY)

    def _new_name(self, prefix: str) -> Path:
        self._names += 1
        return self.root / f"{prefix}{os.getpid()}-{self._names}"

    def close(self) -> None:
        """Close every descriptor; nobody uses the cache any more."""
        for file in list(self._open):
            self.retire(file)
        self.delete_discarded()


def is_left_over(name: str) -> bool:
    """Whether a name in the cache's folder is of a removal or a copy that was interrupted."""
    return name.startswith((_GONE, _COPY))


def is_damage(error: OSError) -> bool:
    """Whether the bytes are not there to be had, rather than something being wrong with the asking."""
    return error.errno in (errno.EIO, errno.ENOENT)


def _open(path: Path, size: int, *, writable: bool, create: bool) -> int:
    flags = os.O_RDWR if writable or create else os.O_RDONLY
    if create:
        flags |= os.O_CREAT | os.O_TRUNC
    try:
        fd = os.open(path, flags, 0o600)
    except FileNotFoundError:
        if not create:
            raise
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(path, flags, 0o600)
    try:
        if create:
            os.ftruncate(fd, size)
        check_size(fd, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def check_size(fd: int, size: int) -> None:
    """A file that was cut would show zeros where its blocks were."""
    if os.fstat(fd).st_size != size:
        raise OSError(errno.EIO, "a content's file does not have the content's size")


def read_now(fd: int, offset: int, length: int) -> bytearray | None:
    """The bytes if all of them are in the page cache, else None.  128 KiB take 8 µs."""
    buffer = bytearray(length)
    try:
        count = os.preadv(fd, [buffer], offset, os.RWF_NOWAIT)
    except OSError as error:
        # EAGAIN: the disk would have to be waited for.  EOPNOTSUPP: the file system cannot tell.
        if error.errno in (errno.EAGAIN, errno.EOPNOTSUPP):
            return None
        raise
    return buffer if count == length else None


def read(fd: int, offset: int, length: int) -> bytearray:
    """The bytes, waiting for the disk; fewer are an OSError with EIO."""
    buffer = bytearray(length)
    view = memoryview(buffer)
    done = 0
    while done < length:
        count = os.preadv(fd, [view[done:]], offset + done)
        if count == 0:
            raise OSError(errno.EIO, "a content's file ends too early")
        done += count
    return buffer


def write(fd: int, size: int, offset: int, data: Bytes) -> str:
    """Put bytes into the file of a content of this size; the SHA-1 if they are all of it."""
    # A file cut by somebody would become whole again through this write, with zeros for blocks.
    check_size(fd, size)
    view = memoryview(data)
    done = 0
    while done < len(view):
        done += os.pwrite(fd, view[done:], offset + done)
    return sha1_of(view) if len(view) == size else ""


def sha1_of(data: Bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def hash_open(fd: int) -> str:
    """The SHA-1 of everything in an open file."""
    digest = hashlib.sha1(usedforsecurity=False)
    buffer = bytearray(HASH_CHUNK)
    view = memoryview(buffer)
    offset = 0
    while count := os.preadv(fd, [buffer], offset):
        digest.update(view[:count])
        offset += count
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """The SHA-1 of a file."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return hash_open(fd)
    finally:
        os.close(fd)
