"""Converts between the file system's values and the kernel's structures.

Called by `operations` alone.

Rule: pure functions; names that are not UTF-8 are rejected here.
"""

import ctypes
import errno
import os
import stat
import sys
from dataclasses import dataclass

import pyfuse3

from cmsfs.vfs.tree import attributes

# The preferred I/O size that programs see.  The kernel asks us for 128 KiB at a time; with the default of
# 4 KiB, buffered writers send 4 KiB requests, which are ten times slower.
BLOCK_SIZE = 128 * 1024

# How long the kernel caches that a name does not exist.  Long, because `notifier` reports names that appear
# remotely, and desktops look up the same absent names (.hidden, .git) all day.
NEGATIVE_TIMEOUT = 300.0

_SECTOR = 512  # the unit of st_blocks, whatever st_blksize says


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of every file of the drive, and the permission bits that are masked out."""

    uid: int
    gid: int
    umask: int = 0


def owner(uid: int | None = None, gid: int | None = None, *, umask: int = 0) -> Owner:
    """Return the owner of a drive that this process mounts: by default its own user and group."""
    return Owner(os.getuid() if uid is None else uid, os.getgid() if gid is None else gid, umask)


def _place_of_number() -> int:
    """Find the offset of the inode number that programs see in `EntryAttributes`; 0 if it is not found.

    The kernel's protocol has two: the node ID used in requests, and the inode number in the attributes.
    pyfuse3 sets both to one value.
    """
    mark = 0x5EED_CAFE_0DD5_F00D
    probe = pyfuse3.EntryAttributes()
    probe.st_ino = mark
    words = ctypes.string_at(id(probe), type(probe).__basicsize__)
    found = [
        at for at in range(0, len(words) - 7, 8) if words[at : at + 8] == mark.to_bytes(8, sys.byteorder)
    ]
    if len(found) != 2:
        return 0
    ctypes.c_uint64.from_address(id(probe) + found[1]).value = 1
    # pyfuse3's `st_ino` reads the other one.
    return found[1] if probe.st_ino == mark else 0


_NUMBER_AT = _place_of_number()


class EntryForm:
    """The kernel's structure for the attributes of nodes, filled anew for each of many: pyfuse3 copies what a
    listing is told.  Making one, with what all nodes have in common, takes longer than filling it."""

    __slots__ = ("_mode_mask", "_number", "_result")

    def __init__(self, owner: Owner) -> None:
        self._mode_mask = ~owner.umask
        self._result = result = pyfuse3.EntryAttributes()
        self._number = ctypes.c_uint64.from_address(id(result) + _NUMBER_AT) if _NUMBER_AT else None
        result.generation = 0  # inode numbers are never reused
        result.st_uid = owner.uid
        result.st_gid = owner.gid
        result.st_rdev = 0
        result.st_blksize = BLOCK_SIZE

    def filled(self, found: attributes.Attributes) -> pyfuse3.EntryAttributes:
        """Convert a node's attributes for the kernel; valid until the next call."""
        result = self._result
        ino, mode, size, nlink, atime_ns, mtime_ns, ctime_ns, timeout, number = found
        result.st_ino = ino
        if number and self._number is not None:
            self._number.value = number
        result.entry_timeout = timeout
        result.attr_timeout = timeout
        result.st_mode = mode & self._mode_mask
        result.st_nlink = nlink
        result.st_size = size
        result.st_blocks = -(-size // _SECTOR)
        result.st_atime_ns = atime_ns
        result.st_mtime_ns = mtime_ns
        result.st_ctime_ns = ctime_ns
        return result


def entry(found: attributes.Attributes, owner: Owner) -> pyfuse3.EntryAttributes:
    """Convert a node's attributes for the kernel."""
    return EntryForm(owner).filled(found)


def writable(found: pyfuse3.EntryAttributes) -> pyfuse3.EntryAttributes:
    """Make the attributes writable for their owner, in this answer only: the kernel does not cache it."""
    found.st_mode |= 0o700 if stat.S_ISDIR(found.st_mode) else 0o600
    found.attr_timeout = 0.0
    return found


def folder_entry(ino: int) -> pyfuse3.EntryAttributes:
    """Return attributes of a folder with only its inode number and type, as a listing needs."""
    result = pyfuse3.EntryAttributes()
    result.st_ino = ino
    result.st_mode = stat.S_IFDIR | 0o755
    return result


def absent() -> pyfuse3.EntryAttributes:
    """Return a negative entry, which the kernel may cache (unlike a plain ENOENT)."""
    result = pyfuse3.EntryAttributes()
    result.st_ino = 0
    result.entry_timeout = NEGATIVE_TIMEOUT
    return result


def file_info(opened: attributes.OpenResult) -> pyfuse3.FileInfo:
    """Convert an open file for the kernel; `keep_cache` is always given, since pyfuse3's default is True."""
    return pyfuse3.FileInfo(fh=opened.fh, keep_cache=opened.keep_cache, direct_io=opened.direct_io)


def idle_file(fh: int) -> pyfuse3.FileInfo:
    """Return a handle that leaves the file's cached pages alone."""
    return pyfuse3.FileInfo(fh=fh, keep_cache=True, direct_io=False)


def changes(
    wanted: pyfuse3.EntryAttributes, fields: pyfuse3.SetattrFields, owner: Owner
) -> attributes.SetAttr:
    """Convert a setattr request; callers cannot set the change time, and setting the current owner is no
    change."""
    return attributes.SetAttr(
        size=wanted.st_size if fields.update_size else None,
        mode=wanted.st_mode & 0o7777 if fields.update_mode else None,
        uid=wanted.st_uid if fields.update_uid and wanted.st_uid != owner.uid else None,
        gid=wanted.st_gid if fields.update_gid and wanted.st_gid != owner.gid else None,
        atime_ns=wanted.st_atime_ns if fields.update_atime else None,
        mtime_ns=wanted.st_mtime_ns if fields.update_mtime else None,
    )


def statvfs(room: attributes.Statfs) -> pyfuse3.StatvfsData:
    """Convert the totals that df shows; nothing is reserved for root."""
    result = pyfuse3.StatvfsData()
    result.f_bsize = room.block_size
    result.f_frsize = room.block_size
    result.f_blocks = room.blocks
    result.f_bfree = room.blocks_free
    result.f_bavail = room.blocks_free
    result.f_files = room.files
    result.f_ffree = room.files_free
    result.f_favail = room.files_free
    result.f_namemax = room.name_max
    return result


def known_name(raw: bytes) -> str:
    """Decode the name of an existing entry.  None is not UTF-8, so such a name is `FileNotFoundError`."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from None


def new_name(raw: bytes) -> str:
    """Decode the name of a new entry.  The service cannot store one that is not UTF-8: `OSError` EILSEQ,
    whose text ("Invalid or incomplete multibyte …") tells the user what is wrong, unlike EINVAL."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise OSError(errno.EILSEQ, os.strerror(errno.EILSEQ)) from None


def raw_name(name: str) -> bytes:
    """Encode a name for the kernel; never fails, so that a listing does not end halfway."""
    return name.encode("utf-8", "surrogatepass")
