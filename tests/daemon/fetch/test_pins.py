"""Pins: what is kept here stays whole, whatever is done to it from elsewhere, and without the service."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
import trio

from cmsfs import config, errors
from cmsfs.cache import content_table
from cmsfs.replica import pins, tree
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.log_watch import ExpectLog
from tests.support.network import Network

FILES = 100


@pytest.fixture
def settings() -> config.Settings:
    # Hardly room for one of the files: pinned ones are outside the limit.
    return config.Settings(settle_seconds=0, network_seconds=5, cache_bytes=4096)


async def until_complete(drive: Drive) -> None:
    """What a round after the other comes to."""
    with trio.fail_after(60):
        while not await drive.agents.pins.once():
            await trio.lowlevel.checkpoint()


def bytes_of(number: int) -> bytes:
    return f"file {number} ".encode() * (number % 50 + 1)


async def fill(other: Remote, count: int) -> str:
    folder: str = await other.folder("kept")
    inner = await other.folder("inner", folder)
    for number in range(count):
        await other.file(f"f{number:04}", bytes_of(number), parent=inner if number % 3 else folder)
    return folder


def place(number: int) -> str:
    return f"kept/inner/f{number:04}" if number % 3 else f"kept/f{number:04}"


async def assert_readable(drive: Drive, count: int) -> None:
    for number in range(count):
        assert await drive.read(place(number)) == bytes_of(number)


@pytest.mark.parametrize("count", [FILES, pytest.param(5000, marks=pytest.mark.long)])
async def test_pinned_folder_is_complete_offline(
    starting: Starting, other: Remote, network: Network, count: int
) -> None:
    folder = await fill(other, count)
    async with starting() as drive:
        assert await drive.agents.pin("/kept") == ""
        await until_complete(drive)
        progress = await drive.agents.pinned()
        assert progress.is_complete
        (kept,) = progress.items
        assert (kept.path, kept.files, kept.files_here) == ("/kept", count, count)
        assert kept.bytes == kept.bytes_here == sum(len(bytes_of(number)) for number in range(count))
        # Others are evicted for what is read now; the pinned are not.
        await other.file("large", bytes(50_000))
        await drive.poll()
        await drive.read("large")
        network.is_down = True
        drive.agents.health.suspect()
        await assert_readable(drive, count)
    # And so it is after a restart without the service, during which others were at work.
    async with starting() as drive:
        assert not drive.agents.health.is_online
        await assert_readable(drive, count)
        inner = (await other.find("inner")).id
        await other.write((await other.find("f0000")).id, b"edited elsewhere")
        await other.file("new", b"made elsewhere", parent=inner)
        await other.client.items.delete("file", (await other.find("f0001")).id)
        network.is_down = False
        await drive.poll()
        await until_complete(drive)
        network.is_down = True
        assert await drive.read("kept/f0000") == b"edited elsewhere"
        assert await drive.read("kept/inner/new") == b"made elsewhere"
        assert "f0001" not in await drive.names("kept/inner")
        assert folder


async def test_pinned_contents_are_verified_and_marked(drive: Drive, other: Remote) -> None:
    data = os.urandom(3_000_000)  # several pieces
    await other.file("f", data)
    await drive.agents.pin("/f")
    await until_complete(drive)
    await drive.agents.state.blocks.flush()
    saved = content_table.find(drive.db, drive.node(await drive.ino("f")).sha1)
    assert saved is not None
    assert (saved.bits, saved.verified, saved.pinned) == (None, True, True)


@pytest.mark.parametrize("size", [1000, 700_000])
async def test_a_pinned_file_that_is_being_changed_keeps_the_whole_of_what_it_changes(
    drive: Drive, other: Remote, size: int
) -> None:
    data = os.urandom(500_000)
    await other.file("f", data)
    ino = await drive.ino("f")
    opened = await drive.fs.open(ino, os.O_RDWR)
    await drive.fs.setattr(ino, SetAttr(size=size), opened.fh)
    await drive.agents.pin("/f")
    await until_complete(drive)
    await drive.agents.state.blocks.flush()
    saved = content_table.find(drive.db, hashlib.sha1(data).hexdigest())
    assert saved is not None
    assert (saved.size, saved.bits, saved.verified, saved.pinned) == (len(data), None, True, True)
    await drive.fs.release(opened.fh)


async def test_unpinned_contents_can_be_evicted(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x" * 3000)
    await other.file("g", b"y" * 3000)
    await drive.agents.pin("/f")
    await until_complete(drive)
    await drive.read("g")
    sha1 = drive.node(await drive.ino("f")).sha1
    assert drive.agents.state.blocks.is_complete(sha1)
    await drive.agents.unpin("/f")
    await until_complete(drive)
    assert not pins.any_left(drive.db)
    await other.file("h", b"z" * 3000)
    await drive.poll()
    await drive.read("h")
    assert not drive.agents.state.blocks.is_complete(sha1)


async def test_a_damaged_download_is_fetched_again(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("a download does not match its SHA-1")
    data = os.urandom(50_000)
    await other.file("f", data)
    await drive.names()
    network.break_body(10_000, flip=True)
    await drive.agents.pin("/f")
    await until_complete(drive)
    network.is_down = True
    assert await drive.read("f") == data


async def test_moves_change_what_is_pinned(drive: Drive, other: Remote) -> None:
    await other.folder("kept")
    await other.file("f", b"x" * 100)
    await drive.names()
    await drive.agents.pin("/kept")
    await until_complete(drive)
    await drive.rename("f", "kept/f")
    await until_complete(drive)
    sha1 = drive.node(await drive.ino("kept/f")).sha1
    assert content_table.find(drive.db, sha1).pinned
    assert await drive.fs.getxattr(await drive.ino("kept/f"), "user.cms.pinned") == b"1"
    await drive.rename("kept/f", "f")
    await until_complete(drive)
    assert not content_table.find(drive.db, sha1).pinned
    assert await drive.fs.getxattr(await drive.ino("f"), "user.cms.pinned") == b"0"


async def test_the_agent_follows_by_itself(starting: Starting, other: Remote) -> None:
    folder = await other.folder("kept")
    async with starting() as drive, trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.pins.run)
        await drive.agents.pin("/kept")
        await other.file("new", b"made elsewhere", parent=folder)
        await drive.poll()
        ino = await drive.ino("kept/new")
        with trio.fail_after(10):
            while not drive.agents.state.blocks.is_complete(drive.node(ino).sha1):  # noqa: ASYNC110  (a cache tells nobody)
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()


async def test_the_attribute_pins(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x")
    ino = await drive.ino("f")
    await drive.fs.setxattr(ino, "user.cms.pinned", b"1")
    assert [one.path for one in (await _after_a_round(drive)).items] == ["/f"]
    with pytest.raises(OSError, match="Invalid"):
        await drive.fs.setxattr(ino, "user.cms.pinned", b"yes")
    await drive.fs.removexattr(ino, "user.cms.pinned")
    assert (await _after_a_round(drive)).items == []


async def _after_a_round(drive: Drive) -> Any:
    await until_complete(drive)
    return await drive.agents.pinned()


async def test_new_pin_shows_before_first_round(starting: Starting, other: Remote, network: Network) -> None:
    folder = await other.folder("kept")
    await other.file("f", b"x" * 100, parent=folder)
    await other.file("far", b"y" * 10)
    async with starting() as drive:
        await drive.agents.pin("/kept")
        await drive.agents.pin("/far")
        found = await drive.agents.pinned()
        assert found == (await drive.agents.status()).pins
        told = [(one.path, one.files, one.files_here) for one in found.items]
        assert told == [("/kept", 1, 0), ("/far", 1, 0)]
        assert not found.is_complete
        await drive.read("kept/f")
    # After a restart, without the service.
    network.is_down = True
    async with starting() as drive:
        found = await drive.agents.pinned()
        told = [(one.path, one.bytes, one.bytes_here) for one in found.items]
        assert told == [("/kept", 100, 100), ("/far", 10, 0)]
        await drive.agents.unpin("/kept")
        assert [one.path for one in (await drive.agents.pinned()).items] == ["/far"]


async def test_unpin_discards_earlier_result(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x" * 100)
    await drive.agents.pin("/f")
    await until_complete(drive)
    assert (await drive.agents.pinned()).is_complete
    await drive.agents.free("/f", unpin=True)
    assert (await drive.agents.pinned()).items == []
    await drive.agents.pin("/f")
    found = await drive.agents.pinned()
    assert [(one.path, one.files, one.files_here) for one in found.items] == [("/f", 1, 0)]
    assert not found.is_complete


async def test_unlisted_pin_is_incomplete_offline(drive: Drive, other: Remote, network: Network) -> None:
    await other.folder("kept")
    await drive.names()
    await drive.agents.pin("/kept")
    kept = await drive.ino("kept")
    await drive.db.write(lambda conn: tree.mark_unlisted(conn, kept))
    network.is_down = True
    drive.agents.health.suspect()
    for _ in range(2):
        found = await drive.agents.pinned()
        assert [(one.path, one.files, one.listing) for one in found.items] == [("/kept", 0, True)]
        assert not found.is_complete
        assert not await drive.agents.pins.once()


async def test_what_is_removed_meanwhile_is_not_pinned(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x")
    ino = await drive.ino("f")

    async def remove() -> None:
        # It gets the database's lock first: a pin reads for a while before it writes.
        await drive.db.write(lambda conn: conn.execute("DELETE FROM node WHERE ino = ?", (ino,)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(remove)
        with pytest.raises(FileNotFoundError, match="/f does not exist any more"):
            await drive.agents.pins.set(ino, pinned=True)
    assert pins.roots(drive.db) == []


async def test_words_for_what_cannot_be_done(drive: Drive, other: Remote) -> None:
    await other.file("f", b"x", parent=await other.folder("kept"))
    with pytest.raises(errors.UserError, match=r"There is no /no on the drive"):
        await drive.agents.pin("/no")
    with pytest.raises(errors.UserError, match=r"/kept is not pinned"):
        await drive.agents.unpin("/kept")
    await drive.agents.pin("/kept")
    assert await drive.agents.pin("/kept") == "/kept is already pinned."
    with pytest.raises(errors.UserError, match=r"/kept/f is pinned by /kept"):
        await drive.agents.unpin("/kept/f")


class TestALittleDisk:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> config.Settings:
        found = os.statvfs(tmp_path)
        free = found.f_bavail * found.f_frsize
        return config.Settings(settle_seconds=0, network_seconds=5, keep_free_bytes=free + 2**34)

    async def test_a_pin_that_does_not_fit_is_refused(
        self, drive: Drive, other: Remote, expect_log: ExpectLog
    ) -> None:
        await other.file("f", b"x" * 1000)
        with pytest.raises(errors.UserError, match=r"/f does not fit.*0.0 MB available"):
            await drive.agents.pin("/f")
        expect_log("/f does not fit")
        with pytest.raises(OSError, match="No space left"):
            await drive.fs.setxattr(await drive.ino("f"), "user.cms.pinned", b"1")

    async def test_oversized_arrival_in_pin_is_reported(
        self, drive: Drive, other: Remote, expect_log: ExpectLog
    ) -> None:
        folder = await other.folder("kept")
        await drive.agents.pin("/kept")
        await until_complete(drive)
        expect_log("Not enough space for pinned items")
        await other.file("f", b"x" * 1000, parent=folder)
        await drive.poll()
        assert not await drive.agents.pins.once()
        assert "Not enough space" in (await drive.agents.pinned()).problem
        assert (await drive.agents.status()).pins.problem
