"""Encodes a ZIP archive entry by entry, for an output that cannot seek.

An entry whose bytes are in memory is stored with its size and checksum up front, which every reader supports.
For a larger one both are known only after its data: it is marked as deflated and consists of stored
(uncompressed) blocks, because readers find the end of a deflate stream by themselves.  ZIP64 is used for
sizes above 4 GiB and for many entries.

Rule: names are UTF-8 and flagged so; of each entry only its line in the central directory is kept.
"""

import struct
import time
import zlib
from dataclasses import dataclass

_STORED, _DEFLATED = 0, 8
_UTF8, _SIZES_AFTER = 0x800, 0x008
_LARGE = 0xFFFFFFFF
_MANY = 0xFFFF
_UNIX = 3 << 8
_FILE_MODE, _FOLDER_MODE = 0o100644 << 16, (0o040755 << 16) | 0x10
_VERSION, _VERSION_64 = 20, 45

# From this size on, the block headers may push an entry above 4 GiB.
_PERHAPS_LARGE = _LARGE - (1 << 20)


@dataclass(slots=True)
class _Entry:
    name: bytes
    modified: int  # Unix time in seconds
    method: int
    flags: int
    attributes: int
    at: int
    is_64: bool = False
    crc: int = 0
    packed: int = 0
    size: int = 0


class ZipWriter:
    """Each method returns the next bytes of the archive."""

    def __init__(self) -> None:
        self._at = 0
        self._directory: list[bytes] = []
        self._open: _Entry | None = None
        self._blocks = zlib.compressobj(0, zlib.DEFLATED, -15)

    def folder(self, path: str, modified: int) -> bytes:
        """Return a folder entry; the path ends with a slash."""
        return self._whole(path, b"", modified, _FOLDER_MODE)

    def file(self, path: str, data: bytes, modified: int) -> bytes:
        """Return a file entry with all of its bytes."""
        return self._whole(path, data, modified, _FILE_MODE)

    def begin(self, path: str, size: int, modified: int) -> bytes:
        """Begin a file entry whose data follows: call `more` for each chunk, then `end`."""
        entry = _Entry(_encoded(path), modified, _DEFLATED, _UTF8 | _SIZES_AFTER, _FILE_MODE, self._at)
        entry.is_64 = size > _PERHAPS_LARGE
        self._open = entry
        self._blocks = zlib.compressobj(0, zlib.DEFLATED, -15)
        return self._sent(_local(entry))

    def more(self, data: bytes) -> bytes:
        """Return the next bytes of the current entry."""
        assert self._open is not None
        self._open.crc = zlib.crc32(data, self._open.crc)
        self._open.size += len(data)
        return self._packed(self._blocks.compress(data))

    def end(self) -> bytes:
        """Return the end of the current entry."""
        assert self._open is not None
        entry, last = self._open, self._packed(self._blocks.flush())
        sizes = "<4sL2Q" if entry.is_64 else "<4s3L"
        after = struct.pack(sizes, b"PK\x07\x08", entry.crc, entry.packed, entry.size)
        self._directory.append(_central(entry))
        self._open = None
        return last + self._sent(after)

    def close(self) -> bytes:
        """Return the central directory, which ends the archive."""
        start, count = self._at, len(self._directory)
        lines = b"".join(self._directory)
        found = self._sent(lines)
        if count >= _MANY or max(start, len(lines)) >= _LARGE:
            at = self._at
            found += struct.pack(
                "<4sQ2H2L4Q",
                *(b"PK\x06\x06", 44, _UNIX | _VERSION_64, _VERSION_64, 0, 0),
                *(count, count, len(lines), start),
            )
            found += struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
        return found + struct.pack(
            "<4s4H2LH",
            *(b"PK\x05\x06", 0, 0, min(count, _MANY), min(count, _MANY)),
            *(min(len(lines), _LARGE), min(start, _LARGE), 0),
        )

    def _whole(self, path: str, data: bytes, modified: int, attributes: int) -> bytes:
        entry = _Entry(_encoded(path), modified, _STORED, _UTF8, attributes, self._at)
        entry.crc, entry.size, entry.packed = zlib.crc32(data), len(data), len(data)
        self._directory.append(_central(entry))
        return self._sent(_local(entry) + data)

    def _packed(self, data: bytes) -> bytes:
        assert self._open is not None
        self._open.packed += len(data)
        return self._sent(data)

    def _sent(self, data: bytes) -> bytes:
        self._at += len(data)
        return data


def _encoded(path: str) -> bytes:
    return path.encode("utf-8", "replace")


def _when(modified: int) -> tuple[int, int]:
    """Return the DOS time and date, in UTC, limited to 1980 to 2107."""
    moment = time.gmtime(min(max(modified, 315_532_800), 4_354_819_198))
    clock = moment.tm_hour << 11 | moment.tm_min << 5 | moment.tm_sec // 2
    return clock, (moment.tm_year - 1980) << 9 | moment.tm_mon << 5 | moment.tm_mday


def _stamp(entry: _Entry) -> bytes:
    """Return the extra field with the Unix time, which is UTC in whole seconds."""
    return struct.pack("<2HBl", 0x5455, 5, 1, min(max(entry.modified, -(2**31)), 2**31 - 1))


def _local(entry: _Entry) -> bytes:
    extra, packed, size = _stamp(entry), entry.packed, entry.size
    if entry.is_64:
        extra, packed, size = extra + struct.pack("<2H2Q", 1, 16, 0, 0), _LARGE, _LARGE
    crc = 0 if entry.flags & _SIZES_AFTER else entry.crc
    return struct.pack(
        "<4s5H3L2H",
        *(b"PK\x03\x04", _VERSION_64 if entry.is_64 else _VERSION, entry.flags, entry.method),
        *(*_when(entry.modified), crc, packed, size, len(entry.name), len(extra)),
    ) + (entry.name + extra)


def _central(entry: _Entry) -> bytes:
    large = [one for one in (entry.size, entry.packed, entry.at) if one >= _LARGE]
    extra = _stamp(entry)
    if large:
        extra += struct.pack(f"<2H{len(large)}Q", 1, 8 * len(large), *large)
    needed = _VERSION_64 if large or entry.is_64 else _VERSION
    return struct.pack(
        "<4s6H3L5H2L",
        *(b"PK\x01\x02", _UNIX | _VERSION_64, needed, entry.flags, entry.method, *_when(entry.modified)),
        *(entry.crc, min(entry.packed, _LARGE), min(entry.size, _LARGE), len(entry.name), len(extra)),
        *(0, 0, 0, entry.attributes, min(entry.at, _LARGE)),
    ) + (entry.name + extra)
