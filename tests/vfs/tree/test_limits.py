"""A full account, and files that are too large: told at the write, and only as long as it is so."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from cmsfs import disk_reserve
from cmsfs.disk_reserve import DiskReserve
from cmsfs.runtime import clock
from cmsfs.vfs.tree import attributes
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.log_watch import ExpectLog
from tests.vfs.conftest import Drive


async def test_write_beyond_quota_is_refused(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log("quota is exhausted")
    drive.shelf.account_space = (1000, 400)
    opened, made = await drive.fs.create(1, "f", 0o644, os.O_RDWR)
    await drive.fs.write(opened.fh, 0, b"x" * 500)
    with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)) as refused:
        await drive.fs.write(opened.fh, 500, b"x" * 200)
    assert refused.value.errno == errno.EDQUOT
    assert drive.shelf.doubted == 1
    # Bytes that are there may be changed; a file may grow by what is left.
    await drive.fs.write(opened.fh, 0, b"y" * 500)
    assert drive.fs.getattr(made.ino).size == 500
    drive.shelf.account_space = (2000, 400)
    await drive.fs.write(opened.fh, 500, b"x" * 200)
    await drive.fs.release(opened.fh)


async def test_what_is_on_its_way_counts(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log("quota is exhausted")
    drive.shelf.account_space = (1000, 0)
    for name in ("a", "b"):
        opened, _ = await drive.fs.create(1, name, 0o644, os.O_WRONLY)
        await drive.fs.write(opened.fh, 0, b"x" * 450)
        await drive.fs.flush(opened.fh)
        await drive.fs.release(opened.fh)
    opened, _ = await drive.fs.create(1, "c", 0o644, os.O_WRONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
        await drive.fs.write(opened.fh, 0, b"x" * 101)
    await drive.fs.release(opened.fh)


async def test_file_beyond_plan_size_is_efbig(drive: Drive, expect_log: ExpectLog) -> None:
    expect_log("maximum file size is 1000 bytes")
    drive.shelf.largest = 1000
    opened, made = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x" * 1000)
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        await drive.fs.write(opened.fh, 1000, b"x")
    assert drive.fs.getattr(made.ino).size == 1000
    await drive.fs.release(opened.fh)


async def test_an_unlimited_account_refuses_nothing(drive: Drive) -> None:
    drive.shelf.account_space = (-1, 10**15)
    opened, _ = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x" * 1000)
    await drive.fs.release(opened.fh)


async def test_full_disk_allows_only_removal(
    drive: Drive, expect_log: ExpectLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_log("free up space there")
    ino = await drive.write_file("f", b"first")
    await drive.write_file("g", b"second")
    opened = await drive.fs.open(ino, os.O_RDWR)
    free = drive.reserve.floor - 1
    monkeypatch.setattr(type(drive.reserve), "_free", lambda self: free)
    refused = [
        lambda: drive.fs.write(opened.fh, 0, b"x"),
        lambda: drive.fs.create(1, "new", 0o644, os.O_WRONLY),
        lambda: drive.fs.mkdir(1, "folder", 0o755),
        lambda: drive.fs.symlink(1, "link", b"f"),
        lambda: drive.fs.setxattr(ino, "user.note", b"x"),
    ]
    for call in refused:
        with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)) as error:
            await call()
        assert error.value.errno == errno.ENOSPC
    assert await drive.fs.read(opened.fh, 0, 100) == b"first"
    await drive.fs.setattr(ino, SetAttr(size=2))
    await drive.fs.fsync(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.fs.rename(1, "f", 1, "h", 0)
    await drive.fs.unlink(1, "g")
    assert drive.names() == ["h"]
    monkeypatch.undo()
    await drive.write_file("new", b"there is room")


def test_disk_with_much_room_is_not_asked_for_every_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, asked, now = [disk_reserve.ROOMY_BYTES * 2], [0], [1000.0]

    def statvfs(_: object) -> SimpleNamespace:
        asked[0] += 1
        return SimpleNamespace(f_bavail=free[0], f_frsize=1, f_blocks=free[0])

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    reserve = DiskReserve(tmp_path)
    asked[0] = 0
    for _ in range(10):
        reserve.check(10_000)
    assert asked[0] == 1
    free[0] = reserve.floor - 1
    now[0] += disk_reserve.ROOMY_SECONDS
    for number in range(10):  # no room, and seen at once from here on
        with pytest.raises(OSError, match="No space left"):
            reserve.check(1)
        assert asked[0] == 2 + number
    free[0] = reserve.floor + 1
    reserve.check(1)


def test_reserve_is_released_for_records(
    tmp_path: Path, expect_log: ExpectLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect_log("is full")
    reserve = DiskReserve(tmp_path)
    reserve.restore()
    file = tmp_path / "reserve"
    assert file.stat().st_blocks * 512 >= reserve.nbytes
    with_reserve = reserve.floor
    # Programs have used what they may; the journal goes on.
    monkeypatch.setattr(DiskReserve, "_free", lambda self: with_reserve)
    reserve.check()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        reserve.check(1)
    assert not reserve.make_room()
    assert file.stat().st_size
    monkeypatch.setattr(DiskReserve, "_free", lambda self: 0)
    assert reserve.make_room()
    assert not file.stat().st_size
    # What it has left is not for programs, and is set aside again as soon as it can be.
    assert reserve.floor == with_reserve + reserve.nbytes
    monkeypatch.setattr(DiskReserve, "_free", lambda self: reserve.nbytes)
    assert reserve.is_short
    reserve.restore()
    assert not file.stat().st_size
    monkeypatch.undo()
    reserve.restore()
    assert reserve.floor == with_reserve


@pytest.mark.parametrize("used", [10 * 4096, 25 * 4096 + 1, 10**15])
def test_an_account_over_its_quota_has_nothing_left(used: int) -> None:
    shown = attributes.of_space((10 * 4096, used))
    assert shown.blocks_free == 0
    assert shown.blocks == max(10 * 4096, used) // 4096


async def test_df_of_a_full_account(drive: Drive) -> None:
    drive.shelf.account_space = (1_000_000, 3_000_000)
    shown = await drive.fs.statfs()
    assert (shown.blocks_free, shown.blocks * shown.block_size > 2_900_000) == (0, True)
