"""Rows of contents that are not here yet, and of such as are."""

import functools
import random
import threading
import time
from pathlib import Path

from tests.bench.table.comparison import EVERYBODY, Comparison, Found, ShownFigure
from tests.bench.table.contenders import Contender, Curl
from tests.bench.table.stage import MIB, Stage, run, seconds, skim

THREADS = 8
READS = 100
PIECE = 64 * 1024
# A gigabit.
RATE = 125e6


def _gigabyte(scale: float) -> list[tuple[str, int]]:
    return [("gigabyte", int(1024 * scale) * MIB)]


def _sequential(stage: Stage, who: Contender, scale: float) -> Found:
    size = _gigabyte(scale)[0][1]
    if isinstance(who, Curl):
        took = sum(who.fetch(["gigabyte"]))
        used = who.processor()
    else:
        with who.mounted() as top:
            list(top.iterdir())
            before = who.processor()
            took = seconds(lambda: skim(top / "gigabyte"))
            used = who.processor() - before
    return {"rate": size / took / 1e6, "used": used * 2**30 / size}


def _cached(stage: Stage, who: Contender, scale: float) -> Found:
    size = _gigabyte(scale)[0][1]
    with who.mounted() as top:
        skim(top / "gigabyte")
        time.sleep(6)  # rclone writes down what it has 5 s after a file was closed
    with who.mounted(keep=True) as top:
        for path in who.cached():
            skim(path)  # from memory: what is compared is the way, not the disk
        before = who.processor()
        took = seconds(lambda: skim(top / "gigabyte"))
        used = who.processor() - before
    return {"rate": size / took / 1e6, "used": used * 2**30 / size}


def _small(scale: float) -> list[tuple[str, int]]:
    count = int(2000 * scale)
    flat = [(f"flat/f{n:05}", 20_000) for n in range(count)]
    return flat + [(f"tree/a{n % 10}/b{n % 100 // 10}/f{n:05}", 20_000) for n in range(count)]


def _grep(stage: Stage, who: Contender, scale: float) -> Found:
    names = [name for name, _ in _small(scale)]
    if isinstance(who, Curl):
        half = names[: len(names) // 2]
        return {"flat": seconds(lambda: who.fetch(half, at_once=32))}
    found = {}
    for kind in ("flat", "tree"):
        with who.mounted() as top:
            found[kind] = seconds(functools.partial(_searched, top / kind))
    return found


def _searched(top: Path) -> None:
    run("sh", "-c", f"grep -r -c qqqqqqqq '{top}' || true")


def _random(stage: Stage, who: Contender, scale: float) -> Found:
    size = _gigabyte(scale)[0][1]
    with who.mounted() as top:
        list(top.iterdir())
        before = stage.answered()[1]

        def work(seed: int) -> None:
            places = random.Random(seed)
            with (top / "gigabyte").open("rb", buffering=0) as file:
                for _ in range(READS):
                    file.seek(places.randrange(size - PIECE))
                    file.read(PIECE)

        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
        began = time.perf_counter()
        for one in workers:
            one.start()
        for one in workers:
            one.join()
        took = time.perf_counter() - began
        found = {"rate": THREADS * READS / took}
    if who.remote:
        # With the mount every request has ended, and so has been logged.
        found["fetched"] = (stage.answered()[1] - before) / (THREADS * READS * PIECE)
    return found


def _rate(label: str, wanted: str) -> tuple[ShownFigure, ...]:
    return (
        ShownFigure("rate", label, "MB/s", wanted, higher=True),
        ShownFigure("used", "its processor time a GiB", "s"),
    )


ROWS = (
    Comparison(
        "sequential",
        ("host", "passthrough", "curl", "rclone", "cmsfs"),
        _rate("cold sequential 1 GiB", ">= rclone, >= 0.8 curl"),
        _sequential,
        _gigabyte,
    ),
    Comparison(
        "link",
        ("curl", "rclone", "cmsfs"),
        _rate("on a link of 125 MB/s", ">= 122"),
        _sequential,
        _gigabyte,
        RATE,
    ),
    Comparison("cached", EVERYBODY, _rate("block cache, kernel cold", ">= 2,000"), _cached, _gigabyte),
    Comparison(
        "grep",
        ("host", "passthrough", "curl", "rclone", "cmsfs"),
        (
            ShownFigure("flat", "cold grep -r, 2,000 files, flat", "s", "<= 3.5"),
            ShownFigure("tree", "as a tree", "s", "<= 3.5"),
        ),
        _grep,
        _small,
        seconds=900,
    ),
    Comparison(
        "random",
        EVERYBODY,
        (
            ShownFigure("rate", "random 64 KiB, 8 threads", "reads/s", ">= 300", higher=True),
            ShownFigure("fetched", "bytes fetched a byte asked", "", "<= 1.5"),
        ),
        _random,
        _gigabyte,
    ),
)
