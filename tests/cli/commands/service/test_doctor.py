"""doctor: each thing that can be wrong is found, and comes with its remedy."""

import email.utils
import http.server
import json
import os
import threading
import time
import zipfile

import pytest

from cmsfs import config
from cmsfs.auth import token_store
from cmsfs.cli import main
from cmsfs.cli.doctor import machine, service, support_bundle
from cmsfs.service.worker import sandbox


def _doctor(capsys, *options):
    """The exit code, and the checks by name."""
    code = main.run(["doctor", "--json", *options])
    document = json.loads(capsys.readouterr().out)
    assert document["ok"] is (code == 0)
    return code, {check["name"]: check for check in document["checks"]}


def _one(checks, name):
    return next(check for check in checks if check.name == name)


def test_where_all_is_well_it_says_so(fuse, sample, capsys):
    code, found = _doctor(capsys)
    failed = {name: check for name, check in found.items() if check["state"] == "failed"}
    assert (code, failed) == (0, {})
    assert found["login"]["said"].startswith("Ada Example")
    assert {"fuse", "kernel", "disk", "permissions", "stale mounts", "local state"} <= set(found)


def test_terminal_output_shows_remedies(sample, capsys):
    config.Paths("default").ensure()
    config.Paths("default").state.chmod(0o755)
    assert main.run(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("FAIL  permissions: Others can"))
    assert lines[at + 1] == f"        try: chmod 700 {config.Paths('default').state}"


def test_a_configuration_that_does_not_hold(private_folders, capsys):
    path = config.config_file()
    path.parent.mkdir(parents=True)
    path.write_text("cache_byte = 1\n")
    code, found = _doctor(capsys)
    assert code == 1
    assert "did you mean cache_bytes?" in found["configuration"]["said"]
    assert found["configuration"]["remedy"] == "cmsfs config edit"


@pytest.mark.parametrize(
    ("values", "name", "said"),
    [
        ({"keep_free_bytes": 10**18}, "disk", "nothing is cached"),
        ({"mountpoint": "/proc"}, "mountpoint", "another file system (proc)"),
        ({"mountpoint": "/etc"}, "mountpoint", "is not empty"),
    ],
)
def test_what_is_wrong_with_this_machine(values, name, said):
    settings = config.Settings(**values)
    check = _one(machine.checks(settings), name)
    assert said in check.said
    assert check.state in ("failed", "warning")
    assert check.remedy


def test_a_secret_that_others_can_read(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hush")
    secret.chmod(0o644)
    check = _one(machine.checks(config.Settings(client_secret_file=secret)), "permissions")
    assert (check.state, check.remedy) == ("failed", f"chmod 600 {secret}")


def test_damage_of_the_local_state_is_found(sample):
    paths = config.Paths("default")
    paths.ensure()
    paths.replica_db.write_bytes(b"no database" * 100)
    check = _one(machine.checks(config.Settings()), "local state")
    assert (check.state, check.remedy) == ("failed", "cmsfs fsck --repair")


def test_fsck_finds_repairs_and_says_so(cmsfs):
    done = cmsfs("fsck")
    assert (done.returncode, done.stdout) == (0, "The local state is consistent.\n")
    paths = config.Paths("default")
    paths.ensure()
    paths.replica_db.write_bytes(b"no database" * 100)
    done = cmsfs("fsck")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "database: The database is damaged: file is not a database.\n    Readable data"
    )
    assert done.stdout.endswith("1 finding; `cmsfs fsck --repair` carries out the remedy below each.\n")
    done = cmsfs("fsck", "--repair", "--json")
    assert (done.returncode, len(json.loads(done.stdout)["findings"])) == (0, 1)
    assert cmsfs("fsck", "--quick").returncode == 0
    assert [path.read_bytes() for path in paths.recovered.glob("replica.db.*")] == [b"no database" * 100]


@pytest.fixture
def remote():
    """`remote(url)`: settings for a service there."""

    def settings(url, **values):
        return config.Settings(
            profile="specification", base_url=url, upload_url=url, auth_url=url, client_id="c", **values
        )

    return settings


