"""`cmsfs open`: which addresses of web links are followed, and what opens what."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cmsfs import config, errors
from cmsfs.cli import main
from cmsfs.cli.commands.drive import open
from cmsfs.cli.desktop import opener


def link(folder: Path, text: str) -> Path:
    file = folder / "page.url"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_address_of_a_web_link(tmp_path: Path, end: str) -> None:
    text = end.join(["[InternetShortcut]", "URL=https://example.com/a?b=%20c#d", "IconIndex=0", ""])
    assert open.address(link(tmp_path, text)) == "https://example.com/a?b=%20c#d"


@pytest.mark.parametrize(
    "address",
    ["file:///etc/passwd", "javascript:alert(1)", "https:", "/bin/sh", "", "-x", "http://[", "smb://h/x"],
)
def test_only_web_urls_are_opened(tmp_path: Path, address: str) -> None:
    with pytest.raises(errors.UserError, match="is not a web URL"):
        open.address(link(tmp_path, f"[InternetShortcut]\nURL={address}\n"))


@pytest.mark.parametrize(
    "text", ["", "hello", "[InternetShortcut]\n", "\0\1\2", "[Other]\nURL=http://x.example\n"]
)
def test_what_is_no_web_link_is_told(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.UserError, match="is not a web link"):
        open.address(link(tmp_path, text))


def test_the_desktop_gets_the_address_or_the_path(
    tmp_path: Path, cmsfs: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, exit_code in (("gio", 1), ("xdg-open", 0)):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/opened\nexit {exit_code}\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    page = link(tmp_path, "[InternetShortcut]\nURL=http://example.com/\n")
    assert cmsfs("open", page).returncode == 0
    assert cmsfs("open", tmp_path).returncode == 0
    opened = (tmp_path / "opened").read_text().splitlines()
    assert opened[:2] == ["gio open http://example.com/", "xdg-open http://example.com/"]
    assert opened[3] == f"xdg-open {tmp_path}"


def test_failure_without_terminal_is_a_notification(
    tmp_path: Path, cmsfs: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "notify-send"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/told\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert cmsfs("open", link(tmp_path, "nothing")).returncode == 1
    assert "is not a web link" in (tmp_path / "told").read_text()


def test_page_of_an_item_is_opened(sample, capsys, monkeypatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(opener, "hand_over", opened.append)
    assert main.run(["open", "--web", "/Welcome.md"]) == 1
    assert "This service has no page for /Welcome.md" in capsys.readouterr().err
    assert main.run(["share", "/Welcome.md"]) == 0
    link = capsys.readouterr().out.strip()
    assert main.run(["open", "--web", "/Welcome.md"]) == 0
    assert opened == [link]
    known = config.profile(config.load()).model_copy(
        update={"item_page": "https://pages.example/{type}/{id}"}
    )
    monkeypatch.setattr(config, "profile", lambda settings: known)
    assert main.run(["open", "--web", "/Projects"]) == 0
    assert opened[1].startswith("https://pages.example/folder/")
    assert main.run(["open", "--web", "/Projects", "/tmp"]) == 2


def test_launcher_without_account_leads_through_setup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x-terminal-emulator").write_text(
        f'#!/bin/sh\necho "$@" > {tmp_path}/told.new\nmv {tmp_path}/told.new {tmp_path}/told\n'
    )
    (tmp_path / "x-terminal-emulator").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":99")
    command = [sys.executable, "-m", "cmsfs", "open"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    told = tmp_path / "told"
    deadline = time.monotonic() + 20
    while not told.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert told.read_text().split()[0] == "-e"
    assert told.read_text().split()[-3:] == ["-m", "cmsfs", "setup"]
