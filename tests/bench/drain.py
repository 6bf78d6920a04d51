"""Benchmark of uploading local changes: requests, processor time, and the rates that result.

`python tests/bench/drain.py [--files 300] [--workers 4] [--embedded]`: a drive with all its agents, in this
process and without a kernel, on a service in a process of its own (`--embedded`: in this one).  Rows:

    drain                small files that are written while nothing is sent, and then sent
    untar                the same in folders of a hundred that are new, too
    save by rename       a file of 5 MB that is there, written beside and renamed over it, one at a time
    temporary files      written, fsynced, renamed, removed, with the settle time of the default settings
    remove a tree        `rm -rf` of what `untar` has made, all its files and folders sent before

Each row says, for one unit (a file, a save): requests by what they are for, transactions, thread hops and
statements of the drive, its processor time and that of the service, and the units a second.  Rates are of
this machine and this moment; the counts are not.  Nothing here asserts anything.
"""

import argparse
import collections
import json
import os
import random
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

from cmsfs import config
from cmsfs.auth import connect
from cmsfs.replica.nodes import ROOT, Ino
from cmsfs.runtime import threads
from cmsfs.sqlite import Database
from daemon import app, local_state
from daemon.control import server
from daemon.core.request_scheduler import RequestScheduler
from daemon.core.supervisor import Supervisor

MIB = 1024 * 1024
FOLDER_FILES = 100
SAVES = 20
QUIET_SECONDS = 1.5


@dataclass
class Counts:
    """Counters since the start."""

    transactions: int = 0
    hops: int = 0
    statements: int = 0
    requests: collections.Counter[str] = field(default_factory=collections.Counter)


COUNTS = Counts()


@contextmanager
def counting() -> Iterator[None]:
    """Count transactions, statements and thread hops of every database and task."""
    run, hop, connected = Database._run, threads.run_sync, sqlite3.connect

    def counted_run(self: Database, *rest: Any, **more: Any) -> Any:
        COUNTS.transactions += 1
        return run(self, *rest, **more)

    async def counted_hop(*rest: Any, **more: Any) -> Any:
        COUNTS.hops += 1
        return await hop(*rest, **more)

    def note(_: str) -> None:
        COUNTS.statements += 1

    def traced(*rest: Any, **more: Any) -> sqlite3.Connection:
        made: sqlite3.Connection = connected(*rest, **more)
        made.set_trace_callback(note)
        return made

    Database._run = counted_run  # type: ignore[method-assign]
    threads.run_sync = counted_hop  # type: ignore[assignment]
    sqlite3.connect = traced  # type: ignore[assignment]
    try:
        yield
    finally:
        Database._run, sqlite3.connect = run, connected  # type: ignore[method-assign]
        threads.run_sync = hop


