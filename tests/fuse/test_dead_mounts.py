"""Drives whose process was killed, or hangs."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cmsfs import config, errors, mounts
from cmsfs.cli.doctor import machine

PROGRAM = Path(__file__).parents[1] / "support" / "memory_drive.py"


@pytest.fixture
def served(tmp_path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that serves a drive at `tmp_path / "drive"`."""
    (tmp_path / "drive").mkdir()
    with subprocess.Popen(
        [sys.executable, PROGRAM, tmp_path / "drive"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout.readline() == b"mounted\n"
        yield process
        process.kill()


def stale_below(folder: Path) -> list[Path]:
    """The dead drives of this test; others may be killing theirs."""
    found = (Path(left.mountpoint) for left in mounts.stale_mounts())
    return [place for place in found if place.is_relative_to(folder)]


async def test_dead_mount_is_cleared_at_start(fs, served, tmp_path, mounting, outside):
    place = tmp_path / "drive"
    served.kill()
    served.wait()
    assert await outside(mounts.answer, place) == errno.ENOTCONN
    assert stale_below(tmp_path) == [place]
    fs.put("alive")
    async with mounting(fs) as drive:
        assert await outside(os.listdir, drive.mountpoint) == ["alive"]
    assert mounts.find(place) is None


def test_a_dead_drive_is_cleaned_once(served, tmp_path):
    served.kill()
    served.wait()
    assert mounts.clean_stale(tmp_path / "drive")
    assert not mounts.clean_stale(tmp_path / "drive")


def test_doctor_fails_only_for_its_own_place(served, tmp_path):
    served.kill()
    served.wait()
    states = {}
    for place in (tmp_path / "drive", tmp_path / "other"):
        checks = machine.checks(config.Settings(mountpoint=place))
        check = next(check for check in checks if check.name == "stale mounts")
        assert str(tmp_path / "drive") in check.said
        assert check.remedy.startswith("fusermount3 -u -z /")
        states[place.name] = check.state
    assert states == {"drive": "failed", "other": "warning"}
    mounts.detach(tmp_path / "drive")


def test_a_living_drive_is_not_cleaned(served, tmp_path):
    assert mounts.answer(tmp_path / "drive") == 0
    with pytest.raises(errors.UserError, match="mounted on it"):
        mounts.clean_stale(tmp_path / "drive")
    assert mounts.find(tmp_path / "drive") is not None
    assert stale_below(tmp_path) == []
    mounts.detach(tmp_path / "drive")


def test_hanging_drive_is_reported(served, tmp_path, monkeypatch):
    monkeypatch.setattr(mounts, "PATIENCE", 0.1)
    served.send_signal(signal.SIGSTOP)
    assert mounts.answer(tmp_path / "drive") == errno.ETIMEDOUT
    with pytest.raises(errors.UserError, match="is not responding"):
        mounts.clean_stale(tmp_path / "drive")
    mounts.detach(tmp_path / "drive")
    served.send_signal(signal.SIGCONT)


def test_another_users_drive_is_left_alone(served, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(errors.UserError, match="drive of another user"):
        mounts.clean_stale(tmp_path / "drive")
    assert mounts.stale_mounts() == []
    monkeypatch.undo()
    mounts.detach(tmp_path / "drive")


def test_what_is_not_mounted_cannot_be_unmounted(tmp_path):
    with pytest.raises(errors.UserError) as caught:
        mounts.detach(tmp_path)
    assert caught.value.message.startswith(f"{tmp_path} could not be unmounted: ")


def test_no_connection_no_abort():
    assert not mounts.abort(2**30)


async def test_abort_spares_the_next_mount_of_the_same_number(fs, mounting, outcome):
    seen: dict[int, mounts.AbortSwitch] = {}
    for _ in range(50):  # the number that has become free may go to another program's mount
        async with mounting(fs) as drive:
            if old := seen.get(drive.connection):
                assert old.abort()
                assert await outcome(os.statvfs, drive.mountpoint) == 0
                break
            seen[drive.connection] = mounts.AbortSwitch(drive.connection)
    else:
        pytest.fail("no mount was given the number of one before it")
    for switch in seen.values():
        switch.close()
