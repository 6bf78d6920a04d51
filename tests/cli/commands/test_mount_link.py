"""mount LINK: from a machine whose user has no account at the service."""

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cmsfs import config

pytestmark = pytest.mark.usefixtures("fuse")

PASSWORD = "the link's password"


def _sh(script, *arguments):
    return subprocess.run(
        ["sh", "-c", script, "sh", *arguments], capture_output=True, text=True, timeout=30, check=False
    )


@pytest.fixture
def second(tmp_path, monkeypatch):
    """`second()`: from here on nothing is known of the first machine: no configuration, login or state."""

    def go():
        for name in ("CONFIG", "STATE", "CACHE", "DATA"):
            monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / "second" / name.lower()))
        home = tmp_path / "second" / "home"
        home.mkdir(parents=True)
        monkeypatch.setenv("HOME", str(home))
        assert config.accounts() == []
        return home

    return go


@pytest.fixture
def password(tmp_path):
    file = tmp_path / "link password"
    file.write_text(f"{PASSWORD}\n")
    file.chmod(0o600)
    return file


def _processes():
    found = ""
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                found += (process / name).read_bytes().decode("utf-8", "replace")
            except OSError:
                continue
    return found


def test_a_shared_folder_is_mounted_without_a_login(
    cmsfs, mountpoint, server, account, second, password, tmp_path
):
    account(server, profile="server")
    (tmp_path / "Report" / "inner").mkdir(parents=True)
    (tmp_path / "Report" / "a.txt").write_text("what is shared")
    assert cmsfs("put", tmp_path / "Report", "/").returncode == 0
    url = cmsfs("share", "/Report", "--password-file", password).stdout.strip()
    second()
    done = cmsfs("mount", url, mountpoint)
    assert (done.returncode, "The link has a password" in done.stderr) == (6, True)
    done = cmsfs("mount", url, mountpoint, "--password-file", password)
    assert (done.returncode, done.stderr) == (0, "")
    assert _sh('ls "$1"', mountpoint).stdout.splitlines() == ["a.txt", "inner"]
    assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    for script in ('echo > "$1/new"', 'rm "$1/a.txt"', 'mkdir "$1/d"', 'mv "$1/a.txt" "$1/other"'):
        assert "Read-only file system" in _sh(script, mountpoint).stderr
    (name,) = config.accounts()
    status = json.loads(cmsfs("status", "--json").stdout)
    assert status["health"]["state"] == "read-only"
    assert status["health"]["reason"] == "The shared link allows no changes."
    assert _sh('findmnt -no SOURCE "$1"', mountpoint).stdout.startswith(f"{name}@127.0.0.1")
    kept = config.load(name).link_file
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    word = url.rpartition("/")[2]
    assert word not in config.config_file().read_text()
    assert PASSWORD not in _processes()
    assert word not in _processes()
    assert cmsfs("umount", mountpoint).returncode == 0


@pytest.mark.long
def test_a_shared_file_is_a_folder_with_that_file(cmsfs, mountpoint, server, account, second, tmp_path):
    account(server, profile="server")
    (tmp_path / "plan.txt").write_text("first")
    assert cmsfs("put", tmp_path / "plan.txt", "/").returncode == 0
    url = cmsfs("share", "/plan.txt", "--edit").stdout.strip()
    first = dict(os.environ)
    home = second()
    done = cmsfs("mount", url)
    assert (done.returncode, done.stderr) == (0, "")
    place = home / "plan.txt"
    try:
        assert _sh('ls -A "$1"', place).stdout.splitlines() == ["plan.txt"]
        assert _sh('cat "$1/plan.txt"', place).stdout == "first"
        for script in ('echo > "$1/new"', 'rm "$1/plan.txt"', 'mkdir "$1/d"', 'mv "$1/plan.txt" "$1/x"'):
            assert "denied" in _sh(script, place).stderr
        assert _sh('echo second > "$1/plan.txt"', place).returncode == 0
        assert cmsfs("sync", "--timeout", "60").returncode == 0
        # What somebody with an account changes is seen here.
        (tmp_path / "plan.txt").write_text("third")
        theirs = {key: first[key] for key in first if key.startswith("XDG_")}
        put = [sys.executable, "-m", "cmsfs", "put", str(tmp_path / "plan.txt"), "/"]
        subprocess.run(put, env=os.environ | theirs, check=True, timeout=60)
        end = time.monotonic() + 60
        while _sh('cat "$1/plan.txt"', place).stdout != "third" and time.monotonic() < end:
            time.sleep(0.2)
        assert _sh('cat "$1/plan.txt"', place).stdout == "third"
    finally:
        assert cmsfs("umount", place).returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_link_for_the_company_is_mounted_with_an_account(
    cmsfs, mountpoint, server, account, second, password, tmp_path, app, person, kind
):
    account(server, profile="server")
    (tmp_path / "Report").mkdir()
    (tmp_path / "Report" / "a.txt").write_text("what is shared")
    assert cmsfs("put", tmp_path / "Report", "/").returncode == 0
    what = "/Report" if kind == "folder" else "/Report/a.txt"
    url = cmsfs("share", what, "--access", "company", "--password-file", password).stdout.strip()
    second()
    done = cmsfs("mount", url, mountpoint, "--password-file", password)
    assert (done.returncode, "without an account" in done.stderr) == (6, True)
    person(login="ben@example.com")
    done = cmsfs("--account", "work", "login", server.url, "--yes", "--app", app, "--token-store", "file")
    assert done.returncode == 0, done.stderr
    done = cmsfs("mount", url, mountpoint)
    assert (done.returncode, "The link has a password" in done.stderr) == (6, True)
    done = cmsfs("mount", url, mountpoint, "--password-file", password)
    assert (done.returncode, done.stderr) == (0, "")
    try:
        assert _sh('ls "$1"', mountpoint).stdout.splitlines() == ["a.txt"]
        assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
        assert "Read-only file system" in _sh('echo > "$1/new"', mountpoint).stderr
        assert PASSWORD not in _processes()
    finally:
        assert cmsfs("umount", mountpoint).returncode == 0
