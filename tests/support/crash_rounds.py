"""The driver of the crash tests: writers on a real mount, a daemon that dies, and what must survive.

`Expected` derives the allowed states of each file from the logs of `crash_writer.py`; `Rounds` starts and
kills the daemon.  After a kill everything acknowledged must be there; after a power cut, everything that was
fsynced, or acknowledged a second before.
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

# Errors that a writer gets when the daemon was killed.
DEAD = ("[Errno 103]", "[Errno 107]")

# Changes acknowledged so long before a power cut survive it.  The promise is one second (SEMANTICS.md,
# "Writing"), for a disk that is not a Python program and a machine that is otherwise idle.
DURABLE_AFTER = 2.5 * crowding()

States = set[str | None]


@dataclass
class Expected:
    """The allowed states (SHA-1s, None: absent) of each file; files in an unknown state are not listed."""

    states: dict[str, States] = field(default_factory=dict)
    acknowledged: int = 0

    def apply_log(self, log: Path, folder: str, *, cut_at: float | None) -> None:
        """Apply a writer's log; `cut_at` is the time of a power cut."""
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
        """Raise AssertionError if a file is in none of its allowed states, or there is a conflict copy."""
        wrong = {path: allowed for path, allowed in self.states.items() if found.get(path) not in allowed}
        message = "\n".join(f"{path} is {found.get(path)}, not {allowed}" for path, allowed in wrong.items())
        # What else has these bytes tells a move that came back from a removal that did.
        same = {path for path, digest in found.items() if digest in {found.get(one) for one in wrong}}
        assert not wrong, f"{message}\nwith the same bytes: {sorted(same - wrong.keys())}\n{log[-3000:]}"
        copies = [path for path in found if "conflicted copy" in path]
        assert copies == [], f"conflicts with ourselves: {copies}\n{log[-3000:]}"


class Rounds:
    """A drive on an embedded service, killed again and again."""

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
        # Writers of random bytes look like a program that encrypts files, on a machine that is busy for long.
        message = self._daemon.attempt(
            CMSFS_CRASH_PLAN=plan, CMSFS_SETTLE_SECONDS=settle, CMSFS_GUARD_FILES="0"
        )
        assert message == (0, ""), f"{message}\n{self.log.read_text()[-3000:]}"

    def sync(self) -> None:
        answers = list(daemonctl.exchange(config.Paths("default").socket, control.Sync()))
        last = answers[-1]
        assert isinstance(last, control.Done)
        assert (last.pending, last.held) == (0, 0), self.log.read_text()[-3000:]

    def poll(self) -> None:
        """Poll the service, so that the drive learns of changes it sent and then forgot in a crash."""
        assert isinstance(
            list(daemonctl.exchange(config.Paths("default").socket, control.Poll()))[-1], control.Done
        )

    def wait_killed(self) -> None:
        """Wait until the daemon has been killed at its crash point, and remove its mount."""
        code = self._daemon.wait()
        assert code == -signal.SIGKILL, self.log.read_text()[-3000:]
        self._daemon.free()

    def kill(self) -> None:
        code = self._daemon.end(signal.SIGKILL)
        assert code == -signal.SIGKILL, self.log.read_text()[-3000:]
        self._daemon.free()

    def end(self) -> None:
        """Shut the daemon down cleanly."""
        assert self._daemon.end() == 0

    def free(self) -> None:
        """Remove everything: writers, daemon and mount."""
        for process, *_ in self._writers:
            process.kill()
        self._daemon.free()
        for process, *_ in self._writers:
            process.wait(timeout=WAIT_SECONDS)

    # ---- the writers ----

    def write(self, *options: str) -> None:
        """Start two writers, each in its own folder."""
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
        # A writer that starts after the kill would write into the directory under the mountpoint.
        self._await(lambda: self._count('["begin"') == 2)

    def await_acknowledged(self, count: int) -> None:
        """Wait until so many changes of the writers were acknowledged."""
        self._await(lambda: self._count('["ack"') >= count)

    def _await(self, condition: Callable[[], bool]) -> None:
        patience = Patience(WAIT_SECONDS)
        while not condition():
            assert patience.left(), f"{patience}\n{self.log.read_text()[-3000:]}"
            assert self._unexpected_errors() == [], self.log.read_text()[-3000:]
            time.sleep(0.01)

    def _unexpected_errors(self) -> list[str]:
        """Return the last log lines of writers that stopped for a reason other than a dead daemon."""
        stopped = [log for process, log, _ in self._writers if process.poll() is not None]
        words = [log.read_text().splitlines()[-1] for log in stopped]
        return [line for line in words if not any(end in line for end in DEAD)]

    def _count(self, what: str) -> int:
        logs = [log for _, log, _ in self._writers]
        return sum(log.read_text().count(what) for log in logs if log.exists())

    def collect_logs(self, *, cut_at: float | None = None) -> None:
        """Collect the logs of the writers, after the daemon died."""
        for process, log, folder in self._writers:
            process.wait(timeout=WAIT_SECONDS)
            self.expected.apply_log(log, folder, cut_at=cut_at)
        self._writers.clear()

    # ---- checks ----

    def check_drive(self) -> dict[str, str]:
        """Check the drive; return its files, which are the expected state from now on."""
        found: dict[str, str] = {}
        for path in sorted(self.mountpoint.glob("writer*/**/*")):
            if path.is_file():
                found[str(path.relative_to(self.mountpoint))] = digest_of(path)
        self.expected.check(found, self.log.read_text())
        for name in {*self.expected.states, *found}:
            self.expected.states[name] = {found.get(name)}
        return found

    def check_service(self, found: dict[str, str]) -> None:
        """Check that the service has the same files with the same bytes."""
        there = trio.run(at_service)
        differences = sorted(found.items() ^ there.items())
        message = f"on the drive or at the service only: {differences}\n{self.log.read_text()[-3000:]}"
        assert differences == [], message


def wait_until(moment: float) -> None:
    """Sleep until this time: a power cut comes at a fixed moment, not at an event."""
    while time.monotonic() < moment:
        time.sleep(0.01)


def digest_of(path: Path) -> str:
    try:
        return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()
    except OSError as error:
        return f"unreadable ({error})"


async def at_service() -> dict[str, str]:
    """Return the SHA-1s of the writers' files at the service, computed from downloads."""
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
    """A disk for the local state that loses unsynced data in a power cut."""

    def __init__(self, root: Path, *, lie: str = "") -> None:
        self.mountpoint = root / "disk"
        self.image = root / "image"
        self.lie = lie
        self._process: subprocess.Popen[bytes] | None = None
        for folder in (self.mountpoint, self.image, self.image / "state", self.image / "cache"):
            folder.mkdir(mode=0o700)

    def start(self) -> None:
        """Mount the disk: the power is on."""
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
        """Cut the power: unsynced data is not in the image."""
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"cut {seed}\n".encode())
        self._process.stdin.flush()
        assert self._line() == b"cut\n"

    def remove(self) -> None:
        """Unmount it, once all processes using it are dead; the next start counts as another boot."""
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
