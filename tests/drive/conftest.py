"""A whole drive in its own processes: started by the command line, used by ordinary programs.

These tests are plain functions: they use the mount as any program does, and the daemon is another process.  A
watchdog aborts the mount of a test that hangs.
"""

import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cmsfs import mounts
from tests.conftest import XDG
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import Patience
from tests.support.served import api, settings_of

if TYPE_CHECKING:
    from tests.support.three_processes import ThreeProcesses

__all__ = ["api"]  # a fixture of this folder

WATCHDOG_SECONDS = 100.0
LONG_SECONDS = 14400.0


@pytest.fixture
def visible(tmp_path: Path) -> Path:
    """A folder to mount in, outside `/dev`: desktops treat mounts below it as the system's own."""
    if not tmp_path.is_relative_to("/dev"):
        return tmp_path
    return Path(tempfile.mkdtemp(dir=os.environ["TEST_MOUNTS"]))


@pytest.fixture
def watchdog(tmp_path: Path, visible: Path, request: pytest.FixtureRequest) -> Iterator[threading.Event]:
    """Abort the mounts under the test's folder at the time limit: a process hung in one cannot be killed."""
    fired, over = threading.Event(), threading.Event()

    patience = Patience(LONG_SECONDS if request.node.get_closest_marker("long") else WATCHDOG_SECONDS)

    def watch() -> None:
        while left := patience.left():
            if over.wait(left):
                return
        fired.set()
        for found in mounts.listing():
            if found.is_drive and any(Path(found.mountpoint).is_relative_to(one) for one in folders):
                mounts.abort(found.connection)

    folders = [tmp_path, visible]
    if "shared" in request.fixturenames:
        folders.append(request.getfixturevalue("everyday").home)
    mounts.ensure_fusectl()
    threading.Thread(target=watch, daemon=True).start()
    yield fired
    over.set()
    assert not fired.is_set(), f"the test hung, and its mount was aborted after {patience}"


@pytest.fixture
def service_options() -> list[str]:
    """Additional options for the service of `served.api`."""
    return []


@pytest.fixture(autouse=True)
def is_apart(request: pytest.FixtureRequest) -> bool:
    """Whether drives are on three processes; tests of the embedded service are skipped then."""
    found = bool(request.config.getoption("--processes"))
    if found and request.node.get_closest_marker("embedded"):
        pytest.skip("this is about the embedded service")
    return found


@pytest.fixture
def processes(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_apart: bool,
    service_options: list[str],
) -> "Iterator[ThreeProcesses | None]":
    """With --processes, those that serve this test's drive."""
    if not is_apart:
        yield None
        return
    from tests.support import three_processes

    engines: three_processes.Engines = request.getfixturevalue("engines")
    made = three_processes.ThreeProcesses(tmp_path / "processes", engines, *service_options).start()
    for name, value in settings_of(made.url, made.credentials, tmp_path).items():
        monkeypatch.setenv(name, value)
    yield made
    assert made.remove() == 0, made.logs()


@pytest.fixture
def served_apart(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, is_apart: bool
) -> Iterator[None]:
    """With --processes, three serve the stores that this test opens and serves."""
    if not is_apart:
        yield
        return
    from tests.support import three_processes

    for _ in three_processes.installed(request, request.getfixturevalue("engines"), monkeypatch):
        yield


@pytest.fixture
def stopped(
    visible: Path, private_folders: Path, processes: "ThreeProcesses | None", watchdog: threading.Event
) -> Iterator[MountedDrive]:
    """A drive that has not been started."""
    running = MountedDrive(visible / "drive", private_folders, processes=processes)
    yield running
    running.free()


@pytest.fixture
def drive(stopped: MountedDrive) -> MountedDrive:
    """A running drive with the sample enterprise, for this test alone."""
    stopped.start()
    return stopped


