"""What programs wait for that write, beside a passthrough in the same run.

    python tests/bench/writes_beside.py [--scale 1.0] [--rounds 3]

    untar        5,000 files of 1 to 20 kB in 100 folders, by `tar -x`
    cp -r        10,000 files of 10 kB in 100 folders, by `cp -r`
    rm -rf       of these
    temporary    500 files written, fsynced, renamed and removed, one after another
    one file     of 1 GiB, in pieces of 1 MiB: until all is written, and until its fsync has returned

In turn on the host's disk, on a passthrough of as little Python as pyfuse3 allows (`passthrough.py`), and on
a drive with the embedded service, which is told to upload nothing meanwhile.  Medians of the rounds, and for
the two file systems the processor's time and context switches of their process for a file.  Nothing here
asserts anything.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import writes

HERE = Path(__file__).resolve().parent
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


@dataclass
class Place:
    """Where it is written to, and what serves it there."""

    name: str
    folder: Path
    pid: int | None
    # By row: seconds, processor's seconds, context switches; each a list of rounds.
    found: dict[str, list[tuple[float, float, int]]] = field(default_factory=dict)

    def used(self) -> tuple[float, int]:
        if self.pid is None:
            return 0.0, 0
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        switches = 0
        for status in Path(f"/proc/{self.pid}/task").glob("*/status"):
            for line in status.read_text().splitlines():
                if "ctxt_switches" in line:
                    switches += int(line.split()[1])
        return (int(fields[11]) + int(fields[12])) / TICKS, switches

    def note(self, row: str, work: Callable[[], object]) -> None:
        before, began = self.used(), time.perf_counter()
        work()
        seconds, after = time.perf_counter() - began, self.used()
        self.found.setdefault(row, []).append((seconds, after[0] - before[0], after[1] - before[1]))


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def tree(root: Path, files: int, sizes: Callable[[int], int]) -> None:
    data = os.urandom(20_000)
    for number in range(files):
        folder = root / f"{number * 100 // files:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:05}").write_bytes(data[: sizes(number)])


def temporary(folder: Path, count: int) -> None:
    data = os.urandom(4000)
    for number in range(count):
        made = folder / f"t{number}.tmp"
        with made.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        made.rename(folder / f"t{number}")
        (folder / f"t{number}").unlink()


def one_round(place: Place, source: Path, scale: float) -> None:
    here = place.folder / f"round {len(place.found.get('cp -r', ()))}"
    here.mkdir()
    place.note("untar", lambda: run("tar", "-xf", source / "tree.tar", "-C", here))
    place.note("cp -r", lambda: run("cp", "-r", source / "copied", here / "copied"))
    place.note("rm -rf", lambda: run("rm", "-rf", here / "copied"))
    place.note("temporary", lambda: temporary(here, int(500 * scale)))
    data = os.urandom(MIB)
    with (here / "large").open("wb", buffering=0) as file:

        def write() -> None:
            for _ in range(int(1024 * scale)):
                file.write(data)

        place.note("one file", write)
        place.note("its fsync", lambda: os.fsync(file.fileno()))
    shutil.rmtree(here)


@contextmanager
def passthrough(root: Path) -> Iterator[Place]:
    folder, mountpoint = root / "below", root / "passthrough"
    folder.mkdir()
    mountpoint.mkdir()
    process = subprocess.Popen([sys.executable, str(HERE / "passthrough.py"), str(folder), str(mountpoint)])
    try:
        while not mountpoint.is_mount():
            time.sleep(0.01)
        yield Place("passthrough", mountpoint, process.pid)
    finally:
        run("fusermount3", "-u", mountpoint)
        process.wait()


@contextmanager
def drive(root: Path) -> Iterator[Place]:
    config = Path(os.environ["XDG_CONFIG_HOME"]) / "cmsfs" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('profile = "embedded"\nsettle_seconds = 3600\n')
    bench = writes.Bench(root)
    bench.drive.mkdir()
    bench.cmsfs("demo", str(bench.drive))
    try:
        yield Place("cmsfs", bench.drive, bench.status()["pid"])
    finally:
        bench.cmsfs("umount", "--force", "--drain", "0", str(bench.drive))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    scale = chosen.scale
    counts = {"untar": 5000, "cp -r": 10_000, "rm -rf": 10_000, "temporary": 500}
    with writes.own_folders() as root:
        source = root / "source"
        tree(source / "tree", int(5000 * scale), lambda number: 1000 + number * 7919 % 19_000)
        tree(source / "copied", int(10_000 * scale), lambda _: 10_000)
        with tarfile.open(source / "tree.tar", "w") as archive:
            archive.add(source / "tree", "tree")
        host = Place("host", root / "host", None)
        host.folder.mkdir()
        with passthrough(root) as bare, drive(root) as ours:
            for _ in range(chosen.rounds):
                for place in (host, bare, ours):
                    one_round(place, source, scale)
    head = f"{'':10}{'host s':>9}{'passthrough s':>15}{'cmsfs s':>9}{'ratio':>7}"
    print(head + f"{'us a file':>22}{'switches a file':>20}")
    for row in host.found:
        seconds = {
            place.name: statistics.median(one[0] for one in place.found[row]) for place in (host, bare, ours)
        }
        line = f"{row:10}{seconds['host']:9.2f}{seconds['passthrough']:15.2f}{seconds['cmsfs']:9.2f}"
        line += f"{seconds['passthrough'] / seconds['cmsfs']:7.2f}"
        if row in counts:
            files = counts[row] * scale
            costs = [
                (
                    statistics.median(one[1] for one in place.found[row]) / files * 1e6,
                    statistics.median(one[2] for one in place.found[row]) / files,
                )
                for place in (bare, ours)
            ]
            line += f"{costs[0][0]:13.0f} {costs[1][0]:8.0f}{costs[0][1]:12.1f} {costs[1][1]:7.1f}"
        print(line)


if __name__ == "__main__":
    main()
