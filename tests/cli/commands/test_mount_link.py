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
from cmsfs.auth import refusals

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


@pytest.mark.long
def test_a_shared_folder_is_mounted_without_a_login(
    cmsfs, mountpoint, server, account, second, password, tmp_path
):
    account(server, profile="server")
    (tmp_path / "Report" / "inner").mkdir(parents=True)
    (tmp_path / "Report" / "a.txt").write_text("what is shared")
    (tmp_path / "Report" / "inner" / "b.txt").write_text("what is inside")
    assert cmsfs("put", tmp_path / "Report", "/").returncode == 0
    url = cmsfs("share", "/Report", "--password-file", password).stdout.strip()
    second()
    done = cmsfs("mount", url, mountpoint)
    assert (done.returncode, "The link has a password" in done.stderr) == (6, True)
    done = cmsfs("mount", url, mountpoint, "--password-file", password)
    assert (done.returncode, done.stderr) == (0, "")
    # From the first look: nothing was listed, and no right asked for, before.
    bits = _sh('stat -c %a "$1" "$1/inner" "$1/inner/b.txt" "$1/a.txt"', mountpoint).stdout.split()
    assert bits == ["555", "555", "444", "444"]
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
        # The folder is none of the service, the file may be changed.
        assert _sh('stat -c %a "$1" "$1/plan.txt"', place).stdout.split() == ["555", "644"]
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
    first = {key: os.environ[key] for key in os.environ if key.startswith("XDG_")}
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
        ended = [sys.executable, "-m", "cmsfs", "share", what, "--remove"]
        subprocess.run(ended, env=os.environ | first, check=True, timeout=60, capture_output=True)
        if kind == "folder":
            found = _health(cmsfs, lambda health: health["reason"] == refusals.LINK_AWAY)
            assert found["reason"] == refusals.LINK_AWAY
        assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    finally:
        assert cmsfs("umount", mountpoint).returncode == 0


def _health(cmsfs, until):
    end = time.monotonic() + 60
    while True:
        found = json.loads(cmsfs("status", "--json").stdout)["health"]
        if until(found) or time.monotonic() > end:
            return found
        time.sleep(0.1)


@pytest.mark.long
def test_a_mounted_link_gets_another_password_and_ends(
    cmsfs, mountpoint, server, account, second, password, tmp_path
):
    account(server, profile="server")
    (tmp_path / "Report").mkdir()
    (tmp_path / "Report" / "a.txt").write_text("what is shared")
    (tmp_path / "Report" / "b.txt").write_text("not read before")
    assert cmsfs("put", tmp_path / "Report", "/").returncode == 0
    url = cmsfs("share", "/Report").stdout.strip()
    first = {key: os.environ[key] for key in os.environ if key.startswith("XDG_")}

    def share(*options):
        words = [sys.executable, "-m", "cmsfs", "share", "/Report", *map(str, options)]
        subprocess.run(words, env=os.environ | first, check=True, timeout=60, capture_output=True)

    second()
    assert cmsfs("mount", url, mountpoint).returncode == 0
    assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    (name,) = config.accounts()
    share("--password-file", password)
    found = _health(cmsfs, lambda health: health["state"] == "unauthorised")
    assert found["reason"].startswith("The shared link of this drive has another password now")
    assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    assert _sh('cat "$1/b.txt"', mountpoint).returncode == 1
    assert cmsfs("mount", url, "--password-file", password).returncode == 0
    assert _health(cmsfs, lambda health: health["state"] == "read-only")["state"] == "read-only"
    assert _sh('cat "$1/b.txt"', mountpoint).stdout == "not read before"
    checks = json.loads(cmsfs("--account", name, "doctor", "--json").stdout)["checks"]
    login = next(one for one in checks if one["name"] == "login")
    assert (login["state"], login["said"]) == ("ok", "a shared link, without an account")
    share("--remove")
    found = _health(cmsfs, lambda health: health["state"] == "unauthorised")
    assert found["reason"].startswith("The shared link of this drive has ended")
    assert cmsfs("umount").returncode == 0
    assert cmsfs("--account", name, "logout").stdout == "The shared link and its password are forgotten.\n"
    assert not config.load(name).link_file.exists()


@pytest.mark.long
def test_links_saved_on_a_drive_are_folders_of_it(cmsfs, mountpoint, server, account, person, app, tmp_path):
    account(server, profile="server")
    tree = tmp_path / "Plans"
    (tree / "inner").mkdir(parents=True)
    (tree / "a.txt").write_text("what is planned")
    (tree / "inner" / "large.bin").write_bytes(os.urandom(3_000_000))
    assert cmsfs("put", tree, "/").returncode == 0
    url = cmsfs("share", "/Plans", "--access", "open").stdout.strip()
    # Somebody else's drive, who has no right on the folder.
    person(login="ben@example.com")
    login = ("login", server.url, "--yes", "--app", app, "--token-store", "file")
    assert cmsfs("--account", "ben", *login).returncode == 0
    assert cmsfs("--account", "ben", "mount", mountpoint).returncode == 0
    try:
        (mountpoint / "Plans.url").write_text(f"[InternetShortcut]\nURL={url}\n")
        assert cmsfs("--account", "ben", "sync", "--timeout", "60").returncode == 0
        assert _sh('cd "$1" && ls .shared', mountpoint).stdout == "Plans\n"
        assert _sh('diff -r "$1" "$2/.shared/Plans"', tree, mountpoint).returncode == 0
        done = _sh('cp -r "$1/.shared/Plans" "$2" && diff -r "$2" "$3"', mountpoint, tmp_path / "copy", tree)
        assert (done.returncode, done.stderr) == (0, "")
        assert "not permitted" in _sh('echo > "$1/.shared/Plans/new"', mountpoint).stderr
        assert ".shared" not in _sh('ls -A "$1"', mountpoint).stdout.splitlines()
    finally:
        assert cmsfs("umount", mountpoint).returncode == 0


@pytest.mark.long
def test_a_known_link_is_mounted_without_its_service(cmsfs, mountpoint, server, account, second, tmp_path):
    account(server, profile="server")
    (tmp_path / "Report").mkdir()
    (tmp_path / "Report" / "a.txt").write_text("what is shared")
    assert cmsfs("put", tmp_path / "Report", "/").returncode == 0
    url = cmsfs("share", "/Report").stdout.strip()
    second()
    assert cmsfs("mount", url, mountpoint).returncode == 0
    assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    assert cmsfs("umount", mountpoint).returncode == 0
    server.stop()
    done = cmsfs("mount", url)
    assert (done.returncode, "The cached tree is shown" in done.stdout) == (0, True)
    assert _sh('cat "$1/a.txt"', mountpoint).stdout == "what is shared"
    assert cmsfs("umount", mountpoint).returncode == 0
    other = url.replace(url[-4:], "none")
    assert "cannot be reached" in cmsfs("mount", other, mountpoint).stderr
