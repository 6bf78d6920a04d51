"""What the kernel and programs hold of the drive, in a file in memory that outlives the daemon.

Whoever starts the next daemon keeps the file open; the daemon writes into it as into its own memory, which
costs no call, and what it had written is there after a `kill -9`.

    head      the format, whose helper asks through the mount, numbers that were given, the ground's mode
    notes     requests that must not be carried out twice: which, and what was there before
    handles   open files and folders: number, inode, flags
    lookups   two bytes for each inode, as `replica.inodes` counts them
    contents  what open virtual files are read from, where that is short

Rule: written before the kernel hears of it, and taken back after: what is wrong after a crash is too much,
and never too little.
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

# Whoever changes the layout counts on.
FORMAT = 1
_MAGIC = b"cmsfs\0"

# Magic, format, helper, slots of handles in use, highest virtual inode, highest virtual handle.
_HEAD = struct.Struct("<6sHIIQQ")
_ABOUT = 512

_NOTES = 4096
NOTES = 1024
_NOTE = 4096

_HANDLES = _NOTES + NOTES * _NOTE
HANDLES = 1 << 20
# Number, inode, flags; the number 0 is nobody's.
_HANDLE = struct.Struct("<QQq")

_LOOKUPS = _HANDLES + HANDLES * _HANDLE.size
# Two bytes each; the file takes up room only where something is written.
INODES = 1 << 28
_CONTENTS = _LOOKUPS + 2 * INODES
CONTENTS = 1024
_CONTENT = 1 << 14
# Handle and length of each.
_CONTENT_HEAD = struct.Struct("<QQ")
_CONTENT_DATA = _CONTENTS + CONTENTS * _CONTENT_HEAD.size
SIZE = _CONTENT_DATA + CONTENTS * _CONTENT
_MOST = 0xFFFF
# As `replica.inodes` has them.
_PAGE = 1024


@dataclass(frozen=True, slots=True)
class RequestNote:
    """A request that was begun: its kind and what it names, who waits for it, what was under the names before
    it, and the handle that it has made."""

    key: tuple[Any, ...]
    pid: int
    before: tuple[Ino, ...] = ()
    fh: int = 0


class CrashRecord:
    """The file, mapped; `fd` is its descriptor, which closes with it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < SIZE:
            os.ftruncate(fd, SIZE)  # it was begun by a version that kept less
        self._map = mmap.mmap(fd, SIZE)
        self._counts = memoryview(self._map)[_LOOKUPS:_CONTENTS].cast("H")
        magic, form, self._helper, self._used, self._top, self._top_fh = _HEAD.unpack_from(self._map)
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
        """An empty one.  Raises `OSError`."""
        fd = os.memfd_create("cmsfs-record", os.MFD_CLOEXEC)
        os.ftruncate(fd, SIZE)
        os.pwrite(fd, _HEAD.pack(_MAGIC, FORMAT, 0, 0, FIRST, FIRST), 0)
        return cls(fd)

    def close(self) -> None:
        self._counts.release()
        self._map.close()
        os.close(self.fd)

    def describe(self, *, mode: int, fixed: Sequence[str]) -> None:
        """What the drive is: the mode of the folder below it, and its virtual folders at the root."""
        about = json.dumps({"mode": mode, "fixed": list(fixed)}).encode()
        self._map[_ABOUT : _ABOUT + 4 + len(about)] = len(about).to_bytes(4, "little") + about

    @property
    def about(self) -> dict[str, Any]:
        """As it was described."""
        size = int.from_bytes(self._map[_ABOUT : _ABOUT + 4], "little")
        found: dict[str, Any] = json.loads(self._map[_ABOUT + 4 : _ABOUT + 4 + size])
        return found

    def _note_head(self) -> None:
        now = _HEAD.pack(_MAGIC, FORMAT, self._helper, self._used, self._top, self._top_fh)
        self._map[: len(now)] = now

    # ---- the helper ----

    @property
    def helper(self) -> int:
        """The process that asks through the mount on the daemon's behalf; 0 for none."""
        return int(self._helper)

    @helper.setter
    def helper(self, pid: int) -> None:
        self._helper = pid
        self._note_head()

    # ---- lookups ----

    def looked_up(self, ino: Ino) -> None:
        if ino >= FIRST:
            if ino > self._top:
                self._top = ino
                self._note_head()
        elif ino != ROOT and ino < INODES and (count := self._counts[ino]) < _MOST:
            self._counts[ino] = count + 1

    def forgotten(self, ino: Ino, count: int) -> None:
        # One that went on and on is counted no more, and stays.
        if ino < INODES and (before := self._counts[ino]) < _MOST:
            self._counts[ino] = max(0, before - count)

    def known(self) -> Iterator[Ino]:
        """The inodes of the tree that the kernel holds."""
        for first, page in self._pages():
            for place, count in enumerate(memoryview(page).cast("H")):
                if count:
                    yield first + place

    def lookups(self) -> dict[str, Any]:
        """As `replica.inodes` unpacks them."""
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
                return  # there is nothing behind it
            if place >= _CONTENTS:
                return
            place -= (place - _LOOKUPS) % (2 * _PAGE)
            page = os.pread(self.fd, 2 * _PAGE, max(place, _LOOKUPS))
            if place >= _LOOKUPS and any(page):
                yield (place - _LOOKUPS) // 2, page
            place += 2 * _PAGE

    # ---- handles ----

    def opened(self, fh: int, ino: Ino, flags: int) -> None:
        """An open file, with its flags, or -1 for a folder.  Raises `OSError` (ENFILE)."""
        if fh >= FIRST and fh > self._top_fh:
            self._top_fh = fh
            self._note_head()
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
        self._note_head()

    def closed(self, fh: int) -> None:
        if (slot := self._slots.pop(fh, None)) is not None:
            _HANDLE.pack_into(self._map, _HANDLES + slot * _HANDLE.size, 0, 0, 0)
            self._free.append(slot)
        if (kept := self._contents.pop(fh, None)) is not None:
            _CONTENT_HEAD.pack_into(self._map, _CONTENTS + kept * _CONTENT_HEAD.size, 0, 0)

    def has(self, fh: int) -> bool:
        return fh in self._slots

    def reads_from(self, fh: int, data: object) -> None:
        """What an open virtual file is read from, as JSON has it; nothing if it is long, or too many are."""
        text = json.dumps(data).encode()
        if len(text) > _CONTENT or len(self._contents) == CONTENTS:
            return
        taken = set(self._contents.values())
        slot = next(slot for slot in range(CONTENTS) if slot not in taken)
        at = _CONTENT_DATA + slot * _CONTENT
        self._map[at : at + len(text)] = text
        _CONTENT_HEAD.pack_into(self._map, _CONTENTS + slot * _CONTENT_HEAD.size, fh, len(text))
        self._contents[fh] = slot

    def contents(self) -> list[tuple[int, Any]]:
        """The virtual files whose contents are known, and what they are read from."""
        found = []
        for fh, slot in self._contents.items():
            _, size = _CONTENT_HEAD.unpack_from(self._map, _CONTENTS + slot * _CONTENT_HEAD.size)
            at = _CONTENT_DATA + slot * _CONTENT
            found.append((fh, json.loads(self._map[at : at + size])))
        return found

    def handles(self) -> list[tuple[int, Ino, int]]:
        """Number, inode and flags of each that is open."""
        return [self._handle(slot) for slot in self._slots.values()]

    @property
    def highest(self) -> tuple[Ino, int]:
        """The highest number that was given to a virtual inode, and to a handle on one."""
        return self._top, self._top_fh

    def _handle(self, slot: int) -> tuple[int, Ino, int]:
        fh, ino, flags = _HANDLE.unpack_from(self._map, _HANDLES + slot * _HANDLE.size)
        return fh, ino, flags

    # ---- requests ----

    def begun(self, note: RequestNote) -> None:
        """A request is carried out from now on, or has made a handle.

        A program's thread waits for one at a time: so the last of each thread is kept."""
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

    def notes(self) -> list[RequestNote]:
        """The last request of each thread."""
        found = []
        for slot in range(NOTES):
            at = _NOTES + slot * _NOTE
            if size := int.from_bytes(self._map[at : at + 4], "little"):
                key, pid, before, fh = json.loads(self._map[at + 4 : at + 4 + size])
                found.append(RequestNote(tuple(key), pid, tuple(before), fh))
        return found

    def forget_requests(self) -> None:
        """All of them are answered, or will be asked anew."""
        for slot in range(NOTES):
            at = _NOTES + slot * _NOTE
            if any(self._map[at : at + 4]):
                self._map[at : at + 4] = bytes(4)
        self._noted.clear()
