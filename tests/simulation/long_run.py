"""Many stories, in pieces: each piece in a process of its own, its results a line of a file.

A run that was ended goes on where its file ends, whether with the same code or with other: the table tells
how many stories were lived through with which.  A process lives through few stories, so that none grows
large; one that dies has the story that it died of told as red, and the next one goes on behind that.
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
from tests.simulation.surroundings import fast
from tests.simulation.tally import Tally

PIECE = 50
PROGRESS_SECONDS = 60.0

_TOP = Path(__file__).parents[2]


@dataclass
class Piece:
    """Stories with consecutive seeds, and what came of them so far."""

    first: int
    count: int
    tally: Tally = field(default_factory=Tally)
    reds: list[dict[str, Any]] = field(default_factory=list)
    # Everything that its process makes is below: a process that is forked leaves it behind.
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="cmsfs-piece-", dir=fast())))

    def note_death(self, code: int | None) -> None:
        """The process ended amid the story after those that are counted."""
        self.tally.stories += 1
        seed = self.first + self.tally.stories - 1
        self.tally.red["the process died"] += 1
        self.tally.seeds.append(seed)
        self.reds.append({"seed": seed, "failures": [f"the process died: {code}"]})

    @property
    def is_done(self) -> bool:
        return self.tally.stories >= self.count


class Results:
    """The file: a line for each piece."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.code = code()
        self.total = Tally()
        self.by_code: dict[str, int] = {}
        self.seen: set[int] = set()  # seeds
        self.reds: list[dict[str, Any]] = []
        for line in path.read_text().splitlines() if path is not None and path.exists() else ():
            told = json.loads(line)
            tally = Tally.read(told["tally"])
            self._add(told["first"], told["code"], tally, told["reds"])

    def add(self, piece: Piece) -> None:
        """Write down what came of a piece."""
        line = {
            "first": piece.first,
            "code": self.code,
            "reds": piece.reds,
            "tally": vars(piece.tally),
        }
        if self._path is not None and piece.tally.stories:
            with self._path.open("a") as file:
                file.write(json.dumps(line) + "\n")
        self._add(piece.first, self.code, piece.tally, piece.reds)

    def _add(self, first: int, code: str, tally: Tally, reds: list[dict[str, Any]]) -> None:
        self.total.add(tally)
        self.by_code[code] = self.by_code.get(code, 0) + tally.stories
        self.seen.update(range(first, first + tally.stories))
        self.reds += reds

    def pieces(self, first: int, stories: int, *, jobs: int) -> Iterator[Piece]:
        """What is left of these stories."""
        most = min(PIECE, -(-stories // jobs))
        seed, end = first, first + stories
        while seed < end:
            count = 0
            while seed + count < end and count < most and seed + count not in self.seen:
                count += 1
            if count:
                yield Piece(seed, count)
            seed += max(count, 1)

    def table(self) -> str:
        """All stories so far."""
        told = [self.total.table()]
        told += [f"| stories with code {name} | {count:,} |" for name, count in self.by_code.items()]
        return "\n".join(told)


def code() -> str:
    """A name of what is lived through: the product and the simulation."""
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
    live: Callable[[int], Outcome],
    told: Callable[[str], None] = lambda _: None,
) -> Tally:
    """Live through those of the stories that the results do not have yet; what these came to.  How it goes is
    `told` every minute."""
    began, told_at = time.monotonic(), time.monotonic()
    done = Tally()
    # As by Ctrl-C: what there is so far is written down.
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    left = len(set(range(first, first + stories)) - results.seen)
    waiting = results.pieces(first, stories, jobs=jobs)
    running: dict[connection.Connection, tuple[Any, Piece]] = {}
    again: list[Piece] = []
    try:
        while True:
            is_over = time.monotonic() - began > seconds
            while len(running) < jobs and not is_over:
                piece = again.pop() if again else next(waiting, None)
                if piece is None:
                    break
                running.update([_begin(piece, live)])
            if not running:
                return done
            for one in connection.wait(list(running), timeout=PROGRESS_SECONDS):
                assert isinstance(one, connection.Connection)
                process, piece = running[one]
                if _heard(one, piece) and not (is_over and not piece.is_done):
                    continue
                del running[one]
                _end(process, piece, is_over=is_over)
                results.add(piece)
                done.add(piece.tally)
                if not is_over and not piece.is_done:
                    count = piece.count - piece.tally.stories
                    again.append(Piece(piece.first + piece.tally.stories, count))
            if time.monotonic() - told_at > PROGRESS_SECONDS:
                told_at = time.monotonic()
                told(_progress(done, [piece for _, piece in running.values()], left, told_at - began))
    finally:
        signal.signal(signal.SIGTERM, before)
        for process, piece in running.values():
            _end(process, piece, is_over=True)
            results.add(piece)


def _begin(piece: Piece, live: Callable[[int], Outcome]) -> tuple[connection.Connection, tuple[Any, Piece]]:
    context = get_context("fork")
    hear, say = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(piece, live, say), daemon=True)
    process.start()
    say.close()
    return hear, (process, piece)


def _work(piece: Piece, live: Callable[[int], Outcome], say: connection.Connection) -> None:
    """In a process of its own: tell of each story when it has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ["TMPDIR"] = tempfile.tempdir = str(piece.folder)
    for seed in range(piece.first, piece.first + piece.count):
        used, tally = time.process_time(), Tally()
        outcome = live(seed)
        tally.note(outcome)
        tally.processor_seconds = time.process_time() - used
        try:
            say.send((tally, [failure[:700] for failure in outcome.failures[:6]]))
        except BrokenPipeError:
            break
    say.close()
    sys.stdout.flush()
    os._exit(0)  # what stands for the parent's end is not this one's business


def _heard(one: connection.Connection, piece: Piece) -> bool:
    """Take what a process tells; False: it tells no more."""
    try:
        tally, failures = one.recv()
    except EOFError:
        return False
    piece.tally.add(tally)
    if failures:
        piece.reds.append({"seed": tally.seeds[0], "failures": failures})
    return True


def _end(process: Any, piece: Piece, *, is_over: bool) -> None:
    if is_over and not piece.is_done:
        process.kill()
    process.join()
    shutil.rmtree(piece.folder, ignore_errors=True)
    if not piece.is_done and not is_over:
        piece.note_death(process.exitcode)


def _progress(done: Tally, running: list[Piece], left: int, seconds: float) -> str:
    total = Tally()
    for one in (done, *(piece.tally for piece in running)):
        total.add(one)
    hours = seconds / max(total.stories, 1) * (left - total.stories) / 3600
    return (
        f"{total.stories:,} of {left:,} stories, {sum(total.red.values())} red {sorted(total.seeds)},"
        f" {60 * total.stories / seconds:.0f} a minute, {total.pace:.0f} a minute of processor,"
        f" {hours:.1f} hours to go"
    )
