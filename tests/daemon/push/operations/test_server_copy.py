"""A file that a program copies on the drive: made by the service, of its bytes and nothing else."""

import os

import pytest
import trio

from cmsfs.models.content.metadata import Template
from cmsfs.replica.rows import copy_sources
from cmsfs.vfs.tree.attributes import SetAttr
from tests.support.daemon_drive import Drive, Remote, Starting
from tests.support.network import Network

COPIED = bytes(range(256)) * 4096


async def _copy(drive: Drive, source: str, target: str) -> int:
    """As one thread of a program copies; what the kernel's handlers note of that is noted."""
    copying = drive.agents.copy_detector
    reading = await drive.fs.open(await drive.ino(source), os.O_RDONLY)
    copying.opened(7, reading.fh, await drive.ino(source), os.O_RDONLY)
    data = await drive.fs.read(reading.fh, 0, len(COPIED) + 1)
    opened, made = await drive.fs.create(*await drive.place(target), 0o644, os.O_WRONLY)
    copying.opened(7, opened.fh, made.ino, os.O_WRONLY)
    await drive.fs.write(opened.fh, 0, bytes(data))
    for fh in (opened.fh, reading.fh):
        await drive.fs.release(fh)
        copying.released(fh)
    return int(made.ino)


@pytest.mark.parametrize("fate", ["there", "changed", "deleted"])
async def test_a_copy_is_made_by_the_service(
    drive: Drive, other: Remote, network: Network, fate: str
) -> None:
    await drive.write("original", COPIED)
    await drive.sync()
    sent = network.count("POST", "/content")
    kept = (await other.find("original")).id
    match fate:
        case "changed":
            await other.write(kept, b"changed unheard")
        case "deleted":
            await other.client.items.delete("file", kept)
    ino = await _copy(drive, "original", "copy")
    await drive.fs.setattr(ino, SetAttr(mtime_ns=1_580_608_922 * 10**9))
    await drive.sync()
    assert await other.read("copy") == COPIED
    assert (await other.find_file("copy")).content_modified_at.timestamp() == 1_580_608_922
    # The version that was read is copied, also when it is not the current one any more.
    assert network.count("POST", "/content") - sent == (1 if fate == "deleted" else 0)
    assert drive.ops() == []


async def test_a_copy_that_was_made_offline_before_a_restart_is_made_by_the_service(
    starting: Starting, other: Remote, network: Network
) -> None:
    async with starting() as drive:
        await drive.write("original", COPIED)
        await drive.sync()
        network.is_down = True
        ino = await _copy(drive, "original", "copy")
        with trio.fail_after(20):
            while copy_sources.find(drive.agents.state.db, ino) is None:
                await trio.lowlevel.checkpoint()
    network.is_down = False
    sent = network.count("POST", "/content")
    async with starting() as drive:
        await drive.sync()
        assert copy_sources.find(drive.agents.state.db, ino) is None
    assert await other.read("copy") == COPIED
    assert network.count("POST", "/content") == sent


async def test_equal_bytes_alone_are_no_copy(drive: Drive, other: Remote, network: Network) -> None:
    """Nobody copied: what is said about one file is nothing to the other."""
    await drive.write("private", COPIED)
    await drive.sync()
    await drive.write("early", COPIED)
    await drive.sync()
    private = (await other.find("private")).id
    await other.client.items.describe("file", private, description="SECRET", tags=["secret"])
    await drive.write("new", COPIED)
    await drive.sync()
    assert network.count("POST", "/copy") == 0
    found = await other.details("new")
    assert (found.description, found.tags) == ("", [])


@pytest.mark.administers
@pytest.mark.parametrize("said", ["description", "tags", "metadata"])
async def test_a_copy_carries_the_bytes_alone(
    drive: Drive, other: Remote, network: Network, project: Template, said: str
) -> None:
    await drive.write("original", COPIED)
    await drive.sync()
    number = (await other.find("original")).id
    match said:
        case "description":
            await other.client.items.describe("file", number, description="SECRET")
        case "tags":
            await other.client.items.describe("file", number, tags=["secret"])
        case "metadata":
            # Its template says that the service is to copy it.
            await other.store.write(lambda conn: conn.execute("UPDATE metadata_template SET copies = 1"))
            await other.client.metadata.put("file", number, "project", {"budget": 7})
    await _copy(drive, "original", "copy")
    await drive.sync()
    made = await other.details("copy")
    assert (made.description, made.tags) == ("", [])
    assert await other.client.metadata.instances("file", made.id) == []
    assert await other.read("copy") == COPIED


async def test_description_set_during_copy_stays_off_copy(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("original", COPIED)
    await drive.sync()
    number = (await other.find("original")).id
    arrived, go = network.gate("POST", "/copy", before=True)
    await _copy(drive, "original", "copy")
    with trio.fail_after(10):
        await arrived.wait()
    await other.client.items.describe("file", number, description="SECRET")
    go.set()
    await drive.sync()
    made = await other.details("copy")
    assert made.description == ""
    assert await other.read("copy") == COPIED
    trashed = [one async for one in other.client.trash.items()]
    assert trashed == []


async def test_a_copy_whose_answer_was_lost_is_recognised(
    drive: Drive, other: Remote, network: Network
) -> None:
    await drive.write("original", COPIED)
    await drive.sync()
    network.lose_answer("POST", "/copy")
    await _copy(drive, "original", "copy")
    await drive.sync()
    assert await other.paths() == ["copy", "original"]
    assert await other.read("copy") == COPIED
