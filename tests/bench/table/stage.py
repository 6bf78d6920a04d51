"""The environment of a row: a service with TLS in one process, a line in another, and plain files."""

import contextlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import trio

from cmsfs.service.content import files, items
from cmsfs.service.provisioning import demo
from cmsfs.service.storage import store
from cmsfs.service.storage.kinds import ItemKind
from cmsfs.sqlite import Connection
from tests.bench import rival
from tests.support import certificates

TOP = Path(__file__).resolve().parents[3]
MIB = 1024 * 1024

# Items per transaction.
_AT_ONCE = 5000
_ANSWERED = re.compile(r"method=(\w+) path=(\S+) .* out=(\d+)")


class Stage:
    """A folder, and the processes started in it."""

    def __init__(self, root: Path, round_trip: float) -> None:
        self.root, self.round_trip = root, round_trip
        self.plain = root / "plain"
        self.plain.mkdir(parents=True, exist_ok=True)
        self.scratch = root / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.ids: dict[str, str] = {}
        self.credentials: dict[str, str] = {}
        self.ca_file = root / "cert.pem"
        self.port = self.line = self.service = 0
        self._log = root / "service.log"

    # ---- what there is ----

    def fill(self, contents: list[tuple[str, int]], *, plain: bool = True) -> None:
        """Files by path and size, in the account and in the plain folder.  One call a stage."""
        made = self.root / "made.json"
        if not made.exists():
            credentials, ids = trio.run(_fill, self.root / "service", contents)
            chance = random.Random(3)
            for path, size in contents if plain else ():
                target = self.plain / path
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("wb") as file:
                    for data in _pieces(chance, size):
                        file.write(data)
            made.write_text(json.dumps([credentials, ids]))
        self.credentials, self.ids = json.loads(made.read_text())

    # ---- what runs ----

    @contextlib.contextmanager
    def playing(self, rate: float = 0, *, tls: bool = True) -> Iterator[None]:
        """The service and the line, for as long as the block."""
        if not self.ca_file.exists():
            certificates.self_signed(self.root, *rival.HOSTS)
        words = ["serve", "--data", str(self.root / "service"), "--port", "0", "--json"]
        if tls:
            words += ["--tls-cert", str(self.ca_file), "--tls-key", str(self.root / "key.pem")]
        with self._log.open("wb") as log, started([sys.executable, "-m", "cmsfs", *words], log) as service:
            text = ""
            while not text.rstrip().endswith("}"):
                text += service.stdout.readline()
            said = json.loads(text)
            self.credentials = json.loads(Path(said["credentials_file"]).read_text())
            self.port, self.service = int(said["url"].rpartition(":")[2]), service.pid
            terms = ["--round-trip", str(self.round_trip), "--rate", str(rate)]
            command = [sys.executable, "-m", "tests.bench.table.line", str(self.port), *terms]
            with started(command, subprocess.DEVNULL) as line:
                self.line = int(line.stdout.readline())
                yield

    def token(self, *, tls: bool = True) -> str:
        form = {
            "grant_type": "client_credentials",
            "client_id": self.credentials["client_id"],
            "client_secret": self.credentials["client_secret"],
            "box_subject_type": "user",
            "box_subject_id": self.credentials["user_id"],
        }
        parts = [part for key, value in form.items() for part in ("-d", f"{key}={value}")]
        url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}/oauth2/token"
        done = subprocess.run(
            ["curl", "-sS", "--cacert", str(self.ca_file), *parts, url], capture_output=True, check=True
        )
        return str(json.loads(done.stdout)["access_token"])

    def answered(self) -> tuple[int, int]:
        """Return the number of answered requests, without long polls, and the bytes of the responses."""
        requests = sent = 0
        with self._log.open(encoding="utf-8") as log:
            for line in log:
                if found := _ANSWERED.search(line):
                    requests += not found[2].endswith("/events/wait")
                    sent += int(found[3])
        return requests, sent


