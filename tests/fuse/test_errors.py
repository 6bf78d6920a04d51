"""What a caller is told when a handler fails, and that the mount lives on."""

import errno
import logging
import os
import socket
import stat

import pyfuse3
import pytest
import trio

from cmsfs import mounts
from cmsfs.fuse import handler


async def _raised(error: Exception) -> int:
    @handler.handler
    async def op(self, ino):
        raise error

    with pytest.raises(pyfuse3.FUSEError) as caught:
        await op(None, 7)
    return caught.value.errno


async def test_an_oserror_becomes_its_number_quietly():
    assert await _raised(FileExistsError(errno.EEXIST, "x")) == errno.EEXIST
    assert await _raised(OSError(errno.ENOTSUP, "x")) == errno.ENOTSUP
    assert await _raised(TimeoutError(errno.ETIMEDOUT, "x")) == errno.ETIMEDOUT


@pytest.mark.parametrize(
    "bug",
    [ValueError("x"), OSError("no number"), socket.gaierror(-2, "x"), ExceptionGroup("x", [OSError(2)])],
)
async def test_unexpected_error_is_eio_with_traceback(caplog, expect_log, bug):
    expect_log("unexpected error in a handler")
    assert await _raised(bug) == errno.EIO
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info


async def test_a_number_that_is_meant_passes():
    assert await _raised(pyfuse3.FUSEError(errno.ENOSYS)) == errno.ENOSYS


async def test_cancellation_is_not_an_error():
    @handler.handler
    async def op(self, ino):
        await trio.sleep_forever()

    with trio.CancelScope() as scope:
        scope.cancel()
        await op(None, 7)
    assert scope.cancelled_caught


async def test_what_nobody_waits_for_raises_nothing(expect_log):
    expect_log("without a reply failed")

    @handler.no_reply_handler
    async def release(self, fh):
        raise OSError(errno.EIO, "x")

    await release(None, 7)


async def test_handler_bug_fails_one_call(fs, top, outside, outcome, expect_log):
    expect_log("unexpected error in a handler")
    fs.put("a", b"fine")
    for op, call in {
        "lookup": (os.stat, top / "a"),
        "statfs": (os.statvfs, top),
        "opendir": (os.listdir, top),
        "readdir": (os.listdir, top),
        "open": ((top / "a").read_bytes,),
        "create": ((top / "b").write_bytes, b""),
        "mkdir": (os.mkdir, top / "d"),
        "setattr": (os.chmod, top / "a", 0o600),
    }.items():
        fs.failing[op] = ZeroDivisionError("a bug")
        assert await outcome(*call) == errno.EIO, op
        del fs.failing[op]
    assert await outside((top / "a").read_bytes) == b"fine"


@pytest.mark.parametrize("op", ["release", "releasedir", "forget"])
async def test_a_bug_where_nobody_waits_costs_nothing(fs, top, outside, expect_log, op):
    expect_log("without a reply failed")
    fs.put("a", b"fine")
    fs.failing[op] = ZeroDivisionError("a bug")
    await outside(os.listdir, top)
    await outside((top / "a").read_bytes)
    await outside((top / "b").write_bytes, b"")
    await outside((top / "b").unlink)
    await fs.entered[op].wait()
    assert await outside((top / "a").read_bytes) == b"fine"


async def test_an_error_at_close_reaches_the_caller(fs, top, outcome):
    fs.failing["flush"] = OSError(errno.EDQUOT, "x")
    assert await outcome((top / "a").write_bytes, b"x") == errno.EDQUOT


async def test_waiting_call_does_not_block_others(fs, top, outside, nursery):
    fs.put("slow", b"bytes")
    fs.put("known", b"x")
    fs.waiting["read"] = trio.Event()
    answers = []

    async def slow():
        answers.append(await outside((top / "slow").read_bytes))

    nursery.start_soon(slow)
    await fs.entered["read"].wait()
    assert sorted(await outside(os.listdir, top)) == ["known", "slow"]
    assert not answers
    fs.waiting["read"].set()


async def test_end_of_serving_unmounts(fs, mounting, outcome):
    async def nothing(fh, offset, size):
        return None

    # What is no buffer fails behind the handler, in pyfuse3 itself.
    fs.put("a", b"x")
    fs.read = nothing
    ends = []
    with pytest.raises(ExceptionGroup) as caught:
        async with trio.open_nursery() as callers, mounting(fs) as drive:

            async def caller():
                ends.append(await outcome((drive.mountpoint / "a").read_bytes))

            callers.start_soon(caller)
            await trio.sleep_forever()
    assert caught.group_contains(TypeError)
    assert mounts.find(drive.mountpoint) is None


_CALLS = {
    "unlink": lambda top: (top / "a").unlink(),
    "rmdir": lambda top: (top / "folder").rmdir(),
    "rename": lambda top: (top / "a").rename(top / "b"),
    "open": lambda top: (top / "a").write_bytes(b"instead"),
    "setattr": lambda top: os.truncate(top / "a", 0),
}


@pytest.mark.parametrize("op", _CALLS)
async def test_estale_makes_the_kernel_look_up_again(fs, top, outside, outcome, op):
    fs.put("a")
    fs.put("folder", mode=stat.S_IFDIR | 0o755)
    await outside(os.stat, top / "a")
    await outside(os.stat, top / "folder")
    looked = fs.calls["lookup"]
    fs.failing[op] = OSError(errno.ESTALE, "x")
    assert await outcome(_CALLS[op], top) == errno.ESTALE
    assert fs.calls[op] == 2
    assert fs.calls["lookup"] > looked
