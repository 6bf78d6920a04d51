"""A login whose tokens are in a real keyring: gnome-keyring on a session bus of the test's own."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

from cmsfs import config

pytestmark = pytest.mark.skipif(
    not (shutil.which("gnome-keyring-daemon") and shutil.which("dbus-run-session")),
    reason="there is no gnome-keyring here",
)

UNLOCKED = "printf pass | gnome-keyring-daemon --unlock --components=secrets > /dev/null"

Session = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def session(private_folders, monkeypatch) -> Session:
    """`session(script)`: a desktop's session of its own, which ends with the script, with `cmsfs` in it."""
    # The keyring looks for its runtime folder where a session has it.
    control = private_folders / "keyring"
    control.mkdir(mode=0o700)
    monkeypatch.delenv("DISPLAY", raising=False)

    def run(*lines: str) -> subprocess.CompletedProcess[str]:
        words = f'cmsfs() {{ {sys.executable} -m cmsfs "$@"; }}'
        return subprocess.run(
            ["dbus-run-session", "--", "bash", "-c", "\n".join([words, *lines])],
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
            env=os.environ | {"GNOME_KEYRING_CONTROL": str(control)},
        )

    return run


def test_tokens_are_in_the_keyring_only(session, server, person, app, private_folders):
    login = f"cmsfs login {server.url} --yes --app {shlex.quote(str(app))}"
    done = session(UNLOCKED, login, "cmsfs whoami")
    assert done.returncode == 0, done.stderr
    assert "Tokens are stored in the keyring of the session." in done.stderr
    assert done.stdout.splitlines()[-1].startswith("Ben Sample <ben@example.com>")
    assert not config.Paths("default").token.exists()
    assert config.load().token_store == "keyring"
    # The next session finds them, the keyring once unlocked.
    done = session(UNLOCKED, "cmsfs whoami && cmsfs logout")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "Logged out."
    done = session(UNLOCKED, "cmsfs whoami")
    assert "Nobody is logged in" in done.stderr
    # On the disk they were encrypted all the time.
    found = b"".join(path.read_bytes() for path in private_folders.rglob("*") if path.is_file())
    assert b"refresh_token" not in found


def test_locked_keyring_is_reported_without_waiting(session, server, person, app):
    login = f"cmsfs login {server.url} --yes --app {shlex.quote(str(app))}"
    assert session(UNLOCKED, login).returncode == 0
    done = session("cmsfs whoami")
    assert done.returncode != 0
    # The bus has words of its own before that: nobody is there to ask for the password.
    said = done.stderr.splitlines()[-1]
    assert said == "cmsfs: The keyring that has the tokens does not answer (KeyringLocked): unlock it."