@contextlib.contextmanager
def started(command: list[str], errors: int | IO[bytes], **more: Any) -> Iterator["subprocess.Popen[str]"]:
    """Run a process for the duration of the block."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    process = subprocess.Popen(command, text=True, cwd=TOP, **(pipes | more))
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()


def processor(pid: int) -> float:
    """Return the processor time of a process and its children in seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        own = sum(int(one) for one in fields[11:15]) / os.sysconf("SC_CLK_TCK")
        tasks = Path(f"/proc/{pid}/task").glob("*/children")
        return own + sum(processor(int(child)) for task in tasks for child in task.read_text().split())
    except OSError:
        return 0.0


def memory(pid: int, field: str = "VmHWM") -> float:
    """Return the peak memory of a process in MB; with `VmRSS`, the current one."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


def touch_memory() -> None:
    """Use most of the free memory once.

    A virtual machine gets a page from its host when it first uses it, which takes longer than filling it:
    otherwise who is measured first pays for the page cache of all that follow.  Measured: 8 instead of 3
    seconds of the service's processor for a GiB received.
    """
    meminfo = Path("/proc/meminfo").read_text()
    available = int(re.findall(r"MemAvailable:\s+(\d+)", meminfo)[0]) * 1024
    flags = "mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE"
    command = f"import mmap; mmap.mmap(-1, {min(available * 8 // 10, 32 << 30)}, flags={flags})"
    # In a process of its own: where less is allowed than available, only that one ends.
    subprocess.run([sys.executable, "-c", command], check=False, stderr=subprocess.DEVNULL)


def drop_caches() -> None:
    """What the kernel remembers of disks; without the right to it, what follows is warmer than it says."""
    os.sync()
    with contextlib.suppress(OSError):
        Path("/proc/sys/vm/drop_caches").write_text("3\n")


def seconds(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)


def skim(path: Path) -> None:
    with path.open("rb", buffering=0) as file:
        while file.read(MIB):
            pass


def _pieces(chance: random.Random, size: int) -> Iterator[bytes]:
    """Return the bytes of a file: each megabyte is different."""
    piece = chance.randbytes(min(size, MIB))
    for number in range(0, size, MIB):
        yield (number.to_bytes(8, "big") + piece[8:])[: size - number]


async def _fill(data: Path, contents: list[tuple[str, int]]) -> tuple[dict[str, str], dict[str, str]]:
    """By the service's own functions, without a server."""
    async with store.open_store(data) as opened:
        credentials = await demo.ensure_sample(opened)
        user = int(credentials.user_id)
        # Long ago, since recent items are part of every poll for changes.
        now = opened.now() - 90 * 86_400 * 10**6
        chance = random.Random(3)
        known: dict[str, str] = {}
        empty = opened.blobs.keep_bytes(b"")
        for first in range(0, len(contents), _AT_ONCE):
            kept: list[tuple[str, int, str]] = []
            for path, size in contents[first : first + _AT_ONCE]:
                if not size:
                    kept.append((path, size, empty))
                    continue
                async with opened.blobs.receive() as incoming:
                    for piece in _pieces(chance, size):
                        await incoming.write(piece)
                    kept.append((path, size, await incoming.keep()))

            def txn(conn: Connection, kept: list[tuple[str, int, str]] = kept) -> None:
                owner = conn.execute("SELECT * FROM account WHERE id = ?", (user,)).fetchone()
                known[""] = str(owner["root"])
                for number, (path, size, sha1) in enumerate(kept):
                    parts = path.split("/")
                    for depth in range(1, len(parts) + 1):
                        here, above = "/".join(parts[:depth]), "/".join(parts[: depth - 1])
                        if here in known:
                            continue
                        folder = depth < len(parts)
                        new = (
                            items.New(ItemKind.FOLDER, parts[depth - 1])
                            if folder
                            else items.New(ItemKind.FILE, parts[depth - 1], size, sha1)
                        )
                        # Each a little later than the one before, as in life.
                        when = now + number * 10**4
                        row = items.insert(
                            conn, items.find(conn, int(known[above])), new, by=user, now=when, event=None
                        )
                        if not folder:
                            row = files.add_version(conn, row, by=user, now=when, event=None)
                        known[here] = str(row["id"])

            await opened.write(txn)
        return asdict(credentials), known
