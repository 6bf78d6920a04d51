"""A login that died: changes stay here, the status says what to do, and a new login is all it takes."""

import json
import sqlite3
import subprocess
import time

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.auth import backend, keeping, refreshing
from cmsfs.cli import daemonctl
from cmsfs.service import access

NEW_SECRET = "another secret, which is long"


def _kept():
    found = keeping.FileKeep(config.Paths("default").token).read()
    assert found
    return found


def _revoke(server):
    kept = _kept()
    form = {"client_id": kept.client_id, "client_secret": kept.client_secret, "token": kept.refresh_token}
    assert httpx.post(f"{server.url}/oauth2/revoke", data=form).status_code == 200


def _change_secret(server, client_id):
    """An administrator gives the application another secret, and ends the tokens it has."""
    with sqlite3.connect(server.data / "service.db", timeout=20) as db:
        values = (access.hashed(NEW_SECRET), client_id)
        db.execute("UPDATE app SET secret_hash = ? WHERE client_id = ?", values)
        db.execute("DELETE FROM token")
    db.close()


def _new_app(app, tmp_path):
    document = json.loads(app.read_text()) | {"client_secret": NEW_SECRET}
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(document))
    return changed


def _until(holds):
    """The first status of the drive that it is true of."""
    daemon = daemonctl.find_account("default")
    assert daemon
    end = time.monotonic() + 15
    for found in daemonctl.watching(daemon):
        if holds(found):
            return found
        assert time.monotonic() < end, found
    raise AssertionError("the daemon ended")


def _write(mountpoint, name):
    script = 'echo "kept" > "$1"'
    subprocess.run(["sh", "-c", script, "sh", mountpoint / name], check=True, timeout=30)


def _is_refused(found):
    return found.health.state == "unauthorised" and found.queue.pending == 1


def _is_well(found):
    return found.health.state == "online" and found.queue.pending == 0


@pytest.mark.usefixtures("fuse")
def test_the_drive_goes_on_with_a_new_login_and_no_restart(cmsfs, server, person, app, mountpoint, tmp_path):
    assert cmsfs("login", server.url, "--app", app).returncode == 0
    done = cmsfs("mount", mountpoint)
    assert done.returncode == 0, done.stderr

    _revoke(server)
    _write(mountpoint, "revoked.txt")
    refused = _until(_is_refused)
    assert refused.health.reason == refreshing.ENDED
    shown = cmsfs("status").stdout
    assert shown.startswith(f"{mountpoint}: unauthorised\n")
    assert refreshing.ENDED in shown
    assert "revoked.txt" in shown
    assert cmsfs("login").returncode == 0
    assert _until(_is_well).pid == refused.pid
    assert cmsfs("get", "/revoked.txt", "-").stdout == "kept\n"

    _change_secret(server, _kept().client_id)
    _write(mountpoint, "secret.txt")
    assert _until(_is_refused).health.reason == refreshing.REFUSED
    assert cmsfs("login").returncode == 6
    done = cmsfs("login", "--app", _new_app(app, tmp_path))
    assert done.returncode == 0, done.stderr
    assert _until(_is_well).pid == refused.pid
    assert cmsfs("get", "/secret.txt", "-").stdout == "kept\n"


@pytest.mark.usefixtures("fuse")
def test_what_was_left_is_sent_after_a_new_login_of_the_same_person_only(
    cmsfs, server, person, app, mountpoint
):
    assert cmsfs("login", server.url, "--app", app).returncode == 0
    assert cmsfs("mount", mountpoint).returncode == 0
    _revoke(server)
    _write(mountpoint, "left.txt")
    _until(_is_refused)
    person(login="ada@example.com")
    assert cmsfs("login").returncode == 0
    assert _until(lambda found: found.health.reason == refreshing.ANOTHER).queue.pending == 1
    assert cmsfs("umount").returncode == 0
    done = cmsfs("mount", mountpoint)
    assert (done.returncode, done.stderr) == (6, f"cmsfs: {refreshing.ANOTHER}\n")

    _revoke(server)
    done = cmsfs("mount", mountpoint)
    assert (done.returncode, done.stderr) == (6, f"cmsfs: {refreshing.ENDED}\n")
    person()
    assert cmsfs("login").returncode == 0
    assert cmsfs("mount", mountpoint).returncode == 0
    assert cmsfs("sync").returncode == 0
    assert cmsfs("get", "/left.txt", "-").stdout == "kept\n"


def test_a_program_that_runs_takes_up_what_the_configuration_says_now(cmsfs, server, person, app, tmp_path):
    file = tmp_path / "app.json"
    file.write_text(app.read_text())
    assert cmsfs("login", server.url, "--client-credentials", file).returncode == 0

    async def story():
        async with backend.open_backend(config.load()) as client:
            ada = await client.users.me()
            _change_secret(server, server.credentials["client_id"])
            with pytest.raises(errors.OAuthError, match="invalid_client"):
                await client.users.me()
            config.config_file().write_text("no toml")
            with pytest.raises(errors.OAuthError, match="invalid_client"):
                await client.users.me()
            config.config_file().unlink()
            _new_app(app, tmp_path).rename(file)
            assert cmsfs("login", server.url, "--client-credentials", file).returncode == 0
            assert await client.users.me() == ada

    trio.run(story)
