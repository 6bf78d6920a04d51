"""Rows about writing: until the call returns, and until it is uploaded."""

import os
import random
import shutil
import tarfile
import time
from pathlib import Path

from tests.bench.table.comparison import EVERYBODY, Comparison, Found, ShownFigure
from tests.bench.table.contenders import Contender
from tests.bench.table.stage import MIB, Stage, run, seconds

SAVES = 5
PER_FOLDER = 100


def source(stage: Stage, count: int, size: int) -> Path:
    """Files of so many bytes, or of 1 to 20 kB if that is 0, in folders of a hundred."""
    top = stage.scratch / f"source-{count}-{size}"
    if not top.exists():
        chance = random.Random(5)
        for number in range(count):
            path = top / f"{number // PER_FOLDER:03}" / f"{number:05}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(chance.randbytes(size or chance.randrange(1000, 20_000)))
    return top


def _until(who: Contender) -> float:
    """Return the seconds until everything is uploaded."""
    began = time.perf_counter()
    return who.uploaded() - began


def _target(who: Contender, top: Path) -> Path:
    """Create a new folder that only this row uses."""
    target = top / f"by {who.name}"
    if target.exists():
        shutil.rmtree(target)
        who.uploaded()
    target.mkdir()
    return target


def _copy(stage: Stage, who: Contender, scale: float) -> Found:
    copied = source(stage, int(10_000 * scale), 10_000)
    with who.mounted() as top:
        target = _target(who, top)
        found = {"return": seconds(lambda: run("cp", "-r", copied, target / "copied"))}
        if who.remote:
            found["uploaded"] = found["return"] + _until(who)
    return found


def _untar(stage: Stage, who: Contender, scale: float) -> Found:
    packed = stage.scratch / "tree.tar"
    if not packed.exists():
        with tarfile.open(packed, "w") as archive:
            archive.add(source(stage, int(5000 * scale), 0), "tree")
    with who.mounted() as top:
        target = _target(who, top)
        found = {"return": seconds(lambda: run("tar", "-xf", packed, "-C", target))}
        if who.remote:
            found["uploaded"] = found["return"] + _until(who)
        found["removed"] = seconds(lambda: run("rm", "-rf", target / "tree"))
        if who.remote:
            found["gone"] = found["removed"] + _until(who)
    return found


def _temporary(stage: Stage, who: Contender, scale: float) -> Found:
    count, data = max(int(500 * scale), 10), os.urandom(4000)

    def cycle(folder: Path) -> None:
        for number in range(count):
            made = folder / f"t{number}.tmp"
            with made.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            made.rename(folder / f"t{number}")
            (folder / f"t{number}").unlink()

    with who.mounted() as top:
        target = _target(who, top)
        who.uploaded()
        before = stage.answered()[0]
        found = {"rate": count / seconds(lambda: cycle(target))}
        if who.remote:
            who.uploaded()
            found["requests"] = (stage.answered()[0] - before) / count
    return found


def _write(stage: Stage, who: Contender, scale: float) -> Found:
    size, data = int(1024 * scale), os.urandom(MIB)
    with who.mounted() as top, (_target(who, top) / "large").open("wb", buffering=0) as file:
        written = seconds(lambda: [file.write(data) for _ in range(size)])
        found = {"return": written, "fsync": written + seconds(lambda: os.fsync(file.fileno()))}
        if who.remote:
            file.close()
            found["uploaded"] = found["fsync"] + _until(who)
    return found


def _save(stage: Stage, who: Contender, scale: float) -> Found:
    """Save as editors do: a new file, renamed over the old one."""
    with who.mounted() as top:
        target, took = _target(who, top), []
        (target / "report").write_bytes(os.urandom(5 * MIB))
        who.uploaded()
        before = stage.answered()[0]
        for _ in range(SAVES):
            data = os.urandom(5 * MIB)
            took.append(seconds(lambda data=data: _saved(target, data)))  # type: ignore[misc]
            who.uploaded()
        found = {"return": sorted(took)[SAVES // 2] * 1000}
        if who.remote:
            found["requests"] = (stage.answered()[0] - before) / SAVES
    return found


def _saved(folder: Path, data: bytes) -> None:
    (folder / "report.new").write_bytes(data)
    (folder / "report.new").rename(folder / "report")


ROWS = (
    Comparison(
        "copy",
        EVERYBODY,
        (
            ShownFigure("return", "cp -r of 10,000 x 10 kB", "s", "0.6 of the passthrough"),
            ShownFigure("uploaded", "uploaded", "s", "0.8 of what the service can"),
        ),
        _copy,
        seconds=1800,
    ),
    Comparison(
        "untar",
        EVERYBODY,
        (
            ShownFigure("return", "untar of 5,000", "s", "<= 6"),
            ShownFigure("uploaded", "uploaded", "s", "<= 30"),
            ShownFigure("removed", "rm -rf of it", "s", "<= 2.5"),
            ShownFigure("gone", "done", "s", "<= 10"),
        ),
        _untar,
        seconds=1800,
    ),
    Comparison(
        "temporary",
        EVERYBODY,
        (
            ShownFigure(
                "rate", "500 written, fsynced, renamed, removed", "/s", "0.65 of the passthrough", True
            ),
            ShownFigure("requests", "requests a file", "", "0"),
        ),
        _temporary,
    ),
    Comparison(
        "write",
        EVERYBODY,
        (
            ShownFigure("return", "1 GiB written", "s", "<= 1.0"),
            ShownFigure("fsync", "fsynced", "s", "<= 1.5"),
            ShownFigure("uploaded", "uploaded", "s", "<= rclone"),
        ),
        _write,
    ),
    Comparison(
        "save",
        EVERYBODY,
        (
            ShownFigure("return", "5 MB saved by rename", "ms", "9"),
            ShownFigure("requests", "requests a save", "", "<= 2"),
        ),
        _save,
    ),
)
