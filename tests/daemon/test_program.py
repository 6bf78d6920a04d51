"""The program itself: `python -m daemon` with a real mount, started, stopped, killed.

All calls on the mount are made from this process, which is not the daemon's; what hangs is freed by the
fixture, which kills the daemon and detaches the mount.
"""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import config, errors, mountpoint_guard, mounts
from cmsfs.cli.support import daemonctl
from cmsfs.ipc import control, ready
from tests.support.patience import until

HANG_SECONDS = 60.0


class Daemon:
    """One daemon on the embedded service's sample; `start` again after it has ended."""

    def __init__(self, mountpoint: Path, log: Path) -> None:
        self.mountpoint = mountpoint
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, **environment: str) -> None:
        """Returns when the mount answers; UserError with the daemon's sentence if it does not."""
        exit_code, sentence = self.attempt(*arguments, **environment)
        if exit_code:
            raise errors.UserError(sentence, exit_code=exit_code)

    def attempt(self, *arguments: str, **environment: str) -> tuple[int, str]:
        reader, writer = os.pipe()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-P", "-m", "daemon", "--sample", "--ready-fd", str(writer)),
                    *("--mountpoint", str(self.mountpoint), *arguments),
                ],
                stdout=log,
                stderr=log,
                pass_fds=[writer],
                env=os.environ | environment,
            )
        os.close(writer)
        with os.fdopen(reader, "rb") as told:
            line = told.readline().decode()
        return ready.parse_ready_line(line)

    def end(self, number: int = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = self.process.wait(timeout=HANG_SECONDS)
        self.process = None
        return code

    def ask(self, request: object) -> list[object]:
        path = config.Paths("default").socket
        return list(daemonctl.exchange(path, request))  # type: ignore[arg-type]

    def free(self) -> None:
        """Whatever has become of it, nothing of it stays."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(timeout=HANG_SECONDS)
        while mounts.find(self.mountpoint) is not None:
            mounts.detach(self.mountpoint)


@pytest.fixture
def daemon(private_folders: Path, tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path / "mnt", tmp_path / "log")
    made.mountpoint.mkdir()
    watchdog = threading.Timer(HANG_SECONDS, made.free)
    watchdog.start()
    yield made
    watchdog.cancel()
    watchdog.join()
    made.free()
    log = made.log.read_text() if made.log.exists() else ""
    assert "Traceback" not in log, log
    assert " WARNING " not in log, log
    assert " ERROR " not in log, log


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def digest(path: Path) -> str:
    return hashlib.sha1(path.read_bytes(), usedforsecurity=False).hexdigest()


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
    work = daemon.mountpoint / "work" / "deep"
    work.mkdir(parents=True)
    data = os.urandom(3_000_000)
    (work / "file").write_bytes(data)
    os.utime(work / "file", (10**9, 10**9))
    assert daemon.end() == 0
    daemon.start()
    assert (work / "file").read_bytes() == data
    status = daemon.ask(control.GetStatus())[0]
    assert isinstance(status, control.DriveStatus)
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


def test_after_a_kill_everything_closed_is_whole_and_arrives(daemon: Daemon) -> None:
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


def test_a_stop_over_the_socket_uploads_unmounts_and_ends(daemon: Daemon) -> None:
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
    until(lambda: not daemon.ask(control.GetStatus())[0].queue.pending)  # type: ignore[attr-defined]
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
    hidden = daemon.ask(control.GetStatus())[0].hidden  # type: ignore[attr-defined]
    assert (hidden.items, hidden.names) == (2, ["deep", "taken.txt"])
    done = daemon.ask(control.Adopt())[-1]
    assert done == control.Adopted(items=4, renamed=["taken (adopted).txt"])
    assert (daemon.mountpoint / "deep" / "letter").read_text() == "mine"
    assert (daemon.mountpoint / "deep" / "letter").stat().st_mtime == 10**9
    assert (daemon.mountpoint / "deep" / "link").readlink() == Path("letter")
    assert (daemon.mountpoint / "taken.txt").read_text() == "on the drive"
    assert (daemon.mountpoint / "taken (adopted).txt").read_text() == "saved in between"
    assert not daemon.ask(control.GetStatus())[0].hidden.items  # type: ignore[attr-defined]
    assert daemon.end() == 0
    assert listed(daemon.mountpoint) == []


def remote_settings(tmp_path: Path, secret: str = "wrong", port: int = 9) -> dict[str, str]:
    file = tmp_path / "secret"
    file.write_text(secret)
    url = f"http://127.0.0.1:{port}"
    return {
        "CMSFS_PROFILE": "specification",
        "CMSFS_BASE_URL": f"{url}/2.0",
        "CMSFS_UPLOAD_URL": f"{url}/api/2.0",
        "CMSFS_AUTH_URL": url,
        "CMSFS_CLIENT_ID": "tests",
        "CMSFS_SUBJECT_ID": "1",
        "CMSFS_CLIENT_SECRET_FILE": str(file),
    }


class Served:
    """`cmsfs serve` in a process of its own, on a port of its choice."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-P", "-m", "cmsfs", "serve", "--data", str(self.data)),
                *("--port", str(self.port), "--json"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self.process.stdout is not None
        text = b""
        while b"}" not in text:
            text += self.process.stdout.readline()
        self.port = int(json.loads(text)["url"].rpartition(":")[2])

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=HANG_SECONDS)
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path / "served")
    made.start()
    yield made
    made.stop()


