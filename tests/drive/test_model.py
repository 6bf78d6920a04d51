"""The drive against a folder of the host: the same calls, the same answers, the same tree.

Every rule makes one call on both sides and compares what came of it, bytes or errno.  Where the drive is
meant to differ (SEMANTICS.md) the rule says so.  After each story the trees are compared, and after all of
them once more, from the service, with all local state lost.
"""

import ctypes
import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.support.mounted_drive import MountedDrive

NAMES = ["a", "b", "long name.txt", "b~", "t.tmp"]
LOCAL = {"b~", "t.tmp"}

names = st.sampled_from(NAMES)
paths = st.one_of(names, st.lists(names, min_size=1, max_size=3).map("/".join))
# A path, or the number of something that is there.
things = st.one_of(paths, st.integers(0, 99), st.integers(0, 99))
slots = st.integers(0, 2)
offsets = st.sampled_from([0, 1, 100, 4095, 4096, 70_000, 1_100_000])
data = st.builds(
    lambda byte, size: bytes([byte]) * size, st.integers(1, 255), st.sampled_from([1, 10, 5000, 140_000])
)
times = st.integers(0, 10**9).map(lambda seconds: seconds * 10**9 + 123_456_789)

_libc = ctypes.CDLL(None, use_errno=True)


def renameat2(old: Path, new: Path, flags: int) -> None:
    if _libc.renameat2(-100, bytes(old), -100, bytes(new), flags):
        raise OSError(ctypes.get_errno(), "renameat2")


