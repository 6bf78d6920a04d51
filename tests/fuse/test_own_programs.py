"""Programs that are on the drive itself."""

import os
import stat
import subprocess

from cmsfs import mounts


async def test_programs_of_the_drive_do_not_unmount_it(fs, mounting, tmp_path, monkeypatch):
    """They could not be run: what would answer for them waits for them."""
    fs.put("fusermount3", b"#!/bin/sh\nexit 0\n", mode=stat.S_IFREG | 0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'drive'}:{os.environ['PATH']}")
    async with mounting(fs) as drive:
        pass
    assert mounts.find(drive.mountpoint) is None


async def test_nothing_is_run_where_the_settings_say_so(fs, mounting, outside):
    fs.put("run.sh", b"#!/bin/sh\nexit 0\n", mode=stat.S_IFREG | 0o755)
    for noexec, expected in ((False, "ran"), (True, "PermissionError")):
        async with mounting(fs, noexec=noexec) as drive:
            assert await outside(_run, drive.mountpoint / "run.sh") == expected


def _run(path):
    try:
        subprocess.run([path], check=True)
    except OSError as error:
        return type(error).__name__
    return "ran"
