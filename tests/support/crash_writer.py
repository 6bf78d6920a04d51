"""A program that changes files on a drive at random, and logs what the drive acknowledged.

    python crash_writer.py FOLDER LOG SEED [--fsync] [--large] [--bursts]

It goes on until the drive dies under it; with `--bursts` it rests for most of each second.  Each line of the
log is JSON: `["try", seconds, {path: states}]` before a call and `["ack", seconds, {path: state}, durable]`
after it, paths below FOLDER; `begin` and `end` stand around them.  A state is the SHA-1 of a file, or null
for none; "any" stands for a file of which only some of the bytes may be there.

It depends on nothing of ours.
"""

import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

LARGE = 51_000_000

# Bursts of all writers coincide: first there is more work than the drive can do, then none.
BURST_SECONDS = 0.3


class Writer:
    def __init__(self, folder: Path, log: int, seed: int, *, fsync: bool, bursts: bool) -> None:
        self.folder = folder
        self.log = log
        self.random = random.Random(seed)
        self.fsync = fsync
        self.bursts = bursts
        self.files: dict[str, bytes] = {}
        self.folders = ["."]
        self.number = 0

    def read_all(self) -> None:
        """Load the files that an earlier run has left."""
        for path in sorted(self.folder.rglob("*")):
            if path.is_dir():
                self.folders.append(str(path.relative_to(self.folder)))
            elif path.name != "large":
                self.files[str(path.relative_to(self.folder))] = path.read_bytes()

    def say(self, *line: object) -> None:
        os.write(self.log, json.dumps(line).encode() + b"\n")

    def trying(self, **states: object) -> None:
        self.say("try", time.monotonic(), states["paths"])

    def done(self, states: dict[str, object], *, durable: bool = False) -> None:
        self.say("ack", time.monotonic(), states, durable)

    def data(self) -> bytes:
        size = self.random.choice([0, 1, 100, 5000, 5000, 70_000, 200_000, 1_300_000])
        return self.random.randbytes(size)

    def new_name(self) -> str:
        self.number += 1
        name = f"{self.random.choice('abcdefgh')}{self.random.randrange(10**6)}-{self.number}"
        return os.path.normpath(f"{self.random.choice(self.folders)}/{name}")

    def some_name(self) -> str:
        return self.random.choice(sorted(self.files))

    def put(self, path: str, data: bytes, flags: int, *, fsync: bool, offset: int = 0) -> None:
        fd = os.open(self.folder / path, flags | os.O_WRONLY, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[os.pwrite(fd, view[:100_000], offset + len(data) - len(view)) :]
            if fsync:
                os.fsync(fd)
        finally:
            os.close(fd)

    def sync_folder(self) -> None:
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    # ---- programs ----

    def write(self, fsync: bool) -> None:
        path = self.some_name() if self.files and self.random.random() < 0.4 else self.new_name()
        data = self.data()
        self.trying(paths={path: "any"})
        self.put(path, data, os.O_CREAT | os.O_TRUNC, fsync=fsync)
        self.files[path] = data
        self.done({path: sha1(data)}, durable=fsync)

    def patch(self, fsync: bool) -> None:
        path = self.some_name()
        old, piece = self.files[path], self.random.randbytes(self.random.randrange(1, 40_000))
        offset = self.random.randrange(len(old) + 1)
        self.trying(paths={path: "any"})
        self.put(path, piece, 0, fsync=fsync, offset=offset)
        self.files[path] = old[:offset] + piece + old[offset + len(piece) :]
        self.done({path: sha1(self.files[path])}, durable=fsync)

    def cut(self, fsync: bool) -> None:
        """Overwrite an existing file, then truncate it."""
        path = self.some_name()
        old = self.files[path]
        new = self.random.randbytes(len(old))
        self.trying(paths={path: "any"})
        self.put(path, new, 0, fsync=False)
        size = self.random.choice([0, len(old) // 2])
        self.done({path: sha1(new)})
        self.trying(paths={path: [sha1(new), sha1(new[:size])]})
        os.truncate(self.folder / path, size)
        self.files[path] = new[:size]
        self.done({path: sha1(self.files[path])})

    def save(self, fsync: bool) -> None:
        path, data = self.some_name(), self.data()
        # A unique name: the temporary file of an interrupted save is still there.
        new = f"{self.new_name()}.new"
        self.trying(paths={path: [sha1(self.files[path]), sha1(data)], new: "any"})
        self.put(new, data, os.O_CREAT | os.O_EXCL, fsync=True)
        (self.folder / new).rename(self.folder / path)
        if fsync:
            self.sync_folder()
        self.files[path] = data
        self.done({path: sha1(data), new: None}, durable=fsync)

    def move(self, fsync: bool) -> None:
        old, new = self.some_name(), self.new_name()
        state = sha1(self.files[old])
        self.trying(paths={old: [state, None], new: [state, None]})
        (self.folder / old).rename(self.folder / new)
        if fsync:
            self.sync_folder()
        self.files[new] = self.files.pop(old)
        self.done({old: None, new: state}, durable=fsync)

    def remove(self, fsync: bool) -> None:
        path = self.some_name()
        self.trying(paths={path: [sha1(self.files[path]), None]})
        (self.folder / path).unlink()
        if fsync:
            self.sync_folder()
        del self.files[path]
        self.done({path: None}, durable=fsync)

    def mkdir(self, fsync: bool) -> None:
        path = self.new_name()
        (self.folder / path).mkdir()
        self.folders.append(path)
        self.write(fsync)

    def large(self) -> None:
        data = self.random.randbytes(LARGE)
        self.trying(paths={"large": "any"})
        self.put("large", data, os.O_CREAT | os.O_TRUNC, fsync=True)
        self.sync_folder()
        self.done({"large": sha1(data)}, durable=True)

    def run(self) -> None:
        while True:
            calls = [self.write] * 4 + [self.mkdir]
            if self.files:
                calls += [self.patch] * 3 + [self.cut] + [self.save] * 3 + [self.move] * 2 + [self.remove] * 2
            fsync = self.fsync and self.random.random() < 0.7
            self.random.choice(calls)(fsync)
            if self.bursts and (into := time.monotonic() % 1) > BURST_SECONDS:
                time.sleep(1 - into)


def sha1(data: bytes) -> str:
    return hashlib.sha1(data, usedforsecurity=False).hexdigest()


def main() -> None:
    folder, log, seed, *options = sys.argv[1:]
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    writer = Writer(Path(folder), fd, int(seed), fsync="--fsync" in options, bursts="--bursts" in options)
    writer.folder.mkdir(exist_ok=True)
    try:
        writer.read_all()
        writer.say("begin", time.monotonic())
        if "--large" in options:
            writer.large()
        writer.run()
    except OSError as error:
        writer.say("end", time.monotonic(), str(error))


if __name__ == "__main__":
    main()
