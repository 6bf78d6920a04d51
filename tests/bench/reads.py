"""Benchmark of reads over a link with latency, against plain tools: `python tests/bench/reads.py`.

Starts the service in a process of its own, a link of 40 ms before it, a drive on the link, and does the same
work by the drive and by `curl`.  Prints one table; nothing here asserts anything.  Figures are of this
machine and this moment, the ratios are what compares.  `--only` takes a part of the names below.
With `--rclone PATH`, its binary, rclone does the same on the same link, all over TLS, in the rows "beside".
"""

import argparse
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import rig

# Bytes per second: 100 Mbit/s, 1 Gbit/s, and unlimited.
RATES = (12.5e6, 125e6, 0)


def stat_often(path: Path | str) -> None:
    for _ in range(100_000):
        os.stat(path)


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def skim(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(rig.MIB):
            pass


def first_byte(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        file.read(1)


# ---- measurements ----


def sequential(bench: rig.Bench, megabytes: int) -> None:
    """Measure cold sequential reads, on a capped and on an uncapped link."""
    rig.fill(bench, [("", "large", megabytes * rig.MIB)])
    for rate in RATES:
        size = megabytes if rate != 12.5e6 else min(megabytes, 64)
        if size != megabytes:
            rig.fill(bench, [("", "short", size * rig.MIB)])
        name = "large" if size == megabytes else "short"
        bench.through({"round_trip": bench.round_trip} | ({"rate": rate} if rate else {}))
        plain = size / bench.curl([bench.content_url(name)])[0]
        with bench.mounted() as drive:
            rig.touch_memory(3 * size)  # a copy here, one in the drive's cache
            began = cpu(bench)
            ours = size / seconds(partial(skim, drive / name))
            used = cpu(bench) - began
        theirs = []
        with bench.beside() as other:
            if other is not None:
                began = other.cpu()
                theirs = [size / seconds(partial(skim, other.drive / name)), other.cpu() - began]
        cap = f"capped at {rate / 1e6:.0f} MB/s" if rate else "not capped"
        bench.add(
            f"cold sequential {size} MiB, {cap}", f"{ours:,.0f} MiB/s", f"{plain:,.0f}", f"{ours / plain:.2f}"
        )
        bench.add("   CPU of the daemon a GiB", f"{used * 1024 / size:.1f} s")
        if theirs:
            bench.add("   beside: rclone", f"{theirs[0]:,.0f} MiB/s", "", f"{ours / theirs[0]:.2f}")
            bench.add("   beside: CPU of rclone a GiB", f"{theirs[1] * 1024 / size:.1f} s")


def small_files(bench: rig.Bench, count: int) -> None:
    """Measure a cold `grep -r` over small files, flat and nested, and what an aborted walk prefetched."""
    size = 20_000
    flat = rig.fill(bench, [("flat", f"f{n:05}", size) for n in range(count)])
    rig.fill(bench, [(f"tree/a{n % 10}/b{n % 100 // 10}", f"f{n:05}", size) for n in range(count)])
    half = rig.fill(bench, [("half", f"f{n:05}", size) for n in range(count)])
    assert half
    bench.through({"round_trip": bench.round_trip})
    sample = flat[:: max(1, count // 100)]
    each = sum(bench.curl([bench.content_url(name) for name in sample])) / len(sample)
    one_by_one = each * count
    for name in ("flat", "tree"):
        with bench.mounted() as drive:
            took = seconds(partial(run, ["grep", "-r", "-c", "qqqqqqqq", str(drive / name)]))
            bench.add(
                *(f"cold grep -r, {count} files of 20 kB, {name}", f"{took:.2f} s", f"{one_by_one:.1f} s"),
                f"{one_by_one / took:.1f}",
            )
        with bench.beside() as other:
            if other is not None:
                theirs = seconds(partial(run, ["grep", "-r", "-c", "qqqqqqqq", str(other.drive / name)]))
                bench.add("   beside: rclone", f"{theirs:.2f} s", "", f"{theirs / took:.1f}")
    for what, stop in (("a half", count // 2), ("a tenth", count // 10), ("10 files", 10)):
        with bench.mounted() as drive:
            names = [path.name for path in (drive / "half").iterdir()]
            for name in names[:stop]:
                (drive / "half" / name).read_bytes()
            time.sleep(2)  # downloads in progress end
            fetched = count_cached()
            bench.add(
                f"fetched in vain by a walk that stops after {what}",
                f"{fetched - stop} files",
                "",
                f"{(fetched - stop) / max(1, fetched):.0%}",
            )
    with bench.mounted() as drive:
        took = seconds(partial(run, ["cp", "-r", str(drive / "tree"), str(bench.root / "copy")]))
        bench.add(
            "cold cp -r of the tree", f"{took:.2f} s", f"{one_by_one:.1f} s", f"{one_by_one / took:.1f}"
        )
    with bench.mounted() as drive:
        # Through a pipe: tar does not read contents if it writes to /dev/null.
        took = seconds(partial(run, ["sh", "-c", f"tar cf - -C '{drive}' tree | cat"]))
        bench.add("cold tar of the tree", f"{took:.2f} s", f"{one_by_one:.1f} s", f"{one_by_one / took:.1f}")


def count_cached() -> int:
    return len(list(Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")))


def run(command: list[str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=False)


def head(bench: rig.Bench, count: int) -> None:
    """Measure the first byte of a cold small file; both sides already have a connection."""
    names = rig.fill(bench, [(f"h{n}", "f", 3_000) for n in range(count)])
    bench.through({"round_trip": bench.round_trip})
    plain = sorted(bench.curl([bench.content_url(name) for name in names])[1:])
    with bench.mounted() as drive:
        ours = sorted(seconds(partial(first_byte, drive / name)) for name in names)
    middle, beside = ours[len(ours) // 2], plain[len(plain) // 2]
    bench.add(
        *("first byte of a cold small file, median", f"{middle * 1000:.1f} ms", f"{beside * 1000:.1f} ms"),
        f"+{(middle - beside) * 1000:.1f} ms",
    )
    with bench.beside() as other:
        if other is not None:
            theirs = sorted(seconds(partial(first_byte, other.drive / name)) for name in names)
            bench.add("   beside: rclone", f"{theirs[len(theirs) // 2] * 1000:.1f} ms")


def scattered(bench: rig.Bench, megabytes: int) -> None:
    """Measure random 64 KiB reads in a large file."""
    rig.fill(bench, [("", "huge", megabytes * rig.MIB)])
    bench.through({"round_trip": bench.round_trip})
    with bench.mounted() as drive:
        places = random.Random(4)
        with (drive / "huge").open("rb", buffering=0) as file:
            began = time.perf_counter()
            for _ in range(200):
                file.seek(places.randrange(megabytes * rig.MIB - 65536))
                file.read(65536)
            each = (time.perf_counter() - began) / 200
        time.sleep(1)
        fetched = bench.cached_bytes()
    asked = 200 * 65536
    bench.add(
        "random 64 KiB reads: bytes fetched over bytes asked",
        f"{fetched / asked:.2f}",
        "",
        f"{each * 1000:.0f} ms",
    )


def warm(bench: rig.Bench, megabytes: int) -> None:
    """Measure the block cache, the page cache, stat, and an idle drive."""
    rig.fill(bench, [("", "warm", megabytes * rig.MIB)])
    plain = bench.root / "warm"
    plain.write_bytes(random.randbytes(rig.MIB) * megabytes)
    bench.through({"round_trip": bench.round_trip})
    with bench.mounted() as drive:
        skim(drive / "warm")
    with bench.mounted(forget=False) as drive:
        for path in (plain, *Path(os.environ["XDG_CACHE_HOME"]).glob("cmsfs/*/blocks/??/*")):
            skim(path)  # both from memory: the disk is not part of the comparison
        for what in ("block cache", "page cache"):
            ours = megabytes / seconds(partial(skim, drive / "warm"))
            theirs = megabytes / seconds(partial(skim, plain))
            bench.add(f"sequential, {what}", f"{ours:,.0f} MiB/s", f"{theirs:,.0f}", f"{ours / theirs:.2f}")
        for what, path in (("drive", drive / "warm"), ("host", plain)):
            took = seconds(partial(stat_often, path))
            bench.add(f"stat, {what}", f"{100_000 / took:,.0f} a second")
        before, began = cpu(bench), time.perf_counter()
        time.sleep(20)
        used = (cpu(bench) - before) / (time.perf_counter() - began)
        bench.add("CPU of an idle mount", f"{used:.2%}")


def cpu(bench: rig.Bench) -> float:
    """Return the processor time of the daemon in seconds."""
    stat = Path(f"/proc/{bench.status()['pid']}/stat").read_text().rpartition(")")[2].split()
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--round-trip", type=float, default=0.04, help="round-trip time of the link in seconds"
    )
    parser.add_argument("--megabytes", type=int, default=1024, help="size of the file read sequentially")
    parser.add_argument("--huge", type=int, default=2048, help="MiB of the file read at random")
    parser.add_argument("--files", type=int, default=2000, help="how many small files")
    parser.add_argument("--rclone", type=Path, help="path of rclone's binary, to compare with")
    parser.add_argument("--only", default="", help="sequential, small, head, scattered or warm")
    chosen = parser.parse_args()
    parts: dict[str, Callable[[rig.Bench], None]] = {
        "sequential": partial(sequential, megabytes=chosen.megabytes),
        "small": partial(small_files, count=chosen.files),
        "head": partial(head, count=40),
        "scattered": partial(scattered, megabytes=chosen.huge),
        "warm": partial(warm, megabytes=chosen.megabytes),
    }
    with rig.own_folders() as root:
        bench = rig.Bench(root, round_trip=chosen.round_trip, rclone=chosen.rclone)
        try:
            for name, part in parts.items():
                if re.search(chosen.only, name):
                    part(bench)
        finally:
            subprocess.run(
                [sys.executable, "-m", "cmsfs", "umount", str(bench.drive)], capture_output=True, cwd="/"
            )
            bench.close()
    print(f"{'':60} {'drive':>16} {'plain tool':>12} {'ratio':>9}")
    for what, drive, tool, ratio in bench.rows:
        print(f"{what:60} {drive:>16} {tool:>12} {ratio:>9}")


if __name__ == "__main__":
    main()
