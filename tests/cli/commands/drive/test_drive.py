"""demo, mount, umount, status, sync: the whole way, with a daemon and a mount."""

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from cmsfs import config, mounts
from cmsfs.cli.support import daemonctl

pytestmark = pytest.mark.usefixtures("fuse")


def _names(folder: Path) -> list[str]:
    """What `ls` shows; a process of its own, as everything that looks into a drive."""
    done = subprocess.run(["ls", "-A", folder], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.splitlines()


def test_demo_mounts_the_sample_and_says_what_to_try(cmsfs, mountpoint, leftovers):
    done = cmsfs("demo", mountpoint)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"The drive is mounted at {mountpoint}.\n\nFive things to try:\n")
    assert len(done.stdout.splitlines()) == 8
    assert "Welcome.md" in _names(mountpoint)

    again = cmsfs("demo", mountpoint)
    assert again.returncode == 0
    assert again.stdout.startswith(f"The drive is already mounted at {mountpoint}.\n")

    done = cmsfs("umount", mountpoint)
    assert (done.returncode, done.stdout) == (0, f"The drive at {mountpoint} is unmounted.\n")
    assert leftovers() == []
    assert list(mountpoint.iterdir()) == []


def test_demo_changes_survive_a_restart(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    subprocess.run(["mkdir", mountpoint / "new"], check=True, timeout=30)
    subprocess.run(["sh", "-c", 'echo hello > "$1/new/a.txt"', "sh", mountpoint], check=True, timeout=30)
    done = cmsfs("sync")
    assert (done.returncode, done.stdout) == (0, "Everything is uploaded.\n")
    found = json.loads(cmsfs("status", "--json").stdout)
    assert found["mounted"] is True
    assert found["mountpoint"] == str(mountpoint)
    assert found["queue"]["waiting"] == 0
    assert cmsfs("umount").returncode == 0
    assert cmsfs("get", "/new/a.txt", "-").stdout == "hello\n"

    assert cmsfs("demo", mountpoint).returncode == 0
    assert "a.txt" in _names(mountpoint / "new")


def test_status_names_service_and_state(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    done = cmsfs("status")
    assert done.returncode == 0
    assert done.stdout.startswith(f"{mountpoint}: ")
    assert "Embedded service, account default" in done.stdout


def test_the_daemon_writes_its_log_into_a_file(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    assert config.Paths("default").log.stat().st_size > 0


def test_killed_daemon_restarts_over_dead_mount(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    _kill()
    done = cmsfs("demo", mountpoint)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Welcome.md" in _names(mountpoint)
    assert sum(m.mountpoint == str(mountpoint) for m in mounts.listing()) == 1


def test_a_dead_mount_is_removed_by_umount(cmsfs, mountpoint):
    assert cmsfs("demo", mountpoint).returncode == 0
    _kill()
    done = cmsfs("umount", mountpoint)
    assert done.returncode == 0
    assert done.stdout == f"Removed the mount at {mountpoint}; it had no running daemon of yours.\n"
    assert mounts.find(mountpoint) is None


def test_busy_drive_needs_force_to_unmount(cmsfs, mountpoint, leftovers):
    assert cmsfs("demo", mountpoint).returncode == 0
    reader = subprocess.Popen(
        ["sh", "-c", 'exec 3< "$1/Welcome.md"; echo; read line', "sh", mountpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert reader.stdout
    assert reader.stdout.readline() == b"\n"
    done = cmsfs("umount", mountpoint)
    assert done.returncode == 1
    assert done.stderr.endswith(f" open on the drive at {mountpoint}; --force unmounts it anyway.\n")
    assert "Welcome.md" in _names(mountpoint)
    done = cmsfs("umount", "--force", mountpoint)
    assert done.returncode == 0
    reader.communicate(b"\n", timeout=30)
    assert leftovers() == []


def test_suggested_commands_quote_the_mountpoint(cmsfs, mountpoint):
    place = mountpoint.rename(mountpoint.with_name("my 'own' drive"))
    done = cmsfs("demo", place)
    try:
        first = next(line for line in done.stdout.splitlines() if line.strip().startswith("ls -R"))
        assert shlex.split(first) == ["ls", "-R", str(place)]
    finally:
        assert cmsfs("umount", place).returncode == 0


def test_the_default_mountpoint_is_made(cmsfs, private_folders, leftovers):
    done = cmsfs("demo")
    assert done.returncode == 0
    assert "Welcome.md" in _names(private_folders / "cmsfs")
    assert cmsfs("umount").returncode == 0
    assert not any("process" in line for line in leftovers())


def test_drive_of_network_service_mounts(cmsfs, mountpoint, server, account):
    account(server)
    done = cmsfs("mount", mountpoint)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Welcome.md" in _names(mountpoint)
    # Unmounted from outside, the daemon says that it is stopping, and is waited for.
    subprocess.run(["fusermount3", "-u", mountpoint], check=True)
    done = cmsfs("mount", mountpoint)
    assert (done.returncode, done.stdout) == (0, f"The drive is mounted at {mountpoint}.\n")
    assert cmsfs("umount", mountpoint).returncode == 0


def _kill() -> None:
    daemon = daemonctl.find_account("default")
    assert daemon
    os.kill(daemon.pid, signal.SIGKILL)
    assert daemonctl.await_exit(daemon, seconds=10)
