"""This machine's disk is full: told at the write, nothing acknowledged is lost, and it goes on without a
restart when there is room."""

import errno
import hashlib
import json
import os
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import crash_rounds
from tests.support.crash_rounds import Rounds

PIECE = 300_000


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
def rounds(small_disk: Path, tmp_path: Path, private_folders: Path, processes: object) -> Iterator[Rounds]:
    made = Rounds(tmp_path, seed=1)
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


def test_a_full_disk_is_told_and_loses_nothing(rounds: Rounds, small_disk: Path) -> None:
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
    found = {
        f"writer0/{name}": crash_rounds.digest_of(rounds.mountpoint / "writer0" / name) for name in first
    }
    rounds.check_service(found)
    # Drafts go a few at a time, after their uploads.
    deadline = time.monotonic() + 20
    while os.statvfs(small_disk).f_bavail * 4096 < 18_000_000:
        assert time.monotonic() < deadline, "what was uploaded still takes up its room"
        time.sleep(0.02)
    rounds.end()


def status() -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "cmsfs", "status", "--json"], capture_output=True, text=True, timeout=30
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def use_up(disk: Path) -> None:
    """Another program takes what is left of the disk, all of it."""
    with (disk / "others").open("ab", buffering=0) as file:
        for size in (1_000_000, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC, error


def test_drive_frees_a_disk_it_filled(rounds: Rounds, small_disk: Path) -> None:
    """Deleting works, the daemon ends at once and starts again, what was acknowledged is uploaded."""
    rounds.start()
    rounds.end()  # the log of the database is as short as it can be
    rounds.start()
    folder = rounds.mountpoint / "writer0"
    folder.mkdir()
    first = {f"f{number}": b"%d" % number * 1000 for number in range(6)}
    for name, data in first.items():
        (folder / name).write_bytes(data)
    with pytest.raises(OSError, match="No space") as refused:
        (folder / "large").write_bytes(bytes(40_000_000))
    assert refused.value.errno == errno.ENOSPC
    use_up(small_disk)
    assert "full" in status()["disk"][0]
    for number in range(200):  # more than the database's log has room for without growing
        path = folder / list(first)[number % len(first)]
        path.rename(folder / "moved")
        (folder / "moved").rename(path)
    for path in [folder / name for name in list(first)[:3]]:
        path.unlink()
        del first[path.name]
    (folder / "large").unlink()
    deadline = time.monotonic() + 20
    while os.statvfs(small_disk).f_bavail * 4096 < 4_000_000:
        assert time.monotonic() < deadline, "what was deleted still takes up its room"
        time.sleep(0.02)
    use_up(small_disk)
    rounds.kill()
    rounds.start()
    assert "full" in status()["disk"][0]
    found = {f"writer0/{name}": crash_rounds.digest_of(folder / name) for name in first}
    assert found == {
        f"writer0/{name}": hashlib.sha1(data, usedforsecurity=False).hexdigest()
        for name, data in first.items()
    }
    use_up(small_disk)
    rounds.sync()
    rounds.check_service(found)
    rounds.end()
    (small_disk / "others").unlink()
    rounds.start()
    (folder / "after").write_bytes(b"there is room again")
    assert status()["disk"] == []
    rounds.end()


def test_file_size_limit_stops_large_files_only(rounds: Rounds, small_disk: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_000_000, hard))
    try:
        rounds.start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    folder = rounds.mountpoint / "writer0"
    folder.mkdir()
    with pytest.raises(OSError, match="too large") as refused:
        (folder / "large").write_bytes(bytes(6_000_000))
    assert refused.value.errno == errno.EFBIG
    (folder / "large").unlink()
    for number in range(20):
        (folder / f"f{number}").write_bytes(b"%d" % number)
        (folder / f"f{number}").rename(folder / f"g{number}")
    found = {f"writer0/g{number}": crash_rounds.digest_of(folder / f"g{number}") for number in range(20)}
    rounds.sync()
    rounds.check_service(found)
    rounds.end()
