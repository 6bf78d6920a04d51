"""What a service with the specification's operations alone cannot do is refused at the call; nothing that
could never go is queued."""

import errno
import os

import pytest

from tests.support.daemon_drive import Drive, Remote, fails
from tests.support.log_watch import ExpectLog

EVERYWHERE = pytest.mark.parametrize("refusal", ["unknown", "bare", "method"], indirect=True)


@pytest.fixture
async def files(other: Remote, drive: Drive) -> list[str]:
    """The names of three files that the drive knows."""
    for name in ("a", "b", "c"):
        await other.file(name, name.encode())
    return await drive.names()


@EVERYWHERE
async def test_rm_is_refused_and_the_files_stay(
    drive: Drive, other: Remote, files: list[str], expect_log: ExpectLog
) -> None:
    expect_log("this service cannot delete")
    for name in files:
        with fails(errno.EPERM):
            await drive.unlink(name)
    await drive.sync()
    assert drive.ops() == []
    assert await drive.names() == await other.paths() == ["a", "b", "c"]


async def test_one_line_says_why(
    drive: Drive, files: list[str], expect_log: ExpectLog, caplog: pytest.LogCaptureFixture
) -> None:
    expect_log("this service cannot delete")
    for name in files:
        with fails(errno.EPERM):
            await drive.unlink(name)
    assert len([line for line in caplog.messages if "this service cannot delete" in line]) == 1


async def test_mkdir_is_refused(drive: Drive, other: Remote, expect_log: ExpectLog) -> None:
    expect_log("this service cannot make folders")
    with fails(errno.EPERM):
        await drive.mkdir("new")
    assert drive.ops() == []
    assert await drive.names() == await other.paths() == []


async def test_mv_is_refused(drive: Drive, other: Remote, files: list[str], expect_log: ExpectLog) -> None:
    expect_log("this service cannot rename")
    with fails(errno.EPERM):
        await drive.rename("a", "d")
    await drive.sync()
    assert drive.ops() == []
    assert await drive.names() == await other.paths() == files


async def test_writing_to_a_file_is_refused(
    drive: Drive, other: Remote, files: list[str], expect_log: ExpectLog
) -> None:
    expect_log("this service cannot change the contents")
    ino = await drive.ino("a")
    for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_TRUNC, os.O_RDONLY | os.O_TRUNC):
        with fails(errno.EROFS):
            await drive.fs.open(ino, flags)
    assert drive.fs.getattr(ino).mode & 0o222 == 0
    assert drive.ops() == []
    assert await other.read("a") == b"a"


async def test_a_save_over_a_file_is_refused(
    drive: Drive, other: Remote, files: list[str], expect_log: ExpectLog
) -> None:
    expect_log("this service cannot change the contents")
    await drive.write("a.tmp", b"news")
    with fails(errno.EPERM, errno.EROFS):
        await drive.rename("a.tmp", "a")
    await drive.sync()
    assert await other.read("a") == b"a"
    assert drive.ops() == []
