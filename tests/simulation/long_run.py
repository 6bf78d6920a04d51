"""Long runs: many stories in batches, each batch in its own process, with one line of results in a file.

An interrupted run continues where its file ends, with the same code or newer code: the table shows how many
stories ran with which.  A process runs few stories, so that its memory stays small; if it dies, the story at
which it died counts as red, and the next process continues after it.
"""

import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from tests.simulation.simulation import Outcome
from tests.simulation.surroundings import memory_folder
from tests.simulation.tally import Tally

BATCH_SIZE = 50
PROGRESS_SECONDS = 60.0

_TOP = Path(__file__).parents[2]


@dataclass
class Batch:
    """Stories with consecutive seeds, and their results so far."""

    first: int
    count: int
    tally: Tally = field(default_factory=Tally)
    reds: list[dict[str, Any]] = field(default_factory=list)
    # All temporary files of its process: forked processes leave them behind.
    folder: Path = field(
        default_factory=lambda: Path(tempfile.mkdtemp(prefix="cmsfs-piece-", dir=memory_folder()))
    )

    def note_death(self, code: int | None) -> None:
        """The process died during the story after the last counted one."""
        self.tally.stories += 1
        seed = self.first + self.tally.stories - 1
        self.tally.red["the process died"] += 1
        self.tally.seeds.append(seed)
        self.reds.append({"seed": seed, "failures": [f"the process died: {code}"]})

    @property
    def is_done(self) -> bool:
        return self.tally.stories >= self.count


class Results:
    """The results file: one line per batch."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.code = code_hash()
        self.total = Tally()
        self.by_code: dict[str, int] = {}
        self.seen: set[int] = set()  # seeds
        self.reds: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            record = json.loads(line)
            tally = Tally.read(record["tally"])
            self._add(record["first"], record["code"], tally, record["reds"])

    def add(self, batch: Batch) -> None:
        """Append the results of a batch to the file."""
        line = {
            "first": batch.first,
            "code": self.code,
            "reds": batch.reds,
            "tally": vars(batch.tally),
        }
        if self._path is not None and batch.tally.stories:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        self._add(batch.first, self.code, batch.tally, batch.reds)

    def _add(self, first: int, code: str, tally: Tally, reds: list[dict[str, Any]]) -> None:
        self.total.add(tally)
        self.by_code[code] = self.by_code.get(code, 0) + tally.stories
        self.seen.update(range(first, first + tally.stories))
        self.reds += reds

    def batches(self, first: int, stories: int, *, jobs: int) -> Iterator[Batch]:
        """Yield batches of the stories without results."""
        most = min(BATCH_SIZE, -(-stories // jobs))
        seed, end = first, first + stories
        while seed < end:
            count = 0
            while seed + count < end and count < most and seed + count not in self.seen:
                count += 1
            if count:
                yield Batch(seed, count)
            seed += max(count, 1)

    def table(self) -> str:
        """Return the table of all stories so far."""
        lines = [self.total.table()]
        lines += [f"| stories with code {name} | {count:,} |" for name, count in self.by_code.items()]
        return "\n".join(lines)


def code_hash() -> str:
    """Return a short hash of the code of the product and the simulation."""
    digest = hashlib.sha256()
    for top in ("cmsfs", "daemon", "tests/simulation"):
        for path in sorted((_TOP / top).rglob("*")):
            if path.suffix in (".py", ".sql", ".toml"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def run(
    results: Results,
    first: int,
    stories: int,
    *,
    jobs: int,
    seconds: float,
    run_story: Callable[[int], Outcome],
    report: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Run the stories that have no results yet and return their tally.  `report` receives a progress line
    every minute."""
    began, reported_at = time.monotonic(), time.monotonic()
    done = Tally()
    # Exit as on Ctrl-C, so that the results so far are written.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    left = len(set(range(first, first + stories)) - results.seen)
    waiting = results.batches(first, stories, jobs=jobs)
    running: dict[connection.Connection, tuple[Any, Batch]] = {}
    again: list[Batch] = []
    try:
        while True:
            is_over = time.monotonic() - began > seconds
            while len(running) < jobs and not is_over:
                batch = again.pop() if again else next(waiting, None)
                if batch is None:
                    break
                running.update([_start_batch(batch, run_story)])
            if not running:
                return done
            for one in connection.wait(list(running), timeout=PROGRESS_SECONDS):
                assert isinstance(one, connection.Connection)
                process, batch = running[one]
                if _receive(one, batch) and not (is_over and not batch.is_done):
                    continue
                del running[one]
                _finish_batch(process, batch, is_over=is_over)
                results.add(batch)
                done.add(batch.tally)
                if not is_over and not batch.is_done:
                    count = batch.count - batch.tally.stories
                    again.append(Batch(batch.first + batch.tally.stories, count))
            if time.monotonic() - reported_at > PROGRESS_SECONDS:
                reported_at = time.monotonic()
                report(_progress(done, [batch for _, batch in running.values()], left, reported_at - began))
    finally:
        signal.signal(signal.SIGTERM, before)
        for process, batch in running.values():
            _finish_batch(process, batch, is_over=True)
            results.add(batch)


def _start_batch(
    batch: Batch, run_story: Callable[[int], Outcome]
) -> tuple[connection.Connection, tuple[Any, Batch]]:
    context = get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_run_batch, args=(batch, run_story, sender), daemon=True)
    process.start()
    sender.close()
    return receiver, (process, batch)


def _run_batch(batch: Batch, run_story: Callable[[int], Outcome], sender: connection.Connection) -> None:
    """Run the batch in a child process; send the result of each story when it ends."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["TMPDIR"] = tempfile.tempdir = str(batch.folder)
    for seed in range(batch.first, batch.first + batch.count):
        used, tally = time.process_time(), Tally()
        outcome = run_story(seed)
        tally.note(outcome)
        tally.processor_seconds = time.process_time() - used
        try:
            sender.send((tally, [failure[:700] for failure in outcome.failures[:6]]))
        except BrokenPipeError:
            break
    sender.close()
    sys.stdout.flush()
    os._exit(0)  # skips the parent's exit handlers


def _receive(one: connection.Connection, batch: Batch) -> bool:
    """Receive one result of a process; return False at end of file."""
    try:
        tally, failures = one.recv()
    except EOFError:
        return False
    batch.tally.add(tally)
    if failures:
        batch.reds.append({"seed": tally.seeds[0], "failures": failures})
    return True


def _finish_batch(process: Any, batch: Batch, *, is_over: bool) -> None:
    if is_over and not batch.is_done:
        process.kill()
    process.join()
    shutil.rmtree(batch.folder, ignore_errors=True)
    if not batch.is_done and not is_over:
        batch.note_death(process.exitcode)


def _progress(done: Tally, running: list[Batch], left: int, seconds: float) -> str:
    total = Tally()
    for one in (done, *(batch.tally for batch in running)):
        total.add(one)
    hours = seconds / max(total.stories, 1) * (left - total.stories) / 3600
    return (
        f"{total.stories:,} of {left:,} stories, {sum(total.red.values())} red {sorted(total.seeds)},"
        f" {60 * total.stories / seconds:.0f} per minute, {total.pace:.0f} per CPU minute,"
        f" {hours:.1f} hours to go"
    )
