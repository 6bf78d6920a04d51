"""A login that died: changes stay here, the status says what to do, and a new login is all it takes."""

import json
import sqlite3
import subprocess
import time
from contextlib import closing

import httpx
import pytest
import trio

from cmsfs import config, errors
from cmsfs.auth import connect, refusals, token_store
from cmsfs.cli.support import daemonctl
from cmsfs.service.access import calls

NEW_SECRET = "another secret, which is long"


def _kept():
    found = token_store.FileTokenStore(config.Paths("default").token).read()
    assert found
    return found


def _revoke(server):
    kept = _kept()
    form = {"client_id": kept.client_id, "client_secret": kept.client_secret, "token": kept.refresh_token}
    assert httpx.post(f"{server.url}/oauth2/revoke", data=form).status_code == 200


def _files(server, name):
    with closing(sqlite3.connect(server.data / "service.db", timeout=20)) as db:
        return db.execute("SELECT count(*) FROM item WHERE name = ?", (name,)).fetchone()[0]


def _change_secret(server, client_id):
    """An administrator gives the application another secret, and ends the tokens it has."""
    with sqlite3.connect(server.data / "service.db", timeout=20) as db:
        values = (calls.hashed(NEW_SECRET), client_id)
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
def test_drive_uses_new_login_without_restart(cmsfs, server, person, app, mountpoint, tmp_path):
    assert cmsfs("login", server.url, "--yes", "--app", app).returncode == 0
    done = cmsfs("mount", mountpoint)
    assert done.returncode == 0, done.stderr

    _write(mountpoint, "before.txt")
    _until(_is_well)
    _revoke(server)
    _write(mountpoint, "left.txt")
    refused = _until(_is_refused)
    assert refused.health.reason == refusals.ENDED

    person(login="ada@example.com")
    assert cmsfs("login", "--yes").returncode == 0
    assert _until(lambda found: found.health.reason == refusals.ANOTHER).queue.pending == 1
    assert _files(server, "left.txt") == 0

    _change_secret(server, _kept().client_id)
    person()
    done = cmsfs("login", "--yes", "--app", _new_app(app, tmp_path))
    assert done.returncode == 0, done.stderr
    assert _until(_is_well).pid == refused.pid
    assert _files(server, "left.txt") == 1


def test_running_program_uses_changed_configuration(cmsfs, server, person, app, tmp_path):
    file = tmp_path / "app.json"
    file.write_text(app.read_text())
    with closing(sqlite3.connect(server.data / "service.db", timeout=20)) as db:
        (ben,) = db.execute("SELECT CAST(id AS TEXT) FROM account WHERE login = 'ben@example.com'").fetchone()
    assert cmsfs("login", server.url, "--client-credentials", file).returncode == 0

    owner = None

    async def story():
        nonlocal owner
        async with connect.open_backend(config.load(), owner=lambda: owner) as client:
            ada = await client.users.me()
            owner = ada.id
            _change_secret(server, server.credentials["client_id"])
            with pytest.raises(errors.OAuthError, match="invalid_client"):
                await client.users.me()
            config.config_file().write_text("no toml")
            with pytest.raises(errors.OAuthError, match="invalid_client"):
                await client.users.me()
            config.config_file().unlink()
            _new_app(app, tmp_path).rename(file)
            log_in = ("login", server.url, "--client-credentials", file)
            assert cmsfs(*log_in, "--user", ben).returncode == 0
            with pytest.raises(errors.NeedsLogin, match="Somebody else"):
                await client.users.me()
            assert cmsfs(*log_in).returncode == 0
            assert await client.users.me() == ada

    trio.run(story)