class Both(RuleBasedStateMachine):
    """One story.  `drive` and `host` are given by the test."""

    drive: MountedDrive
    host: Path
    limit = 0
    numbers = itertools.count(1)
    stories: ClassVar[list[str]] = []
    restarts = 0
    calls = 0
    good = 0

    def __init__(self) -> None:
        super().__init__()
        name = f"story {next(self.numbers)}"
        self.stories.append(name)
        self.tops = (self.drive.top / name, self.host / name)
        for top in self.tops:
            top.mkdir()
        self.open: dict[int, tuple[int, int]] = {}
        self.known: list[str] | None = None

    def where(self, thing: str | int) -> str:
        """The path that is meant; the host says what there is, before either side is changed."""
        if isinstance(thing, str):
            return thing
        if self.known is None:
            top = self.tops[1]
            self.known = sorted(str(path.relative_to(top)) for path in top.rglob("*")) or ["a"]
        return self.known[thing % len(self.known)]

    def both(self, call: Callable[[Path], Any]) -> Any:
        """Make a call on either side; what it gives on both, or the errno on both."""
        type(self).calls += 1
        self.known = None
        found = [self.outcome(call, top) for top in self.tops]
        assert found[0] == found[1], f"drive {found[0]}, host {found[1]}"
        type(self).good += not (isinstance(found[0], str) and found[0] in errno.errorcode.values())
        return found[0]

    @staticmethod
    def outcome(call: Callable[[Path], Any], top: Path) -> Any:
        try:
            return call(top)
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    # ---- files -----------------------------------------------------------------------------------

    @rule(
        slot=slots,
        path=things,
        flags=st.sampled_from([os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_APPEND]),
        more=st.sampled_from([0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_CREAT | os.O_TRUNC, os.O_TRUNC]),
        mode=st.sampled_from([0o600, 0o644, 0o755]),
    )
    def open_file(self, slot: int, path: str | int, flags: int, more: int, mode: int) -> None:
        if flags == os.O_RDONLY:
            more &= ~os.O_TRUNC
        fds = []

        def call(top: Path) -> str:
            fds.append(os.open(top / self.where(path), flags | more, mode))
            return "opened"

        if self.both(call) == "opened":
            self.close(slot)
            self.open[slot] = (fds[0], fds[1])

    @rule(slot=slots)
    def close(self, slot: int) -> None:
        for fd in self.open.pop(slot, ()):
            os.close(fd)

    def on(self, slot: int, call: Callable[[int], Any]) -> None:
        if self.open:
            slot = slot if slot in self.open else min(self.open)
            fds = dict(zip(self.tops, self.open[slot], strict=True))
            self.both(lambda top: call(fds[top]))

    @rule(slot=slots, offset=offsets, what=data)
    def write(self, slot: int, offset: int, what: bytes) -> None:
        self.on(slot, lambda fd: os.pwrite(fd, what, offset))

    @rule(slot=slots, offset=offsets, size=st.sampled_from([1, 5000, 2_000_000]))
    def read(self, slot: int, offset: int, size: int) -> None:
        self.on(slot, lambda fd: os.pread(fd, size, offset))

    @rule(slot=slots, size=offsets)
    def truncate(self, slot: int, size: int) -> None:
        self.on(slot, lambda fd: os.ftruncate(fd, size))

    @rule(slot=slots)
    def fsync(self, slot: int) -> None:
        self.on(slot, os.fsync)

    @rule(slot=slots)
    def look_at_open(self, slot: int) -> None:
        def look(fd: int) -> tuple[int, ...]:
            found = os.fstat(fd)
            if stat.S_ISDIR(found.st_mode):
                return (found.st_mode,)
            return found.st_size, found.st_nlink, found.st_mode

        self.on(slot, look)

    @rule(path=things, size=offsets)
    def truncate_by_name(self, path: str | int, size: int) -> None:
        self.both(lambda top: os.truncate(top / self.where(path), size))

    @rule(path=paths, what=data)
    def write_whole(self, path: str, what: bytes) -> None:
        self.both(lambda top: (top / self.where(path)).write_bytes(what))

    # ---- names -----------------------------------------------------------------------------------

    @rule(path=paths)
    def mkdir(self, path: str) -> None:
        self.both(lambda top: (top / self.where(path)).mkdir())

    @rule(path=things)
    def rmdir(self, path: str | int) -> None:
        self.both(lambda top: (top / self.where(path)).rmdir())

    @rule(path=things)
    def unlink(self, path: str | int) -> None:
        self.both(lambda top: (top / self.where(path)).unlink())

    @rule(old=things, new=things, flags=st.sampled_from([0, 0, 0, 1, 2]))
    def rename(self, old: str | int, new: str | int, flags: int) -> None:
        old, new = self.where(old), self.where(new)

        self.known = None

        def call(top: Path) -> None:
            renameat2(top / old, top / new, flags)

        ours = self.outcome(call, self.tops[0])
        if ours == "EXDEV":
            # What the service knows does not go into a folder that it does not know.
            assert LOCAL & {*old.split("/")[:-1], *new.split("/")[:-1]}
            return
        theirs = self.outcome(call, self.tops[1])
        assert ours == theirs, f"drive {ours}, host {theirs}"

    @rule(path=paths, to=st.sampled_from(["a", "b/a", "/nowhere/at all"]))
    def symlink(self, path: str, to: str) -> None:
        self.both(lambda top: (top / self.where(path)).symlink_to(to))

    @rule(path=things)
    def readlink(self, path: str | int) -> None:
        self.both(lambda top: str((top / self.where(path)).readlink()))

    @rule(old=things, new=paths)
    def link(self, old: str | int, new: str) -> None:
        """Refused where it would have been made; before that, the same errors."""
        old = self.where(old)
        ours = self.outcome(lambda top: os.link(top / old, top / new, follow_symlinks=False), self.tops[0])
        theirs = self.outcome(lambda top: os.link(top / old, top / new, follow_symlinks=False), self.tops[1])
        if theirs is None:
            (self.tops[1] / new).unlink()
        assert ours == ("EPERM" if theirs is None else theirs)

    @rule(path=st.just("") | things)
    def listdir(self, path: str | int) -> None:
        self.both(lambda top: sorted(os.listdir(top / self.where(path))))  # noqa: PTH208

    # ---- attributes ------------------------------------------------------------------------------

    @rule(path=things)
    def look(self, path: str | int) -> None:
        self.both(lambda top: seen(top / self.where(path)))

    @rule(path=things, mode=st.sampled_from([0o600, 0o644, 0o755]))
    def chmod(self, path: str | int, mode: int) -> None:
        self.both(lambda top: (top / self.where(path)).chmod(mode))

    @rule(path=things, mtime_ns=times)
    def utimens(self, path: str | int, mtime_ns: int) -> None:
        self.both(
            lambda top: os.utime(top / self.where(path), ns=(mtime_ns, mtime_ns), follow_symlinks=False)
        )

    @rule(path=things, name=st.sampled_from(["user.a", "user.b"]), value=st.binary(max_size=3))
    def setxattr(self, path: str | int, name: str, value: bytes) -> None:
        self.both(lambda top: os.setxattr(top / self.where(path), name, value, follow_symlinks=False))

    @rule(path=things, name=st.sampled_from(["user.a", "user.b"]))
    def getxattr(self, path: str | int, name: str) -> None:
        self.both(lambda top: os.getxattr(top / self.where(path), name, follow_symlinks=False))

    # ---- time passes -----------------------------------------------------------------------------

    @rule(chance=st.integers(0, 15), how=st.sampled_from(["stop", "kill", "sync"]))
    def restart(self, chance: int, how: str) -> None:
        if chance or self.restarts >= self.limit:
            return
        type(self).restarts += 1
        for slot in list(self.open):
            self.close(slot)
        if how == "sync":
            self.drive.sync()
            return
        getattr(self.drive, how)()
        self.drive.start()

    def teardown(self) -> None:
        for slot in list(self.open):
            self.close(slot)
        assert tree(self.tops[0]) == tree(self.tops[1])


