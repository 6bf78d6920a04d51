"""State that the kernel and programs hold of the drive, in a memory file that outlives the daemon.

Whoever starts the next daemon keeps the file open.  The daemon writes to it through a memory map, which
costs no system call, and everything written survives a `kill -9`.

    head      the format, the PID of the echo process, the highest numbers given, data about the mount
    notes     requests that must not be carried out twice: which, and the state before each
    handles   open files and folders: number, inode, flags
    lookups   two bytes for each inode, as `replica.inodes` counts them
    contents  where the contents of open virtual files come from, if that is short

Rule: an entry is written before the kernel learns of it and removed after the kernel has dropped it: after
a crash the record may contain too much, never too little.
"""

import errno
import json
import mmap
import os
import struct
from base64 import b64encode
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.vfs.virtual.node import FIRST

# Increase it when the layout changes.
FORMAT = 1
_MAGIC = b"cmsfs\0"

# Magic, format, PID of the echo process, handle slots in use, highest virtual inode and handle.
_HEAD = struct.Struct("<6sHIIQQ")
_ABOUT = 512

_NOTES = 4096
NOTES = 1024
_NOTE = 4096

_HANDLES = _NOTES + NOTES * _NOTE
HANDLES = 1 << 20
# Number, inode, flags; number 0 marks a free slot.
_HANDLE = struct.Struct("<QQq")

