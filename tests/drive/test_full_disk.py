"""This machine's disk is full: told at the write, nothing acknowledged is lost, and it goes on without a
restart when there is room."""

import errno
import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PIECE = 300_000


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


crashes = _load("crashes")


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 24 MB with the local state on it."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root mounts a small file system")
    monkeypatch.setenv("XDG_STATE_HOME", str(disk))
    monkeypatch.setenv("CMSFS_KEEP_FREE_BYTES", "0")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def rounds(small_disk: Path, tmp_path: Path, private_folders: Path) -> Iterator[Any]:
    made = crashes.Rounds(tmp_path, seed=1)
    made.settle_seconds = 3600
    yield made
    made.free()


def fill(folder: Path, chance: random.Random) -> dict[str, bytes]:
    """Write files until one is refused; those that were acknowledged."""
    written: dict[str, bytes] = {}
    folder.mkdir()
    for number in range(1000):
        data = chance.randbytes(PIECE)
        try:
            (folder / str(number)).write_bytes(data)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
            return written
        written[str(number)] = data
    raise AssertionError("the disk is not full")


def test_a_full_disk_is_told_and_loses_nothing(rounds: Any, small_disk: Path) -> None:
    chance = random.Random(2)
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(8_000_000))
    rounds.start()
    first = fill(rounds.mountpoint / "writer0", chance)
    assert len(first) > 5
    for name, data in first.items():
        assert (rounds.mountpoint / "writer0" / name).read_bytes() == data
    ballast.unlink()
    (rounds.mountpoint / "writer0" / "after").write_bytes(b"there is room again")
    first["after"] = b"there is room again"
    assert (rounds.mountpoint / "writer0" / "after").read_bytes() == b"there is room again"
    for path in (rounds.mountpoint / "writer0").iterdir():
        if path.name not in first:
            path.unlink()  # the one that was refused half-way
    rounds.sync()
    found = {f"writer0/{name}": crashes.digest_of(rounds.mountpoint / "writer0" / name) for name in first}
    rounds.check_service(found)
    assert os.statvfs(small_disk).f_bavail * 4096 > 10_000_000
    rounds.end()
