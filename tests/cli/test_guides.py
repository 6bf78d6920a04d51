"""The user guide's examples, typed one after the other as it says."""

import doctest
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from cmsfs import mounts

ROOT = Path(__file__).parents[2]


def examples() -> list[tuple[str, str]]:
    """Each command with what it is said to print."""
    text = (resources.files("cmsfs.cli") / "GUIDE.md").read_text(encoding="utf-8")
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], ""))
        elif line.startswith("    ") and found:
            command, output = found[-1]
            found[-1] = (command, f"{output}{line[4:]}\n")
    return found


@pytest.fixture
def home(
    private_folders: Path, tmp_path: Path, server: Any, app: Path, person: Callable[..., None]
) -> Iterator[Path]:
    """A home in which `cmsfs` is a command, and a service with its application; Ada is at the browser."""
    program = tmp_path / "bin" / "cmsfs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cmsfs "$@"\n')
    program.chmod(0o755)
    person(login="ada@example.com")
    shutil.copyfile(app, private_folders / "app.json")
    yield private_folders
    for found in mounts.listing():
        if found.mountpoint.startswith(f"{private_folders}/"):
            command = [program, "umount", "--force", found.mountpoint]
            subprocess.run(command, cwd="/", capture_output=True, check=False, timeout=90)
            if mounts.find(Path(found.mountpoint)):
                mounts.detach(Path(found.mountpoint))


@pytest.mark.timeout(300)  # forty commands one after the other
@pytest.mark.usefixtures("fuse")
def test_every_example_of_the_guide_prints_what_it_says(home: Path, tmp_path: Path, server: Any) -> None:
    found = examples()
    assert len(found) >= 30
    checker = doctest.OutputChecker()
    for command, wanted in found:
        done = subprocess.run(
            ["bash", "-c", command.replace("https://files.example.com", server.url)],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            env={
                **os.environ,
                "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
                "LC_ALL": "C",
                "PYTHONPATH": str(ROOT),
            },
        )
        assert checker.check_output(wanted, done.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
            command,
            wanted,
            done.stdout,
        )
    assert [one for one in mounts.listing() if one.mountpoint == str(home / "reports")] == []
