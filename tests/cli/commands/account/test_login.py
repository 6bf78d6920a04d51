"""login, logout, whoami against a served service; a program takes the place of browser and person."""

import json
import os
import pty
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing

import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from cmsfs import config
from cmsfs.auth import token_store
from cmsfs.cli import main
from tests.support import forked

ENTERPRISE = """
[enterprise]
name = "Robots"
[[users]]
login = "dora@example.com"
name = "Dora"
role = "admin"
[[apps]]
client_id = "robot"
client_secret = "a secret of a robot, long"
name = "Robot"
grants = ["jwt_bearer"]
public_keys = [{ kid = "key1", file = "key.pem" }]
"""


def _tokens():
    return token_store.FileTokenStore(config.Paths("default").token).read()


def test_login_whoami_and_logout(cmsfs, server, person, app):
    done = cmsfs("login", server.url, "--yes", "--app", app)
    assert done.returncode == 0, done.stderr
    # There is no session with a keyring here.
    assert config.load().token_store == "file"
    assert f"Logged in to {server.url[7:]} as Ben Sample <ben@example.com>, account default" in done.stdout
    path = config.Paths("default").token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    done = cmsfs("whoami")
    assert done.stdout.startswith("Ben Sample <ben@example.com>, user ")
    assert cmsfs("find", "anything").returncode == 0
    kept = _tokens()
    done = cmsfs("logout")
    assert (done.returncode, done.stdout) == (0, "Logged out.\n")
    assert not path.exists()
    refused = httpx.get(
        f"{server.url}/2.0/users/me", headers={"authorization": f"Bearer {kept.access_token}"}
    )
    assert refused.status_code == 401
    form = {"grant_type": "refresh_token", "refresh_token": kept.refresh_token}
    form |= {"client_id": kept.client_id, "client_secret": kept.client_secret}
    assert httpx.post(f"{server.url}/oauth2/token", data=form).status_code == 400
    done = cmsfs("whoami")
    assert done.returncode == 6
    assert done.stderr == "cmsfs: Nobody is logged in to this account: `cmsfs login` does that.\n"
    assert cmsfs("logout").stdout == "Not logged in.\n"


def test_a_login_goes_on_by_refreshing(cmsfs, server, person, app):
    assert cmsfs("login", server.url, "--yes", "--app", app, "--token-store", "file").returncode == 0
    path = config.Paths("default").token
    before = json.loads(path.read_text())
    path.write_text(json.dumps(before | {"expires_at": 0}))
    assert cmsfs("whoami").returncode == 0
    after = json.loads(path.read_text())
    assert after["refresh_token"] != before["refresh_token"]
    # The login anew needs no application: it is known.
    done = cmsfs("login")
    assert done.returncode == 0, done.stderr
    assert json.loads(path.read_text())["refresh_token"] != after["refresh_token"]


