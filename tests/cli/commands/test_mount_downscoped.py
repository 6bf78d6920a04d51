"""mount --folder --read-only --ttl: the whole way, with a daemon, a mount and a service on the network."""

import json
import subprocess
import time

import pytest

pytestmark = pytest.mark.usefixtures("fuse")


def _sh(script, *arguments):
    return subprocess.run(
        ["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


def _folder(cmsfs):
    """A folder of the sample with something in it, and what that is called."""
    paths = [item["path"] for item in json.loads(cmsfs("find", "--json", "budget").stdout)]
    path = next(path for path in paths if path.count("/") >= 2)
    return path.rsplit("/", 1)


def test_read_only_folder_drive_refuses_changes(cmsfs, mountpoint, server, account, tmp_path):
    account(server, profile="server")
    folder, name = _folder(cmsfs)
    done = cmsfs("mount", mountpoint, "--folder", folder, "--read-only", "--ttl", "8h")
    assert (done.returncode, done.stderr) == (0, "")
    assert _sh('stat -c %a "$1" "$1/$2"', mountpoint, name).stdout.split() == ["555", "444"]
    assert name in _sh('ls -A "$1"', mountpoint).stdout.splitlines()
    assert _sh('cat "$1"', mountpoint / name).returncode == 0
    for script in ('echo > "$1/new"', 'rm "$1/$2"', 'mkdir "$1/d"', 'mv "$1/$2" "$1/other"'):
        done = _sh(script, mountpoint, name)
        assert done.returncode != 0
        assert "Read-only file system" in done.stderr
    # The whole drive has its own state, and can be there at once.
    other = tmp_path / "whole"
    other.mkdir()
    try:
        assert cmsfs("mount", other).returncode == 0
        assert "Welcome.md" in _sh('ls -A "$1"', other).stdout.splitlines()
        assert _sh('stat -c %a "$1" "$1/Welcome.md"', other).stdout.split() == ["755", "644"]
        assert "Welcome.md" not in _sh('ls -A "$1"', mountpoint).stdout.splitlines()
    finally:
        assert cmsfs("umount", other).returncode == 0
    assert cmsfs("umount", mountpoint).returncode == 0


def test_expired_drive_says_so(cmsfs, mountpoint, server, account):
    account(server, profile="server")
    assert cmsfs("mount", mountpoint, "--read-only", "--ttl", "6s").returncode == 0
    end = time.monotonic() + 30
    while True:
        found = json.loads(cmsfs("--account", "default@ro", "status", "--json").stdout)
        if found["health"]["state"] == "unauthorised" or time.monotonic() > end:
            break
        time.sleep(0.05)
    assert found["health"]["state"] == "unauthorised"
    assert found["health"]["reason"].startswith("The time that this drive was mounted for (6 s) is over")
    done = _sh('cat "$1"/Welcome.md', mountpoint)
    assert (done.returncode, "Permission denied" in done.stderr) == (1, True)
    assert cmsfs("umount", mountpoint).returncode == 0


def test_invalid_folder_or_ttl_is_reported(cmsfs, mountpoint, server, account):
    account(server, profile="server")
    done = cmsfs("mount", mountpoint, "--folder", "/Nowhere")
    assert (done.returncode, done.stderr) == (1, "cmsfs: There is no /Nowhere on the service.\n")
    done = cmsfs("mount", mountpoint, "--folder", "/Welcome.md")
    assert done.stderr == "cmsfs: /Welcome.md is not a folder.\n"
    done = cmsfs("mount", mountpoint, "--ttl", "soon")
    assert done.returncode == 2
    assert "is not a duration" in done.stderr
