"""The driver of the crash tests: writers on a real mount, a daemon that dies, and what must be there after.

`Expected` folds the logs of `crash_writer.py` into what each file may be; `Rounds` starts and kills.  Two
ways to die: killed, after which everything acknowledged must be there; and a power cut, after which
everything must be there that was fsynced, or acknowledged a second before.
"""

import contextlib
import hashlib
import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import trio

from cmsfs import config, mounts
from cmsfs.auth import connect
from cmsfs.cli.support import daemonctl
from cmsfs.client.content.search import EVERYTHING
from cmsfs.ipc import control
from cmsfs.models.content import search
from tests.support import forked
from tests.support.patience import Patience, crowding
from tests.support.program import Daemon

WRITER = Path(__file__).with_name("crash_writer.py")
WAIT_SECONDS = 60.0

# What a writer hears of a drive whose daemon was killed.
DEAD = ("[Errno 103]", "[Errno 107]")

# What was acknowledged so long before a power cut survives it.  The promise is a second (SEMANTICS.md,
# "Writing"), on a disk that is no Python program and a machine that does nothing else.
DURABLE_AFTER = 2.5 * crowding()

States = set[str | None]


@dataclass
class Expected:
    """What each file may be; one that is not named here was in somebody's hands when the end came."""

    states: dict[str, States] = field(default_factory=dict)
    acknowledged: int = 0

    def fold(self, log: Path, folder: str, *, cut_at: float | None) -> None:
        """Take in what a writer was told; `cut_at` is when the power went."""
        unsure: dict[str, object] = {}
        for line in log.read_text().splitlines():
            what, at, *rest = json.loads(line)
            if what in ("begin", "end"):
                continue
            states = {f"{folder}/{path}": state for path, state in rest[0].items()}
            if what == "try":
                unsure = states
                continue
            unsure = {}
            for path, state in states.items():
                if cut_at is None or rest[1] or at < cut_at - DURABLE_AFTER:
                    self.states[path] = {state}
                    self.acknowledged += 1
                else:
                    self.states.pop(path, None)
        for path, state in unsure.items():
            if isinstance(state, list) and cut_at is None:
                self.states[path] = set(state)
            else:
                self.states.pop(path, None)

    def check(self, found: dict[str, str], log: str) -> None:
        """Raises AssertionError for a file that is neither what it was nor what it was to become."""
        for path, allowed in self.states.items():
            assert found.get(path) in allowed, f"{path} is {found.get(path)}, not {allowed}\n{log[-3000:]}"
        copies = [path for path in found if "conflicted copy" in path]
        assert copies == [], f"conflicts with ourselves: {copies}\n{log[-3000:]}"


class Rounds:
    """One drive on an embedded service, which dies again and again."""

    def __init__(self, root: Path, seed: int) -> None:
        self.mountpoint = root / "mnt"
        self.mountpoint.mkdir()
        self.plan = root / "plan"
        self.log = root / "log"
        self.random = random.Random(seed)
        self.seed = seed
        self.settle_seconds = 0.1
        self.expected = Expected()
        self._daemon = Daemon(self.mountpoint, self.log)
        self._root = root
        self._writers: list[tuple[subprocess.Popen[bytes], Path, str]] = []

    # ---- the daemon ----

    def start(self) -> None:
        self.plan.unlink(missing_ok=True)
        plan, settle = str(self.plan), str(self.settle_seconds)
        told = self._daemon.attempt(CMSFS_CRASH_PLAN=plan, CMSFS_SETTLE_SECONDS=settle)
        assert told == (0, ""), f"{told}\n{self.log.read_text()[-3000:]}"

    def sync(self) -> None:
        answers = list(daemonctl.exchange(config.Paths("default").socket, control.Sync()))
        last = answers[-1]
        assert isinstance(last, control.Done)
        assert (last.pending, last.held) == (0, 0), self.log.read_text()[-3000:]

    def look(self) -> None:
        """Have the drive learn what the service has: also what was sent, and forgotten here."""
        assert isinstance(
            list(daemonctl.exchange(config.Paths("default").socket, control.Poll()))[-1], control.Done
        )

    def died(self) -> None:
        """Wait for the end of a daemon that is to die, and take its mount away."""
        code = self._daemon.wait()
        assert code == -signal.SIGKILL, self.log.read_text()[-3000:]
        self._daemon.free()

    def kill(self) -> None:
        code = self._daemon.end(signal.SIGKILL)
        assert code == -signal.SIGKILL, self.log.read_text()[-3000:]
        self._daemon.free()

    def end(self) -> None:
        """An orderly end."""
        assert self._daemon.end() == 0

    def free(self) -> None:
        """Whatever has happened, nothing stays."""
        for process, *_ in self._writers:
            process.kill()
        self._daemon.free()
        for process, *_ in self._writers:
            process.wait(timeout=WAIT_SECONDS)

    # ---- the writers ----

    def write(self, *options: str) -> None:
        """Two programs begin to write, each in a folder of its own."""
        for number in range(2):
            self.seed += 1
            log = self._root / f"writes-{self.seed}"
            folder = f"writer{number}"
            process = subprocess.Popen(
                [
                    *(sys.executable, "-I", str(WRITER), str(self.mountpoint / folder), str(log)),
                    *(str(self.seed), *(options if number == 0 else [o for o in options if o != "--large"])),
                ]
            )
            self._writers.append((process, log, folder))
        # One that came after the end would write into the folder below the mountpoint.
        self._await(lambda: self._count('["begin"') == 2)

    def await_acknowledged(self, count: int) -> None:
        """Wait until the writers were told of so many changes."""
        self._await(lambda: self._count('["ack"') >= count)

    def _await(self, condition: Callable[[], bool]) -> None:
        patience = Patience(WAIT_SECONDS)
        while not condition():
            assert patience.left(), f"{patience}\n{self.log.read_text()[-3000:]}"
            assert self._refused() == [], self.log.read_text()[-3000:]
            time.sleep(0.01)

    def _refused(self) -> list[str]:
        """The last words of writers that have stopped, but for those whose drive is dead."""
        stopped = [log for process, log, _ in self._writers if process.poll() is not None]
        words = [log.read_text().splitlines()[-1] for log in stopped]
        return [line for line in words if not any(end in line for end in DEAD)]

    def _count(self, what: str) -> int:
        logs = [log for _, log, _ in self._writers]
        return sum(log.read_text().count(what) for log in logs if log.exists())

    def fold(self, *, cut_at: float | None = None) -> None:
        """The drive is dead: learn what the writers were told."""
        for process, log, folder in self._writers:
            process.wait(timeout=WAIT_SECONDS)
            self.expected.fold(log, folder, cut_at=cut_at)
        self._writers.clear()

    # ---- what is there ----

    def check_drive(self) -> dict[str, str]:
        """Compare the drive with what is expected; what it has, which is what is expected from now on."""
        found: dict[str, str] = {}
        for path in sorted(self.mountpoint.glob("writer*/**/*")):
            if path.is_file():
                found[str(path.relative_to(self.mountpoint))] = digest_of(path)
        self.expected.check(found, self.log.read_text())
        for name in {*self.expected.states, *found}:
            self.expected.states[name] = {found.get(name)}
        return found

    def check_service(self, found: dict[str, str]) -> None:
        """The service has the same files with the same bytes."""
        there = trio.run(at_service)
        differences = sorted(found.items() ^ there.items())
        told = f"on the drive or at the service only: {differences}\n{self.log.read_text()[-3000:]}"
        assert differences == [], told


