"""Listings through the kernel, and the lookup counts that they leave."""

import os
from collections import Counter
from pathlib import Path

import trio


def _drop_caches() -> None:
    Path("/proc/sys/vm/drop_caches").write_text("2")


def _held(fs) -> Counter:
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


async def test_every_lookup_is_taken_back_when_the_kernel_forgets(fs, top, outside):
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
