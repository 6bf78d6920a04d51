"""How many files and functions of ours a call passes, on the five paths that matter most to a reader.

`python tests/bench/hops.py`: a drive with the embedded service, in this process and without a kernel; with
`--names` also which functions, file by file (`--path "cold read"`: of one path alone).

    cold read                 open a file of which no byte is here, read all of it, close it
    save to close             open a file that exists, write it anew, close it: until `close` has returned
    push of a saved file      from the journal's having it until the service has it and nothing is left to do
    remote change             a file has a new version: from asking the feed until the kernel has been told
    restore of a web link     the rename from `.trash` to where it was

How it counts.  While the operation goes on, every function that is entered in any task or thread counts once,
under the file and the name it is defined with; a comprehension, a generator expression or a lambda is part of
the function around it.  Only `cmsfs` and `daemon` count: not the service (`cmsfs.service`), nor what is
called by it, nor libraries, nor what an `import` or `dataclass` makes.  The calls are those that the handlers
of `cmsfs.fuse` make; the handlers and the kernel are left out, and the notifier is in.  Each operation is
done four times, and a function counts that is passed each time but the first: neither what is done once (a
token, a first listing) nor what other tasks happened to do meanwhile.
Nothing here asserts anything.
"""

import argparse
import collections
import hashlib
import os
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import trio

from cmsfs import config
from cmsfs.auth import connect
from cmsfs.client import session
from cmsfs.client.content.uploads import BytesSource
from cmsfs.models import base
from cmsfs.models.content import uploads
from cmsfs.replica import tree
from cmsfs.replica.nodes import ROOT, Node
from daemon import app, local_state
from daemon.core.request_scheduler import RequestScheduler

HOME = Path(app.__file__).resolve().parents[1]
SERVICE = str(HOME / "cmsfs" / "service") + os.sep
OURS = (str(HOME / "cmsfs") + os.sep, str(HOME / "daemon") + os.sep)
# What a program does not know as a function of its own.
NAMELESS = ("<lambda>", "<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")

FILE_BYTES = 1024 * 1024
READ_BYTES = 128 * 1024

Hop = tuple[str, str]  # file, function


class Hops:
    """The functions that are passed while it is counting, in every thread."""

    def __init__(self) -> None:
        self._counting = False
        self._passed: set[CodeType] = set()
        sys.setprofile(self._event)
        threading.setprofile(self._event)

    @contextmanager
    def counting(self) -> Iterator[set[Hop]]:
        """The set is filled when the operation has ended."""
        hops: set[Hop] = set()
        self._passed.clear()
        self._counting = True
        try:
            yield hops
        finally:
            self._counting = False
            hops |= {hop for code in self._passed if (hop := _hop(code)) is not None}

    def _event(self, frame: FrameType, event: str, _: Any) -> None:
        if self._counting and event == "call" and frame.f_code not in self._passed:
            if not _is_ours(frame.f_code):
                return
            above: FrameType | None = frame
            while above is not None:
                if above.f_code.co_filename.startswith(SERVICE):
                    return
                above = above.f_back
            self._passed.add(frame.f_code)


def _is_ours(code: CodeType) -> bool:
    return code.co_filename.startswith(OURS) and code.co_name != "<module>"


def _hop(code: CodeType) -> Hop | None:
    parts = code.co_qualname.split(".")
    while parts[-1] in NAMELESS:
        parts = parts[:-2] if parts[-2:-1] == ["<locals>"] else parts[:-1]
        if not parts:
            return None  # at the top of a module
    return str(Path(code.co_filename).relative_to(HOME)), ".".join(parts)


