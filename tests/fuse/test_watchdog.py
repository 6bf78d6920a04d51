"""The watchdog of these tests frees what waits for itself."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from cmsfs import mounts
from cmsfs.fuse import mount, operations

HUNG = """
import os, runpy, sys, trio
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.support import fuse_watchdog, memory_drive
from cmsfs.fuse import mount, operations

async def main(place):
    dog = fuse_watchdog.Watchdog()
    dog.arm(seconds=60, under=place.parent)
    async with mount.mounted(operations.Operations(memory_drive.MemoryDrive()), place, create=True):
        os.write(1, b"mounted\\n")
        os.stat(place / "x")  # from the loop: it waits for itself, in the kernel, for ever

trio.run(main, Path(sys.argv[2]))
"""


@pytest.fixture
def impatient(watchdog_process, tmp_path):
    """The watchdog with little patience, and its having fired is no failure."""
    watchdog_process.arm(seconds=0.3, under=tmp_path)
    yield watchdog_process
    assert watchdog_process.disarm()
    watchdog_process.arm(seconds=30, under=tmp_path)


async def test_a_handler_that_never_answers_is_freed(fs, impatient, mounting, outcome):
    fs.put("a", b"x")
    fs.waiting["read"] = trio.Event()
    async with mounting(fs) as drive:
        assert await outcome((drive.mountpoint / "a").read_bytes) in (errno.ECONNABORTED, errno.ENOTCONN)
        fs.waiting["read"].set()  # the answer comes after all, and that is no error
    assert mounts.find(drive.mountpoint) is None


async def test_self_deadlocked_loop_is_freed(fs, impatient, tmp_path):
    async with mount.mounted(operations.Operations(fs), tmp_path / "drive", create=True) as drive:
        with pytest.raises(OSError) as caught:
            (drive.mountpoint / "x").stat()
    assert caught.value.errno in (errno.ECONNABORTED, errno.ENOTCONN)


def test_killed_self_waiting_run_leaves_nothing(tmp_path):
    """Killed, such a process cannot end: it waits in the kernel.  Its watchdog frees it, and unmounts."""
    root = Path(__file__).parents[2]
    place = tmp_path / "drive"
    with subprocess.Popen(
        [sys.executable, "-c", HUNG, root, place], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"mounted\n"
        process.kill()
        # Its end comes when both are gone: the process, and the watchdog that it started.
        process.stderr.read()
    assert mounts.find(place) is None
