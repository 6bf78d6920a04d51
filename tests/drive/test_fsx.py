"""Random reads, writes and truncations of a few files through a real mount, against what they must hold.

After the manner of fsx: every read is compared with a model in memory.  In between the caches are emptied in
the ways of life: the kernel drops pages, the changes go up, the drive is started anew with nothing of its
content here, so that old bytes, fetched bytes and what is not sent yet are mixed in one file.
"""

import mmap
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive

KIB = 1024
LARGEST = 3 * 1024 * KIB
NAMES = ["small", "middle", "large"]
SIZES = [3_000, 700 * KIB, LARGEST]


class Model:
    """The files as they must be, and the same work done on both."""

    def __init__(self, drive: MountedDrive, seed: int) -> None:
        self.drive = drive
        self.dice = random.Random(seed)
        self.done = 0
        self.files = {
            name: bytearray(self.dice.randbytes(size)) for name, size in zip(NAMES, SIZES, strict=True)
        }
        for name, data in self.files.items():
            self.path(name).write_bytes(data)

    def path(self, name: str) -> Path:
        return Path(self.drive.top) / name

    def step(self) -> None:
        """One open file and a few things done with it."""
        name = self.dice.choice(NAMES)
        fd = os.open(self.path(name), os.O_RDWR)
        try:
            if self.dice.random() < 0.3:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            for _ in range(self.dice.randrange(1, 6)):
                what = self.dice.choices(
                    [self.read, self.mapped, self.write, self.truncate, self.sync], [6, 2, 4, 1, 0.3]
                )
                what[0](fd, self.files[name])
                self.done += 1
        finally:
            os.close(fd)
        assert self.path(name).stat().st_size == len(self.files[name])

    def span(self, data: bytearray) -> tuple[int, int]:
        return self.dice.randrange(len(data) + 1), self.dice.choice([1, 100, 4096, 65_536, 200_000])

    def read(self, fd: int, data: bytearray) -> None:
        start, length = self.span(data)
        self.compare(os.pread(fd, length, start), data, start, length)

    def mapped(self, fd: int, data: bytearray) -> None:
        if data:
            start, length = self.span(data)
            with mmap.mmap(fd, len(data), access=mmap.ACCESS_READ) as view:
                self.compare(view[start : start + length], data, start, length)

    def compare(self, found: bytes, data: bytearray, start: int, length: int) -> None:
        wanted = bytes(data[start : start + length])
        if found != wanted:
            at = start + next(
                (i for i, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b),
                min(len(found), len(wanted)),
            )
            pytest.fail(
                f"after {self.done} things: {len(found)}/{len(wanted)} at {start}, wrong from {at} on"
            )

    def write(self, fd: int, data: bytearray) -> None:
        start, length = self.span(data)
        length = min(length, LARGEST - start)
        if length <= 0:
            return
        new = self.dice.randbytes(length)
        assert os.pwrite(fd, new, start) == length
        data[start : start + length] = new

    def truncate(self, fd: int, data: bytearray) -> None:
        size = self.dice.choice(
            [0, self.dice.randrange(LARGEST), len(data) // 2, min(len(data) + 5_000, LARGEST)]
        )
        os.ftruncate(fd, size)
        data[size:] = bytes(max(size - len(data), 0))

    def sync(self, fd: int, data: bytearray) -> None:
        os.fsync(fd)

    def forget(self) -> None:
        """Everything goes up, and the drive is started anew with nothing here but names."""
        self.drive.sync()
        self.drive.stop()
        shutil.rmtree(os.environ["XDG_CACHE_HOME"])
        Path(os.environ["XDG_CACHE_HOME"]).mkdir(mode=0o700)
        self.drive.start()

    def check(self) -> None:
        for name, data in self.files.items():
            self.compare(self.path(name).read_bytes(), data, 0, len(data))


def run(drive: MountedDrive, *, seed: int, rounds: int, steps: int) -> Model:
    model = Model(drive, seed)
    for _ in range(rounds):
        for _ in range(steps):
            model.step()
        model.forget()
    # On old and new bytes, mixed.
    for _ in range(steps):
        model.step()
    model.check()
    return model


def test_every_read_is_what_was_written(shared: MountedDrive) -> None:
    assert run(shared, seed=3, rounds=1, steps=40).done > 50


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_every_read_is_what_was_written_at_length(drive: MountedDrive, seed: int) -> None:
    run(drive, seed=seed, rounds=6, steps=400)
