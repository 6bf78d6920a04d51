"""`cmsfs menu`: what the entries of a file manager's menu do."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cmsfs.cli.desktop import clipboard
from cmsfs.ipc import attention, control

URL = "http://127.0.0.1:4711/open?key=once"
COPY = "/d/a (conflicted copy of here, 2026-11-22).txt"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch) -> Path:
    """A folder of programs that note what they are called with."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("gio", "xclip"):
        program = folder / name
        program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/{name}\ncat > {tmp_path}/{name}-given\n')
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":7")
    return folder


def answers(request):
    match request:
        case control.OpenPage():
            return [control.PageAddress(url=URL)]
        case control.GetConflicts():
            copy = attention.ConflictCopyStatus(
                path=COPY, original="/d/a.txt", modified=datetime(2026, 11, 22, tzinfo=UTC)
            )
            return [control.Conflicts(copies=[copy])]
        case control.Free():
            return [control.Freed(bytes=5_000_000, files=1)]
        case _:
            return [control.Done()]


def test_menu_entries_ask_the_drive_of_the_path(cmsfs, spoken_to, programs: Path, tmp_path: Path):
    spoken_to(account="other", mountpoint="/mnt/other")
    daemon = spoken_to(answers, account="work", mountpoint="/mnt/other/drive")
    top = "/mnt/other/drive"
    assert cmsfs("menu", "pin", f"{top}/a b.txt", f"{top}/d").stdout == (
        "a b.txt is kept available offline. d is kept available offline.\n"
    )
    assert cmsfs("menu", "free", f"{top}/d").stdout == "d: 5.0 MB freed, 1 file online only.\n"
    for action in ("status", "restore", "trash", "share"):
        assert cmsfs("menu", action, f"{top}/d/a.txt").stdout == ""
    for path in ("d/a.txt", COPY[1:], "d"):
        cmsfs("menu", "conflict", f"{top}/{path}")
    assert (tmp_path / "gio").read_text() == f"open {URL}\n"
    asked = [(one.section, one.path) for one in daemon.requests if one.kind == "open-page"]
    assert asked == [
        *[("item", "/d/a.txt")] * 2,
        ("trash", ""),
        ("sharing", "/d/a.txt"),
        *[("conflict", "/d/a.txt"), ("conflict", COPY), ("attention", "")],
    ]
    cmsfs("menu", "versions", f"{top}/d/a.txt")
    assert (tmp_path / "gio").read_text() == f"open {top}/d/a.txt@versions\n"
    done = cmsfs("menu", "pin", "/etc/passwd")
    assert (done.returncode, done.stderr) == (1, "cmsfs: passwd is not on a cloud drive.\n")


def test_clipboard_takes_the_text(programs: Path, tmp_path: Path, monkeypatch):
    assert clipboard.copy("https://files.example.com/s/a")
    assert (tmp_path / "xclip").read_text() == "-selection clipboard\n"
    assert (tmp_path / "xclip-given").read_text() == "https://files.example.com/s/a"
    monkeypatch.setenv("PATH", "/nowhere")
    assert not clipboard.copy("x")