class Person:
    """A user of the drive."""

    def __init__(self, drive: app.Agent, service: int | None) -> None:
        self.drive = drive
        self.shown = drive.shown
        self._service = service
        self._chance = random.Random(1)

    # ---- programs ----

    async def write(self, parent: Ino, name: str, size: int, *, fsync: bool = False) -> Ino:
        opened, made = await self.shown.create(parent, name, 0o644, os.O_WRONLY)
        data = self._chance.randbytes(size)
        for offset in range(0, size, 128 * 1024):
            await self.shown.write(opened.fh, offset, data[offset : offset + 128 * 1024])
        if fsync:
            await self.shown.fsync(opened.fh)
        await self.shown.flush(opened.fh)
        await self.shown.release(opened.fh)
        return made.ino

    async def folder(self, parent: Ino, name: str) -> Ino:
        return (await self.shown.mkdir(parent, name, 0o755)).ino

    async def quiet(self) -> None:
        """Wait until everything is uploaded and no requests are left."""
        await self.drive.sync()
        last = -1
        while (asked := self.drive.health.requests.total() - self.drive.health.requests["wait"]) != last:
            last = asked
            await trio.sleep(QUIET_SECONDS)

    # ---- rows ----

    async def drain(self, count: int) -> None:
        await self.quiet()
        self.drive.health.pause("the bench")
        for number in range(count):
            await self.write(ROOT, f"small {number:05}", self._chance.randrange(200, 20_000))
        async with self.measured("drain", count):
            self.drive.health.resume()
            await self.drive.sync()

    async def untar(self, count: int) -> None:
        await self.quiet()
        async with self.measured("untar", count):
            top = await self.folder(ROOT, "tree")
            for number in range(count):
                if number % FOLDER_FILES == 0:
                    inside = await self.folder(top, f"folder {number:05}")
                await self.write(inside, f"file {number:05}", self._chance.randrange(200, 20_000))
            await self.drive.sync()

    async def saves(self) -> None:
        await self.write(ROOT, "report", 5 * MIB)
        await self.quiet()
        async with self.measured("save by rename", SAVES):
            for _ in range(SAVES):
                await self.write(ROOT, "report.new", 5 * MIB)
                await self.shown.rename(ROOT, "report.new", ROOT, "report", 0)
                await self.quiet()

    async def temporary(self, count: int) -> None:
        await self.quiet()
        async with self.measured("temporary files", count):
            for number in range(count):
                await self.write(ROOT, f"new {number}", 4000, fsync=True)
                await self.shown.rename(ROOT, f"new {number}", ROOT, f"made {number}", 0)
                await self.shown.unlink(ROOT, f"made {number}")
            await self.quiet()

    async def remove(self, count: int) -> None:
        """Remove the tree of `untar` with the calls of `rm -rf`."""
        await self.quiet()
        top = (await self.shown.lookup(ROOT, "tree")).ino
        async with self.measured("remove a tree", count):
            began = time.perf_counter()
            for first in range(0, count, FOLDER_FILES):
                name = f"folder {first:05}"
                inside = (await self.shown.lookup(top, name)).ino
                for number in range(first, min(first + FOLDER_FILES, count)):
                    await self.shown.unlink(inside, f"file {number:05}")
                await self.shown.rmdir(top, name)
            await self.shown.rmdir(ROOT, "tree")
            print(f"  returned after {time.perf_counter() - began:.2f} s", flush=True)
            await self.drive.sync()

    # ---- counting ----

    @asynccontextmanager
    async def measured(self, what: str, units: int) -> AsyncIterator[None]:
        requests = self.drive.health.requests.copy()
        before = (COUNTS.transactions, COUNTS.hops, COUNTS.statements)
        used, theirs, began = _used(), self._used_there(), time.perf_counter()
        yield
        took, used, theirs = time.perf_counter() - began, _used() - used, self._used_there() - theirs
        after = (COUNTS.transactions, COUNTS.hops, COUNTS.statements)
        counts = [(b - a) / units for a, b in zip(before, after, strict=True)]
        asked = self.drive.health.requests - requests
        told = ", ".join(f"{kind} {count / units:.2f}" for kind, count in sorted(asked.items()))
        figures = [
            f"{asked.total() / units:7.2f} requests",
            f"{counts[0]:7.2f} transactions{counts[1]:7.2f} hops{counts[2]:8.1f} statements",
            f"{used / units * 1000:8.2f} ms here{theirs / units * 1000:8.2f} ms there",
            f"{units / took:9.1f}/s",
        ]
        print(f"{what:18}{''.join(figures)}\n{'':18}  ({told})", flush=True)

    def _used_there(self) -> float:
        if self._service is None:
            return 0.0
        fields = Path(f"/proc/{self._service}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _used() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@contextmanager
def served(root: Path) -> Iterator[tuple[dict[str, Any], int]]:
    """Run a service in its own process; yield the settings for a drive on it, and the process id."""
    arguments = ["serve", "--data", str(root / "service"), "--port", "0", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "cmsfs", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            text += process.stdout.readline()
        said = json.loads(text)
        credentials = json.loads(Path(said["credentials_file"]).read_text())
        secret = root / "secret"
        secret.write_text(credentials["client_secret"])
        secret.chmod(0o600)
        url = said["url"]
        values = {
            "account": "bench",
            "profile": "server",
            "base_url": f"{url}/2.0",
            "upload_url": f"{url}/api/2.0",
            "auth_url": url,
            "client_id": credentials["client_id"],
            "client_secret_file": secret,
            "subject_id": credentials["user_id"],
        }
        yield values, process.pid
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def open_person(values: dict[str, Any], service: int | None) -> AsyncIterator[Person]:
    """Open a drive with all its agents for a user."""
    settings = config.Settings(**values)
    settings.paths.ensure()
    pace = RequestScheduler(config.profile(settings).limits)
    async with (
        local_state.open_state(settings) as state,
        connect.open_backend(settings, sample=service is None, pace=pace) as client,
        trio.open_nursery() as nursery,
        server.listening(settings.paths.socket) as listener,
    ):
        agents = Supervisor(nursery)
        drive = app.Agent(settings, settings.paths.state / "mnt", state, client, agents, pace)
        await drive.contact(is_shown=False)
        await drive.fs.begin()
        drive.start_handlers(agents, listener)
        drive.start(agents)
        yield Person(drive, service)
        nursery.cancel_scope.cancel()


async def measure(arguments: argparse.Namespace, values: dict[str, Any], service: int | None) -> None:
    rows: dict[str, Callable[[Person], Awaitable[None]]] = {
        "drain": lambda person: person.drain(arguments.files),
        "untar": lambda person: person.untar(arguments.files),
        "remove": lambda person: person.remove(arguments.files),
        "saves": lambda person: person.saves(),
        "temporary": lambda person: person.temporary(arguments.files),
    }
    async with open_person(values, service) as person:
        for name in arguments.rows.split(",") if arguments.rows else rows:
            await rows[name](person)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--files", type=int, default=300)
    arguments.add_argument("--workers", type=int)
    arguments.add_argument("--embedded", action="store_true")
    arguments.add_argument("--rows", help="some of drain,untar,remove,saves,temporary")
    wanted = arguments.parse_args()
    own = {"notifications": False, "thumbnails": False}
    if wanted.workers is not None:
        own["upload_workers"] = wanted.workers
    with tempfile.TemporaryDirectory(prefix="cmsfs-drain-") as home, counting():
        for kind in ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME"):
            place = Path(home) / kind.lower()
            place.mkdir(mode=0o700)
            os.environ[f"XDG_{kind}_{'DIR' if kind == 'RUNTIME' else 'HOME'}"] = str(place)
        if wanted.embedded:
            trio.run(measure, wanted, own, None)
            return
        with served(Path(home)) as (values, service):
            trio.run(measure, wanted, values | own, service)


if __name__ == "__main__":
    main()
