"""What it costs this process to make a small file, and to replace one as editors do.

`python tests/bench/save_costs.py`: a drive with the embedded service, in this process and without a kernel,
as in `hops.py`; the calls are those that the handlers of `cmsfs.fuse` make for

    a new file        look the name up, create, write, flush, release, forget
    a copied file     a new file, three folders deep, of which times and mode are set, as `cp -a` does
    a temporary file  a new file that is fsynced, renamed, and removed

and beside the processor's time a file it counts transactions and those of them that changed nothing,
statements, work given to another thread, and fsyncs.  With `--statements` also which statements, the most
frequent first.
Nothing here asserts anything.
"""

import argparse
import collections
import os
import re
import resource
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import hops
import trio
import trio.testing

from cmsfs.replica.nodes import ROOT
from cmsfs.runtime import threads
from cmsfs.vfs.tree.attributes import SetAttr
from daemon import app

SIZE = 10_000
_VALUES = re.compile(r"'[^']*'|\b\d+\b")


class Counts:
    """What is counted while it counts."""

    def __init__(self) -> None:
        self.statements: collections.Counter[str] = collections.Counter()
        self.hops = 0
        self.fsyncs = 0
        self.transactions = 0
        self.empty = 0
        self._changed = False
        self.counting = False

    def statement(self, text: str) -> None:
        if not self.counting:
            return
        verb = text.split(None, 1)[0].upper()
        if verb == "BEGIN":
            self.transactions += 1
            self._changed = False
        elif verb in ("COMMIT", "ROLLBACK"):
            self.empty += not self._changed
        elif verb in ("INSERT", "UPDATE", "DELETE"):
            self._changed = True
        text = _VALUES.sub("?", " ".join(text.split()))
        self.statements[
            f"{text[:20]} ... {text[text.find(' FROM ') :][:90]}" if verb == "SELECT" else text[:110]
        ] += 1

    def attach(self) -> None:
        """Count from here on: every connection's statements, and this process's hops and fsyncs."""
        connect, run_sync, run_brief = sqlite3.connect, threads.run_sync, threads.run_brief
        fsync = os.fsync

        def traced(*args: Any, **kwargs: Any) -> sqlite3.Connection:
            conn = connect(*args, **kwargs)
            if "replica.db" in str(args[0]):
                conn.set_trace_callback(self.statement)
            return conn

        async def hop(*args: Any, **kwargs: Any) -> Any:
            self.hops += self.counting
            return await run_sync(*args, **kwargs)

        async def brief_hop(*args: Any, **kwargs: Any) -> Any:
            self.hops += self.counting
            return await run_brief(*args, **kwargs)

        def synced(fd: int) -> None:
            self.fsyncs += self.counting
            fsync(fd)

        sqlite3.connect = traced  # type: ignore[assignment]
        threads.run_sync = hop  # type: ignore[assignment]
        threads.run_brief = brief_hop
        os.fsync = synced  # type: ignore[assignment]

    @contextmanager
    def on(self) -> Iterator[None]:
        self.counting = True
        try:
            yield
        finally:
            self.counting = False


async def new_file(drive: app.Agent, folder: int, name: str, data: bytes, *, fsync: bool = False) -> int:
    shown = drive.shown
    try:
        await shown.lookup(folder, name)
    except FileNotFoundError:
        pass
    opened, made = await shown.create(folder, name, 0o644, os.O_WRONLY)
    await shown.write(opened.fh, 0, data)
    if fsync:
        await shown.fsync(opened.fh)
    await shown.flush(opened.fh)
    await shown.release(opened.fh)
    return made.ino


async def save(drive: app.Agent, folder: int, number: int, data: bytes) -> None:
    ino = await new_file(drive, folder, f"made {number}", data)
    drive.shown.forget([(ino, 1)])


async def copied(drive: app.Agent, folder: int, number: int, data: bytes) -> None:
    shown, name = drive.shown, f"copied {number}"
    for above in ("a", "b", "c"):
        try:
            folder = (await shown.lookup(folder, above)).ino
        except FileNotFoundError:
            folder = (await shown.mkdir(folder, above, 0o755)).ino
    try:
        await shown.lookup(folder, name)
    except FileNotFoundError:
        pass
    opened, made = await shown.create(folder, name, 0o600, os.O_WRONLY)
    await shown.write(opened.fh, 0, data)
    await shown.setattr(made.ino, SetAttr(atime_ns=number, mtime_ns=number), opened.fh)
    await shown.setattr(made.ino, SetAttr(mode=0o644), opened.fh)
    await shown.flush(opened.fh)
    await shown.release(opened.fh)
    shown.getattr(folder)
    shown.forget([(made.ino, 1)])


async def temporary(drive: app.Agent, folder: int, number: int, data: bytes) -> None:
    shown = drive.shown
    old, new = f"tmp {number}", f"done {number}"
    ino = await new_file(drive, folder, old, data, fsync=True)
    try:
        await shown.lookup(folder, new)
    except FileNotFoundError:
        pass
    await shown.rename(folder, old, folder, new, 0)
    await shown.unlink(folder, new)
    shown.forget([(ino, 1)])
    await trio.testing.wait_all_tasks_blocked(0.0)


Cycle = Callable[[app.Agent, int, int, bytes], Awaitable[None]]


async def measure(cycle: Cycle, size: int, counts: Counts, count: int) -> dict[str, float]:
    async with hops.open_person() as person:
        drive = person.drive
        folder = (await drive.shown.mkdir(ROOT, "folder", 0o755)).ino
        data = os.urandom(size)
        for number in range(20):
            await cycle(drive, folder, number, data)
        await drive.commit.commit()
        before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        with counts.on():
            for number in range(20, 20 + count):
                await cycle(drive, folder, number, data)
            await drive.commit.commit()
        after, ended = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "processor us": seconds / count * 1e6,
        "us": (ended - began) / count * 1e6,
        "switches": (after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw) / count,
        "transactions": counts.transactions / count,
        "empty": counts.empty / count,
        "statements": sum(counts.statements.values()) / count,
        "threads": counts.hops / count,
        "fsyncs": counts.fsyncs / count,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--statements", action="store_true")
    parser.add_argument("--plain", action="store_true", help="count nothing, so that it costs nothing")
    chosen = parser.parse_args()
    cycles: dict[str, Cycle] = {
        "a new file": save,
        "a copied file": copied,
        "a temporary file": temporary,
    }
    for what, cycle in cycles.items():
        counts = Counts()
        if not chosen.plain:
            counts.attach()
        with tempfile.TemporaryDirectory(prefix="cmsfs-costs-") as home:
            hops.own_folders(home)
            found = trio.run(measure, cycle, chosen.size, counts, chosen.count)
        print(f"{what:18}" + "".join(f"{value:9.1f} {name}" for name, value in found.items()))
        if chosen.statements:
            for text, number in counts.statements.most_common():
                if number >= chosen.count / 2:
                    print(f"{number / chosen.count:6.1f}  {text}")


if __name__ == "__main__":
    main()
