"""Rows about metadata: names and attributes, and the first byte."""

import json
import os
import random
import subprocess
import time
from pathlib import Path

from tests.bench.table.comparison import EVERYBODY, Comparison, Found, ShownFigure
from tests.bench.table.contenders import Contender, Curl, Drive, RcloneMount
from tests.bench.table.stage import Stage, drop_caches, memory, processor, seconds


def _many(scale: float) -> list[tuple[str, int]]:
    return [(f"many/d{n:04}/f{one:02}", 0) for n in range(max(int(1000 * scale), 1)) for one in range(20)]


def _find(stage: Stage, who: Contender, scale: float) -> Found:
    before = stage.answered()[0]
    with who.mounted() as top:
        found = {"seconds": seconds(lambda: _found(top / "many"))}
        if who.remote:
            found["requests"] = stage.answered()[0] - before
    if isinstance(who, RcloneMount):
        with who.mounted() as top:
            everything = lambda: (who.ask("vfs/refresh", recursive="true"), _found(top / "many"))  # noqa: E731
            found["refreshed"] = seconds(everything)
    return found


def _found(top: Path) -> int:
    return subprocess.run(["find", str(top)], capture_output=True, check=True).stdout.count(b"\n")


def _large(scale: float) -> list[tuple[str, int]]:
    return [(f"large/f{one:05}", 0) for one in range(int(10_000 * scale))]


def _ls(stage: Stage, who: Contender, scale: float) -> Found:
    with who.mounted() as top:
        found = {"cold": seconds(lambda: _listed(top))}
    with who.mounted(keep=True) as top:
        found["again"] = seconds(lambda: _listed(top))
    return found


def _listed(top: Path) -> None:
    subprocess.run(["ls", "-l", str(top / "large")], capture_output=True, check=True)


def _heads(scale: float) -> list[tuple[str, int]]:
    return [(f"heads/h{n:03}", 3000) for n in range(max(int(40 * scale), 5))]


def _first_byte(stage: Stage, who: Contender, scale: float) -> Found:
    names = [name for name, _ in _heads(scale)]
    if isinstance(who, Curl):
        drop_caches()  # as when a drive is mounted: the service reads from its disk
        took = sorted(who.fetch(names)[1:])
    else:
        with who.mounted() as top:
            for _ in os.walk(top):
                pass
            _byte(top / names[0])  # opens a connection for both
            # In random order, so that nothing is prefetched; the same one in each run.
            names = random.Random(7).sample(names[1:], len(names) - 1)
            took = sorted(seconds(lambda name=name: _byte(top / name)) for name in names)  # type: ignore[misc]
    return {"median": took[len(took) // 2] * 1000, "p90": took[len(took) * 9 // 10] * 1000}


def _byte(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        file.read(1)


def _items(scale: float) -> list[tuple[str, int]]:
    return [(f"whole/d{n:05}/f{one:03}", 0) for n in range(int(4975 * scale) or 1) for one in range(200)]


def _enumerate(stage: Stage, who: Contender, scale: float) -> Found:
    """Measure the crawl of the whole tree, and `find` again after a restart."""
    assert isinstance(who, Drive)
    count = len(_items(scale)) + int(4975 * scale)
    with who.mounted():
        began, used = time.perf_counter(), who.processor()
        service = processor(stage.service)
        while (listing := who.status()["listing"])["state"] != "complete":
            print(json.dumps({"progress": listing}), flush=True)
            # Rarely: asking takes as much of a processor as thousands of items.
            time.sleep(max(0.5, (time.perf_counter() - began) / 50))
        took = time.perf_counter() - began
        found = {
            "rate": count / took,
            "drive": (who.processor() - used) / count * 1e6,
            "service": (processor(stage.service) - service) / count * 1e6,
            "memory": memory(who.pid, "VmRSS"),
        }
    with who.mounted(keep=True) as top:
        found["restart"] = memory(who.pid, "VmRSS")
        found["find"] = seconds(lambda: _found(top))
        found["after"] = memory(who.pid, "VmRSS")
    return found


def _enumerate_few(stage: Stage, who: Contender, scale: float) -> Found:
    return _enumerate(stage, who, scale / 50)


_WHOLE = (
    ShownFigure("rate", "everything known, by the crawl", "items/s", ">= 10,000", higher=True),
    ShownFigure("drive", "the drive's processor an item", "µs"),
    ShownFigure("service", "the service's processor an item", "µs"),
    ShownFigure("memory", "memory then", "MB", "<= 150; at 20,000 <= 120"),
    ShownFigure("restart", "memory after a restart", "MB"),
    ShownFigure("find", "find over all after a restart", "s", "<= 15"),
    ShownFigure("after", "memory after that", "MB"),
)

ROWS = (
    Comparison(
        "find",
        EVERYBODY,
        (
            ShownFigure("seconds", "cold find, 21,000 entries", "s", "<= 2.3; 20 x rclone"),
            ShownFigure("requests", "its requests", "", "<= 120"),
            ShownFigure("refreshed", "the same by vfs/refresh", "s"),
        ),
        _find,
        _many,
    ),
    Comparison(
        "ls",
        EVERYBODY,
        (
            ShownFigure("cold", "ls -l of 10,000, cold", "s", "<= 0.6"),
            ShownFigure("again", "after a restart", "s"),
        ),
        _ls,
        _large,
    ),
    Comparison(
        "first",
        ("curl", "rclone", "cmsfs"),
        (
            ShownFigure("median", "first byte of a small file, median", "ms", "<= 43"),
            ShownFigure("p90", "p90", "ms", "<= 46"),
        ),
        _first_byte,
        _heads,
    ),
    Comparison(
        "items-20k",
        ("cmsfs",),
        _WHOLE,
        _enumerate_few,
        lambda scale: _items(scale / 50),
    ),
    Comparison("items-1m", ("cmsfs",), _WHOLE, _enumerate, _items, seconds=3600),
)
