"""Permission bits and times: what is kept here, and what is sent."""

import os
import stat

import pytest

from cmsfs.replica import tree
from cmsfs.vfs.tree.attributes import SetAttr
from tests.vfs.conftest import Drive


async def test_modes_and_times_stay_owners_do_not(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    after = await drive.fs.setattr(ino, SetAttr(mode=stat.S_IFREG | 0o755, mtime_ns=12345, uid=os.getuid()))
    assert (stat.S_IMODE(after.mode), after.mtime_ns) == (0o755, 12345)
    with pytest.raises(PermissionError):
        await drive.fs.setattr(ino, SetAttr(uid=os.getuid() + 1))
    await drive.seal(ino)
    assert drive.fs.getattr(ino).mtime_ns == 12345


async def test_atime_and_mtime_are_separate(drive: Drive) -> None:
    ino = await drive.write_file("f", b"abc")
    made = drive.fs.getattr(ino)
    assert made.atime_ns == made.mtime_ns
    after = await drive.fs.setattr(ino, SetAttr(atime_ns=1_000_000_001, mtime_ns=2_000_000_002))
    assert (after.atime_ns, after.mtime_ns) == (1_000_000_001, 2_000_000_002)
    after = await drive.fs.setattr(ino, SetAttr(atime_ns=3))
    assert (after.atime_ns, after.mtime_ns) == (3, 2_000_000_002)
    await drive.seal(ino)
    again = drive.fs.getattr(ino)
    assert (again.atime_ns, again.mtime_ns) == (3, 2_000_000_002)
    assert drive.ops() == [("upload", "/f")]


async def test_atime_change_sends_nothing(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abc")
    before = drive.fs.getattr(ino)
    after = await drive.fs.setattr(ino, SetAttr(atime_ns=5))
    assert after.ctime_ns > before.ctime_ns
    assert drive.ops() == []


@pytest.mark.parametrize("seconds", [-(2**40), -1, 2**31, 2**32, 2**40])
async def test_extreme_times_are_clamped(drive: Drive, seconds: int) -> None:
    ino = await drive.write_file("f", b"abc")
    wanted = seconds * 10**9 + 123_456_789
    after = await drive.fs.setattr(ino, SetAttr(atime_ns=wanted, mtime_ns=wanted))
    kept = min(max(wanted, -(2**63)), 2**63 - 1)  # the years 1677 to 2262
    assert (after.atime_ns, after.mtime_ns) == (kept, kept)


async def test_mtime_set_after_the_close_is_that_of_the_next_open(drive: Drive) -> None:
    """Whose draft may still be in memory, with the time of the last write."""
    ino = await drive.write_file("f", b"abc")
    node = tree.find(drive.db, ino)
    assert node is not None and node.draft is not None
    held = drive.drafts.find(node.draft)  # as the group commit does
    assert held is not None and held.mtime_ns is not None
    await drive.fs.setattr(ino, SetAttr(mtime_ns=12345))
    opened = await drive.fs.open(ino, os.O_RDONLY)
    assert drive.fs.getattr(ino).mtime_ns == 12345
    await drive.fs.release(opened.fh)


async def test_mtime_of_uploaded_file_is_sent_alone(drive: Drive) -> None:
    ino = await drive.remote_file(1, "f", b"abc")
    await drive.fs.setattr(ino, SetAttr(mtime_ns=10**9))
    assert drive.ops() == [("touch", "/f")]
