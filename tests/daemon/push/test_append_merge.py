"""Programs on two machines that open one log by name for each line: one conflict copy has the lines of the
one, the log those of the other."""

import os

import pytest
import trio

from cmsfs.replica.naming import CONFLICT_MARK
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

OPENED = b"opened\n"


async def append(drive: Drive, path: str, data: bytes, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
    """As `printf >> path`."""
    ino = await drive.ino(path)
    opened = await drive.fs.open(ino, flags)
    await drive.fs.write(opened.fh, drive.fs.getattr(ino).size, data)
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)


async def copies(other: Remote) -> list[str]:
    return [path for path in await other.paths() if CONFLICT_MARK in path]


class Log:
    """A log that both sides append to, each time on what it sees of it."""

    def __init__(self, drive: Drive, other: Remote) -> None:
        self.drive, self.other = drive, other
        self.theirs = OPENED
        self.mine: list[bytes] = []

    async def begin(self) -> "Log":
        await self.drive.write("log", OPENED)
        await self.drive.sync()
        return self

    async def clash(self, count: int = 1, flags: int = os.O_WRONLY | os.O_APPEND) -> None:
        """Both append, theirs arrives first."""
        for _ in range(count):
            number = len(self.mine)
            self.theirs += b"theirs %d\n" % number
            await self.other.write((await self.other.find("log")).id, self.theirs)
            self.mine.append(b"mine %d\n" % number)
            await append(self.drive, "log", self.mine[-1], flags)
            await self.drive.sync()

    async def check(self) -> str:
        """The one copy has all that was appended here, and the log all that was appended elsewhere."""
        await self.drive.sync()
        assert await self.other.read("log") == await self.drive.read("log") == self.theirs
        (copy,) = await copies(self.other)
        expected = OPENED + b"".join(self.mine)
        assert await self.other.read(copy) == await self.drive.read(copy) == expected
        assert await self.drive.names() == await self.other.paths()
        assert self.drive.ops() == []
        return copy


@pytest.fixture
async def log(drive: Drive, other: Remote) -> Log:
    return await Log(drive, other).begin()


async def test_repeated_append_conflicts_share_a_copy(log: Log, drive: Drive) -> None:
    await log.clash(8)
    copy = await log.check()
    dirty = drive.db.rows("SELECT sha1 FROM content WHERE dirty")
    assert dirty == []
    # Lines that do not clash stay in the log.
    log.theirs += b"no clash\n"
    await append(drive, "log", b"no clash\n")
    assert await log.check() == copy
    await log.clash(2)
    assert await log.check() == copy


async def test_several_lines_before_one_is_sent(starting: Starting, other: Remote) -> None:
    async with starting(settle_seconds=3600) as drive:
        log = await Log(drive, other).begin()
        await log.clash()
        for line in (b"two\n", b"three\n"):
            log.mine.append(line)
            await append(drive, "log", line)
        log.theirs += b"more of theirs\n"
        await other.write((await other.find("log")).id, log.theirs)
        await drive.sync()
        await log.check()


async def test_line_appended_while_conflict_is_resolved(log: Log, drive: Drive, network: Network) -> None:
    await log.clash()
    await append(drive, "log", b"")
    log.theirs += b"theirs\n"
    await log.other.write((await log.other.find("log")).id, log.theirs)
    arrived, go = network.gate("POST", "/content")
    log.mine += [b"one\n", b"two\n"]
    await append(drive, "log", b"one\n")
    with trio.fail_after(5):
        await arrived.wait()
    await append(drive, "log", b"two\n")
    go.set()
    await log.check()


async def test_line_appended_during_previous_upload(log: Log, drive: Drive, network: Network) -> None:
    await log.clash()
    arrived, go = network.gate("POST", "/content")
    await append(drive, "log", b"one\n")
    with trio.fail_after(5):
        await arrived.wait()
    log.theirs += b"one\ntheirs\n"
    await log.other.write((await log.other.find("log")).id, log.theirs)
    log.mine.append(b"two\n")
    await append(drive, "log", b"two\n")
    go.set()
    await log.check()