def _on_a_terminal(answer, *words):
    """The command with a person at its keyboard, who has typed this."""
    master, slave = pty.openpty()
    try:
        os.write(master, f"{answer}\n".encode())
        return subprocess.run(
            [sys.executable, "-m", "cmsfs", *words], stdin=slave, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(master)
        os.close(slave)


def test_first_login_confirms_identity(cmsfs, server, person, app):
    words = ("login", server.url, "--app", app, "--token-store", "file")
    done = cmsfs(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes skips the question" in done.stderr
    done = _on_a_terminal("n", *words)
    assert done.returncode == 6
    assert "as Ben Sample <ben@example.com>, user " in done.stderr and "Is this you?" in done.stderr
    assert done.stderr.endswith("Someone else may have answered in the browser; log in again.\n")
    assert not config.config_file().exists()
    assert not config.Paths("default").token.exists()
    with closing(sqlite3.connect(server.data / "service.db", timeout=20)) as db:
        assert db.execute("SELECT count(*) FROM token WHERE family IS NOT NULL").fetchone() == (0,)
    done = _on_a_terminal("y", *words)
    assert done.returncode == 0, done.stderr
    # Who has been here before is not asked, unless somebody else comes in.
    done = cmsfs("login")
    assert done.returncode == 0, done.stderr
    assert "Is this you?" not in done.stderr
    kept = _tokens()
    config.Paths("default").token.write_text(
        json.dumps(json.loads(config.Paths("default").token.read_text()) | {"user_id": "1"})
    )
    done = cmsfs("login")
    assert done.returncode == 6
    assert "was not confirmed" in done.stderr
    assert _tokens().refresh_token == kept.refresh_token


def test_who_denies_changes_nothing(cmsfs, server, person, app):
    person("deny")
    done = cmsfs("login", server.url, "--yes", "--app", app, "--token-store", "file")
    assert done.returncode == 6
    assert done.stderr.endswith("cmsfs: The access was denied; nothing has changed.\n")
    assert not config.config_file().exists()
    assert not config.Paths("default").token.exists()


def test_without_a_browser_the_address_is_pasted(server, app, tmp_path):
    command = [sys.executable, "-m", "cmsfs", "login", server.url, "--yes", "--app", app, "--no-browser"]
    with subprocess.Popen(
        [*command, "--token-store", "file"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"BROWSER": "false"},
    ) as process:
        assert process.stderr
        address = next(line.strip() for line in process.stderr if line.startswith("  http"))
        password = tmp_path / "password"
        password.write_text(server.credentials["passwords"]["ben@example.com"])
        ended = subprocess.run(
            [sys.executable, "-m", forked.PERSON, address, "ben@example.com", password, "address"],
            capture_output=True,
            text=True,
        )
        out, err = process.communicate(ended.stdout, timeout=30)
    assert process.returncode == 0, err
    assert "as Ben Sample" in out


def test_a_paste_of_another_log_in_is_refused(cmsfs, server, app):
    done = subprocess.run(
        [sys.executable, "-m", "cmsfs", "login", server.url, "--yes", "--app", app, "--no-browser"],
        input="http://127.0.0.1:1/callback?code=x&state=theirs\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.endswith("This address does not belong to this log-in; begin anew.\n")


def test_login_keeps_comments_and_other_accounts(cmsfs, server, person, app):
    path = config.config_file()
    path.parent.mkdir(parents=True)
    text = (
        '# mine\ncache_bytes = 1_000_000_000  # small disk\n\n[accounts.work]\nprofile = "box" # at work\n'
        'client_id = "x"\n'
    )
    path.write_text(text)
    assert cmsfs("login", server.url, "--yes", "--app", app, "--token-store", "file").returncode == 0
    written = path.read_text()
    assert written.startswith(text.rstrip("\n"))
    settings = config.load("default")
    assert (settings.profile, settings.login, settings.token_store) == ("server", "person", "file")
    assert settings.base_url == f"{server.url}/2.0"
    assert settings.cache_bytes == 1_000_000_000
    assert config.load("work").client_id == "x"
    for secret in (server.credentials["client_secret"], _tokens().refresh_token, _tokens().access_token):
        assert secret not in written


def test_client_credentials_of_a_server(cmsfs, server, app):
    done = cmsfs("login", server.url, "--client-credentials", app)
    assert done.returncode == 0, done.stderr
    assert "as Ada Example <ada@example.com>" in done.stdout
    assert cmsfs("whoami", "--json").returncode == 0
    done = cmsfs("logout")
    assert done.returncode == 1
    assert "application credentials" in done.stderr


def test_profile_is_logged_in_to_with_the_addresses_of_the_settings(cmsfs, server, app):
    path = config.config_file()
    path.parent.mkdir(parents=True)
    base, upload = f"{server.url}/2.0", f"{server.url}/api/2.0"
    addresses = {"base_url": base, "upload_url": upload, "auth_url": server.url}
    path.write_text(
        'profile = "specification"\n' + "".join(f'{key} = "{url}"\n' for key, url in addresses.items())
    )
    done = cmsfs("login", "specification", "--client-credentials", app)
    assert done.returncode == 0, done.stderr
    settings = config.load("default")
    assert (settings.profile, settings.base_url) == ("specification", base)
    assert cmsfs("whoami", "--json").returncode == 0


def test_secret_that_others_may_read_is_told(server, app, capsys):
    app.chmod(0o644)
    assert main.run(["login", server.url, "--client-credentials", str(app)]) == 0
    assert f"others on this machine may read it: chmod 600 {app}\n" in capsys.readouterr().err
    app.chmod(0o600)
    assert main.run(["login", server.url, "--client-credentials", str(app)]) == 0
    assert "others on this machine" not in capsys.readouterr().err


def test_wrong_secret_after_an_earlier_login(cmsfs, server, app, tmp_path):
    assert cmsfs("login", server.url, "--client-credentials", app).returncode == 0
    before = config.config_file().read_text()
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps(json.loads(app.read_text()) | {"client_secret": "wrong"}))
    done = cmsfs("login", server.url, "--client-credentials", wrong)
    assert (done.returncode, done.stdout) == (6, "")
    assert "refuses the credentials" in done.stderr
    assert config.config_file().read_text() == before


def test_login_asks_for_files_alone(cmsfs, server, person, app):
    """Users, holds and the like only with `--admin`; the page names what is given."""
    person(login="ada@example.com")
    assert cmsfs("login", server.url, "--yes", "--app", app).returncode == 0
    assert cmsfs("find", "anything").returncode == 0
    assert cmsfs("users", "list").returncode == 1
    person(login="ada@example.com")
    assert cmsfs("login", server.url, "--yes", "--app", app, "--admin").returncode == 0
    assert cmsfs("users", "list").returncode == 0


def test_login_names_drive_of_the_service_before(spoken_to, server, app, capsys):
    spoken_to()
    assert main.run(["login", server.url, "--client-credentials", str(app)]) == 0
    told = capsys.readouterr().err
    assert "The drive at /mnt/drive is still that of Embedded service; `cmsfs umount` and then" in told
    assert main.run(["login", server.url, "--client-credentials", str(app)]) == 0
    assert "still that of" not in capsys.readouterr().err


def test_a_key_of_a_server(cmsfs, serving, tmp_path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"words"),
    )
    (tmp_path / "key.pem").write_bytes(public)
    enterprise = tmp_path / "enterprise.toml"
    enterprise.write_text(ENTERPRISE)
    server = serving("--enterprise-file", enterprise)
    document = {
        "boxAppSettings": {
            "clientID": "robot",
            "clientSecret": "a secret of a robot, long",
            "appAuth": {"publicKeyID": "key1", "privateKey": private.decode(), "passphrase": "words"},
        },
        "enterpriseID": "0",
    }
    file = tmp_path / "app.json"
    file.write_text(json.dumps(document))
    done = cmsfs("login", server.url, "--jwt", file)
    assert done.returncode == 2
    assert "names no user or enterprise" in done.stderr
    with sqlite3.connect(server.data / "service.db") as db:
        (user,) = db.execute("SELECT id FROM account WHERE login = 'dora@example.com'").fetchone()
    db.close()
    done = cmsfs("login", server.url, "--jwt", file, "--user", str(user))
    assert done.returncode == 0, done.stderr
    assert "as Dora" in done.stdout
    file.write_text(json.dumps(document).replace('"words"', '"others"'))
    done = cmsfs("whoami")
    assert done.returncode == 2
    assert "private key cannot be used" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["http://files.example.com"], "does not use TLS"),
        (["https://files.example.com/2.0"], "not the URL of a service"),
        (["bxo"], "did you mean box?"),
        (["https://files.example.com"], "No OAuth application given"),
        (["https://files.example.com", "--app", "/nowhere"], "No such file"),
    ],
)
def test_what_cannot_be_logged_in_to_is_said(cmsfs, words, said):
    done = cmsfs("login", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_embedded_service_needs_none(cmsfs):
    done = cmsfs("login", "embedded")
    assert (done.returncode, done.stderr) == (0, "")
    assert "needs no login" in done.stdout
    assert config.load().profile == "embedded"