_LOOKUPS = _HANDLES + HANDLES * _HANDLE.size
# Two bytes each; the file is sparse.
INODES = 1 << 28
_CONTENTS = _LOOKUPS + 2 * INODES
CONTENTS = 1024
_CONTENT = 1 << 14
# Handle and length of each.
_CONTENT_HEAD = struct.Struct("<QQ")
_CONTENT_DATA = _CONTENTS + CONTENTS * _CONTENT_HEAD.size
SIZE = _CONTENT_DATA + CONTENTS * _CONTENT
_MOST = 0xFFFF
# The page size of `replica.inodes`.
_PAGE = 1024


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that was started: its kind and names, the thread that waits for it, the nodes at those names
    before it, and the handle it opened."""

    key: tuple[Any, ...]
    pid: int
    before: tuple[Ino, ...] = ()
    fh: int = 0


class CrashRecord:
    """The memory-mapped record; `close` also closes its descriptor `fd`."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < SIZE:
            os.ftruncate(fd, SIZE)  # an older version created a shorter one
        self._map = mmap.mmap(fd, SIZE)
        self._counts = memoryview(self._map)[_LOOKUPS:_CONTENTS].cast("H")
        magic, form, self._echo_pid, self._used, self._top, self._top_fh = _HEAD.unpack_from(self._map)
        if (magic, form) != (_MAGIC, FORMAT):
            raise ValueError(f"a record of format {form}")
        self._slots: dict[int, int] = {}
        self._free: list[int] = []
        for slot in range(self._used):
            fh, _, _ = self._handle(slot)
            if fh:
                self._slots[fh] = slot
            else:
                self._free.append(slot)
        self._noted: OrderedDict[object, int] = OrderedDict()
        heads = enumerate(_CONTENT_HEAD.iter_unpack(self._map[_CONTENTS:_CONTENT_DATA]))
        self._contents = {fh: slot for slot, (fh, _) in heads if fh}

    @classmethod
    def create(cls) -> "CrashRecord":
        """Return an empty record.  Raises `OSError`."""
        fd = os.memfd_create("cmsfs-record", os.MFD_CLOEXEC)
        os.ftruncate(fd, SIZE)
        os.pwrite(fd, _HEAD.pack(_MAGIC, FORMAT, 0, 0, FIRST, FIRST), 0)
        return cls(fd)

    def close(self) -> None:
        self._counts.release()
        self._map.close()
        os.close(self.fd)

    def describe(self, *, mode: int, fixed: Sequence[str]) -> None:
        """Store the mode of the folder below the mount and the virtual folders at the root."""
        about = json.dumps({"mode": mode, "fixed": list(fixed)}).encode()
        self._map[_ABOUT : _ABOUT + 4 + len(about)] = len(about).to_bytes(4, "little") + about

    @property
    def about(self) -> dict[str, Any]:
        """The data that `describe` stored."""
        size = int.from_bytes(self._map[_ABOUT : _ABOUT + 4], "little")
        found: dict[str, Any] = json.loads(self._map[_ABOUT + 4 : _ABOUT + 4 + size])
        return found

    def _write_head(self) -> None:
        now = _HEAD.pack(_MAGIC, FORMAT, self._echo_pid, self._used, self._top, self._top_fh)
        self._map[: len(now)] = now

    # ---- the echo process ----

    @property
    def echo_pid(self) -> int:
        """PID of the process that makes requests through the mount for the daemon; 0 for none."""
        return int(self._echo_pid)

    @echo_pid.setter
    def echo_pid(self, pid: int) -> None:
        self._echo_pid = pid
        self._write_head()

    # ---- lookups ----

    def count_lookup(self, ino: Ino) -> None:
        if ino >= FIRST:
            if ino > self._top:
                self._top = ino
                self._write_head()
        elif ino != ROOT and ino < INODES and (count := self._counts[ino]) < _MOST:
            self._counts[ino] = count + 1

    def count_forget(self, ino: Ino, count: int) -> None:
        # A saturated count is not decreased, so the inode stays.
        if ino < INODES and (before := self._counts[ino]) < _MOST:
            self._counts[ino] = max(0, before - count)

    def known_inodes(self) -> Iterator[Ino]:
        """Yield the inodes of the tree that the kernel holds."""
        for first, page in self._pages():
            for place, count in enumerate(memoryview(page).cast("H")):
                if count:
                    yield first + place

    def lookups(self) -> dict[str, Any]:
        """Return the lookup counts in the form that `replica.inodes` unpacks."""
        return {
            "pages": {str(first // _PAGE): b64encode(page).decode() for first, page in self._pages()},
            "beyond": [],
        }

    def _pages(self) -> Iterator[tuple[Ino, bytes]]:
        place = _LOOKUPS
        while True:
            try:
                place = os.lseek(self.fd, place, os.SEEK_DATA)
            except OSError:
                return  # no data beyond this offset
            if place >= _CONTENTS:
                return
            place -= (place - _LOOKUPS) % (2 * _PAGE)
            page = os.pread(self.fd, 2 * _PAGE, max(place, _LOOKUPS))
            if place >= _LOOKUPS and any(page):
                yield (place - _LOOKUPS) // 2, page
            place += 2 * _PAGE

    # ---- handles ----

    def add_handle(self, fh: int, ino: Ino, flags: int) -> None:
        """Record an open file with its flags, or a folder with -1.  Raises `OSError` (ENFILE)."""
        if fh >= FIRST and fh > self._top_fh:
            self._top_fh = fh
            self._write_head()
        if self._free:
            slot = self._free.pop()
        elif self._used < HANDLES:
            slot, self._used = self._used, self._used + 1
        else:
            raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))
        at = _HANDLES + slot * _HANDLE.size
        _HANDLE.pack_into(self._map, at, 0, ino, flags)
        _HANDLE.pack_into(self._map, at, fh, ino, flags)
        self._slots[fh] = slot
        self._write_head()

    def remove_handle(self, fh: int) -> None:
        if (slot := self._slots.pop(fh, None)) is not None:
            _HANDLE.pack_into(self._map, _HANDLES + slot * _HANDLE.size, 0, 0, 0)
            self._free.append(slot)
        if (kept := self._contents.pop(fh, None)) is not None:
            _CONTENT_HEAD.pack_into(self._map, _CONTENTS + kept * _CONTENT_HEAD.size, 0, 0)

    def has_handle(self, fh: int) -> bool:
        return fh in self._slots

    def add_content_source(self, fh: int, data: object) -> None:
        """Store where the contents of an open virtual file come from (JSON), unless too long or too many."""
        text = json.dumps(data).encode()
        if len(text) > _CONTENT or len(self._contents) == CONTENTS:
            return
        taken = set(self._contents.values())
        slot = next(slot for slot in range(CONTENTS) if slot not in taken)
        at = _CONTENT_DATA + slot * _CONTENT
        self._map[at : at + len(text)] = text
        _CONTENT_HEAD.pack_into(self._map, _CONTENTS + slot * _CONTENT_HEAD.size, fh, len(text))
        self._contents[fh] = slot

    def content_sources(self) -> list[tuple[int, Any]]:
        """Return the stored sources of open virtual files, by handle."""
        found = []
        for fh, slot in self._contents.items():
            _, size = _CONTENT_HEAD.unpack_from(self._map, _CONTENTS + slot * _CONTENT_HEAD.size)
            at = _CONTENT_DATA + slot * _CONTENT
            found.append((fh, json.loads(self._map[at : at + size])))
        return found

    def handles(self) -> list[tuple[int, Ino, int]]:
        """Return number, inode and flags of each open handle."""
        return [self._handle(slot) for slot in self._slots.values()]

    @property
    def highest(self) -> tuple[Ino, int]:
        """The highest number given to a virtual inode, and the highest given to a virtual handle."""
        return self._top, self._top_fh

    def _handle(self, slot: int) -> tuple[int, Ino, int]:
        fh, ino, flags = _HANDLE.unpack_from(self._map, _HANDLES + slot * _HANDLE.size)
        return fh, ino, flags

    # ---- requests ----

    def add_request(self, note: RequestRecord) -> None:
        """Record a request that starts now, or has opened a handle.

        A thread waits for one request at a time, so only the last one of each thread is kept."""
        who = note.pid or note.key
        slot = self._noted.pop(who, None)
        if slot is None:
            slot = self._noted.popitem(last=False)[1] if len(self._noted) == NOTES else len(self._noted)
        self._noted[who] = slot
        text = json.dumps([note.key, note.pid, note.before, note.fh]).encode()
        at = _NOTES + slot * _NOTE
        self._map[at : at + 4] = bytes(4)
        self._map[at + 4 : at + 4 + len(text)] = text
        self._map[at : at + 4] = len(text).to_bytes(4, "little")

    def requests(self) -> list[RequestRecord]:
        """Return the last request of each thread."""
        found = []
        for slot in range(NOTES):
            at = _NOTES + slot * _NOTE
            if size := int.from_bytes(self._map[at : at + 4], "little"):
                key, pid, before, fh = json.loads(self._map[at + 4 : at + 4 + size])
                found.append(RequestRecord(tuple(key), pid, tuple(before), fh))
        return found

    def clear_requests(self) -> None:
        """Remove all requests: they are answered, or the kernel will send them again."""
        for slot in range(NOTES):
            at = _NOTES + slot * _NOTE
            if any(self._map[at : at + 4]):
                self._map[at : at + 4] = bytes(4)
        self._noted.clear()
