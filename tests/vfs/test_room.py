"""A full account, and files that are too large: told at the write, and only as long as it is so."""

import errno
import os
from typing import Any

import pytest


async def test_a_write_beyond_the_quota_is_refused_and_what_was_written_stays(
    drive: Any, expect_log: Any
) -> None:
    expect_log("the account is full")
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


async def test_what_is_on_its_way_counts(drive: Any, expect_log: Any) -> None:
    expect_log("the account is full")
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


async def test_a_file_larger_than_the_plan_allows_is_refused(drive: Any, expect_log: Any) -> None:
    expect_log("takes files of up to 1000 bytes")
    drive.shelf.largest = 1000
    opened, made = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x" * 1000)
    with pytest.raises(OSError, match=os.strerror(errno.EFBIG)):
        await drive.fs.write(opened.fh, 1000, b"x")
    assert drive.fs.getattr(made.ino).size == 1000
    await drive.fs.release(opened.fh)


async def test_an_unlimited_account_refuses_nothing(drive: Any) -> None:
    drive.shelf.account_space = (-1, 10**15)
    opened, _ = await drive.fs.create(1, "f", 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x" * 1000)
    await drive.fs.release(opened.fh)
