"""A tree of real files on the drive, over stops, lost state and a killed daemon."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cmsfs
from tests.drive.conftest import Same
from tests.support.mounted_drive import MountedDrive
from tests.support.patience import until

WRITER = """
import os, sys, time
top, count = sys.argv[1], int(sys.argv[2])
for number in range(count):
    folder = os.path.join(top, f"d{number // 50}")
    os.makedirs(folder, exist_ok=True)
    name = os.path.join(folder, f"f{number}")
    data = os.urandom(1 + number * 37 % 20000)
    with open(name, "wb") as file:
        file.write(data)
    import hashlib
    print(time.monotonic(), name, hashlib.sha1(data).hexdigest(), flush=True)
    time.sleep(0.008)  # a program that does something else as well
"""


def test_copied_tree_survives_restart_and_state_loss(shared: MountedDrive, sources: Path, same: Same) -> None:
    shared.sh(f"cp -a {sources} copy")
    same(sources, shared.top / "copy")
    shared.sync()
    shared.stop()
    assert list(shared.mountpoint.iterdir()) == []

    shared.start()
    same(sources, shared.top / "copy")
    shared.stop()

    for name in ("state", "cache"):
        shutil.rmtree(shared.home / name)
        (shared.home / name).mkdir(mode=0o700)
    shared.start()
    same(sources, shared.top / "copy")


def test_restarted_drive_walks_from_replica(drive: MountedDrive, sources: Path) -> None:
    drive.sh(f"cp -a {sources} copy")
    drive.sync()
    drive.stop()
    drive.start()
    before = drive.status()["requests"]
    assert len(drive.sh("find .").splitlines()) > 150
    after = drive.status()["requests"]
    assert after.get("listing", 0) == before.get("listing", 0) == 0


def test_sent_files_respect_cache_limit(stopped: MountedDrive, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 1 << 20
    monkeypatch.setenv("CMSFS_CACHE_BYTES", str(limit))
    stopped.start()
    written = {f"f{number}": os.urandom(limit // 2) for number in range(8)}
    for name, data in written.items():
        (stopped.top / name).write_bytes(data)
    stopped.sync()
    until(lambda: stopped.status()["cache"]["used_bytes"] <= limit, 60, "nobody makes room")
    assert {path.name: path.read_bytes() for path in stopped.top.glob("f?")} == written
    stopped.stop()


def test_killed_daemon_keeps_closed_files(stopped: MountedDrive, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = stopped
    monkeypatch.setenv("CMSFS_SETTLE_SECONDS", "0.5")
    drive.start()
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(drive.top), "100000"], stdout=subprocess.PIPE, text=True, bufsize=1
    )
    assert writer.stdout is not None
    acknowledged: list[tuple[float, Path, str]] = []
    began = time.monotonic()
    for line in writer.stdout:
        at, name, sha1 = line.split()
        acknowledged.append((float(at), Path(name), sha1))
        # Past the settle time, so that uploads are under way too.
        if float(at) - began > 2 and len(acknowledged) > 200:
            break
    drive.kill()
    killed = time.monotonic()
    rest, _ = writer.communicate(timeout=60)
    del rest  # whatever came after the kill was not acknowledged by a living drive

    drive.start()
    old = [(name, sha1) for at, name, sha1 in acknowledged if killed - at > 1]
    assert len(old) > 100, "the test proves nothing"
    for path, sha1 in old:
        assert hashlib.sha1(path.read_bytes()).hexdigest() == sha1, path
    drive.sync()
    drive.stop()
    shutil.rmtree(drive.home / "state")
    shutil.rmtree(drive.home / "cache")
    drive.start()
    for path, sha1 in old:
        assert hashlib.sha1(path.read_bytes()).hexdigest() == sha1, path


def test_starting_twice_and_stopping_twice_is_harmless(drive: MountedDrive) -> None:
    drive.start()
    assert os.path.ismount(drive.top)
    drive.stop()
    drive.cmsfs("umount", drive.top, check=False)
    assert not os.path.ismount(drive.top)


def test_cli_upload_shows_on_drive(drive: MountedDrive, tmp_path: Path) -> None:
    (tmp_path / "local.txt").write_text("from elsewhere")
    drive.sh("ls")
    drive.cmsfs("put", tmp_path / "local.txt", "/elsewhere.txt")
    deadline = time.monotonic() + 30
    while not (drive.top / "elsewhere.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert (drive.top / "elsewhere.txt").read_text() == "from elsewhere"
    drive.sh("echo changed on the drive > elsewhere.txt")
    drive.sync()
    drive.cmsfs("get", "/elsewhere.txt", tmp_path / "back.txt")
    assert (tmp_path / "back.txt").read_text() == "changed on the drive\n"
    # A path below the mountpoint, in whatever way it is written, means the same item.
    assert drive.cmsfs("get", drive.top / "Links/../elsewhere.txt", "-").stdout == "changed on the drive\n"
    program = f"PYTHONPATH={Path(cmsfs.__file__).parents[1]} {sys.executable} -m cmsfs"
    assert drive.sh(f"cd Projects; {program} lock ../elsewhere.txt").startswith("/elsewhere.txt is locked")
    assert drive.cmsfs("link", "https://example.com/", f"{drive.top}/Projects/").stdout.startswith(
        "/Projects/"
    )
    refused = drive.cmsfs("--account", "other", "get", drive.top / "elsewhere.txt", "-", check=False)
    assert refused.returncode == 1
    assert "is on the drive of account default, not other." in refused.stderr


def test_unmount_timeout_leaves_queue(shared: MountedDrive) -> None:
    shared.sh("mkdir d; for i in $(seq 200); do printf $i > d/$i; done")
    told = shared.cmsfs("umount", "--drain", "0", shared.mountpoint)
    assert "uploaded after the next mount" in told.stderr
    shared.start()
    assert shared.sh("cat d/$((200 - 1))") == "199"
    shared.sync()
    shared.stop()
    shutil.rmtree(shared.home / "state")
    shared.start()
    assert shared.sh("ls d | wc -l").strip() == "200"
    assert shared.sh("cat d/7 d/200") == "7200"
