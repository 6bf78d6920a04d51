"""The daemon is killed under programs that use the drive, and they notice a pause."""

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cmsfs
from cmsfs import config, errors, mounts
from cmsfs.cli.support import daemonctl
from cmsfs.crashpoints import Point
from cmsfs.fuse import takeover
from cmsfs.ipc import control
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until
from tests.support.programs_at_work import at_work, make_source, working

KILLS = 10

pytestmark = pytest.mark.skipif(
    not takeover.can_expire_names(), reason="this kernel does not know names in doubt"
)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says at which point the daemon dies."""
    monkeypatch.setenv("CMSFS_CRASH_PLAN", str(tmp_path / "plan"))
    return tmp_path / "plan"


@pytest.fixture
def kept(stopped: MountedDrive, plan: Path) -> Iterator[MountedDrive]:
    """A running drive that outlives its daemon."""
    file = config.config_file()
    file.parent.mkdir(exist_ok=True)
    file.write_text("keep_mounted = true\n")
    stopped.start()
    yield stopped


def killed(drive: MountedDrive) -> int:
    """Kill the daemon, and wait for the next one; its process."""
    pid = int(drive.status()["pid"])
    os.kill(pid, signal.SIGKILL)
    gone(pid)
    return pid


def gone(pid: int) -> None:
    until(lambda: not Path(f"/proc/{pid}/stat").exists(), 60, "the daemon lives")


def spare_of(pid: int) -> int:
    """The process that waits to follow this daemon."""

    def waiting() -> list[int]:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        shown = {int(child): Path(f"/proc/{child}/comm").read_text(encoding="ascii") for child in children}
        return [child for child, name in shown.items() if name == "cmsfsd-spare\n"]

    until(lambda: len(waiting()) == 1, 60, "no spare")
    return waiting()[0]


def another(pid: int) -> None:
    """Wait for a daemon that is not this one."""

    def there() -> bool:
        try:
            answers = list(daemonctl.exchange(config.Paths("default").socket, control.Ping()))
        except (errors.UserError, OSError):
            return False
        found = answers[0] if answers else None
        return isinstance(found, control.Pong) and found.pid != pid and found.stage == "mounted"

    until(there, 60, "no other daemon")


def test_open_files_outlive_the_daemon(kept: MountedDrive) -> None:
    top = kept.top
    before = mounts.find(kept.mountpoint)
    (top / "read").write_bytes(b"0123456789")
    reading = os.open(top / "read", os.O_RDONLY)
    writing = os.open(top / "written", os.O_RDWR | os.O_CREAT)
    hidden = os.open(top / "hidden", os.O_RDWR | os.O_CREAT)
    os.write(writing, b"small")
    os.write(hidden, b"x" * 100_000)
    (top / "hidden").unlink()
    (top / "folder").mkdir()
    listing = os.scandir(top)
    next(listing)
    another(killed(kept))
    assert os.pread(reading, 100, 2) == b"23456789"
    os.write(writing, b", and more")
    assert os.pread(writing, 100, 0) == b"small, and more"
    os.write(hidden, b"y")
    assert os.pread(hidden, 200_000, 0) == b"x" * 100_000 + b"y"
    assert len(list(listing)) >= 3
    listing.close()
    for file in (reading, writing, hidden):
        os.close(file)
    assert mounts.find(kept.mountpoint) == before
    kept.sync()
    assert (top / "written").read_bytes() == b"small, and more"
    assert not (top / "hidden").exists()
    assert kept.status()["queue"]["ops"] == []
    kept.stop()
    assert mounts.find(kept.mountpoint) is None


def test_a_version_that_is_open_is_read_on(kept: MountedDrive) -> None:
    first = os.urandom(300_000)
    for text in (first, b"second"):
        (kept.top / "note").write_bytes(text)
        kept.sync()
    versions = kept.top / "note@versions"
    until(lambda: bool(list(versions.iterdir())), 60, "there is no version")
    (path,) = versions.iterdir()
    version = os.open(path, os.O_RDONLY)
    assert os.read(version, 6) == first[:6]
    another(killed(kept))
    assert os.pread(version, 10_000, 290_000) == first[290_000:]
    os.close(version)


def _rename_over(top: Path) -> None:
    (top / "a").write_text("new")
    (top / "a").rename(top / "b")


def _create_anew(top: Path) -> None:
    fd = os.open(top / "new", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"made")
    os.close(fd)


def _append(top: Path) -> None:
    with (top / "log").open("ab", buffering=0) as file:
        for number in range(5):
            file.write(b"%d" % number * 9000)


def _say(path: Path, name: str) -> None:
    os.setxattr(path, name, b"said")
    assert os.getxattr(path, name) == b"said"


# What a program does, and what a file of each name holds then; None: there is none.
REQUESTS: list[tuple[Callable[[Path], object], dict[str, str | None]]] = [
    (lambda top: (top / "folder").mkdir(), {}),
    (lambda top: (top / "folder" / "a").symlink_to("b"), {}),
    (lambda top: (top / "folder" / "a").unlink(), {}),
    (lambda top: (top / "folder").rmdir(), {"folder": None}),
    (_create_anew, {"new": "made"}),
    (lambda top: (top / "b").write_text("old"), {"b": "old"}),
    (_rename_over, {"a": None, "b": "new"}),
    (lambda top: os.truncate(top / "b", 1), {"b": "n"}),
    (lambda top: (top / "b").rename(top / "c"), {"b": None, "c": "n"}),
    (_append, {"log": "".join(str(number) * 9000 for number in range(5))}),
    (lambda top: os.close(os.open(top / "c", os.O_RDONLY)), {"c": "n"}),
    (lambda top: _say(top / "c", "user.mine"), {"c": "n"}),
    (lambda top: os.removexattr(top / "c", "user.mine"), {"c": "n"}),
    (lambda top: _say(top / "c", "user.cms.description"), {"c": "n"}),
    (lambda top: os.removexattr(top / "c", "user.cms.description"), {"c": "n"}),
]


def test_who_follows_has_loaded_the_program_already(kept: MountedDrive) -> None:
    """And has one to follow it at once; without it the drive is taken over by a new process."""
    pid = int(kept.status()["pid"])
    writing = os.open(kept.top / "written", os.O_RDWR | os.O_CREAT)
    for _ in range(2):
        spare = spare_of(pid)
        another(killed(kept))
        pid = int(kept.status()["pid"])
        assert pid == spare
        os.write(writing, b"spare, ")
    spare = spare_of(pid)
    os.kill(spare, signal.SIGKILL)
    another(killed(kept))
    pid = int(kept.status()["pid"])
    assert pid != spare
    os.write(writing, b"new")
    assert os.pread(writing, 100, 0) == b"spare, spare, new"
    os.close(writing)
    spare = spare_of(pid)
    kept.stop()
    gone(spare)


@pytest.mark.long
def test_the_version_that_was_installed_meanwhile_follows(
    stopped: MountedDrive, plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has loaded the one before makes way."""
    for package in ("cmsfs", "daemon"):
        source = Path(__file__).parents[2] / package
        shutil.copytree(source, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config.config_file().parent.mkdir(exist_ok=True)
    config.config_file().write_text("keep_mounted = true\n")
    stopped.start()
    pid = int(stopped.status()["pid"])
    writing = os.open(stopped.top / "written", os.O_RDWR | os.O_CREAT)
    os.write(writing, b"before, ")
    spare = spare_of(pid)
    mark = tmp_path / "cmsfs" / "__init__.py"
    mark.write_text(mark.read_text().replace(cmsfs.__version__, "77.7"))
    another(killed(stopped))
    os.write(writing, b"after")
    assert os.pread(writing, 100, 0) == b"before, after"
    os.close(writing)
    status = stopped.status()
    # It was executed in place of the spare, and has one of its own version.
    assert (status["version"], status["pid"]) == ("77.7", spare)
    spare = spare_of(spare)
    another(killed(stopped))
    assert (stopped.status()["version"], stopped.status()["pid"]) == ("77.7", spare)


@pytest.mark.long
@pytest.mark.parametrize("point", [Point.REQUEST_BEGUN, Point.REQUEST_DONE])
@pytest.mark.timeout(600)
def test_requests_that_the_daemon_died_of_are_carried_out_once(
    kept: MountedDrive, plan: Path, point: Point
) -> None:
    top = kept.top
    for number, (ask, expected) in enumerate(REQUESTS):
        pid = int(kept.status()["pid"])
        plan.write_text(f"{point} 1")
        failures: list[BaseException] = []
        asking = threading.Thread(target=_ask, args=(ask, top, failures))
        asking.start()
        gone(pid)
        asking.join(60)
        assert not asking.is_alive()
        assert not failures, (number, failures)
        for name, text in expected.items():
            path = top / name
            assert (path.read_text() if path.exists() else None) == text, (number, name)
        another(pid)
    assert not list(top.glob("* (*")), "a conflict copy"
    kept.sync()


def _ask(ask: Callable[[Path], object], top: Path, failures: list[BaseException]) -> None:
    try:
        ask(top)
    except BaseException as error:
        failures.append(error)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_upgraded_drive_outlives_its_daemon(kept: MountedDrive) -> None:
    writing = os.open(kept.top / "written", os.O_RDWR | os.O_CREAT)
    os.write(writing, b"before, ")
    for _ in range(2):
        another(killed(kept))
        os.write(writing, b"killed, ")
        pid = int(kept.status()["pid"])
        spare = spare_of(pid)
        kept.cmsfs("upgrade", seconds=200)
        gone(spare)  # the version that it belongs to is over
        assert kept.status()["pid"] not in (pid, spare)
        os.write(writing, b"upgraded, ")
    another(killed(kept))
    os.close(writing)
    assert (kept.top / "written").read_text() == "before, " + "killed, upgraded, " * 2
    pid = kept.status()["pid"]
    subprocess.run(["fusermount3", "-u", kept.mountpoint], check=True)
    gone(pid)
    assert mounts.find(kept.mountpoint) is None


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_programs_go_on_across_kills(kept: MountedDrive, tmp_path: Path) -> None:
    with working() as programs:
        check = at_work(programs, kept, make_source(tmp_path / "source"))
        for _ in range(KILLS):
            programs.await_round()
            another(killed(kept))
        programs.await_round()
    print(programs.told())  # noqa: T201  (with -s: what a kill costs)
    check()
    kept.sync()
    assert not kept.status()["queue"]["ops"]
