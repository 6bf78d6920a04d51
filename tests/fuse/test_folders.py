"""Listings through the kernel, and the lookup counts that they leave."""

import ctypes
import errno
import os
from collections import Counter
from pathlib import Path

import pytest
import trio


def _drop_caches() -> None:
    Path("/proc/sys/vm/drop_caches").write_text("2")


def _held(fs) -> Counter[str]:
    return Counter({ino: count for ino, count in fs.lookups.items() if count})


async def test_a_thousand_entries_are_listed_once_each(fs, top, outside):
    for number in range(1000):
        fs.put(f"file {number:04}", b"x" * number)

    def sizes():
        with os.scandir(top) as found:
            return {entry.name: entry.stat().st_size for entry in found}

    assert await outside(sizes) == {f"file {number:04}": number for number in range(1000)}
    # The listing brought the attributes along; only the root was asked for.
    assert fs.calls["lookup"] == 0
    assert fs.calls["getattr"] <= 1


async def test_a_listing_survives_changes_while_it_is_read(fs, top, outside):
    for number in range(600):
        fs.put(f"{number}")

    def names():
        with os.scandir(top) as found:
            first = next(found).name
            yielded = [first]
            for number in range(0, 600, 2):
                fs.things[1].entries.pop(str(number), None)
            yielded += [entry.name for entry in found]
        return yielded

    listed = await outside(names)
    assert len(listed) == len(set(listed))
    assert {str(number) for number in range(1, 600, 2)} <= set(listed)


class Dirent(ctypes.Structure):
    _fields_ = (
        ("ino", ctypes.c_uint64),
        ("off", ctypes.c_int64),
        ("reclen", ctypes.c_uint16),
        ("type", ctypes.c_uint8),
        ("name", ctypes.c_char * 256),
    )


LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.opendir.restype = ctypes.c_void_p
LIBC.readdir.restype = ctypes.POINTER(Dirent)
LIBC.telldir.restype = ctypes.c_long
LIBC.opendir.argtypes = [ctypes.c_char_p]
for call in (LIBC.readdir, LIBC.telldir, LIBC.rewinddir, LIBC.closedir):
    call.argtypes = [ctypes.c_void_p]
LIBC.seekdir.argtypes = [ctypes.c_void_p, ctypes.c_long]


class Listing:
    """readdir(3) as it is, with what scandir leaves out."""

    def __init__(self, path: Path) -> None:
        self.stream = LIBC.opendir(os.fsencode(path))

    def next(self) -> tuple[str, int] | None:
        found = LIBC.readdir(self.stream)
        return (os.fsdecode(found.contents.name), found.contents.ino) if found else None

    def rest(self) -> list[tuple[str, int]]:
        return list(iter(self.next, None))


async def test_readdir_begins_with_dot_entries(fs, top, outside):
    folder, inner = fs.put("d", mode=0o40755).ino, fs.put("d/e", mode=0o40755).ino
    fs.put("d/f")

    def listed():
        listing = Listing(top / "d")
        try:
            return listing.rest()
        finally:
            LIBC.closedir(listing.stream)

    assert await outside(listed) == [(".", folder), ("..", 1), ("e", inner), ("f", fs.ino("d/f"))]
    await outside(_drop_caches)
    with trio.fail_after(10):
        while _held(fs):
            await trio.lowlevel.checkpoint()
    assert min(fs.lookups.values()) == 0  # none was taken back that was not counted, and the other way round


async def test_entries_of_a_listing_keep_their_own_attributes(fs, top, outside):
    fs.put("a", b"x" * 5000).mtime_ns = 10**18 + 7
    fs.put("b", mode=0o40755)
    fs.put("c", b"x")
    fs.numbers[fs.ino("a")] = 1 << 56

    def shown():
        listing = Listing(top)
        numbers = dict(listing.rest())
        LIBC.closedir(listing.stream)
        found = {name: (top / name).stat() for name in "abc"}
        return {
            name: (numbers[name], one.st_ino, oct(one.st_mode), one.st_size, one.st_blocks, one.st_mtime_ns)
            for name, one in found.items()
        }

    assert await outside(shown) == {
        "a": (1 << 56, 1 << 56, "0o100644", 5000, 10, 10**18 + 7),
        "b": (fs.ino("b"), fs.ino("b"), "0o40755", 0, 0, fs.things[fs.ino("b")].mtime_ns),
        "c": (fs.ino("c"), fs.ino("c"), "0o100644", 1, 1, fs.things[fs.ino("c")].mtime_ns),
    }
    assert fs.calls["lookup"] == 0


async def test_a_position_in_a_listing_is_found_again(fs, top, outside):
    for number in range(600):
        fs.put(f"{number}")

    def read():
        listing = Listing(top)
        places = []
        while True:
            place = LIBC.telldir(listing.stream)
            if (found := listing.next()) is None:
                break
            places.append((place, found))
        for place, found in (places[0], places[1], places[2], places[300], places[-1]):
            LIBC.seekdir(listing.stream, place)
            assert listing.next() == found
        fs.put("late")
        LIBC.rewinddir(listing.stream)
        again = listing.rest()
        LIBC.closedir(listing.stream)
        return [found for _, found in places], again

    first, again = await outside(read)
    assert len(first) == 602
    assert again == [*first, ("late", fs.ino("late"))]


class FileHandle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128))


@pytest.mark.skipif(os.getuid() != 0, reason="open_by_handle_at is root's")
async def test_file_handle_outlives_forget(fs, top, outside):
    fs.put("d", mode=0o40755)
    ino = fs.put("d/f", b"bytes").ino
    handle, mount_id = FileHandle(bytes=128), ctypes.c_int()
    path = os.fsencode(top / "d" / "f")

    def name():
        return LIBC.name_to_handle_at(-100, path, ctypes.byref(handle), ctypes.byref(mount_id), 0)

    def read():
        where = os.open(top, os.O_RDONLY)
        try:
            fd = LIBC.open_by_handle_at(where, ctypes.byref(handle), os.O_RDONLY)
            if fd < 0:
                return errno.errorcode[ctypes.get_errno()]
            with os.fdopen(fd, "rb") as file:
                return file.read()
        finally:
            os.close(where)

    assert await outside(name) == 0
    await outside(_drop_caches)
    with trio.fail_after(10):
        while _held(fs)[ino]:
            await trio.lowlevel.checkpoint()
    assert await outside(read) == b"bytes"
    fs.things[fs.ino("d")].entries.pop("f")
    del fs.things[ino]
    await outside(_drop_caches)
    with trio.fail_after(10):
        while _held(fs)[ino]:
            await trio.lowlevel.checkpoint()
    assert await outside(read) == "ESTALE"


async def test_lookup_counts_return_to_zero(fs, top, outside):
    for number in range(1000):
        fs.put(f"{number:04}")
    await outside(os.listdir, top)
    await outside(os.stat, top / "0007")
    await outside((top / "made").write_text, "x")
    await outside((top / "d").mkdir)
    await fs.entered["release"].wait()
    assert sum(_held(fs).values()) >= 1002
    await outside(_drop_caches)
    while _held(fs):
        fs.entered["forget"] = trio.Event()
        await fs.entered["forget"].wait()
    assert not _held(fs)