def test_wrong_credentials_are_one_sentence(daemon: Daemon, served: Served, tmp_path: Path) -> None:
    exit_code, sentence = daemon.attempt(**remote_settings(tmp_path, port=served.port))
    assert (exit_code, "refuses the credentials" in sentence) == (6, True)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 6


def test_expired_credentials_are_reported_at_start(daemon: Daemon, served: Served, tmp_path: Path) -> None:
    credentials = json.loads((served.data / "credentials.json").read_text())
    own = {"CMSFS_CLIENT_ID": credentials["client_id"], "CMSFS_SUBJECT_ID": credentials["user_id"]}
    right = remote_settings(tmp_path, credentials["client_secret"], served.port) | own
    daemon.start(**right)
    assert listed(daemon.mountpoint)
    assert daemon.end() == 0
    exit_code, _ = daemon.attempt(**(remote_settings(tmp_path, "another", served.port) | own))
    assert exit_code == 6
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 6


def test_known_drive_starts_offline(daemon: Daemon, served: Served, tmp_path: Path) -> None:
    credentials = json.loads((served.data / "credentials.json").read_text())
    environment = remote_settings(tmp_path, credentials["client_secret"], served.port) | {
        "CMSFS_CLIENT_ID": credentials["client_id"],
        "CMSFS_SUBJECT_ID": credentials["user_id"],
        "CMSFS_SETTLE_SECONDS": "0",
    }
    daemon.start(**environment)
    names = listed(daemon.mountpoint)
    assert "Welcome.md" in names
    assert daemon.end() == 0
    served.stop()
    daemon.start(**environment)
    assert listed(daemon.mountpoint) == names
    (daemon.mountpoint / "offline").write_text("written without the service")
    with pytest.raises(OSError, match="Network is down"):
        (daemon.mountpoint / "Welcome.md").read_text()
    served.start()
    daemon.ask(control.Sync())
    assert (daemon.mountpoint / "Welcome.md").read_text()
    assert daemon.end() == 0


def test_first_start_offline_fills_later(daemon: Daemon, served: Served, tmp_path: Path) -> None:
    credentials = json.loads((served.data / "credentials.json").read_text())
    environment = remote_settings(tmp_path, credentials["client_secret"], served.port) | {
        "CMSFS_CLIENT_ID": credentials["client_id"],
        "CMSFS_SUBJECT_ID": credentials["user_id"],
    }
    served.stop()
    exit_code, note = daemon.attempt(**environment)
    assert exit_code == 0
    assert "cannot be reached" in note
    assert "The tree is not known yet" in note
    assert os.statvfs(daemon.mountpoint).f_blocks > 0
    with pytest.raises(OSError, match="Network is down"):
        listed(daemon.mountpoint)
    served.start()
    until(lambda: state(daemon) == "online", HANG_SECONDS)
    assert "Welcome.md" in listed(daemon.mountpoint)
    assert (daemon.mountpoint / "Welcome.md").read_text()
    assert daemon.end() == 0


def state(daemon: Daemon) -> str:
    """How the daemon gets on with the service."""
    status = daemon.ask(control.GetStatus())[-1]
    assert isinstance(status, control.DriveStatus)
    return status.health.state
