"""`cmsfs` alone on a terminal, until an account is set up; a program types, another one is the browser."""

import os
import pty
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cmsfs import config, mounts

pytestmark = pytest.mark.usefixtures("fuse")

END = b"\x04"

Typed = Callable[..., tuple[int, str]]


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Typed:
    """`typed(*answers)`: exit code and screen of `cmsfs` after these lines at the keyboard."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("gio", "xdg-open"):
        (programs / name).write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/opened\n')
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":99")

    def run(*answers: str) -> tuple[int, str]:
        keyboard, terminal = pty.openpty()
        try:
            os.write(keyboard, "".join(f"{line}\n" for line in answers).encode())
            done = subprocess.run(
                [sys.executable, "-m", "cmsfs"], stdin=terminal, stdout=terminal, stderr=terminal, timeout=90
            )
            # The kernel passes on what was written in pieces, and later: read up to a mark written after it.
            os.write(terminal, END)
            screen = b""
            while not screen.endswith(END):
                screen += os.read(keyboard, 65536)
            return done.returncode, screen.removesuffix(END).decode()
        finally:
            os.close(keyboard)
            os.close(terminal)

    return run


def test_first_run_ends_with_folder_open(typed: Typed, cmsfs, server, person, app, tmp_path: Path) -> None:
    person(login="ada@example.com")
    where = tmp_path / "my files"
    answers = ("nonsense", "", server.url, str(app), "y", str(where))
    code, screen = typed(*answers)
    try:
        assert code == 0, screen
        assert "'nonsense' is not a URL" in screen
        assert "Is this you?" in screen
        assert f"The drive is mounted at {where}." in screen
        assert (where / "Welcome.md").read_text()
        assert (tmp_path / "opened").read_text() == f"open {where}\n"
        assert config.load().mountpoint == where
        # From now on the help is what is wanted.
        code, screen = typed()
        assert "Usage: cmsfs" in screen
    finally:
        cmsfs("umount")
    assert mounts.find(where) is None


def test_first_run_without_account_is_the_demo(typed: Typed, cmsfs, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").touch()
    code, screen = typed("", str(tmp_path / "full"), str(tmp_path / "new"))
    try:
        assert code == 0, screen
        assert "is not empty" in screen
        assert (tmp_path / "new" / "Welcome.md").exists()
    finally:
        cmsfs("umount", tmp_path / "new")
    assert not config.config_file().exists()


def test_nobody_at_a_terminal_gets_help(cmsfs) -> None:
    done = cmsfs()
    assert "Usage: cmsfs" in done.stdout + done.stderr