def seen(path: Path) -> tuple[Any, ...]:
    """What stat says, as far as the two sides can agree: not on sizes of folders and times of writing."""
    found = path.lstat()
    mtime = found.st_mtime_ns if found.st_mtime_ns < 1_100_000_000 * 10**9 else None
    if stat.S_ISDIR(found.st_mode):
        return stat.S_IFMT(found.st_mode), stat.S_IMODE(found.st_mode)
    return found.st_mode, found.st_size, mtime


def tree(top: Path, *, local: bool = True) -> dict[str, Any]:
    """Everything below a folder; without what is `local`, only what the service could have."""
    result: dict[str, Any] = {}
    for path in sorted(top.iterdir()):
        if not local and (path.name in LOCAL or path.is_symlink()):
            continue
        if path.is_dir() and not path.is_symlink():
            result[path.name] = tree(path, local=local)
        elif path.is_symlink():
            result[path.name] = str(path.readlink())
        else:
            result[path.name] = (seen(path) if local else (), path.read_bytes())
    return result


@pytest.fixture
def both(shared: MountedDrive, tmp_path: Path) -> type[Both]:
    Both.drive, Both.host = shared, tmp_path / "host"
    Both.host.mkdir()
    Both.stories, Both.restarts, Both.calls, Both.good = [], 0, 0, 0
    return Both


def run(both: type[Both], *, examples: int, steps: int, restarts: int) -> None:
    both.limit = restarts
    run_state_machine_as_test(
        both,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            # A failure is made smaller on a drive that lives on: only what happens at once can be.
            phases=[Phase.explicit, Phase.generate, Phase.shrink],
        ),
    )
    # What goes well shows more than what is refused.
    assert both.good > examples * steps // 8, "the test proves little"


def test_the_drive_does_what_a_folder_does(both: type[Both]) -> None:
    run(both, examples=60, steps=80, restarts=3)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_drive_matches_a_folder_for_long(both: type[Both]) -> None:
    run(both, examples=300, steps=150, restarts=40)
    drive = both.drive
    # What the service has of it is the same, but for what is local.
    before = {story: tree(drive.top / story, local=False) for story in both.stories}
    drive.sync()
    drive.stop()
    for name in ("state", "cache"):
        shutil.rmtree(drive.home / name)
        (drive.home / name).mkdir(mode=0o700)
    drive.start()
    for story in both.stories:
        assert tree(drive.top / story, local=False) == before[story], story
