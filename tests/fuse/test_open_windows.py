"""Programs that watch a folder hear of changes made elsewhere as of those of their own machine."""

import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyfuse3
import pytest
import trio

from cmsfs.fuse import echo_helper, echo_process, notifier, open_windows
from cmsfs.fuse.echo_plan import Place
from cmsfs.fuse.echoes import Echoes, EchoTask
from cmsfs.fuse.mount import Mounted
from cmsfs.fuse.operations import Operations
from cmsfs.replica.changes import Change, ChangeKind, Hub
from cmsfs.replica.nodes import ROOT
from tests.support.inotify import Trace
from tests.support.memory_drive import MemoryDrive
from tests.support.patience import until

FOLDER = stat.S_IFDIR | 0o755


class Elsewhere:
    """Changes a drive in memory as its service would, and tells of that."""

    def __init__(self, fs: MemoryDrive, hub: Hub) -> None:
        self._fs, self._hub = fs, hub

    def put(self, path: str, *, mode: int = stat.S_IFREG | 0o644) -> None:
        place = self._split(path)
        thing = self._fs.put(path, b"news", mode=mode)
        self._hub.publish([Change(ChangeKind.ENTRY, thing.ino, *place, is_new=True)])

    def write(self, path: str) -> None:
        self._hub.publish([Change(ChangeKind.CONTENT, self._fs.put(path, b"other bytes").ino)])

    def touch(self, path: str) -> None:
        self._hub.publish([Change(ChangeKind.ATTRIBUTES, self._fs.ino(path))])

    def delete(self, path: str) -> None:
        parent, name = self._split(path)
        ino = self._fs.things[parent].entries.pop(name)
        self._hub.publish([Change(ChangeKind.GONE, ino, parent, name)])

    def move(self, path: str, to: str) -> None:
        old, new = self._split(path), self._split(to)
        ino = self._fs.things[old[0]].entries.pop(old[1])
        self._fs.things[new[0]].entries[new[1]] = ino
        self._hub.publish([Change(ChangeKind.ENTRY, ino, *old), Change(ChangeKind.ENTRY, ino, *new)])

    def _split(self, path: str) -> tuple[int, str]:
        folder, _, name = path.rpartition("/")
        return self._fs.ino(folder), name


class Places:
    """Where things are in a drive in memory."""

    def __init__(self, fs: MemoryDrive) -> None:
        self._fs = fs

    def child(self, parent: int, name: str) -> Place | None:
        ino = self._fs.things[parent].entries.get(name)
        return None if ino is None else self.find(ino)

    def find(self, ino: int) -> Place | None:
        thing = self._fs.things.get(ino)
        if thing is None:
            return None
        for parent, folder in self._fs.things.items():
            for name, one in folder.entries.items():
                if one == ino:
                    return Place(ino, parent, name, stat.S_ISDIR(thing.mode), len(thing.data))
        return Place(ino, None, "", stat.S_ISDIR(thing.mode), 0)

    def is_listed(self, folder: int) -> bool:
        return True

    def inodes_of(self, shown: set[int]) -> set[int]:
        rows = {number: ino for ino, number in self._fs.numbers.items()}
        return {rows.get(number, number) for number in shown}

    def is_successor(self, ino: int) -> bool:
        return False


@pytest.fixture
async def follows(
    fs: MemoryDrive, hub: Hub, drive: Mounted, echoes: Echoes, nursery: trio.Nursery
) -> open_windows.OpenWindows:
    """What tells those who watch `drive`."""
    tells = notifier.Notifier(hub, fs)
    nursery.start_soon(tells.run)
    follows = open_windows.OpenWindows(
        hub, fs, Places(fs), echoes, mountpoint=drive.mountpoint, kernel_notified=tells.settled_soon
    )
    nursery.start_soon(follows.run)
    follows.on_mounted(drive.connection)
    return follows


@pytest.fixture
def elsewhere(fs: MemoryDrive, hub: Hub) -> Elsewhere:
    return Elsewhere(fs, hub)


CHANGING = ("create", "mkdir", "unlink", "rmdir", "rename", "setattr", "write", "open")


