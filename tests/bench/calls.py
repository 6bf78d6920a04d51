"""What each call of a program costs on the mounted drive, beside a passthrough, in turn within one run.

    python tests/bench/calls.py [--count 500] [--rounds 3] [--resume]

A drive with the embedded service and `passthrough.py` are mounted in processes of their own, and the same
calls are made on both: files of 10 kB made, their times and bits set as `cp -a` does, replaced and removed,
temporary files fsynced and renamed, folders made and removed.  Each line says, for one unit, the milliseconds
until the call returned and the processor's microseconds of the process that serves the mount (the median of
the rounds).  Uploads are paused, so that only the calls are seen, but with `--resume`.
Nothing here asserts anything.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from writes import Bench, own_folders

HERE = Path(__file__).resolve().parent
DATA = os.urandom(10_000)
TICK = os.sysconf("SC_CLK_TCK")

Work = Callable[[Path, int], None]


def make(top: Path, count: int) -> None:
    for number in range(count):
        fd = os.open(top / f"f{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        os.write(fd, DATA)
        os.close(fd)


def set_attributes(top: Path, count: int) -> None:
    """As `cp -a` and `tar`: the times by the open file, the bits by its name."""
    for number in range(count):
        path = top / f"f{number}"
        os.utime(path, ns=(10**18, 10**18 + number))
        path.chmod(0o600)


def xattrs(top: Path, count: int) -> None:
    for number in range(count):
        with suppress(OSError):  # the passthrough has none
            os.listxattr(top / f"f{number}")


def replace(top: Path, count: int) -> None:
    """As editors save."""
    for number in range(count):
        new = top / f"f{number}.new"
        new.write_bytes(DATA)
        new.rename(top / f"f{number}")


def remove(top: Path, count: int) -> None:
    for number in range(count):
        (top / f"f{number}").unlink()


def temporary(top: Path, count: int) -> None:
    for number in range(count // 4):
        path = top / f"t{number}.tmp"
        with path.open("wb") as file:
            file.write(DATA[:4000])
            file.flush()
            os.fsync(file.fileno())
        path.rename(top / f"t{number}")
        (top / f"t{number}").unlink()


def folders(top: Path, count: int) -> None:
    for number in range(count):
        (top / f"d{number}").mkdir()


def no_folders(top: Path, count: int) -> None:
    for number in range(count):
        (top / f"d{number}").rmdir()


WORKS: tuple[tuple[str, Work, float], ...] = (
    ("create, write, close", make, 1),
    ("utimensat, chmod", set_attributes, 1),
    ("listxattr", xattrs, 1),
    ("write beside, rename over", replace, 1),
    ("unlink", remove, 1),
    ("temporary file with fsync", temporary, 0.25),
    ("mkdir", folders, 1),
    ("rmdir", no_folders, 1),
)


class Served:
    """A mount, and the process that serves it."""

    def __init__(self, pid: int, top: Path) -> None:
        self.pid, self.top = pid, top

    def processor(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def measure(self, work: Work, folder: str, count: int) -> tuple[float, float]:
        top = self.top / folder
        top.mkdir(exist_ok=True)
        before, began = self.processor(), time.perf_counter()
        work(top, count)
        return time.perf_counter() - began, self.processor() - before


def _median(found: list[tuple[float, float]], units: float) -> tuple[float, float]:
    return (
        statistics.median(seconds for seconds, _ in found) / units * 1e3,
        statistics.median(used for _, used in found) / units * 1e6,
    )


def run(bench: Bench, other: Served, *, count: int, rounds: int, resume: bool) -> None:
    drive = Served(bench.status()["pid"], bench.drive)
    if not resume:
        bench.cmsfs("pause")
    head = ("", "ms: drive", "through", "ratio", "us: drive", "through", "ratio")
    print(f"{head[0]:28}" + "".join(f"{name:>11}" for name in head[1:]))
    found: dict[str, dict[Served, list[tuple[float, float]]]] = {
        name: {drive: [], other: []} for name, _, _ in WORKS
    }
    for number in range(rounds):
        for name, work, _ in WORKS:
            for served in (drive, other) if number % 2 else (other, drive):
                found[name][served].append(served.measure(work, f"round {number}", count))
    for name, _, share in WORKS:
        ours, theirs = (_median(found[name][served], count * share) for served in (drive, other))
        cells = (ours[0], theirs[0], theirs[0] / ours[0], ours[1], theirs[1], theirs[1] / max(ours[1], 1))
        print(f"{name:28}" + "".join(f"{cell:11.2f}" for cell in cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--resume", action="store_true", help="upload meanwhile, as ever")
    chosen = parser.parse_args()
    with own_folders() as root:
        (root / "folder").mkdir()
        (root / "through").mkdir()
        other = subprocess.Popen(
            [sys.executable, str(HERE / "passthrough.py"), str(root / "folder"), str(root / "through")]
        )
        bench = Bench(root)
        bench.cmsfs("demo", str(bench.drive))
        try:
            served = Served(other.pid, root / "through")
            run(bench, served, count=chosen.count, rounds=chosen.rounds, resume=chosen.resume)
        finally:
            subprocess.run(["fusermount3", "-u", "-z", str(root / "through")], check=False)
            subprocess.run(
                [sys.executable, "-m", "cmsfs", "umount", str(bench.drive)], capture_output=True, cwd="/"
            )
            other.wait(30)
            shutil.rmtree(root / "folder", ignore_errors=True)


if __name__ == "__main__":
    main()
