"""A mounted drive is served by another session, and programs on it notice a pause."""

import os

import pytest
import trio
import trio.testing

from cmsfs import errors
from cmsfs.fuse import mount, takeover


async def test_another_session_goes_on_with_open_files_and_what_was_asked(fs, mounting, outside):
    fs.put("a", b"0123456789")
    fs.put("b", b"of b")
    asked, waiting = trio.Event(), True
    read = fs.read

    async def stuck(fh, offset, size):
        asked.set()
        if waiting:
            await trio.sleep_forever()  # as for a service that does not answer
        return await read(fh, offset, size)

    async with mounting(fs) as drive:
        if not takeover.can_resend():
            pytest.skip("this kernel does not send again what was read and not answered")
        before = drive.connection
        file = await outside(os.open, drive.mountpoint / "a", os.O_RDONLY)
        fs.read = stuck
        got: dict[str, bytes] = {}

        async def ask(name, call, *arguments):
            got[name] = await outside(call, *arguments)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "before", os.pread, file, 4, 2)
            await asked.wait()
            connection = await drive.suspend()
            nursery.start_soon(ask, "meanwhile", (drive.mountpoint / "b").read_bytes)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert not got
            waiting = False
            await drive.resume(connection)
        assert got == {"before": b"2345", "meanwhile": b"of b"}
        assert drive.connection == before
        assert drive.is_attached
        assert not drive.unmounted.is_set()
        await outside(os.close, file)


async def test_what_an_older_kernel_would_not_ask_again_is_waited_for(fs, mounting, outside, monkeypatch):
    monkeypatch.setattr(takeover, "_RESENDING_KERNEL", (1000, 0))
    monkeypatch.setattr(mount, "CHANGE_WAIT_SECONDS", 0.1)
    fs.put("a", b"0123456789")
    asked, answering, read = trio.Event(), trio.Event(), fs.read

    async def slow(fh, offset, size):
        asked.set()
        await answering.wait()
        return await read(fh, offset, size)

    async with mounting(fs) as drive:
        fs.read = slow
        got: list[bytes] = []

        async def ask():
            got.append(await outside((drive.mountpoint / "a").read_bytes))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            await asked.wait()
            with pytest.raises(errors.UserError, match="waits for the service"):
                await drive.suspend()
            # It goes on as it was.
            assert await outside(os.listdir, drive.mountpoint) == ["a"]
            answering.set()
        assert got == [b"0123456789"]
        await drive.resume(await drive.suspend())
        assert await outside(os.listdir, drive.mountpoint) == ["a"]


async def test_a_drive_that_is_unmounted_while_it_is_held_ends(fs, mounting, outside):
    async with mounting(fs) as drive:
        connection = await drive.suspend()
        drive.abort()
        with pytest.raises(OSError):
            await outside(os.listdir, drive.mountpoint)
        await drive.resume(connection)
        await drive.unmounted.wait()


@pytest.mark.parametrize(
    ("release", "can"), [("6.8.0-45-generic", False), ("6.9.1", True), ("10.0", True), ("5.15.0", False)]
)
def test_kernels_that_send_again_what_was_not_answered(release, can):
    assert takeover.can_resend(release) is can
