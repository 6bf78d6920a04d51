"""The drive beside the host's disk, a passthrough, curl and rclone, on one service and one line, in one run.

    python -m tests.bench.table --rclone PATH [--rows find,grep] [--rounds 3] [--scale 1] [--into FOLDER]

Each row is played in a process and a folder of its own, has a time-out, and leaves nothing mounted.  What was
measured stands in `results.jsonl` of the folder of `--into`; a run goes on where the last one with the same
folder and scale ended.  There, too: the table (`table.md`) and its plot (`table.svg`).  The service talks
TLS, and is 40 ms away by a line of its own process.  `--servers PYTHON` names an interpreter that has uvicorn
and granian, which the row `service` then measures, too.  Nothing here asserts anything.
"""

import argparse
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.table import picture, serving
from tests.bench.table.play import ROWS
from tests.bench.table.results import Measured, Results
from tests.bench.table.stage import TOP, touch_memory

BIG = ("items-1m",)


def played(command: list[str], folder: Path, limit: float) -> Iterator[str]:
    """Yield the lines that a row prints; clean up when it ends or times out."""
    with (folder / "errors").open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, cwd=TOP, start_new_session=True, bufsize=0
        )
    assert process.stdout is not None
    until, rest = time.monotonic() + limit, b""
    try:
        while (left := until - time.monotonic()) > 0:
            if not select.select([process.stdout], [], [], left)[0]:
                continue
            data = os.read(process.stdout.fileno(), 65536)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            yield from (line.decode() for line in lines)
        else:
            print(f"  not done within {limit:.0f} s", file=sys.stderr)
    finally:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5)
        if process.returncode:
            print((folder / "errors").read_text(errors="replace")[-2000:], file=sys.stderr)
        _end(process, folder)


def _end(process: "subprocess.Popen[bytes]", folder: Path) -> None:
    """Unmount everything below the folder, and kill the row's processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    assert process.stdout is not None
    process.stdout.close()
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        place = line.split()[4]
        if place.startswith(f"{folder}/"):
            subprocess.run(["fusermount3", "-u", "-z", place])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rclone", default="", help="its binary")
    parser.add_argument(
        "--rows", default="", help=f"some of {', '.join(ROWS)}; else all but {', '.join(BIG)}"
    )
    parser.add_argument("--who", default="", help="some of host, passthrough, curl, rclone, cmsfs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--round-trip", type=float, default=0.04, help="seconds")
    parser.add_argument("--limit", type=float, default=0, help="seconds that a row may take a round")
    parser.add_argument("--into", type=Path, default=Path("bench-table"), help="where results are kept")
    parser.add_argument("--servers", default="", help="a Python that has uvicorn and granian")
    wanted = parser.parse_args()
    if wanted.servers:
        os.environ[serving.PYTHON] = wanted.servers
    wanted.into.mkdir(parents=True, exist_ok=True)
    results = Results(wanted.into / "results.jsonl", wanted.scale)
    touch_memory()
    for name in wanted.rows.split(",") if wanted.rows else [row for row in ROWS if row not in BIG]:
        row = ROWS[name]
        todo = [
            f"{number}:{who}"
            for number in range(1, wanted.rounds + 1)
            for who in row.who
            if (not wanted.who or who in wanted.who.split(","))
            and (who != "rclone" or wanted.rclone)
            and not results.has(name, who, number)
        ]
        if not todo:
            continue
        folder = Path(tempfile.mkdtemp(prefix=f"cmsfs-bench-{name}-"))
        command = [
            sys.executable,
            "-m",
            "tests.bench.table.play",
            name,
            str(folder),
            "--todo",
            ",".join(todo),
        ]
        command += ["--scale", str(wanted.scale), "--round-trip", str(wanted.round_trip)]
        command += ["--rclone", str(Path(wanted.rclone).resolve())] if wanted.rclone else []
        try:
            for line in played(command, folder, (wanted.limit or row.seconds) * wanted.rounds):
                said = json.loads(line)
                if "progress" in said:
                    continue
                took = said.pop("took")
                shown = " ".join(f"{key}={value:,.3g}" for key, value in said["found"].items())
                print(f"  {name} {said['number']} {said['who']}: {shown} ({took:.0f} s)", file=sys.stderr)
                results.add(Measured(**said))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    (wanted.into / "table.md").write_text(results.table(list(ROWS.values())), encoding="utf-8")
    picture.draw(results, list(ROWS.values()), wanted.into / "table.svg")
    print(results.table(list(ROWS.values())))


if __name__ == "__main__":
    main()
