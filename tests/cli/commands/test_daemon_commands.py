"""Commands that ask a running daemon, against a socket that answers as the protocol says."""

import concurrent.futures
import json
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cmsfs import config
from cmsfs.cli import main
from cmsfs.cli.support import asking, daemonctl
from cmsfs.ipc import attention, control, diagnostics


def _status(**fields):
    moment = datetime.now(UTC) - timedelta(minutes=3)
    values = {
        "account": "default",
        "profile": "Embedded service",
        "mountpoint": "/mnt/drive",
        "pid": 4711,
        "version": "0.1.0",
        "started": moment,
        "health": diagnostics.HealthStatus(state="online", since=moment),
    }
    return control.DriveStatus(**(values | fields))


def test_without_a_daemon_status_says_so(capsys):
    assert main.run(["status"]) == 1
    assert capsys.readouterr().err == "cmsfs: No drive is mounted; `cmsfs mount` mounts one.\n"


def test_status_without_daemon_has_json(capsys):
    assert main.run(["status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"mounted": False}


def test_dead_socket_is_no_daemon():
    path = config.Paths("dead").socket
    path.parent.mkdir(exist_ok=True)
    subprocess.run(
        [sys.executable, "-c", "import socket, sys; socket.socket(1).bind(sys.argv[1])", path], check=True
    )
    assert path.exists()
    assert daemonctl.find_account("dead") is None


def test_status_begins_with_whether_all_is_well(spoken_to, capsys):
    spoken_to(lambda request: [_status()])
    assert main.run(["status"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "/mnt/drive: up to date"


def test_status_names_what_is_held_and_why(spoken_to, capsys):
    op = attention.PendingChange(
        seq=1, kind="create", path="Legal/a.txt", state="held", attempts=2, error="no space", size=2000
    )
    spoken_to(lambda request: [_status(queue=control.QueueStatus(waiting=4, held=1, ops=[op]))])
    assert main.run(["status"]) == 0
    out = capsys.readouterr().out
    assert "/mnt/drive: 1 change cannot be uploaded" in out
    assert "held  create  2.0 kB  Legal/a.txt: no space (tried 2 times)" in out
    assert "and 4 changes more" in out


def test_status_as_json_is_the_daemons_own(spoken_to, capsys):
    spoken_to(lambda request: [_status(requests={"search": 3})])
    assert main.run(["status", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["mounted"] is True
    assert found["requests"] == {"search": 3}
    assert found["health"]["state"] == "online"


def test_only_mounted_drive_is_the_default(spoken_to, capsys):
    spoken_to(lambda request: [_status(account="demo")], account="demo")
    assert main.run(["status"]) == 0
    assert "account demo" in capsys.readouterr().out


def test_of_several_drives_one_must_be_named(spoken_to, capsys):
    spoken_to(account="one")
    spoken_to(account="two")
    assert main.run(["sync"]) == 2
    assert "choose one with --account: one, two." in capsys.readouterr().err


def test_status_lists_all_drives(spoken_to, capsys):
    spoken_to(lambda request: [_status(account="one", mountpoint="/mnt/1")], account="one")
    spoken_to(lambda request: [_status()])
    assert main.run(["status"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["default", "/mnt/drive", "up", "to", "date"], ["one", "/mnt/1", "up", "to", "date"]]
    assert main.run(["status", "--json"]) == 0
    drives = json.loads(capsys.readouterr().out)["drives"]
    assert [one["account"] for one in drives] == ["default", "one"]
    assert main.run(["--account", "default", "status"]) == 0
    assert "connection" in capsys.readouterr().out


def test_silent_service_is_not_waited_for(monkeypatch, capsys):
    monkeypatch.setattr(asking, "SECONDS", 0.3)
    monkeypatch.setattr(asking, "NOTE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        values = {"profile": "server", "base_url": url, "upload_url": url, "auth_url": url}
        secret = config.Paths("default").state / "secret"
        secret.parent.mkdir(parents=True)
        secret.write_text("secret")
        values |= {"client_id": "x", "client_secret_file": str(secret), "subject_id": "1"}
        for key, value in values.items():
            monkeypatch.setenv(f"CMSFS_{key.upper()}", value)
        said = []
        for command in (["share", "/x"], ["whoami"], ["lock", "/x"], ["versions", "/x"]):
            assert main.run(command) == 5
            said.append(capsys.readouterr().err)
        # The first one loads modules for as long as it may take.
        assert {one.splitlines()[-1] for one in said} == {"cmsfs: The service did not answer in time."}
        assert "Waiting for the service..." in said[-1].splitlines()


def test_a_named_account_is_not_replaced_by_another(spoken_to):
    spoken_to(account="one")
    config.Paths("two").ensure()
    assert main.run(["--account", "two", "status"]) == 1


def test_sync_waits_for_the_last_word(spoken_to, capsys):
    spoken_to(lambda request: [control.Progress(pending=2), control.Progress(pending=1), control.Done()])
    assert main.run(["sync"]) == 0
    assert capsys.readouterr().out == "Everything is uploaded.\n"


def test_sync_fails_when_something_is_held(spoken_to, capsys):
    op = attention.PendingChange(seq=1, kind="create", path="a.txt", state="held", error="no space left.")

    def answers(request):
        if isinstance(request, control.Sync):
            return [control.Done(held=2)]
        return [_status(queue=control.QueueStatus(held=2, ops=[op]))]

    spoken_to(answers)
    assert main.run(["sync"]) == 7
    told = "cmsfs: 2 changes cannot be uploaded, for example a.txt: no space left.\n"
    assert capsys.readouterr().err == told


def test_sync_gives_up_after_its_timeout(spoken_to, capsys):
    spoken_to(lambda request: [control.Progress(pending=3), control.Done()])
    assert main.run(["sync", "--timeout", "0"]) == 1
    assert "Not everything is uploaded after 0 s: 3 changes to go." in capsys.readouterr().err


def test_a_refusal_is_told_with_its_exit_code(spoken_to, capsys):
    spoken_to(lambda request: [control.Failure(message="The drive is in use.", exit_code=3)])
    assert main.run(["sync"]) == 3
    assert capsys.readouterr().err == "cmsfs: The drive is in use.\n"


def test_a_daemon_that_ends_midway_is_told(spoken_to, capsys):
    spoken_to(lambda request: [control.Progress(pending=3)])
    assert main.run(["sync"]) == 1
    assert capsys.readouterr().err == "cmsfs: The daemon exited before it responded.\n"


def test_killed_daemon_is_no_daemon(monkeypatch):
    """Its socket takes connections until its last thread is gone."""
    path = config.Paths("default").socket
    path.parent.mkdir(parents=True, exist_ok=True)
    with monkeypatch.context() as at, socket.socket(socket.AF_UNIX) as dying:
        at.chdir(path.parent)
        dying.bind(path.name)
        dying.listen()

        def hang_up() -> None:
            dying.accept()[0].close()
            dying.close()

        with concurrent.futures.ThreadPoolExecutor() as threads:
            ended = threads.submit(hang_up)
            assert daemonctl.find_account("default") is None
            ended.result()


def test_a_daemon_that_speaks_otherwise_is_told(spoken_to, capsys):
    spoken_to(lambda request: [b'{"kind": "song"}\n'])
    assert main.run(["sync"]) == 1
    assert "is it an older version?" in capsys.readouterr().err


def test_umount_waits_until_the_process_is_gone(spoken_to, capsys):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    def answers(request):
        process.communicate(b"\n")
        return [control.Progress(pending=1), control.Done(pending=1)]

    daemon = spoken_to(answers, pid=process.pid)
    assert main.run(["umount", "--drain", "3"]) == 0
    assert daemon.requests[-1] == control.Stop(drain_seconds=3)
    out, err = capsys.readouterr()
    assert out == "The drive at /mnt/drive is unmounted.\n"
    assert err == "1 change will be uploaded after the next mount.\n"


def test_umount_finds_the_drive_by_its_mountpoint(spoken_to, tmp_path):
    spoken_to(account="one", mountpoint="/mnt/other")
    daemon = spoken_to(lambda request: [control.Done()], account="two", mountpoint=str(tmp_path))
    assert main.run(["umount", str(tmp_path / "." / "x" / "..")]) == 0
    assert isinstance(daemon.requests[-1], control.Stop)


def test_umount_of_nothing_says_so(tmp_path, capsys):
    assert main.run(["umount", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"Nothing is mounted at {tmp_path}.\n"


def test_umount_leaves_other_file_systems_alone(capsys):
    assert main.run(["umount", "/proc"]) == 3
    assert capsys.readouterr().err == "cmsfs: /proc has another file system (proc) mounted on it.\n"


def test_mounting_what_is_mounted_is_no_error(spoken_to, capsys):
    """Also where the mount is in another namespace: the daemon knows."""
    home = Path(os.environ["HOME"])
    drive = spoken_to(mountpoint=str(home / "cmsfs"))
    assert main.run(["mount"]) == 0
    assert drive.requests == [control.Ping()]
    assert capsys.readouterr().out == f"The drive is already mounted at {home / 'cmsfs'}.\n"


def test_mount_waits_while_the_drive_starts_or_stops(spoken_to):
    drive = spoken_to(stages=("stopping", "starting", "mounted"))
    assert daemonctl.find_mounted("default").stage == "mounted"
    assert drive.requests == [control.Ping()] * 3


def test_an_account_is_mounted_at_one_place(spoken_to, tmp_path, capsys):
    spoken_to()
    assert main.run(["mount", str(tmp_path)]) == 3
    assert "The account 'default' is already mounted at /mnt/drive." in capsys.readouterr().err


def test_a_mountpoint_serves_one_account(spoken_to, tmp_path, capsys):
    spoken_to(account="other", mountpoint=str(tmp_path))
    assert main.run(["mount", str(tmp_path)]) == 3
    assert f"{tmp_path} is in use by the account 'other'; name another folder." in capsys.readouterr().err


def test_the_runtime_folder_may_have_a_long_path(tmp_path, monkeypatch, spoken_to, capsys):
    folder = tmp_path / ("x" * 150)
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    spoken_to(lambda request: [control.Done()])
    assert main.run(["sync"]) == 0
    assert capsys.readouterr().out == "Everything is uploaded.\n"
