"""Folders that the settings exclude: not shown, not replaced, not removed."""

import errno
import os
from collections.abc import Sequence

import pytest

from cmsfs.replica.nodes import ROOT
from tests.support.log_watch import ExpectLog
from tests.vfs.conftest import Drive


@pytest.fixture
def exclude() -> Sequence[str]:
    return ("/Archive/", "/projects/OLD")


async def _names(drive: Drive, folder: int = ROOT) -> list[str]:
    fh = await drive.fs.opendir(folder)
    found: list[str] = []
    after = 0
    while lines := await drive.fs.readdir(fh, after):
        found += [line.name for line in lines]
        after = lines[-1].cookie
    drive.fs.releasedir(fh)
    return sorted(found)


async def test_excluded_folders_are_not_shown(drive: Drive) -> None:
    await drive.remote_folder(1, "Archive")
    projects = await drive.remote_folder(2, "Projects")
    await drive.remote_folder(3, "Old", parent=2)
    await drive.remote_folder(4, "Archive", parent=2)
    await drive.remote_file(5, "a.txt", b"a")
    assert await _names(drive) == ["Projects", "a.txt"]
    assert await _names(drive, projects) == ["Archive"]
    for parent, name in ((ROOT, "Archive"), (projects, "Old")):
        with pytest.raises(FileNotFoundError):
            await drive.fs.lookup(parent, name)


async def test_only_excluded_in_a_full_page(drive: Drive) -> None:
    await drive.remote_folder(1, "Archive")
    for number in range(2, 300):
        await drive.remote_folder(number, f"f{number}")
    assert len(await _names(drive)) == 298


async def test_nothing_takes_their_place(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log("which the settings exclude")
    archive = await drive.remote_folder(1, "Archive")
    await drive.remote_file(2, "a.txt", b"a")
    await drive.remote_folder(3, "Empty")
    for attempt in (
        lambda: drive.fs.mkdir(ROOT, "Archive", 0o755),
        lambda: drive.fs.mkdir(ROOT, "ARCHIVE", 0o755),
        lambda: drive.fs.create(ROOT, "Archive", 0o644, os.O_RDWR),
        lambda: drive.fs.symlink(ROOT, "Archive", b"a.txt"),
        lambda: drive.fs.rename(ROOT, "a.txt", ROOT, "Archive", 0),
        lambda: drive.fs.rename(ROOT, "Empty", ROOT, "Archive", 0),
    ):
        with pytest.raises(OSError, match=os.strerror(errno.EPERM)):
            await attempt()
    assert drive.fs.getattr(archive).ino == archive
    assert drive.ops() == []


async def test_folder_above_is_not_removed(drive: Drive) -> None:
    await drive.remote_folder(2, "Projects")
    await drive.remote_folder(3, "Old", parent=2)
    with pytest.raises(OSError, match=os.strerror(errno.ENOTEMPTY)):
        await drive.fs.rmdir(ROOT, "Projects")
    assert drive.ops() == []
