"""fsync that returns when the service has the file."""

import os

import pytest
import trio

from cmsfs import config
from cmsfs.service.storage.store import Store
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=60, network_seconds=5, fsync="remote", fsync_seconds=3)


async def test_fsync_confirms_upload_while_open(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    opened, _ = await drive.fs.create(await drive.ino("d"), "log", 0o644, os.O_WRONLY)
    for number in range(3):
        await drive.fs.write(opened.fh, 4 * number, b"line")
        await drive.fs.fsync(opened.fh)
        assert await other.read("log") == b"line" * (number + 1)
    await drive.fs.write(opened.fh, 12, b"last")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    assert await drive.read("d/log") == b"linelinelinelast"
    await drive.sync()
    assert await other.read("log") == b"linelinelinelast"
    assert await other.versions((await other.find("log")).id) == 4
    assert drive.ops() == []


async def test_folder_fsync_confirms_names(drive: Drive, other: Remote) -> None:
    await drive.mkdir("d")
    await drive.mkdir("d/e")
    fh = await drive.fs.opendir(await drive.ino("d"))
    await drive.fs.fsyncdir(fh)
    assert await other.paths() == ["d/", "d/e/"]
    drive.fs.releasedir(fh)


async def test_unreachable_fsync_times_out_without_loss(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("the file is not uploaded after 3 s")
    opened, _ = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x")
    network.is_down = True
    with pytest.raises(TimeoutError), trio.fail_after(20):
        await drive.fs.fsync(opened.fh)
    await drive.fs.release(opened.fh)
    network.is_down = False
    await drive.sync()
    assert await other.read("f") == b"x"


async def test_a_refusal_is_an_error_and_loses_nothing(
    drive: Drive, other: Remote, service: Store, expect_log: ExpectLog
) -> None:
    expect_log("the service reject")
    await service.write(lambda conn: conn.execute("UPDATE account SET space_amount = 1"))
    opened, _ = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"too much")
    with pytest.raises(OSError, match="Input/output error"):
        await drive.fs.fsync(opened.fh)
    await drive.fs.release(opened.fh)
    assert await drive.read("f") == b"too much"
