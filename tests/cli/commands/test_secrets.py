"""No secret is in a process list, an environment, a log, the status or a report: all of them are searched."""

import json
import stat
import subprocess
import zipfile
from pathlib import Path

import pytest

from cmsfs import config
from cmsfs.auth import token_store
from cmsfs.cli import main
from cmsfs.cli.support import daemonctl

pytestmark = pytest.mark.usefixtures("fuse")


def _processes():
    """The command lines and environments of all processes that this user can see."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        for name in ("cmdline", "environ"):
            try:
                data = (process / name).read_bytes()
            except OSError:
                continue  # it ended, or is another user's
            found.append((f"{process.name} {name}", data.decode("utf-8", "replace")))
    return found


def _report(path):
    with zipfile.ZipFile(path) as archive:
        return [(name, archive.read(name).decode()) for name in archive.namelist()]


@pytest.mark.parametrize("narrowed", [False, True], ids=["whole", "narrowed"])
def test_login_secrets_do_not_leak(
    cmsfs, server, person, app, mountpoint, tmp_path, monkeypatch, capfd, narrowed
):
    monkeypatch.setenv("CMSFS_LOG_LEVEL", "DEBUG")
    done = cmsfs("login", server.url, "--yes", "--app", app, "--token-store", "file")
    assert done.returncode == 0, done.stderr
    place = config.Paths("default").token
    secrets: set[str] = set()

    def collect():
        kept = token_store.FileTokenStore(place).read()
        secrets.update((kept.refresh_token, kept.access_token, kept.client_secret))

    collect()
    said = [("login", done.stdout + done.stderr)]
    # The daemon begins with a refresh, and works.
    place.write_text(json.dumps(json.loads(place.read_text()) | {"expires_at": 0}))
    options = ["--read-only", "--ttl", "8h"] if narrowed else []
    done = cmsfs("mount", mountpoint, *options)
    assert done.returncode == 0, done.stderr
    collect()
    assert len(secrets) >= 5
    subprocess.run(["ls", "-lR", mountpoint], capture_output=True, timeout=60, check=True)
    settings = config.load(read_only=narrowed or None)
    daemon = daemonctl.find_account(settings.place)
    assert daemon
    limits = Path(f"/proc/{daemon.pid}/limits").read_text().splitlines()
    assert [line.split()[4:6] for line in limits if line.startswith("Max core")] == [["0", "0"]]
    # Nobody else sees so much as the names of the accounts.
    for folder in (settings.paths.state, settings.paths.cache):
        assert stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    found = [*_processes(), *said, ("mount", done.stdout + done.stderr)]
    found.append(("status", daemonctl.status(daemon).model_dump_json()))
    for command in (["status"], ["whoami"], ["config", "show", "--all"], ["doctor"]):
        done = cmsfs("--account", settings.place, *command)
        found.append((command[0], done.stdout + done.stderr))
    report = tmp_path / "report.zip"
    assert main.run(["doctor", "--bundle", str(report)]) in (0, 1)
    out, err = capfd.readouterr()
    found += [("doctor", out + err), *_report(report)]
    collect()
    assert cmsfs("umount", mountpoint).returncode == 0
    log = settings.paths.log.read_text()
    assert "DEBUG" in log
    found += [("log", log), ("configuration", config.config_file().read_text())]
    secrets |= set(server.credentials["passwords"].values())
    for where, text in found:
        for secret in secrets:
            assert secret not in text, where
    # And in the state of the drive there are only the tokens, in the file that is for them.
    for path in settings.paths.state.rglob("*"):
        if path.is_file() and path != place:
            data = path.read_bytes()
            assert not any(secret.encode() in data for secret in secrets), path
