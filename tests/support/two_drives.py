"""Two drives on one account, random programs that use them, and the checks of the result."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from cmsfs import config, errors
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control
from cmsfs.service.storage.store import Store
from tests.support import ledger, story

NAMES = ["a.txt", "b.txt", "c.txt", "d.txt"]
ACCOUNTS = ["one", "two"]

# How many files stay open at a time.
HELD = 6

KILL_SECONDS = 10

# How long a step waits for a daemon whose network has stalled; the request continues without it.
STEP_SECONDS = 0.5

# The command line's side of each of these attempts times out after a quarter of a minute.
PATIENCE = 8


@dataclass(frozen=True)
class Held:
    """A file that was opened at this path and stays open, wherever it is by now."""

    fd: int
    path: Path


class Two:
    """The drives, and random programs at both.  Its methods block: call them from a thread."""

    def __init__(self, folder: Path, home: Path, service: Store) -> None:
        self.tops = {account: folder / account for account in ACCOUNTS}
        self.store = folder / "service"
        self.service = service
        self.ledger = ledger.Ledger()
        self.trace = story.Trace(folder / "story", home)
        self.trace.folder.mkdir()
        self.labels: dict[str, str] = {ledger.sha1(b""): story.label(b"")}
        # Contents that a program read, and nobody wrote.
        self.foreign: list[str] = []
        self.number = 0
        self.held: list[Held] = []

    def cmsfs(self, *arguments: object) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=90,
            cwd="/",
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"

    def mount(self) -> None:
        for account, top in self.tops.items():
            top.mkdir()
            self.cmsfs("--account", account, "mount", top)

    def ask(self, account: str, request: control.Request) -> None:
        daemonctl.silent_sockets.clear()  # each time is a command of its own
        daemon = daemonctl.find_account(account)
        assert daemon is not None
        for _ in daemonctl.exchange(daemon.socket, request):
            pass

    def hint(self, account: str, request: control.Request) -> None:
        """Send a request and close the connection after a moment."""
        end = time.monotonic() + STEP_SECONDS
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(daemonctl, "SILENCE_SECONDS", STEP_SECONDS)
            for _ in daemonctl.exchange(config.Paths(account).socket, request):
                if time.monotonic() > end:
                    return

    def insist(self, account: str, request: control.Request) -> None:
        """Repeat a request until it succeeds: one that hits a stall takes a minute."""
        for attempt in range(PATIENCE):
            try:
                self.ask(account, request)
                return
            except errors.UserError:
                if attempt == PATIENCE - 1:
                    raise

    def settle(self) -> None:
        """Sync both drives in both directions."""
        for _ in range(4):
            for account in ACCOUNTS:
                self.insist(account, control.Sync())
            for account in ACCOUNTS:
                self.insist(account, control.Poll())

    # ---- programs --------------------------------------------------------------------------------

    def text(self, account: str) -> bytes:
        self.number += 1
        data = f"{account} {self.number}\n".encode() * (1 + self.number % 50)
        self.labels[ledger.sha1(data)] = story.label(data)
        return data

    def note(self, path: Path, what: str) -> None:
        self.trace.note(path.parent.name, f"{path.name} {what}")

    def wrote(self, path: Path, data: bytes, *, over: str | None) -> None:
        """Record that the drive acknowledged this content."""
        self.ledger.wrote(data, over=over)
        self.labels[ledger.sha1(data)] = story.label(data)
        self.note(path, f"has {story.label(data)}, which is acknowledged")

    def shows(self, path: Path, inode: int | None, data: bytes, what: str) -> None:
        """Record that a program has read this, before it changes the file."""
        self.note(path, f"inode {inode} shows {story.label(data)}: {what}")
        if ledger.sha1(data) not in self.labels:
            self.foreign.append(f"{path.parent.name}: {path.name} inode {inode} shows {story.label(data)}")

    def replaced(self, path: Path, before: bytes) -> None:
        """Record that a program at this drive read this and replaced or removed it."""
        self.ledger.saw_and_replaced(before)
        self.note(path, f"had {story.label(before)}, which is given up")

    def write(self, path: Path, data: bytes) -> None:
        """Overwrite the file in place, after reading it through the same handle."""
        fd = os.open(path, os.O_RDWR)
        try:
            before = self.overwrite(path, fd, data)
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        self.wrote(path, data, over=ledger.sha1(before))

    def overwrite(self, path: Path, fd: int, data: bytes) -> bytes:
        before = os.pread(fd, 1 << 20, 0)
        self.shows(path, story.inode(fd), before, f"to be {story.label(data)}")
        os.ftruncate(fd, 0)
        # From here on the program itself has removed it, whether or not the write succeeds.
        self.replaced(path, before)
        os.pwrite(fd, data, 0)
        return before

    def hold(self, path: Path) -> None:
        """Open the file and keep it open, whatever happens to it."""
        self.held.append(Held(os.open(path, os.O_RDWR), path))
        self.note(path, f"inode {story.inode(self.held[-1].fd)} is held")
        if len(self.held) > HELD:
            os.close(self.held.pop(0).fd)

    def write_held(self, held: Held, data: bytes) -> None:
        """Write through an old handle, whichever file it is by now."""
        before = self.overwrite(held.path, held.fd, data)
        os.fsync(held.fd)
        self.wrote(held.path, data, over=ledger.sha1(before))

    def giving_up(self, path: Path) -> None:
        """Give up later writes through open handles of this path: its file is about to be removed or
        replaced."""
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        for held in list(self.held):
            if os.path.samestat(os.fstat(held.fd), found):
                self.held.remove(held)
                os.close(held.fd)

    def let_go(self) -> None:
        while self.held:
            with contextlib.suppress(OSError):  # its daemon may have been killed
                os.close(self.held.pop().fd)

    def create(self, path: Path, data: bytes) -> None:
        self.note(path, f"is to be made: {story.label(data)}")
        with path.open("xb") as file:
            file.write(data)
        # It may become a version of a file that was just deleted here.
        self.wrote(path, data, over=ledger.ANY)

    def save(self, path: Path, data: bytes) -> None:
        before = path.read_bytes() if path.exists() else b""
        temporary = path.with_name(f".goutputstream-{self.number}")
        temporary.write_bytes(data)
        self.wrote(temporary, data, over=ledger.ANY)
        self.giving_up(path)
        self.shows(path, story.inode(path), before, f"{temporary.name} goes over")
        temporary.rename(path)
        self.replaced(path, before)

    def rename(self, path: Path, target: Path) -> None:
        before = target.read_bytes() if target.exists() else b""
        moved = path.read_bytes()
        if ledger.sha1(moved) in self.ledger.acknowledged:
            self.ledger.put_anywhere(moved)
        if path != target:
            self.giving_up(target)
        self.shows(path, story.inode(path), moved, f"to be {target.name}")
        self.shows(target, story.inode(target), before, f"{path.name} goes over")
        path.rename(target)
        if path != target:
            self.replaced(target, before)

    def unlink(self, path: Path) -> None:
        before = path.read_bytes()
        self.giving_up(path)
        self.shows(path, story.inode(path), before, "to be unlinked")
        path.unlink()
        self.replaced(path, before)

    def step(self, chance: random.Random) -> None:
        account = chance.choice(ACCOUNTS)
        path = self.tops[account] / chance.choice(NAMES)
        act = chance.choices(
            ["write", "save", "rename", "unlink", "hold", "held", "sync", "poll"],
            weights=[40, 20, 8, 7, 10, 20, 12, 12],
        )[0]
        try:
            match act:
                case "write" if path.exists():
                    self.write(path, self.text(account))
                case "write":
                    self.create(path, self.text(account))
                case "save":
                    self.save(path, self.text(account))
                case "rename":
                    self.rename(path, self.tops[account] / chance.choice(NAMES))
                case "unlink":
                    self.unlink(path)
                case "hold":
                    self.hold(path)
                case "held" if self.held:
                    self.write_held(chance.choice(self.held), self.text(account))
                case "sync":
                    self.hint(account, control.Sync())
                case "poll":
                    self.hint(account, control.Poll())
        except (OSError, errors.UserError) as error:
            # Refused, or failed by the network: nothing was acknowledged.
            self.note(path, f"{act} raised {error!r}")

    def kill(self, account: str) -> None:
        """Kill the daemon in the middle of its work, and start another one."""
        daemon = daemonctl.find_account(account)
        assert daemon is not None
        self.trace.note(account, "kill")
        os.kill(daemon.pid, signal.SIGKILL)
        # Also those of the other drive: it is not recorded which are whose.
        self.let_go()
        _wait_for_end(daemon.pid)
        self.trace.after_kill(account)
        with self.trace.telling(account, "mount"):
            self.cmsfs("--account", account, "mount", self.tops[account])

    def story(self, seed: int, steps: int, *, kill_every: int = 0) -> None:
        self.trace.note("story", f"seed {seed}, {steps} steps, a kill every {kill_every}")
        chance = random.Random(seed)
        for number in range(1, steps + 1):
            self.step(chance)
            if kill_every and not number % kill_every:
                self.kill(chance.choice(ACCOUNTS))
        self.let_go()

    # ---- checks ----------------------------------------------------------------------------------

    def chains(self) -> list[list[str]]:
        rows = self.service.read("SELECT file, sha1 FROM version ORDER BY file, id")
        found: dict[int, list[str]] = {}
        for row in rows:
            found.setdefault(row["file"], []).append(row["sha1"])
        self.foreign += [
            f"the service's file {file} has {sha1}"
            for file, chain in found.items()
            for sha1 in chain
            if sha1 not in self.labels
        ]
        return list(found.values())

    async def judge(self) -> tuple[list[str], list[tuple[str, str]]]:
        """Return what was lost, and what was overwritten unread."""
        chains = self.chains()
        # A drive may have to ask the service for a listing, and this thread serves that.
        local = await trio.to_thread.run_sync(self.local_only)
        kept = {sha1 for chain in chains for sha1 in chain} | local
        return self.ledger.vanished(kept), self.ledger.unseen(chains)

    def local_only(self) -> set[str]:
        """Return the contents of temporary files whose rename failed, which are still there."""
        return {
            ledger.sha1(path.read_bytes())
            for top in self.tops.values()
            for path in top.glob(".goutputstream-*")
        }

    def explained(self, contents: list[str]) -> str:
        """Return what is known of the contents that failed a check."""
        told = [self.labels[sha1].strip("<").partition(";")[0] for sha1 in contents if sha1 in self.labels]
        return f"{', '.join(told)}: {self.trace.keep(told, self.store)}"

    def check_same(self) -> None:
        """Check that both drives show the same as the service."""
        rows = self.service.read("SELECT name, sha1 FROM item WHERE kind = 1 AND status = 0")
        there = {row["name"]: row["sha1"] for row in rows}
        for account, top in self.tops.items():
            here = {path.name: ledger.sha1(path.read_bytes()) for path in top.iterdir()}
            here = {name: sha1 for name, sha1 in here.items() if not name.startswith(".goutputstream-")}
            assert here == there, f"{account}: {self.explained([*here.values(), *there.values()])}"


def _wait_for_end(pid: int) -> None:
    """Wait until the process has ended; it is not our child, and may stay as a zombie."""
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return
        if state.rpartition(")")[2].split()[0] in "ZX":
            return
        os.sched_yield()
    raise AssertionError(f"process {pid} does not end")
