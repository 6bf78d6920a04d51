"""A drive is read on a disk that has no room for a cache; memory stays bounded, and wrong bytes are found."""

import errno
import os

import pytest
import trio

from cmsfs import config, errors
from cmsfs.cache.blocks import BLOCK
from cmsfs.cache.pass_through import PassThrough
from tests.support.daemon_drive import Drive, Remote
from tests.support.log_watch import ExpectLog
from tests.support.network import Network


@pytest.fixture
def settings() -> config.Settings:
    """More is to be kept free than any disk has."""
    return config.Settings(settle_seconds=0, network_seconds=5, keep_free_bytes=1 << 60)


async def test_a_file_is_read_on_a_full_disk(drive: Drive, other: Remote) -> None:
    data = os.urandom(5 * 1024 * 1024 + 17)
    await other.file("f", data)
    await drive.names()
    ino = await drive.ino("f")
    opened = await drive.fs.open(ino, os.O_RDONLY)
    found = b""
    while piece := await drive.fs.read(opened.fh, len(found), 128 * 1024):
        found += piece
    await drive.fs.release(opened.fh)
    assert found == data
    await drive.agents.state.blocks.flush()
    assert drive.agents.state.blocks.usage() == 0
    # In any order, and again.
    assert await drive.read("f") == data
    assert not [path for path in drive.agents.settings.paths.blocks.rglob("*") if path.is_file()]
    assert "keep_free_bytes" in (await drive.agents.status()).disk[0]


async def test_a_file_is_changed_on_a_full_disk(drive: Drive, other: Remote) -> None:
    """What lies under the change is fetched into the draft."""
    data = os.urandom(3 * BLOCK)
    await other.file("f", data)
    await drive.names()
    opened = await drive.fs.open(await drive.ino("f"), os.O_RDWR)
    await drive.fs.write(opened.fh, BLOCK, b"changed")
    await drive.fs.flush(opened.fh)
    await drive.fs.release(opened.fh)
    await drive.sync()
    assert await other.read("f") == data[:BLOCK] + b"changed" + data[BLOCK + 7 :]


async def test_wrong_bytes_are_found_on_their_way(
    drive: Drive, other: Remote, network: Network, expect_log: ExpectLog
) -> None:
    expect_log("does not match its SHA-1")
    number = await other.file("f", os.urandom(3 * 1024 * 1024))
    await drive.names()
    ino = await drive.ino("f")
    # As if the listing had told of other bytes than those that come.
    other_sha1 = "0" * 40
    await drive.db.write(
        lambda conn: conn.execute(
            "UPDATE node SET sha1 = ?1, base_sha1 = ?1 WHERE remote_id = ?2", (other_sha1, number)
        )
    )
    opened = await drive.fs.open(ino, os.O_RDONLY)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as wrong:
        for offset in range(0, 3 * 1024 * 1024, BLOCK):
            await drive.fs.read(opened.fh, offset, BLOCK)
    assert wrong.value.errno == errno.EIO
    await drive.fs.release(opened.fh)


async def test_a_pin_is_not_kept_in_memory(drive: Drive, other: Remote) -> None:
    await other.file("f", os.urandom(BLOCK))
    await drive.names()
    node = drive.node(await drive.ino("f"))
    assert await drive.read("f")
    from cmsfs.replica.nodes import Content

    with trio.fail_after(10), pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        await drive.agents.hydrator.keep(Content(node.sha1, node.size, node.remote_id, node.version))


def test_no_more_stays_in_memory_than_is_allowed() -> None:
    passing = PassThrough(most=4 * BLOCK)
    for index in range(10):
        passing.put("a" * 40, 100 * BLOCK, index, bytes(BLOCK))
        assert passing.used <= 4 * BLOCK
    assert [index for index in range(10) if passing.has("a" * 40, index)] == [6, 7, 8, 9]
    assert not passing.has_place(1)
    # What was read goes first.
    passing.get("a" * 40, 8, 0, BLOCK)
    passing.put("a" * 40, 100 * BLOCK, 10, bytes(BLOCK))
    assert [index for index in range(11) if passing.has("a" * 40, index)] == [6, 7, 9, 10]
    assert passing.get("a" * 40, 8, 0, BLOCK) is None
    passing.forget("a" * 40)
    assert passing.used == 0


def test_a_content_is_checked_whichever_block_comes_last() -> None:
    passing = PassThrough()
    passing.put("b" * 40, 3 * BLOCK, 1, bytes(2 * BLOCK))
    with pytest.raises(errors.IntegrityError):
        passing.put("b" * 40, 3 * BLOCK, 0, bytes(BLOCK))
    assert passing.used == 0