async def test_watchers_hear_of_every_kind_of_change(
    fs: MemoryDrive,
    top: Path,
    outside: Any,
    follows: open_windows.OpenWindows,
    elsewhere: Elsewhere,
    tmp_path: Path,
) -> None:
    here = tmp_path / "here"
    for folder in ("a", "b", "old"):
        (here / folder).mkdir(parents=True)
        fs.put(folder, mode=FOLDER)
    for file in ("changed", "gone", "renamed", "a/moved"):
        (here / file).touch()
        fs.put(file, b"x")
    local = Trace(here, here / "a", here / "b")
    remote = await outside(Trace, top, top / "a", top / "b")
    # Each at a time, for the order of what is told together is another.
    steps: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: elsewhere.put("new"), (here / "new").touch),
        (lambda: elsewhere.write("changed"), lambda: (here / "changed").write_bytes(b"other")),
        (lambda: elsewhere.delete("gone"), (here / "gone").unlink),
        (lambda: elsewhere.move("renamed", "other"), lambda: (here / "renamed").rename(here / "other")),
        (lambda: elsewhere.move("a/moved", "b/moved"), lambda: (here / "a/moved").rename(here / "b/moved")),
        (lambda: elsewhere.put("folder", mode=FOLDER), (here / "folder").mkdir),
        (lambda: elsewhere.delete("old"), (here / "old").rmdir),
        (lambda: elsewhere.move("folder", "a/folder"), lambda: (here / "folder").rename(here / "a/folder")),
        (lambda: elsewhere.touch("changed"), lambda: os.utime(here / "changed")),
    ]
    for there, as_here in steps:
        there()
        await follows.wait_until_notified()
        as_here()
    assert (await outside(remote.events)) == local.events()
    assert all(not fs.calls[op] for op in CHANGING), fs.calls
    # What is found then is the truth.
    assert sorted(await outside(os.listdir, top)) == ["a", "b", "changed", "new", "other"]
    assert (await outside((top / "new").read_bytes)) == b"news"
    assert (await outside(os.stat, top / "a" / "folder")).st_ino == fs.ino("a/folder")
    remote.close()
    local.close()


@pytest.fixture(autouse=True)
def _without_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_windows, "REST_FACTOR", 0.0)


