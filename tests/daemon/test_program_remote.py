"""The program with a service that may be away, refuse, or say nothing.  As `test_program`."""

import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import mounts
from cmsfs.ipc import control
from tests.support.patience import until
from tests.support.program import HANG_SECONDS, Daemon, listed, remote_settings, state
from tests.support.server_process import ServerProcess


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServerProcess]:
    made = ServerProcess(tmp_path / "served").start()
    yield made
    made.stop()


def test_wrong_credentials_are_one_sentence(daemon: Daemon, served: ServerProcess, tmp_path: Path) -> None:
    exit_code, sentence = daemon.attempt(**remote_settings(tmp_path, port=served.port))
    assert (exit_code, "refuses the credentials" in sentence) == (6, True)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 6


def test_expired_credentials_are_reported_at_start(
    daemon: Daemon, served: ServerProcess, tmp_path: Path
) -> None:
    credentials = served.credentials
    own = {"CMSFS_CLIENT_ID": credentials["client_id"], "CMSFS_SUBJECT_ID": credentials["user_id"]}
    right = remote_settings(tmp_path, credentials["client_secret"], served.port) | own
    daemon.start(**right)
    assert listed(daemon.mountpoint)
    assert daemon.end() == 0
    exit_code, _ = daemon.attempt(**(remote_settings(tmp_path, "another", served.port) | own))
    assert exit_code == 6
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 6


def test_known_drive_starts_offline(daemon: Daemon, served: ServerProcess, tmp_path: Path) -> None:
    credentials = served.credentials
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


def test_first_start_offline_fills_later(daemon: Daemon, served: ServerProcess, tmp_path: Path) -> None:
    credentials = served.credentials
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


class Undecided(http.server.BaseHTTPRequestHandler):
    """A service that says nothing until `Undecided.decided`, and then refuses."""

    decided = threading.Event()

    def do_POST(self) -> None:
        self.decided.wait(HANG_SECONDS)
        body = b'{"error": "invalid_client", "error_description": "Who is that?"}'
        self.send_response(401)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


def test_known_drive_answers_before_service(daemon: Daemon, served: ServerProcess, tmp_path: Path) -> None:
    """After a crash programs stand before an empty folder until then.  What the service says ends the start
    all the same, and leaves no mount."""
    credentials = served.credentials
    own = {"CMSFS_CLIENT_ID": credentials["client_id"], "CMSFS_SUBJECT_ID": credentials["user_id"]}
    daemon.start(**(remote_settings(tmp_path, credentials["client_secret"], served.port) | own))
    names = listed(daemon.mountpoint)
    assert daemon.end() == 0
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Undecided) as undecided:
        threading.Thread(target=undecided.serve_forever, daemon=True).start()
        try:
            settings = remote_settings(tmp_path, credentials["client_secret"], undecided.server_port) | own
            told = daemon.begin(**settings)
            until(lambda: mounts.find(daemon.mountpoint) is not None, HANG_SECONDS)
            assert listed(daemon.mountpoint) == names
            assert state(daemon) == "starting"
            Undecided.decided.set()
            exit_code, sentence = told()
        finally:
            Undecided.decided.set()
            undecided.shutdown()
    assert (exit_code, "refuses the credentials" in sentence) == (6, True)
    assert daemon.process is not None
    assert daemon.process.wait(timeout=HANG_SECONDS) == 6
    assert mounts.find(daemon.mountpoint) is None