class Person:
    """Who works at the drive, and at the service from elsewhere."""

    def __init__(self, drive: app.Agent, client: session.Client) -> None:
        self.drive = drive
        self.shown = drive.shown
        self._client = client
        self._version = 0

    def _data(self) -> bytes:
        self._version += 1
        return hashlib.sha256(str(self._version).encode()).digest() * (FILE_BYTES // 32)

    async def cold_read(self, hops: Hops) -> set[Hop]:
        name = await self._elsewhere()
        await self.pull()
        ino = (await self.shown.lookup(ROOT, name)).ino
        with hops.counting() as passed:
            opened = await self.shown.open(ino, os.O_RDONLY)
            for offset in range(0, FILE_BYTES, READ_BYTES):
                await self.shown.read(opened.fh, offset, READ_BYTES)
            await self.shown.flush(opened.fh)
            await self.shown.release(opened.fh)
        return passed

    async def save_to_close(self, hops: Hops) -> set[Hop]:
        ino = await self._save("saved.txt")
        await self.drive.sync()
        with hops.counting() as passed:
            await self._write(ino)
        await self.drive.sync()
        return passed

    async def push(self, hops: Hops) -> set[Hop]:
        await self._save("pushed.txt")
        await self.drive.sync()
        await self._save("pushed.txt")
        push = self.drive.push
        with hops.counting() as passed, push.hurrying():
            await push.drained()
        return passed

    async def remote_change(self, hops: Hops) -> set[Hop]:
        name = await self._elsewhere()
        await self.pull()
        ino = (await self.shown.lookup(ROOT, name)).ino
        await self._elsewhere(tree.find(self.drive.state.db, ino))
        with hops.counting() as passed:
            await self.pull()
        return passed

    async def restore(self, hops: Hops) -> set[Hop]:
        made = await self._client.web_links.create("https://example.com/", "0", name=f"Link {self._version}")
        self._version += 1
        await self.pull()
        name = f"{made.name}.url"
        await self.shown.lookup(ROOT, name)
        await self.shown.unlink(ROOT, name)
        await self.drive.sync()
        trash = (await self.shown.lookup(ROOT, ".trash")).ino
        await self.shown.lookup(trash, name)
        with hops.counting() as passed:
            await self.shown.rename(trash, name, ROOT, name, 0)
        return passed

    async def pull(self) -> None:
        await self.drive.pull.poll()
        await self.drive.notifier.settled()

    async def _save(self, name: str) -> int:
        try:
            ino = (await self.shown.lookup(ROOT, name)).ino
        except FileNotFoundError:
            opened, made = await self.shown.create(ROOT, name, 0o644, os.O_WRONLY)
            await self.shown.release(opened.fh)
            ino = made.ino
        await self._write(ino)
        return ino

    async def _write(self, ino: int) -> None:
        opened = await self.shown.open(ino, os.O_WRONLY | os.O_TRUNC)
        data = self._data()
        for offset in range(0, FILE_BYTES, READ_BYTES):
            await self.shown.write(opened.fh, offset, data[offset : offset + READ_BYTES])
        await self.shown.flush(opened.fh)
        await self.shown.release(opened.fh)

    async def _elsewhere(self, node: Node | None = None) -> str:
        """Another program makes a file, or the next version of this one; its name."""
        data = self._data()
        source, sha1 = BytesSource(data), hashlib.sha1(data, usedforsecurity=False).hexdigest()
        if node is not None and node.remote_id is not None:
            await self._client.uploads.new_version(node.remote_id, source, sha1=sha1)
            return node.name
        attributes = uploads.UploadAttributes(name=f"file {self._version}", parent=base.Reference(id="0"))
        await self._client.uploads.new_file(attributes, source, sha1=sha1)
        return attributes.name


PATHS = {
    "cold read": Person.cold_read,
    "save to close": Person.save_to_close,
    "push of a saved file": Person.push,
    "remote change": Person.remote_change,
    "restore of a web link": Person.restore,
}


@asynccontextmanager
async def open_person() -> AsyncIterator[Person]:
    """A person at a drive of which all agents run that the five paths need."""
    settings = config.Settings(settle_seconds=600)  # what is saved goes when the push is told to hurry
    settings.paths.ensure()
    pace = RequestScheduler(config.profile(settings).limits)
    async with (
        local_state.open_state(settings) as state,
        connect.open_backend(settings, sample=True, pace=pace) as client,
        trio.open_nursery() as nursery,
    ):
        drive = app.Agent(settings, settings.paths.state / "mnt", state, client, nursery, pace)
        await drive.contact(is_shown=False)
        await drive.fs.begin()
        for run in (drive.commit.run, drive.fs.run, drive.notifier.run, drive.push.run):
            nursery.start_soon(run)
        nursery.start_soon(drive.health.run, drive.account.who)
        yield Person(drive, client)
        nursery.cancel_scope.cancel()


async def measure(names: list[str]) -> dict[str, set[Hop]]:
    hops = Hops()
    found = {}
    async with open_person() as person:
        for name in names:
            await PATHS[name](person, hops)
            found[name] = set.intersection(*[await PATHS[name](person, hops) for _ in range(3)])
    return found


def own_folders(home: str) -> None:
    """Keep everything of this process in this folder."""
    for kind in ("CONFIG", "DATA", "STATE", "CACHE", "RUNTIME"):
        place = Path(home) / kind.lower()
        place.mkdir(mode=0o700)
        os.environ[f"XDG_{kind}_{'DIR' if kind == 'RUNTIME' else 'HOME'}"] = str(place)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--names", action="store_true")
    arguments.add_argument("--path", choices=PATHS)
    wanted = arguments.parse_args()
    with tempfile.TemporaryDirectory(prefix="cmsfs-hops-") as home:
        own_folders(home)
        found = trio.run(measure, [wanted.path] if wanted.path else list(PATHS))
    print(f"{'':24}{'files':>6}{'functions':>11}")
    for path, hops in found.items():
        print(f"{path:24}{len({file for file, _ in hops}):6}{len(hops):11}")
    if wanted.names:
        for path, hops in found.items():
            print(f"\n{path}")
            by_file = collections.defaultdict(list)
            for file, function in hops:
                by_file[file].append(function)
            for file, functions in sorted(by_file.items()):
                print(f"  {file}: {', '.join(sorted(functions))}")


if __name__ == "__main__":
    main()
