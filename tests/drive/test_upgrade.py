"""The drive changes its process under programs that use it, and they notice a pause."""

import hashlib
import os
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until

UPGRADES = 10


class Programs:
    """Programs at work on a drive until they are stopped; what one of them raised is raised by `stop`."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []
        self.rounds: dict[str, int] = {}
        self.longest: dict[str, float] = {}

    def start(self, name: str, step: Callable[[], object]) -> None:
        """Do this again and again."""

        def run() -> None:
            try:
                while not self._over.is_set():
                    began = time.monotonic()
                    step()
                    self.longest[name] = max(self.longest.get(name, 0), time.monotonic() - began)
                    self.rounds[name] = self.rounds.get(name, 0) + 1
                    self._over.wait(0.002)
            except BaseException as error:
                error.add_note(name)
                self._failures.append(error)

        thread = threading.Thread(target=run, daemon=True)
        self._threads.append(thread)
        thread.start()

    def await_round(self) -> None:
        """Wait until each has done something more, or has failed."""
        before = dict(self.rounds)

        def moved() -> bool:
            return bool(self._failures) or all(
                self.rounds.get(name, 0) > count for name, count in before.items()
            )

        until(moved, 60, "a program stands still")

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
    """Programs on the drive; call what is returned when they have stopped: all is as they wrote it."""
    top = drive.top
    film = os.urandom(1024 * 1024) * 8
    (top / "film.bin").write_bytes(film)
    playing = os.open(top / "film.bin", os.O_RDONLY)
    place = [0]

    def play() -> None:
        got = os.read(playing, 64 * 1024)
        assert got == film[place[0] : place[0] + 64 * 1024], place
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

    def copy() -> None:
        target = top / f"copy {copies[0]}"
        done = subprocess.run(
            ["rsync", "-a", f"{source}/", target], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        copies[0] += 1

    def walk() -> None:
        for _, _, files in os.walk(top, onerror=_raise):
            assert files is not None

    def make_and_remove() -> None:
        (top / "folder").mkdir()
        (top / "folder" / "a").write_text("a")
        (top / "folder" / "a").rename(top / "folder" / "b")
        (top / "folder" / "b").unlink()
        (top / "folder").rmdir()

    for step in (play, insert, write, copy, walk, make_and_remove):
        programs.start(step.__name__, step)

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


def _raise(error: OSError) -> None:
    # A folder that another program has removed meanwhile.
    if not isinstance(error, FileNotFoundError):
        raise error


@pytest.fixture
def source(tmp_path: Path) -> Path:
    made = tmp_path / "source"
    for folder in range(10):
        (made / f"f{folder}").mkdir(parents=True)
        for number in range(20):
            (made / f"f{folder}" / f"{number}.txt").write_bytes(os.urandom(100 + 3000 * number))
    return made


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_programs_go_on_across_upgrades(drive: MountedDrive, source: Path) -> None:
    pid = drive.status()["pid"]
    with working() as programs:
        check = at_work(programs, drive, source)
        for _ in range(UPGRADES):
            programs.await_round()
            started = drive.status()["started"]
            drive.cmsfs("upgrade", seconds=200)
            assert drive.status()["started"] > started
        programs.await_round()
    check()
    assert drive.status()["pid"] != pid
    drive.sync()
    assert not drive.status()["queue"]["ops"]
