"""One row, in a process that can be ended: `python -m tests.bench.table.play`, started by the table.

Each measurement is a line of JSON as soon as it is made.
"""

import argparse
import json
import os
import time
from pathlib import Path

from tests.bench.table import knowing, reading, serving, trees, writing
from tests.bench.table.comparison import Comparison
from tests.bench.table.contenders import Contender, Curl, Drive, Passthrough, RcloneMount
from tests.bench.table.stage import Stage

ROWS: dict[str, Comparison] = {
    row.name: row for module in (knowing, reading, writing, trees, serving) for row in module.ROWS
}


def contender(name: str, stage: Stage, rclone: str) -> Contender | None:
    """By its name; nobody, if its binary was not given."""
    match name:
        case "host":
            return Contender(stage)
        case "passthrough":
            return Passthrough(stage)
        case "curl":
            return Curl(stage)
        case "rclone":
            return RcloneMount(stage, Path(rclone)) if rclone else None
        case _:
            return Drive(stage)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("row")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--todo", required=True, help="NUMBER:CONTENDER, with commas between")
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--round-trip", type=float, default=0.04)
    parser.add_argument("--rclone", default="")
    wanted = parser.parse_args()
    row = ROWS[wanted.row]
    stage = Stage(wanted.folder, wanted.round_trip)
    stage.fill(row.contents(wanted.scale), plain="host" in row.who)
    for todo in wanted.todo.split(","):
        number, _, name = todo.partition(":")
        who = contender(name, stage, wanted.rclone)
        if who is None:
            continue
        began = time.perf_counter()
        if row.alone:
            found = row.play(stage, who, wanted.scale)
        else:
            with stage.playing(row.rate):
                found = row.play(stage, who, wanted.scale)
        print(
            json.dumps(
                {
                    "row": row.name,
                    "who": name,
                    "number": int(number),
                    "scale": wanted.scale,
                    "found": found,
                    "processor": who.processor(),
                    "memory": who.memory(),
                    "load": os.getloadavg()[0],
                    "at": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
                    "took": time.perf_counter() - began,
                }
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