@pytest.fixture(scope="session")
def everyday_processes(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> "Iterator[ThreeProcesses | None]":
    """With --processes, those that serve the drive behind `shared`."""
    if not request.config.getoption("--processes"):
        yield None
        return
    from tests.support import three_processes

    folder = tmp_path_factory.mktemp("processes")
    made = three_processes.ThreeProcesses(folder, request.getfixturevalue("engines")).start()
    yield made
    assert made.remove() == 0, made.logs()
    counts = made.front.counts
    assert len(counts) == three_processes.PROCESSES or sum(counts.values()) < 30, counts


@pytest.fixture(scope="session")
def everyday(
    tmp_path_factory: pytest.TempPathFactory, everyday_processes: "ThreeProcesses | None"
) -> Iterator[MountedDrive]:
    """The drive behind `shared`; started by the first test."""
    home = tmp_path_factory.mktemp("everyday")
    running = MountedDrive(home / "drive", home, processes=everyday_processes)
    for name in XDG.values():
        (home / name).mkdir(mode=0o700)
    yield running
    with pytest.MonkeyPatch.context() as patch:
        _live_in(running, patch)
        running.free()


@pytest.fixture
def shared(
    everyday: MountedDrive,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    is_apart: bool,
    watchdog: threading.Event,
) -> Iterator[MountedDrive]:
    """An empty folder for this test, on a drive that is shared by many tests.

    At the end everything must be uploaded.  After a failed test the next one gets a new drive.
    """
    _live_in(everyday, monkeypatch)
    if mounts.find(everyday.mountpoint) is None:
        everyday.start()
    folder = everyday.mountpoint / re.sub(r"\W", "-", request.node.name)
    folder.mkdir()
    yield MountedDrive(everyday.mountpoint, everyday.home, folder, everyday.processes)
    failed = request.node.stash.get(FAILED, False)
    try:
        if not failed:
            _check_settled(everyday)
    except BaseException:
        failed = True
        raise
    finally:
        if failed:
            everyday.free()
            for name in ("state", "cache", "data"):
                shutil.rmtree(everyday.home / name)
                (everyday.home / name).mkdir(mode=0o700)


def _check_settled(running: MountedDrive) -> None:
    if mounts.find(running.mountpoint) is None:
        running.start()
    running.sync()
    queue = running.status()["queue"]
    assert (queue["waiting"], queue["running"], queue["held"]) == (0, 0, 0), queue


def _live_in(running: MountedDrive, patch: pytest.MonkeyPatch) -> None:
    patch.setenv("HOME", str(running.home))
    for variable, name in XDG.items():
        patch.setenv(variable, str(running.home / name))
    if (made := running.processes) is not None:
        for variable, value in settings_of(made.url, made.credentials, running.home).items():
            patch.setenv(variable, value)


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Record on the test item that it failed, for the fixtures that clean up after it."""
    report = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or report.failed  # type: ignore[attr-defined]
    return report


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real tree of files: packages of the standard library, nested, empty and large ones among them."""
    packages = ["asyncio", "collections", "email", "html", "http", "json", "logging", "urllib", "xml"]
    library = Path(os.__file__).parent
    target = tmp_path_factory.mktemp("sources")
    for name in packages:
        subprocess.run(
            ["cp", "-a", "--no-preserve=xattr", str(library / name), str(target / name)], check=True
        )
    subprocess.run(
        ["find", str(target), "-name", "__pycache__", "-prune", "-exec", "rm", "-r", "{}", "+"], check=True
    )
    return target


Same = Callable[[Path, Path], None]


@pytest.fixture
def same() -> Same:
    """`same(a, b)`: the two trees have the same names and bytes."""

    def compare(one: Path, other: Path) -> None:
        done = subprocess.run(
            ["diff", "-r", str(one), str(other)], capture_output=True, text=True, timeout=90
        )
        assert done.returncode == 0, done.stdout[:2000] + done.stderr[:2000]

    return compare
