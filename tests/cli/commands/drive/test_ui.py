"""`cmsfs ui`: which page is asked for, and where its address goes."""

import os
from pathlib import Path

from cmsfs.ipc import control

URL = "http://127.0.0.1:4711/open?key=once"


def test_a_section_a_path_or_a_conflict_is_opened(cmsfs, spoken_to):
    daemon = spoken_to(lambda request: [control.PageAddress(url=URL)], mountpoint="/mnt/drive")
    for arguments in ([], ["transfers"], ["/mnt/drive/a b.txt"], ["--conflict", "/a.txt"]):
        assert cmsfs("ui", "--print", *arguments).stdout == f"{URL}\n"
    asked = [(request.section, request.path) for request in daemon.requests if request.kind == "open-page"]
    assert asked == [("", ""), ("transfers", ""), ("item", "/a b.txt"), ("conflict", "/a.txt")]
    assert cmsfs("ui", "--conflict").returncode == 2


def test_the_address_goes_to_the_browser(cmsfs, spoken_to, tmp_path: Path, monkeypatch):
    spoken_to(lambda request: [control.PageAddress(url=URL)])
    program = tmp_path / "gio"
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = cmsfs("ui")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "opened").read_text() == f"open {URL}\n"
