"""Benchmark of read latency while the drive is busy: `python tests/bench/foreground.py`.

Files that are not here yet are opened, one every moment, and a byte of each is read: on a drive at rest, and
on one that has just begun to list a large tree while a thousand files are copied to it and go up.  A link of
40 ms lies between.  Prints one table; nothing here asserts anything.  `--items`, `--uploads` and `--opens`
make it small.
"""

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import loading
import rig
import trio

SIZE = 20_000

# Somebody who clicks fast.
PAUSE_SECONDS = 0.05


def opened(paths: list[Path]) -> list[float]:
    """Return the seconds to the first byte of each file, sorted."""
    took = []
    for path in paths:
        began = time.perf_counter()
        with path.open("rb", buffering=0) as file:
            file.read(1)
        took.append(time.perf_counter() - began)
        time.sleep(PAUSE_SECONDS)
    return sorted(took)


def row(bench: rig.Bench, what: str, took: list[float]) -> None:
    figures = [took[len(took) // 2], took[min(len(took) * 99 // 100, len(took) - 1)], took[-1]]
    bench.add(what, *(f"{1000 * one:,.0f} ms" for one in figures))


def mount(bench: rig.Bench) -> None:
    rig.drop_caches()
    bench.cmsfs("mount", str(bench.drive))


def settled(bench: rig.Bench) -> dict[str, Any]:
    """Wait until everything is listed, and return the status."""
    while (status := bench.status())["listing"]["state"] != "complete":
        time.sleep(0.5)
    return status


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--uploads", type=int, default=1000)
    parser.add_argument("--opens", type=int, default=200)
    parser.add_argument("--round-trip", type=float, default=0.04)
    wanted = parser.parse_args()
    with rig.own_folders() as root:
        many = loading.Tree("many", max(wanted.items // 100, 1), 99)
        trio.run(loading.fill, root / "service", [many])
        bench = rig.Bench(root, round_trip=wanted.round_trip)
        try:
            measure(bench, wanted)
        finally:
            bench.close()
    print(f"\n{'open and a byte, file not here':44} {'p50':>10} {'p99':>10} {'worst':>10}")
    for what, *figures in bench.rows:
        print(f"{what:44} " + " ".join(f"{one:>10}" for one in figures))


def measure(bench: rig.Bench, wanted: argparse.Namespace) -> None:
    names = [f"f{number:04}" for number in range(2 * wanted.opens)]
    rig.fill(bench, [("seen", name, SIZE) for name in names])
    # In random order, so that nothing can be prefetched.
    names.sort(key=lambda name: hash((name, 7)))
    source = bench.root / "source"
    source.mkdir()
    for number in range(wanted.uploads):
        (source / f"u{number:04}").write_bytes(os.urandom(SIZE))
    bench.through({"round_trip": bench.round_trip})
    seen = bench.drive / "seen"

    mount(bench)
    list(seen.iterdir())
    settled(bench)
    row(bench, "at rest", opened([seen / name for name in names[: wanted.opens]]))
    bench.cmsfs("umount", str(bench.drive))

    with_nothing_known(bench)
    began = time.perf_counter()
    list(seen.iterdir())
    took = time.perf_counter() - began
    bench.add("   (the folder itself, on a new drive)", f"{1000 * took:,.0f} ms", "", "")
    copying = subprocess.Popen(["cp", "-r", str(source), str(bench.drive / "copied")])
    busy = opened([seen / name for name in names[wanted.opens :]])
    status = bench.status()
    row(bench, "while it lists and uploads", busy)
    print(
        f"  at the end of that: {status['listing']['items']:,} items known ({status['listing']['state']}),"
        f" {status['queue']['waiting'] + status['queue']['running']:,} changes to go",
        file=sys.stderr,
    )
    copying.wait()
    bench.cmsfs("umount", "--drain", "0", str(bench.drive))


def with_nothing_known(bench: rig.Bench) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        shutil.rmtree(os.environ[name])
        Path(os.environ[name]).mkdir(mode=0o700)
    mount(bench)


if __name__ == "__main__":
    main()
