"""A whole drive in processes of its own: the command line starts it, ordinary programs use it.

These tests are plain functions: what they do on the mount is what any program does, and the daemon is
another process.  A watchdog aborts the mount of a test that hangs.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cmsfs import mounts

from .served import api

__all__ = ["api"]  # a fixture of this folder

WATCHDOG_SECONDS = 100.0
LONG_SECONDS = 14400.0


class Running:
    """A drive on the embedded service, under the test's own folders."""

    def __init__(self, mountpoint: Path, home: Path) -> None:
        self.top = mountpoint
        self.home = home

    def cmsfs(
        self, *arguments: object, check: bool = True, seconds: float = 90
    ) -> subprocess.CompletedProcess[str]:
        """Run the command line; its exit code must be 0 unless `check` is false."""
        done = subprocess.run(
            [sys.executable, "-m", "cmsfs", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            cwd="/",
        )
        if check:
            assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done

    def start(self) -> None:
        self.cmsfs("demo", self.top)

    def stop(self) -> None:
        self.cmsfs("umount", self.top)

    def sync(self) -> None:
        self.cmsfs("sync")

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.cmsfs("status", "--json").stdout)
        return found

    def kill(self) -> None:
        """The daemon is gone in the middle of whatever it did."""
        pid = self.status()["pid"]
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
            # Not our child: nobody tells us when it is gone.
            os.sched_yield()

    def sh(self, script: str, *, cwd: Path | None = None, timeout: float = 90) -> str:
        """What a shell script prints, run in the drive; it must succeed."""
        done = subprocess.run(
            ["bash", "-euc", script],
            cwd=cwd or self.top,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, "LC_ALL": "C.UTF-8", "GIT_CONFIG_GLOBAL": "/dev/null"},
        )
        assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def watchdog(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[threading.Event]:
    """Aborts the mounts under the test's folder when time is up: what hangs in one cannot be killed."""
    fired = threading.Event()

    def fire() -> None:
        fired.set()
        for found in mounts.listing():
            if found.is_drive and Path(found.mountpoint).is_relative_to(tmp_path):
                mounts.abort(found.connection)

    mounts.ensure_fusectl()
    patience = LONG_SECONDS if request.node.get_closest_marker("long") else WATCHDOG_SECONDS
    timer = threading.Timer(patience, fire)
    timer.daemon = True
    timer.start()
    yield fired
    timer.cancel()
    assert not fired.is_set(), "the test hung, and its mount was aborted"


@pytest.fixture
def stopped(tmp_path: Path, private_folders: Path, watchdog: threading.Event) -> Iterator[Running]:
    """A drive that was never started."""
    running = Running(tmp_path / "drive", private_folders)
    yield running
    running.cmsfs("umount", running.top, "--force", check=False)
    if any(found.mountpoint == str(running.top) for found in mounts.listing()):
        mounts.detach(running.top)
        pytest.fail("the drive could not be unmounted")


@pytest.fixture
def drive(stopped: Running) -> Running:
    """A running drive with the sample enterprise."""
    stopped.start()
    return stopped


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real tree of files: packages of the standard library, nested, empty and large ones among them."""
    packages = ["asyncio", "collections", "concurrent", "ctypes", "email", "encodings", "html", "http"]
    packages += ["importlib", "json", "logging", "multiprocessing", "unittest", "urllib", "xml"]
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
