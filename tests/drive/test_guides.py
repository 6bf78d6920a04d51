"""The examples of the user guide, typed one after the other as it says."""

import doctest
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from cmsfs import mounts


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
def home(private_folders: Path, tmp_path: Path, watchdog: object) -> Iterator[Path]:
    """A home in which `cmsfs` is a command."""
    program = tmp_path / "bin" / "cmsfs"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m cmsfs "$@"\n')
    program.chmod(0o755)
    yield private_folders
    subprocess.run([program, "umount", "--force"], cwd="/", capture_output=True, check=False, timeout=90)
    for found in mounts.listing():
        if found.mountpoint.startswith(f"{private_folders}/"):
            mounts.detach(Path(found.mountpoint))
            pytest.fail("the drive could not be unmounted")


def test_every_example_of_the_guide_prints_what_it_says(home: Path, tmp_path: Path) -> None:
    found = examples()
    assert len(found) >= 12
    checker = doctest.OutputChecker()
    root = str(Path(__file__).parents[2])
    for command, wanted in found:
        done = subprocess.run(
            ["bash", "-c", command],
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
                "PYTHONPATH": root,
            },
        )
        assert checker.check_output(wanted, done.stdout, doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE), (
            command,
            wanted,
            done.stdout,
        )
