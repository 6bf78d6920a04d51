"""What writing costs: many small files, and a large one whose upload is interrupted.

    python tests/bench/writes.py [--files 10000] [--megabytes 3000]

Starts a drive of its own on the embedded service in a temporary folder.  The first part copies small files in
and prints how fast they were closed, how fast they went to the service, and how much memory the daemon took.
The second writes a large file, kills the daemon when half of it has been sent, starts it again, and prints
how many bytes were sent twice.  Nothing here asserts anything.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

MIB = 1024 * 1024
PATIENCE = 1800.0

Row = tuple[str, str]


class Bench:
    """One drive."""

    def __init__(self, root: Path) -> None:
        self.drive = root / "drive"
        self.rows: list[Row] = []

    def cmsfs(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *arguments], capture_output=True, text=True, cwd="/"
        )
        if done.returncode:
            sys.exit(f"cmsfs {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cmsfs("status", "--json"))
        return found

    def add(self, what: str, figure: str) -> None:
        self.rows.append((what, figure))
        print(f"  {what}: {figure}", file=sys.stderr)

    def memory(self) -> tuple[float, float]:
        """MB that the daemon has, and has had at most."""
        lines = Path(f"/proc/{self.status()['pid']}/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["VmRSS"].split()[0]) / 1024, int(fields["VmHWM"].split()[0]) / 1024


def small_files(bench: Bench, count: int) -> None:
    """Copied in by one program, into folders of a hundred."""
    top = bench.drive / "small"
    top.mkdir()
    chance = random.Random(1)
    sizes = [chance.randrange(200, 20_000) for _ in range(count)]
    began = time.perf_counter()
    for number, size in enumerate(sizes):
        if number % 100 == 0:
            (top / f"{number // 100:03}").mkdir()
        (top / f"{number // 100:03}" / f"{number:05}").write_bytes(chance.randbytes(size))
    closed = time.perf_counter()
    bench.add(f"{count:,} files of 10 kB, at close", f"{count / (closed - began):,.0f} files/s")
    bench.cmsfs("sync")
    done = time.perf_counter()
    bench.add("the rest of them to the service", f"{done - closed:,.1f} s")
    bench.add("from the first write to the last upload", f"{count / (done - began):,.0f} files/s")
    now, most = bench.memory()
    bench.add("memory of the daemon and the service in it, now and at most", f"{now:,.0f}, {most:,.0f} MB")


def large_file(bench: Bench, megabytes: int) -> None:
    """Killed at half of its upload."""
    path = bench.drive / "large"
    piece = random.Random(2).randbytes(MIB)
    check = hashlib.sha1(usedforsecurity=False)
    began = time.perf_counter()
    with path.open("wb", buffering=0) as file:
        for number in range(megabytes):
            data = number.to_bytes(8, "big") + piece[8:]
            file.write(data)
            check.update(data)
    bench.add(
        f"a file of {megabytes:,} MB, at close", f"{megabytes / (time.perf_counter() - began):,.0f} MB/s"
    )
    size, before = megabytes * MIB, 0
    end = time.monotonic() + PATIENCE
    while before < size // 2:
        if time.monotonic() > end:
            sys.exit("the upload did not come so far")
        before = max([before, *(op["sent"] for op in bench.status()["queue"]["ops"])])
        time.sleep(0.05)
    pid = bench.status()["pid"]
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.01)
    bench.cmsfs("demo", str(bench.drive))
    began, resumed_at = time.perf_counter(), None
    sync = subprocess.Popen(
        [sys.executable, "-m", "cmsfs", "sync"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while sync.poll() is None:
        found = [op["sent"] for op in bench.status()["queue"]["ops"] if op["sent"]]
        if found and resumed_at is None:
            resumed_at = found[0]
        time.sleep(0.02)
    bench.add("killed when so much was known to be sent", f"{before / MIB:,.0f} MB")
    if resumed_at is not None:
        again = max(0, before - resumed_at)
        bench.add(
            "went on from there; sent again, at most", f"{resumed_at / MIB:,.0f}; {again / MIB:,.0f} MB"
        )
    bench.add("from the restart to the end", f"{time.perf_counter() - began:,.1f} s")
    fetched = hashlib.sha1(usedforsecurity=False)
    get = subprocess.Popen(
        [sys.executable, "-m", "cmsfs", "get", "/large", "-"], stdout=subprocess.PIPE, cwd="/"
    )
    assert get.stdout is not None
    while chunk := get.stdout.read(MIB):
        fetched.update(chunk)
    get.wait()
    bench.add("the service has the same bytes", str(fetched.digest() == check.digest()))


@contextmanager
def own_folders() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="cmsfs-bench-", ignore_cleanup_errors=True) as name:
        root = Path(name)
        for variable in ("CONFIG_HOME", "DATA_HOME", "STATE_HOME", "CACHE_HOME", "RUNTIME_DIR"):
            folder = root / variable.lower()
            folder.mkdir(mode=0o700)
            os.environ[f"XDG_{variable}"] = str(folder)
        yield root


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=3_000)
    chosen = parser.parse_args()
    with own_folders() as root:
        bench = Bench(root)
        bench.cmsfs("demo", str(bench.drive))
        try:
            if chosen.files:
                small_files(bench, chosen.files)
            if chosen.megabytes:
                large_file(bench, chosen.megabytes)
        finally:
            subprocess.run(
                [sys.executable, "-m", "cmsfs", "umount", str(bench.drive)], capture_output=True, cwd="/"
            )
    for what, figure in bench.rows:
        print(f"{what:64} {figure:>24}")


if __name__ == "__main__":
    main()