async def test_a_log_that_is_made_on_both_sides(starting: Starting, other: Remote, network: Network) -> None:
    async with starting() as drive:
        log = Log(drive, other)
        arrived, go = network.gate("POST", "/content", before=True)
        log.mine.append(b"mine first\n")
        opened, _ = await drive.fs.create(1, "log", 0o644, os.O_WRONLY | os.O_APPEND)
        await drive.fs.write(opened.fh, 0, log.mine[0])
        await drive.fs.flush(opened.fh)
        await drive.fs.release(opened.fh)
        with trio.fail_after(5):
            await arrived.wait()
        await other.file("log", OPENED)
        go.set()
        await drive.sync()
        await log.clash(3)
        (copy,) = await copies(other)
        assert await other.read(copy) == b"".join(log.mine)
        assert await other.read("log") == log.theirs


@pytest.mark.parametrize("change", ["written here", "written there", "renamed", "deleted", "open"])
async def test_changed_conflict_copy_is_untouched(log: Log, drive: Drive, change: str) -> None:
    await log.clash()
    (copy,) = await copies(log.other)
    opened, before = None, OPENED + log.mine[0]
    match change:
        case "written here":
            before += b"by hand\n"
            await append(drive, copy, b"by hand\n")
        case "written there":
            before += b"by hand\n"
            await log.other.write((await log.other.find(copy)).id, before)
            await drive.poll()
        case "renamed":
            await drive.rename(copy, "kept")
        case "deleted":
            await drive.unlink(copy)
        case "open":
            opened = await drive.fs.open(await drive.ino(copy), os.O_RDONLY)
    await drive.sync()
    seen = log.theirs
    await log.clash()
    if opened is not None:
        await drive.fs.release(opened.fh)
    assert await log.other.read("log") == log.theirs
    if change != "deleted":
        assert await log.other.read("kept" if change == "renamed" else copy) == before
    fresh = [path for path in await copies(log.other) if change in ("renamed", "deleted") or path != copy]
    assert [await log.other.read(path) for path in fresh] == [seen + log.mine[1]]


async def test_positioned_write_keeps_surrounding_bytes(log: Log) -> None:
    """An archive or a document may grow at its end, too."""
    await log.clash()
    seen = log.theirs
    await log.clash(flags=os.O_RDWR)
    found = {await log.other.read(path) for path in await copies(log.other)}
    assert found == {OPENED + log.mine[0], seen + log.mine[1]}


@pytest.mark.parametrize("part", ["copy", "log"])
async def test_a_restart_loses_no_line(
    starting: Starting, other: Remote, network: Network, part: str
) -> None:
    """The program ends before the clash is decided, or when it is and the copy's bytes are not sent."""
    async with starting() as drive:
        log = await Log(drive, other).begin()
        await log.clash(2)
        log.theirs += b"theirs\n"
        await other.write((await other.find("log")).id, log.theirs)
        (copy,) = await copies(other)
        number = (await other.find(copy if part == "copy" else "log")).id
        arrived, _ = network.gate("POST", f"/{number}/content", before=True)
        log.mine.append(b"three\n")
        await append(drive, "log", b"three\n")
        with trio.fail_after(5):
            await arrived.wait()
    async with starting() as drive:
        log.drive = drive
        await drive.sync()
        if part == "copy":
            await log.check()
        else:
            # Nothing is known of the copy any more: another one is made, and goes on.
            found = {await other.read(path) for path in await copies(other)}
            seen = log.theirs.removesuffix(b"theirs\n")
            assert found == {OPENED + b"".join(log.mine[:2]), seen + b"three\n"}
            assert {OPENED + b"".join(log.mine[:2]), seen + b"three\n"} == {
                await other.read(path) for path in await copies(other)
            }
            await log.clash()
            before = await copies(other)
            await log.clash(3)
            assert await copies(other) == before


async def test_a_copy_that_cannot_be_written_makes_another(
    log: Log, drive: Drive, expect_log: ExpectLog
) -> None:
    expect_log("appended data cannot be moved to the conflict copy")
    await log.clash()
    seen = log.theirs
    held = drive.agents.state.drafts.root
    # A folder has the name that is wanted.
    seq = drive.db.row("SELECT seq FROM sqlite_sequence WHERE name = 'op'")["seq"]
    blocked = [held / f"{seq + number}-appended.sealed" for number in range(1, 6)]
    for path in blocked:
        path.mkdir()
    try:
        await log.clash()
    finally:
        for path in blocked:
            path.rmdir()
    found = {await log.other.read(path) for path in await copies(log.other)}
    assert found == {OPENED + log.mine[0], seen + log.mine[1]}
    assert await log.other.read("log") == log.theirs