async def test_many_changes_are_each_heard_once(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    watch = await outside(Trace, top)
    for number in range(500):
        elsewhere.put(f"{number}")
        elsewhere.write(f"{number}")
    # What came and went was never there; what is written to after all the news is told as new alone.
    elsewhere.put("short-lived")
    elsewhere.delete("short-lived")
    await follows.wait_until_notified()
    events = await outside(watch.events)
    assert events == [(kind, f"{n}") for n in range(500) for kind in ("CREATE", "CLOSE_WRITE")]
    watch.close()


async def test_nobody_hears_who_does_not_look(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    fs.put("folder", mode=FOLDER)
    await outside(os.stat, top / "folder")
    before = fs.calls.copy()
    elsewhere.put("folder/new")
    await follows.wait_until_notified()
    # Whoever lists the machine's file systems asks this one for its size.
    assert set(fs.calls - before) <= {"statfs"}
    # One whose watch cannot be seen is thought to be there where somebody has listed.
    await outside(os.listdir, top / "folder")
    elsewhere.put("folder/newer")
    await follows.wait_until_notified()
    assert fs.calls["getattr"] > before["getattr"]


async def test_new_file_that_was_met_before_is_told(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    watch = await outside(Trace, top)
    for name, mode in (("file", stat.S_IFREG | 0o644), ("folder", FOLDER)):
        fs.put(name, b"x", mode=mode)
        elsewhere.touch(name)
        await follows.wait_until_notified()
        await outside(watch.events)
    # The kernel has both by a listing when their places change with each other.
    names = await outside(os.listdir, top)
    for name in names:
        await outside(os.stat, top / name)
    elsewhere.move("file", "aside")
    elsewhere.move("folder", "file")
    for name in ("file", "aside"):
        await outside(os.stat, top / name)
    await outside(until, lambda: not (top / "folder").exists())
    await follows.wait_until_notified()
    assert await outside(watch.events) == [
        ("MOVED_FROM", "file"),
        ("MOVED_TO", "aside"),
        ("MOVED_FROM/", "folder"),
        ("MOVED_TO/", "file"),
    ]
    assert (await outside(os.stat, top / "file")).st_ino == fs.ino("file")
    watch.close()


async def test_names_that_change_places_are_told(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    for name in ("a", "b"):
        fs.put(name, b"x")
    watch = await outside(Trace, top)
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        elsewhere.move(old, new)
    await follows.wait_until_notified()
    assert await outside(watch.events) == [
        ("DELETE", "a"),
        ("MOVED_FROM", "b"),
        ("MOVED_TO", "a"),
        ("CREATE", "b"),
        ("CLOSE_WRITE", "b"),
    ]
    watch.close()


async def test_program_that_makes_the_same_name_goes_first(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    """What a program does is done, and told by the kernel alone, whatever waits to be told."""
    watch = await outside(Trace, top)
    fs.put("a", b"x")
    elsewhere.delete("a")
    await outside((top / "a").write_bytes, b"mine")
    await follows.wait_until_notified()
    assert [kind for kind, _ in await outside(watch.events)] == ["CREATE", "MODIFY", "CLOSE_WRITE"]
    assert (await outside((top / "a").read_bytes)) == b"mine"
    elsewhere.put("b")
    await outside((top / "b").unlink)
    await follows.wait_until_notified()
    assert await outside(watch.events) == [("DELETE", "b")]
    assert fs.calls["create"] == fs.calls["unlink"] == 1
    watch.close()


async def test_folders_that_may_not_be_changed_are_followed(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    """What others share may be there to be read alone; only root would be let in without a word."""
    fs.put("shared", mode=stat.S_IFDIR | 0o555)
    fs.put("shared/old", b"x", mode=stat.S_IFREG | 0o444)
    watch = await outside(Trace, top / "shared")
    elsewhere.put("shared/new")
    elsewhere.write("shared/old")
    await follows.wait_until_notified()
    assert await outside(watch.events) == [
        ("CREATE", "new"),
        ("CLOSE_WRITE", "new"),
        ("MODIFY", "old"),
        ("CLOSE_WRITE", "old"),
    ]
    assert (await outside(os.stat, top / "shared")).st_mode == stat.S_IFDIR | 0o555
    watch.close()


async def test_helper_changes_nothing_and_others_are_not_taken_for_it(
    fs: MemoryDrive, echoes: Echoes
) -> None:
    handlers = Operations(fs, echoes=echoes)
    helper, stranger = cast(Any, SimpleNamespace(pid=7)), cast(Any, SimpleNamespace(pid=8))
    folder, file = fs.put("folder", mode=stat.S_IFDIR | 0o555).ino, fs.put("file", b"x").ino
    echoes.pids.add(7)
    echoes.set_tasks([EchoTask(echo_process.CREATE, folder, "new", ino=9)])
    assert (await handlers.getattr(folder, helper)).st_mode & 0o200
    assert not (await handlers.getattr(folder, stranger)).st_mode & 0o200
    # It has not asked for the ghost, or it is not told to do this, or it is not so.
    calls: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
        (handlers.unlink, (ROOT, b"file", helper)),
        (handlers.rmdir, (ROOT, b"folder", helper)),
        (handlers.rename, (ROOT, b"file", ROOT, b"other", 0, helper)),
        (handlers.mkdir, (folder, b"new", 0o700, helper)),
        (handlers.create, (folder, b"new", 0o600, 0, helper)),
        (handlers.create, (ROOT, b"else", 0o600, 0, helper)),
        (handlers.open, (file, os.O_WRONLY, helper)),
        (handlers.setattr, (file, None, None, None, helper)),
        (handlers.symlink, (ROOT, b"link", b"file", helper)),
        (handlers.link, (file, ROOT, b"link", helper)),
        (handlers.mknod, (ROOT, b"node", 0, 0, helper)),
        (handlers.setxattr, (file, b"user.x", b"", helper)),
        (handlers.removexattr, (file, b"user.x", helper)),
    ]
    for call, arguments in calls:
        with pytest.raises(pyfuse3.FUSEError):
            await call(*arguments)
    assert all(not fs.calls[op] for op in (*CHANGING, "setxattr", "removexattr"))
    echoes.set_tasks([EchoTask(echo_process.CREATE, folder, "new", ino=9)])
    await handlers.create(folder, b"new", 0o600, os.O_WRONLY, stranger)
    assert fs.calls["create"] == 1


async def test_helper_that_hangs_or_dies_is_replaced(
    fs: MemoryDrive,
    top: Path,
    outside: Any,
    follows: open_windows.OpenWindows,
    elsewhere: Elsewhere,
    echoes: Echoes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = await outside(Trace, top)
    elsewhere.put("first")
    await follows.wait_until_notified()
    for number, name in ((signal.SIGSTOP, "stopped"), (signal.SIGKILL, "killed")):
        pid = follows.helper_pid
        assert pid is not None
        os.kill(pid, number)
        elsewhere.put(name)
        with monkeypatch.context() as patch:
            if number == signal.SIGSTOP:
                # Long enough for another one to start on a busy machine.
                patch.setattr(echo_helper, "TIMEOUT_SECONDS", 3)
            await outside(until, lambda pid=pid: follows.helper_pid != pid)
        await follows.wait_until_notified()
        assert (await outside(watch.events))[-2:] == [("CREATE", name), ("CLOSE_WRITE", name)]
        await outside(until, lambda pid=pid: pid not in echoes.pids)
    follows.on_unmounting()
    await outside(until, lambda: not echoes.pids)
    assert follows.helper_pid is None
    watch.close()


async def test_idle_helper_ends(
    top: Path,
    outside: Any,
    follows: open_windows.OpenWindows,
    elsewhere: Elsewhere,
    echoes: Echoes,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(open_windows, "IDLE_SECONDS", 0.0)
    watch = await outside(Trace, top)
    elsewhere.put("new")
    await follows.wait_until_notified()
    assert await outside(watch.events) == [("CREATE", "new"), ("CLOSE_WRITE", "new")]
    await outside(until, lambda: not echoes.pids)
    watch.close()


async def test_who_watches_a_file_hears_though_its_number_is_no_row(
    fs: MemoryDrive, top: Path, outside: Any, follows: open_windows.OpenWindows, elsewhere: Elsewhere
) -> None:
    fs.numbers[fs.put("f", b"x").ino] = 1 << 56 | 7
    watch = await outside(Trace, top / "f")
    elsewhere.write("f")
    await follows.wait_until_notified()
    assert "MODIFY" in [kind for kind, _ in await outside(watch.events)]
    watch.close()