def test_a_name_that_nobody_knows(remote):
    checks = list(service.checks(remote("https://files.invalid")))
    assert [(check.name, check.state) for check in checks] == [("names", "failed"), ("connection", "skipped")]
    assert "files.invalid" in checks[0].said


def test_a_port_that_nobody_listens_on(remote):
    checks = list(service.checks(remote("http://127.0.0.1:9")))
    assert [check.state for check in checks] == ["ok", "failed", "skipped"]
    assert "Connection refused" in checks[1].said


class _Late(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response_only(404)
        self.send_header("Date", email.utils.formatdate(time.time() - 600, usegmt=True))
        self.end_headers()

    def log_message(self, *args):
        pass


def test_a_clock_that_differs(remote):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Late) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            settings = remote(f"http://127.0.0.1:{server.server_port}")
            check = _one(service.checks(settings), "clock")
        finally:
            server.shutdown()
            thread.join()
    assert check.state == "failed"
    assert check.said in [f"This machine's clock is {n} s ahead of the service's." for n in (599, 600, 601)]
    assert check.remedy == "sudo timedatectl set-ntp true"


def test_a_login_that_is_missing(server, remote):
    settings = remote(server.url, login="person", token_store="file")
    check = _one(service.checks(settings), "login")
    assert (check.state, check.remedy) == ("failed", "cmsfs login")


def test_a_kernel_without_landlock_is_warned_of(monkeypatch):
    def worker():
        return next(service.checks(config.Settings(profile="embedded")))

    found = worker()
    assert (found.name, found.state) == ("worker", "ok" if sandbox.version() else "warning")
    # A call that no kernel has: the answer is that of one which lacks it.
    monkeypatch.setattr(sandbox, "_CREATE", 1_000_000)
    found = worker()
    assert (found.name, found.state) == ("worker", "warning")
    assert "Landlock" in found.said
    assert "lsm=" in found.remedy


def test_bundle_is_complete_and_private(server, account, tmp_path, capsys, monkeypatch):
    account(server, profile="server")
    log = config.Paths("default").log
    log.parent.mkdir(parents=True, exist_ok=True)
    secret = server.credentials["client_secret"]
    planted = [
        f"odd {secret} line",
        "Authorization: Bearer abcdefghijkl0123456789",
        "https://x/callback?code=thecodeitself&state=thestateitself",
        '{"refresh_token": "rrrrrrrrrrrrrrrrrr"}',
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.abc",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----",
        "somebody@example.com",
        "an ordinary line",
    ]
    log.write_text("\n".join(planted))
    journalctl = tmp_path / "bin" / "journalctl"
    journalctl.parent.mkdir()
    journalctl.write_text(f'#!/bin/sh\necho "$@: {secret}"\n')
    journalctl.chmod(0o700)
    monkeypatch.setenv("PATH", f"{journalctl.parent}:{os.environ['PATH']}")
    path = tmp_path / "report.zip"
    main.run(["doctor", "--json", "--bundle", str(path)])
    capsys.readouterr()
    assert path.stat().st_mode & 0o777 == 0o600
    with zipfile.ZipFile(path) as archive:
        names = {name.removeprefix("cmsfs-report/") for name in archive.namelist()}
        text = "\n".join(archive.read(name).decode() for name in archive.namelist())
    assert names == {
        "checks.json",
        "machine.json",
        "settings.json",
        "status.json",
        "cmsfsd.log",
        "journal.log",
    }
    assert "an ordinary line" in text
    assert "--user --unit=" in text
    for hidden in (
        *(secret, server.credentials["client_id"], *server.credentials["passwords"].values()),
        *("abcdefghijkl0123456789", "thecodeitself", "thestateitself", "rrrrrrrr", "eyJ", "MIIE", "@example"),
    ):
        assert hidden not in text, hidden


def test_an_account_of_tokens_is_struck_out(tmp_path):
    settings = config.Settings(profile="server", login="person", token_store="file")
    token_store.open_token_store(settings).write(
        token_store.StoredLogin("client-id", "its-secret", "refresh-one", "access-one", 0)
    )
    redact = support_bundle.Redactor(settings)
    text = redact("client-id its-secret refresh-one access-one and more")
    assert text.split() == ["(removed)"] * 4 + ["and", "more"]
