"""The program itself: `python -m daemon` with a real mount, started, stopped, killed.

All calls on the mount are made from this process, which is not the daemon's; what hangs is freed by the
fixture, which kills the daemon and detaches the mount.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cmsfs import config, mountpoint_guard, mounts
from cmsfs.ipc import control
from tests.support.patience import until
from tests.support.program import HANG_SECONDS, Daemon, listed


def digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


def drive_status(daemon: Daemon) -> control.DriveStatus:
    status = daemon.ask(control.GetStatus())[0]
    assert isinstance(status, control.DriveStatus)
    return status


def test_it_serves_the_sample_and_ends_leaving_nothing(daemon: Daemon) -> None:
    daemon.start()
    assert "Welcome.md" in listed(daemon.mountpoint)
    assert (daemon.mountpoint / "Welcome.md").read_text()
    assert daemon.end() == 0
    assert mounts.find(daemon.mountpoint) is None
    assert listed(daemon.mountpoint) == []
    assert not config.Paths("default").socket.exists()


def test_writes_survive_restart_and_state_loss(daemon: Daemon) -> None:
    daemon.start()
    until(lambda: drive_status(daemon).listing.state == "complete", HANG_SECONDS)
    work = daemon.mountpoint / "work" / "deep"
    work.mkdir(parents=True)
    data = os.urandom(3_000_000)
    (work / "file").write_bytes(data)
    os.utime(work / "file", (10**9, 10**9))
    assert daemon.end() == 0
    daemon.start()
    assert (work / "file").read_bytes() == data
    status = drive_status(daemon)
    assert status.queue.pending == 0
    assert status.requests.get("listing", 0) == 0
    assert daemon.end() == 0
    paths = config.Paths("default")
    for folder in (paths.state, paths.cache):
        subprocess.run(["rm", "-r", str(folder)], check=True)
    daemon.start()
    assert (work / "file").read_bytes() == data
    assert (work / "file").stat().st_mtime == 10**9
    assert daemon.end() == 0


def test_kill_loses_no_closed_file(daemon: Daemon) -> None:
    daemon.start(CMSFS_SETTLE_SECONDS="0")
    written = {}
    for number in range(120):
        path = daemon.mountpoint / f"f{number}"
        path.write_bytes(os.urandom(1000 + number * 500))
        written[path] = digest(path)
    assert daemon.process is not None
    daemon.process.kill()
    daemon.process.wait()
    assert mounts.stale_mounts()
    daemon.start()
    assert {path: digest(path) for path in written} == written
    assert isinstance(daemon.ask(control.Sync())[-1], control.Done)
    assert {path: digest(path) for path in written} == written
    names = listed(daemon.mountpoint)
    assert not [name for name in names if "conflicted" in name]
    assert daemon.end() == 0


def test_stop_request_uploads_and_unmounts(daemon: Daemon) -> None:
    daemon.start(CMSFS_SETTLE_SECONDS="60")
    (daemon.mountpoint / "late").write_bytes(b"x" * 1000)
    answers = daemon.ask(control.Stop())
    assert answers[-1] == control.Done()
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 0
    assert mounts.find(daemon.mountpoint) is None


def test_an_unmount_from_outside_ends_it(daemon: Daemon) -> None:
    daemon.start()
    mounts.detach(daemon.mountpoint)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 0


def test_a_second_daemon_of_the_account_says_so(daemon: Daemon, tmp_path: Path) -> None:
    daemon.start()
    first = daemon.process
    (tmp_path / "other").mkdir()
    second = Daemon(tmp_path / "other", tmp_path / "log2")
    exit_code, sentence = second.attempt()
    assert (exit_code, "already running" in sentence) == (8, True)
    assert second.process is not None
    assert second.process.wait(timeout=HANG_SECONDS) == 8
    assert first is not None
    assert first.poll() is None
    assert daemon.end() == 0


@pytest.mark.parametrize(
    ("environment", "word"),
    [
        ({"CMSFS_POLL_SECONDS": "often"}, "poll_seconds"),
        ({"CMSFS_PROFILE": "nowhere"}, "no profile"),
        ({"CMSFS_CONFIG": "/nonexistent/config.toml"}, "does not exist"),
    ],
)
def test_bad_settings_are_one_sentence(daemon: Daemon, environment: dict[str, str], word: str) -> None:
    exit_code, sentence = daemon.attempt(**environment)
    assert exit_code == 2
    assert word in sentence
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 2
    assert mounts.find(daemon.mountpoint) is None


def test_a_mountpoint_that_is_not_empty_is_refused(daemon: Daemon) -> None:
    (daemon.mountpoint / "mine").write_text("keep me")
    exit_code, sentence = daemon.attempt()
    assert (exit_code, "not empty" in sentence) == (mounts.BAD_MOUNTPOINT, True)
    assert daemon.process is not None
    daemon.process.wait(timeout=HANG_SECONDS)
    assert (daemon.mountpoint / "mine").read_text() == "keep me"


def test_files_below_mountpoint_are_adopted(daemon: Daemon) -> None:
    daemon.start()
    (daemon.mountpoint / "taken.txt").write_text("on the drive")
    until(lambda: not drive_status(daemon).queue.pending)
    assert daemon.process is not None
    daemon.process.kill()
    daemon.process.wait(timeout=HANG_SECONDS)
    mounts.detach(daemon.mountpoint)
    assert daemon.mountpoint.stat().st_mode & 0o777 == mountpoint_guard.BARRED
    # Some programs run as root.
    (daemon.mountpoint / "deep").mkdir()
    (daemon.mountpoint / "deep" / "letter").write_text("mine")
    (daemon.mountpoint / "deep" / "link").symlink_to("letter")
    (daemon.mountpoint / "taken.txt").write_text("saved in between")
    os.utime(daemon.mountpoint / "deep" / "letter", (10**9, 10**9))
    daemon.start()
    hidden = drive_status(daemon).hidden
    assert (hidden.items, hidden.names) == (2, ["deep", "taken.txt"])
    done = daemon.ask(control.Adopt())[-1]
    assert done == control.Adopted(items=4, renamed=["taken (adopted).txt"])
    assert (daemon.mountpoint / "deep" / "letter").read_text() == "mine"
    assert (daemon.mountpoint / "deep" / "letter").stat().st_mtime == 10**9
    assert (daemon.mountpoint / "deep" / "link").readlink() == Path("letter")
    assert (daemon.mountpoint / "taken.txt").read_text() == "on the drive"
    assert (daemon.mountpoint / "taken (adopted).txt").read_text() == "saved in between"
    assert not drive_status(daemon).hidden.items
    assert daemon.end() == 0
    assert listed(daemon.mountpoint) == []


def test_unreadable_service_ends_start(daemon: Daemon) -> None:
    """The embedded service is opened when the drive answers already."""
    daemon.start()
    assert daemon.end() == 0
    data = config.service_data(config.load())
    (data / "service.db").write_bytes(b"no database " * 1000)
    exit_code, sentence = daemon.attempt()
    assert (exit_code, "service.db" in sentence) == (1, True)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 1
    assert mounts.find(daemon.mountpoint) is None


def test_ready_descriptor_that_is_none(daemon: Daemon) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-m", "daemon", "--mountpoint", str(daemon.mountpoint), "--ready-fd", "99"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--ready-fd" in done.stderr
    assert "Traceback" not in done.stderr
