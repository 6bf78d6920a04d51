"""A program that uses a drive for a while: `soak_worker.py FOLDER SECONDS SEED REPORT`.

It works in its own folder, which nobody else changes, and always knows its expected contents.  It checks that
it reads what it wrote, and at the end writes the expected paths and SHA-1s to REPORT.
"""

import errno
import hashlib
import json
import os
import random
import sys
import time
from pathlib import Path

# Errors of reads while the network fails; writes must not fail.
CLEAN = {errno.ETIMEDOUT, errno.ENETDOWN, errno.EIO, errno.ESTALE}


class Worker:
    """A program and the contents it expects."""

    def __init__(self, top: Path, seed: int) -> None:
        self.top = top
        self.dice = random.Random(seed)
        self.files: dict[str, bytes] = {}
        self.folders = [""]
        self.done = 0
        self.failed = 0

    def step(self) -> None:
        actions = [self.create] * 3 + [self.read] * 4 + [self.append, self.save, self.rename, self.remove]
        actions += [self.walk, self.mkdir] if len(self.folders) < 8 else [self.walk]
        self.dice.choice(actions)()
        self.done += 1

    def place(self) -> str:
        folder = self.dice.choice(self.folders)
        return f"{folder}/n{self.dice.randrange(200):03}".lstrip("/")

    def some(self) -> str | None:
        return self.dice.choice(list(self.files)) if self.files else None

    def data(self) -> bytes:
        return self.dice.randbytes(self.dice.choice([0, 10, 3000, 50_000, 400_000]))

    def create(self) -> None:
        name, data = self.place(), self.data()
        (self.top / name).write_bytes(data)
        self.files[name] = data

    def append(self) -> None:
        if name := self.some():
            more = self.data()[:1000]
            with (self.top / name).open("ab") as file:
                file.write(more)
            self.files[name] += more

    def save(self) -> None:
        """Save as an editor does: a new file, renamed over the old one."""
        if name := self.some():
            data = self.data()
            beside = self.top / f"{name}.new"
            beside.write_bytes(data)
            beside.rename(self.top / name)
            self.files[name] = data

    def rename(self) -> None:
        if (name := self.some()) and (new := self.place()) != name:
            (self.top / name).rename(self.top / new)
            self.files[new] = self.files.pop(name)

    def remove(self) -> None:
        if name := self.some():
            (self.top / name).unlink()
            del self.files[name]

    def mkdir(self) -> None:
        name = f"d{len(self.folders)}"
        (self.top / name).mkdir()
        self.folders.append(name)

    def read(self) -> None:
        if name := self.some():
            try:
                found = (self.top / name).read_bytes()
            except OSError as error:
                if error.errno not in CLEAN:
                    raise
                self.failed += 1
            else:
                assert found == self.files[name], f"{name}: {len(found)} bytes are not what was written"

    def walk(self) -> None:
        met: list[OSError] = []
        found = {
            os.path.relpath(Path(folder, name), self.top)
            for folder, _, names in os.walk(self.top, onerror=met.append)
            for name in names
        }
        if met:
            # `os.walk` would otherwise skip the folder.
            for error in met:
                if error.errno not in CLEAN:
                    raise error
            self.failed += 1
            return
        assert found == set(self.files), sorted(found ^ set(self.files))[:20]


def main() -> None:
    top, seconds, seed, report = Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    top.mkdir(exist_ok=True)
    worker = Worker(top, seed)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        worker.step()
        time.sleep(worker.dice.random() * 0.05)
    hashes = {name: hashlib.sha1(data).hexdigest() for name, data in worker.files.items()}
    report.write_text(json.dumps({"files": hashes, "done": worker.done, "failed": worker.failed}))


if __name__ == "__main__":
    main()