def wait_until(moment: float) -> None:
    """A power cut comes when it comes: there is nothing to wait for but the time."""
    while time.monotonic() < moment:
        time.sleep(0.01)


def digest_of(path: Path) -> str:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError as error:
        return f"unreadable ({error})"


async def at_service() -> dict[str, str]:
    """The writers' files as the service has them: downloaded, and hashed here."""
    result: dict[str, str] = {}
    async with connect.open_backend(config.load()) as client:
        query = search.Query(query=EVERYTHING, ancestor_folder_ids=["0"], limit=200)
        found = {(item.type, item.id): item async for item in client.search.entries(query)}
        for (kind, item_id), item in found.items():
            parts, above = [item.name or ""], item.parent
            while above is not None and (folder := found.get(("folder", above.id))) is not None:
                parts.insert(0, folder.name or "")
                above = folder.parent
            if kind == "file" and parts[0].startswith("writer"):
                check = hashlib.sha1(usedforsecurity=False)
                if item.size:  # type: ignore[union-attr]
                    async with client.files.content(item_id) as chunks:
                        async for chunk in chunks:
                            check.update(chunk)
                result["/".join(parts)] = check.hexdigest()
    return result


class Disk:
    """A disk under the local state that forgets in a power cut what was not fsynced."""

    def __init__(self, root: Path, *, lie: str = "") -> None:
        self.mountpoint = root / "disk"
        self.image = root / "image"
        self.lie = lie
        self._process: subprocess.Popen[bytes] | None = None
        for folder in (self.mountpoint, self.image, self.image / "state", self.image / "cache"):
            folder.mkdir(mode=0o700)

    def start(self) -> None:
        """The power is on."""
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", forked.DISK, str(self.mountpoint), str(self.image)),
                *("--lie", self.lie),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._line() == b"mounted\n"

    def _line(self) -> bytes:
        assert self._process is not None
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def cut(self, seed: int) -> None:
        """The power is off; what was not on the disk is not in the image."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"cut {seed}\n".encode())
        self._process.stdin.flush()
        assert self._line() == b"cut\n"

    def remove(self) -> None:
        """After the processes are dead that used it.  The next start is another boot of the machine."""
        self.free()
        database = self.image / "state" / "cmsfs" / "default" / "replica.db"
        if database.exists():
            with contextlib.closing(sqlite3.connect(database)) as conn, conn:
                conn.execute("UPDATE cursor SET value = 'another' WHERE key = 'boot_id'")

    def free(self) -> None:
        while mounts.find(self.mountpoint) is not None:
            mounts.detach(self.mountpoint)
        process, self._process = self._process, None
        if process is not None:
            process.communicate(timeout=WAIT_SECONDS)
