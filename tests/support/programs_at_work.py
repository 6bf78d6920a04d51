"""Ordinary programs that use a drive during an operation on it: copies, a database, a player, a log."""

import hashlib
import os
import shutil
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until

# How much the player reads at a time, and how often.
FRAME = 64 * 1024
FRAME_SECONDS = 0.02


class Programs:
    """Programs that use a drive until they are stopped; `stop` raises their exceptions."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self.rounds: dict[str, int] = {}
        self.longest: dict[str, float] = {}

    def start(self, name: str, step: Callable[[], float | None], *, every: float = 0.002) -> None:
        """Repeat this with a pause of so many seconds; it may return its own longest pause."""

        def run() -> None:
            try:
                while not self._over.is_set():
                    began = time.monotonic()
                    pause = step()
                    took = time.monotonic() - began if pause is None else pause
                    self.longest[name] = max(self.longest.get(name, 0), took)
                    self.rounds[name] = self.rounds.get(name, 0) + 1
                    self._over.wait(every)
            except BaseException as error:
                error.add_note(name)
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def await_round(self) -> None:
        """Wait until each has made progress, or has failed."""
        before = dict(self.rounds)

        def moved() -> bool:
            return bool(self._failures) or all(
                self.rounds.get(name, 0) > count for name, count in before.items()
            )

        until(moved, 60, "a program stands still")

    def told(self) -> str:
        """Return how many steps each has done, and the longest time of a step, or that a copy had to wait."""
        lines = [f"{name:16}{self.rounds[name]:8}{self.longest[name]:10.2f} s" for name in self.rounds]
        return "\n".join([f"{'program':16}{'steps':>8}{'longest':>12}", *lines])

    def stop(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        if self._failures:
            raise self._failures[0]


@contextmanager
def working() -> Iterator[Programs]:
    programs = Programs()
    try:
        yield programs
    finally:
        programs.stop()


def at_work(programs: Programs, drive: MountedDrive, source: Path) -> Callable[[], None]:
    """Start programs on the drive; the returned function checks, once they have stopped, what they wrote."""
    top = drive.top
    film = os.urandom(1024 * 1024) * 8
    (top / "film.bin").write_bytes(film)
    playing = os.open(top / "film.bin", os.O_RDONLY)
    place = [0]

    def play() -> None:
        # Like a player with a small buffer: reads at a fixed rate, past the kernel's cached pages.
        os.posix_fadvise(playing, 0, 0, os.POSIX_FADV_DONTNEED)
        got = os.read(playing, FRAME)
        assert got == film[place[0] : place[0] + FRAME], place
        place[0] = (place[0] + len(got)) % len(film)
        if not place[0]:
            os.lseek(playing, 0, os.SEEK_SET)

    table = sqlite3.connect(top / "table.db", check_same_thread=False, timeout=60)
    table.execute("CREATE TABLE line (number INTEGER PRIMARY KEY, text TEXT)")
    lines = [0]

    def insert() -> None:
        with table:
            table.execute("INSERT INTO line VALUES (?, ?)", (lines[0], f"line {lines[0]}" * 50))
        lines[0] += 1

    log = os.open(top / "app.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    hidden = os.open(top / "hidden", os.O_RDWR | os.O_CREAT)
    (top / "hidden").unlink()
    written = hashlib.sha1(usedforsecurity=False)
    size = [0]

    def write() -> None:
        data = os.urandom(1000 + size[0] % 7000)
        assert os.write(log, data) == len(data)
        assert os.pwrite(hidden, data, size[0]) == len(data)
        assert os.pread(hidden, len(data), size[0]) == data
        written.update(data)
        size[0] += len(data)

    copies = [0]

    def copy_in() -> float:
        longest = rsync(source, top / f"copy {copies[0]}")
        copies[0] += 1
        return longest

    def copy_out() -> float:
        shutil.rmtree(source.parent / "back", ignore_errors=True)
        longest = rsync(top / "origin", source.parent / "back")
        assert tree(source.parent / "back") == tree(source)
        return longest

    rsync(source, top / "origin")

    def walk() -> None:
        for _, _, files in os.walk(top, onerror=_raise):
            assert files is not None

    def make_and_remove() -> None:
        (top / "folder").mkdir()
        (top / "folder" / "a").write_text("a")
        (top / "folder" / "a").rename(top / "folder" / "b")
        (top / "folder" / "b").unlink()
        (top / "folder").rmdir()

    for step in (insert, write, copy_in, copy_out, walk, make_and_remove):
        programs.start(step.__name__, step)
    programs.start("play", play, every=FRAME_SECONDS)

    def check() -> None:
        for number in range(copies[0]):
            drive.sh(f"diff -r '{source}' 'copy {number}'")
        assert table.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert table.execute("SELECT count(*) FROM line").fetchone() == (lines[0],)
        table.close()
        os.close(log)
        found = hashlib.sha1((top / "app.log").read_bytes(), usedforsecurity=False)
        assert found.hexdigest() == written.hexdigest()
        found = hashlib.sha1(os.pread(hidden, size[0], 0), usedforsecurity=False)
        assert found.hexdigest() == written.hexdigest()
        os.close(hidden)
        os.close(playing)
        assert not (top / "folder").exists()

    return check


def rsync(source: Path, target: Path) -> float:
    """Return the longest time between two of its files."""
    command = ["rsync", "-a", "--outbuf=L", "--out-format=%n", f"{source}/", str(target)]
    longest, before = 0.0, time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
            lines.append(line)
    assert process.returncode == 0, lines[-5:]
    return longest


def tree(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def _raise(error: OSError) -> None:
    # Another program may have removed the folder meanwhile.
    if not isinstance(error, FileNotFoundError):
        raise error


def make_source(made: Path) -> Path:
    """Create a tree to copy."""
    for folder in range(10):
        (made / f"f{folder}").mkdir(parents=True)
        for number in range(20):
            (made / f"f{folder}" / f"{number}.txt").write_bytes(os.urandom(100 + 3000 * number))
    return made
