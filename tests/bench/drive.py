"""Benchmark of the drive against the host's disk: `python tests/bench/drive.py`.

Starts a drive on the embedded service in a temporary folder, runs the same operations there and in a plain
folder of the same disk, and prints one table.  Absolute figures depend on the machine and its load; compare
the ratios, which are measured in the same run.  Nothing here asserts anything.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import trio

MIB = 1024 * 1024


class Bench:
    """One drive, one plain folder, and the rows of the table."""

    def __init__(self, root: Path, *, entries: int, megabytes: int, creates: int) -> None:
        self.root = root
        self.drive = root / "drive"
        self.plain = root / "plain"
        self.plain.mkdir()
        self.entries = entries
        self.megabytes = megabytes
        self.creates = creates
        self.rows: list[tuple[str, float, float | None, str]] = []

    def cmsfs(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *arguments], capture_output=True, text=True, cwd="/"
        )
        if done.returncode:
            sys.exit(f"cmsfs {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def status(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.cmsfs("status", "--json"))
        return found

    def add(self, what: str, unit: str, drive: float, host: float | None = None) -> None:
        self.rows.append((what, drive, host, unit))
        print(f"  {what}: {drive:,.1f} {unit}", file=sys.stderr)

    def restart(self, *, forget: bool, cold: bool = True) -> None:
        """Restart the drive; `forget` drops local data except the service's, `cold` the page cache."""
        self.cmsfs("umount", str(self.drive))
        if forget:
            for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
                shutil.rmtree(os.environ[name])
                Path(os.environ[name]).mkdir(mode=0o700)
        if cold:
            drop_caches()
        self.cmsfs("demo", str(self.drive))


def drop_caches() -> None:
    """Drop the host's page cache; if that is not permitted, cold host reads are warm ones."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError:
        pass


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def walk(folder: Path) -> int:
    return sum(1 for entry in os.scandir(folder) if entry.stat().st_size >= 0)


def read_all(path: Path) -> str:
    digest = hashlib.sha1(usedforsecurity=False)
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(MIB):
            digest.update(chunk)
    return digest.hexdigest()


def skim(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def make_files(folder: Path, count: int) -> None:
    folder.mkdir()
    for number in range(count):
        (folder / f"file{number:05}").write_bytes(b"x" * 1000)


def stats(paths: list[str]) -> None:
    for path in paths:
        os.stat(path)


async def load_service(entries: int) -> None:
    """Upload a folder of many small files to the service."""
    from cmsfs import config
    from cmsfs.auth import connect
    from cmsfs.client.content.uploads import BytesSource
    from cmsfs.models.content import uploads

    settings = config.load("demo", profile="embedded")
    async with connect.open_backend(settings, sample=True) as client:
        folder = await client.folders.create("many", "0")
        numbers = iter(range(entries))

        async def worker() -> None:
            for number in numbers:
                data = f"small file {number}\n".encode()
                attributes = uploads.UploadAttributes.model_validate(
                    {"name": f"entry{number:05}.txt", "parent": {"id": folder.id}}
                )
                sha1 = hashlib.sha1(data, usedforsecurity=False).hexdigest()
                await client.uploads.new_file(attributes, BytesSource(data), sha1=sha1)

        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(worker)


def measure(bench: Bench) -> None:
    began = time.perf_counter()
    trio.run(load_service, bench.entries)
    bench.add("service: uploads of small files", "files/s", bench.entries / (time.perf_counter() - began))
    make_files(bench.plain / "many", bench.entries)
    drop_caches()
    bench.cmsfs("demo", str(bench.drive))

    many, plain = bench.drive / "many", bench.plain / "many"
    for what in ("cold", "warm"):
        count = bench.entries
        bench.add(
            f"{what} listing with stat of {count:,} entries",
            "entries/s",
            count / seconds(partial(walk, many)),
            count / seconds(partial(walk, plain)),
        )
    bench.restart(forget=False)
    bench.add(
        "the same after a restart, no request",
        "entries/s",
        bench.entries / seconds(partial(walk, many)),
    )
    there = [str(many / f"entry{number:05}.txt") for number in range(0, bench.entries, 10)]
    here = [str(plain / f"file{number:05}") for number in range(0, bench.entries, 10)]
    bench.add(
        "stat of one file, again and again",
        "calls/s",
        10 * len(there) / seconds(partial(stats, there * 10)),
        10 * len(here) / seconds(partial(stats, here * 10)),
    )

    data = os.urandom(MIB)
    for folder in (bench.drive, bench.plain):
        with (folder / "large").open("wb", buffering=0) as file:
            for _ in range(bench.megabytes):
                file.write(data)
    bench.cmsfs("sync")
    bench.restart(forget=True)
    walk(bench.drive)  # listing without local state was measured above
    rates = [bench.megabytes / seconds(partial(skim, f / "large")) for f in (bench.drive, bench.plain)]
    bench.add("cold sequential read", "MB/s", *rates)
    bench.restart(forget=False)
    rates = [bench.megabytes / seconds(partial(skim, f / "large")) for f in (bench.drive, bench.plain)]
    bench.add("sequential read, block cache on a cold disk", "MB/s", *rates)
    # This row measures the drive alone; the one before also depends on the disk.
    bench.restart(forget=False, cold=False)
    bench.add(
        "sequential read, block cache",
        "MB/s",
        bench.megabytes / seconds(partial(skim, bench.drive / "large")),
    )
    rates = [bench.megabytes / seconds(partial(skim, f / "large")) for f in (bench.drive, bench.plain)]
    bench.add("sequential read, page cache", "MB/s", *rates)

    count = bench.creates
    rates = [count / seconds(partial(make_files, f / "new", count)) for f in (bench.drive, bench.plain)]
    bench.add("creates of files of 1 kB", "files/s", *rates)
    bench.add("upload drain of them", "files/s", count / seconds(lambda: bench.cmsfs("sync")))
    pid = bench.status()["pid"]
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    bench.add("resident memory of the daemon, service included", "MB", int(fields["VmRSS"].split()[0]) / 1024)
    bench.add("largest it ever was", "MB", int(fields["VmHWM"].split()[0]) / 1024)


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
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--megabytes", type=int, default=512)
    parser.add_argument("--creates", type=int, default=2_000)
    chosen = parser.parse_args()
    with own_folders() as root:
        bench = Bench(root, entries=chosen.entries, megabytes=chosen.megabytes, creates=chosen.creates)
        try:
            measure(bench)
        finally:
            subprocess.run(
                [sys.executable, "-m", "cmsfs", "umount", str(bench.drive)], capture_output=True, cwd="/"
            )
    print(f"{'':52} {'drive':>12} {'host disk':>12} {'ratio':>7}")
    for what, drive, host, unit in bench.rows:
        beside = f"{host:12,.1f} {drive / host:7.2f}" if host else f"{'':12} {'':7}"
        print(f"{what:52} {drive:12,.1f} {beside} {unit}")


if __name__ == "__main__":
    main()
