"""A file that is written again and again is sent all the same, as it is at some moment."""

import os
from collections.abc import Sequence

import pytest
import trio
import trio.testing

from cmsfs import config
from cmsfs.journal import drafts, queue, sealing
from cmsfs.runtime import clock
from daemon.push.operation_runner import Job
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

SETTLE = 600.0


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=SETTLE, network_seconds=5)


class Clock:
    def __init__(self, drive: Drive) -> None:
        self.now = 1000.0
        drive.agents.state.drafts.clock = lambda: self.now


async def until_there(other: Remote, name: str, data: bytes) -> None:
    with trio.fail_after(20):
        while name not in await other.paths() or await other.read(name) != data:
            await trio.lowlevel.checkpoint()


def rests(drive: Drive, path: str) -> bool:
    return (("upload", "ready", path)) in drive.ops()


async def append(drive: Drive, name: str, data: bytes) -> None:
    """What `echo >> name` does."""
    ino = await drive.ino(name)
    opened = await drive.fs.open(ino, os.O_WRONLY | os.O_APPEND)
    await drive.fs.write(opened.fh, drive.fs.getattr(ino).size, data)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)


async def test_constantly_appended_file_is_sent(drive: Drive, other: Remote) -> None:
    times = Clock(drive)
    await drive.write("log", b"begin\n")
    text = b"begin\n"
    for number in range(2 * drafts.MAX_DEBOUNCE_FACTOR - 1):
        assert rests(drive, "/log")
        times.now += SETTLE / 2
        await append(drive, "log", b"%d\n" % number)
        text += b"%d\n" % number
    assert await other.paths() == []
    times.now += SETTLE / 2 + 1
    await append(drive, "log", b"now\n")
    await until_there(other, "log", text + b"now\n")
    with trio.fail_after(20):
        while drive.ops():  # the service has it before the drive knows
            await trio.lowlevel.checkpoint()
    # From then on it rests anew.
    await append(drive, "log", b"later\n")
    assert rests(drive, "/log")
    assert await other.read("log") == text + b"now\n"
    await drive.sync()
    assert await other.read("log") == text + b"now\nlater\n"
    assert await other.paths() == ["log"]


async def test_open_file_is_sent_as_snapshot(drive: Drive, other: Remote) -> None:
    times = Clock(drive)
    parent, name = await drive.place("log")
    opened, made = await drive.fs.create(parent, name, 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"one")
    times.now += SETTLE * drafts.MAX_DEBOUNCE_FACTOR + drafts.OPEN_SECONDS + 1
    # Time is up, as far as the row says, too.
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET not_before = 0"))
    drive.agents.push.wake()
    await until_there(other, "log", b"one")
    await drive.fs.write(opened.fh, 3, b" two")
    assert drive.fs.getattr(made.ino).size == 7
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.read("log") == b"one two"
    assert await other.versions((await other.find("log")).id) == 2
    assert await drive.read("log") == b"one two"


async def test_file_being_created_is_not_sent(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows faster than it could be sent."""
    monkeypatch.setattr(drafts, "BYTES_PER_SECOND", 1)
    times = Clock(drive)
    parent, name = await drive.place("film")
    opened, _ = await drive.fs.create(parent, name, 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"x" * int(SETTLE * 30))
    times.now += SETTLE * 20
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET not_before = 0"))
    drive.agents.push.wake()
    await trio.testing.wait_all_tasks_blocked(0.3)
    assert await other.paths() == []
    times.now += SETTLE * 21
    drive.agents.push.wake()
    await until_there(other, "film", b"x" * int(SETTLE * 30))
    await drive.fs.release(opened.fh)


async def test_write_during_hashing_is_not_torn(
    drive: Drive, other: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = Clock(drive)
    parent, name = await drive.place("log")
    opened, _ = await drive.fs.create(parent, name, 0o644, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, b"one")
    real, passes = sealing._read_all, []

    def hashed(taken: Sequence[sealing._Candidate]) -> list[sealing.Sealed]:
        passes.append(taken)
        found = real(taken)
        if len(passes) == 1:
            trio.from_thread.run(drive.fs.write, opened.fh, 3, b" two")
        return found

    monkeypatch.setattr(sealing, "_read_all", hashed)
    times.now += SETTLE * drafts.MAX_DEBOUNCE_FACTOR + drafts.OPEN_SECONDS + 1
    await drive.db.write(lambda conn: conn.execute("UPDATE op SET not_before = 0"))
    drive.agents.push.wake()
    await until_there(other, "log", b"one two")
    assert len(passes) == 2
    await drive.fs.release(opened.fh)
    assert await drive.read("log") == b"one two"


async def test_clock_that_is_set_back_keeps_nothing_waiting(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    await drive.write("f", b"x")
    due = queue.next_due(drive.db)
    assert due is not None
    hour = 3600 * 10**9
    real = clock.time_ns
    monkeypatch.setattr(clock, "time_ns", lambda: real() - hour)
    drive.agents.push.wake()
    with trio.fail_after(60):
        while (queue.next_due(drive.db) or due) > due - hour + 10**9:
            await trio.lowlevel.checkpoint()
    assert rests(drive, "/f")


async def test_clock_that_is_set_back_before_the_push_sees_it_ahead_keeps_nothing_waiting(
    starting: Starting, monkeypatch: pytest.MonkeyPatch, expect_log: ExpectLog
) -> None:
    """As after a sleep of the machine, with a change in the moment before the time is set right."""
    expect_log("changes were recorded while the clock was ahead")
    async with starting(agents=("health",)) as drive:
        real, hour = clock.time_ns, 3600 * 10**9
        monkeypatch.setattr(clock, "time_ns", lambda: real() + hour)
        await drive.write("f", b"x")
        monkeypatch.setattr(clock, "time_ns", lambda: real() + hour // 2)
        send, receive = trio.open_memory_channel[Job](10)
        with send, receive, trio.fail_after(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(drive.agents.push._round, send)
                while queue.next_due(drive.db, after_ns=clock.time_ns()) is not None:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()


async def test_clock_set_back_during_an_upload_delays_no_later_attempt(
    drive: Drive, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived, go = network.gate("POST", "/files/content")
    await drive.write("f", b"x")
    row = "SELECT state, not_before FROM op"
    with trio.fail_after(60), drive.agents.push.hurrying():
        await arrived.wait()
        assert drive.db.row(row)["state"] == "running"
        real = clock.time_ns
        monkeypatch.setattr(clock, "time_ns", lambda: real() - 3600 * 10**9)
        drive.agents.push.wake()
        while drive.db.row(row)["not_before"] > clock.time_ns():
            await trio.lowlevel.checkpoint()
        go.set()


async def test_start_waits_no_longer_than_to_settle(starting: Starting, other: Remote) -> None:
    async with starting(agents=("health",)) as drive:
        await drive.write("f", b"x")
        hour = 3600 * 10**9
        late = "UPDATE op SET not_before = not_before + ?, attempts = 3"
        await drive.db.write(lambda conn: conn.execute(late, (hour,)))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.agents.push.run)
            await until_there(other, "f", b"x")
            nursery.cancel_scope.cancel()
