"""Hydrate: bytes come once, in time, or with a clear error."""

import errno
import os
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from cmsfs import config
from cmsfs.cache.blocks import BLOCK
from cmsfs.replica.nodes import Content
from daemon import hydrate


@pytest.fixture
def settings() -> config.Settings:
    return config.Settings(settle_seconds=0, network_seconds=2)


async def content_of(drive: Any, other: Any, data: bytes, name: str = "f") -> Content:
    await other.file(name, data)
    await drive.names()
    await drive.poll()
    node = drive.node(await drive.ino(name))
    return Content(node.sha1, node.size, node.remote_id, node.version)


async def test_a_run_of_blocks_is_one_request(drive: Any, other: Any, network: Any) -> None:
    data = os.urandom(3 * BLOCK + 17)
    content = await content_of(drive, other, data)
    await drive.agents.hydrate.blocks(content, 0, 3)
    assert network.count("GET", "/content") == 1
    assert await drive.read("f") == data
    assert network.count("GET", "/content") == 1


async def test_readers_of_one_block_share_a_request(drive: Any, other: Any, network: Any) -> None:
    content = await content_of(drive, other, os.urandom(2 * BLOCK))
    arrived, go = network.gate("GET", "/content")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drive.agents.hydrate.blocks, content, 0, 1)
        await arrived.wait()
        for _ in range(5):
            nursery.start_soon(drive.agents.hydrate.blocks, content, 1, 1)
        await wait_all_tasks_blocked(0.02)
        go.set()
    assert network.count("GET", "/content") == 1


async def test_a_reader_that_gives_up_takes_nothing_from_the_others(
    drive: Any, other: Any, network: Any
) -> None:
    content = await content_of(drive, other, b"x" * 100)
    arrived, go = network.gate("GET", "/content")
    with trio.CancelScope() as impatient:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive.agents.hydrate.blocks, content, 0, 0)
            await arrived.wait()
            impatient.cancel()
    go.set()
    assert await drive.read("f") == b"x" * 100
    assert network.count("GET", "/content") == 1


async def test_a_service_that_says_nothing_is_a_timeout(drive: Any, other: Any, network: Any) -> None:
    content = await content_of(drive, other, b"x" * 100)
    gates = [network.gate("GET", "/content") for _ in range(3)]
    with pytest.raises(TimeoutError) as caught:
        await drive.agents.hydrate.blocks(content, 0, 0)
    assert caught.value.errno == errno.ETIMEDOUT
    for _, go in gates:
        go.set()


async def test_a_connection_that_falls_silent_is_replaced_within_the_deadline(
    drive: Any, other: Any, network: Any
) -> None:
    content = await content_of(drive, other, b"x" * 100)
    network.gate("GET", "/content")
    await drive.agents.hydrate.blocks(content, 0, 0)
    assert network.count("GET", "/content") == 2


async def test_read_ahead_never_waits_and_is_taken_over_by_a_reader(
    drive: Any, other: Any, network: Any
) -> None:
    contents = [await content_of(drive, other, os.urandom(100), f"f{number}") for number in range(8)]
    gates = [network.gate("GET", "/content") for _ in range(hydrate.BACKGROUND)]
    for content in contents[:6]:
        drive.agents.hydrate.ahead(content, 0, 0)
    for arrived, _ in gates:
        await arrived.wait()
    # All places of read-ahead are taken; these two are queueing.
    for content in contents[6:]:
        drive.agents.hydrate.ahead(content, 0, 0)
    await drive.agents.hydrate.blocks(contents[7], 0, 0)
    assert network.count("GET", "/content") == 7
    for _, go in gates:
        go.set()
    for content in contents:
        await drive.agents.hydrate.blocks(content, 0, 0)
    assert network.count("GET", "/content") == 8


async def test_offline_is_told_at_once(drive: Any, other: Any, network: Any) -> None:
    await content_of(drive, other, b"x" * 100)
    network.is_down = True
    drive.agents.health.suspect()
    with trio.fail_after(5):
        while drive.agents.health.can_ask:
            await drive.agents.health.changed()
    with pytest.raises(OSError, match="Network is down"):
        await drive.read("f")
    network.is_down = False
    with trio.fail_after(5):
        await drive.agents.health.reachable()
    assert await drive.read("f") == b"x" * 100


async def test_wrong_bytes_are_an_error_and_never_read(
    drive: Any, other: Any, service: Any, expect_log: Any
) -> None:
    expect_log("bytes that are not those of their SHA-1")
    content = await content_of(drive, other, b"right bytes")
    blob = next(path for path in (service.root / "blobs").glob("*/*") if path.name == content.sha1)
    blob.chmod(0o600)
    blob.write_bytes(b"wrong bytes")
    with pytest.raises(OSError, match="Input/output error"):
        await drive.read("f")


async def test_bytes_that_are_nowhere_are_an_error(drive: Any) -> None:
    with pytest.raises(OSError, match="Input/output error"):
        await drive.agents.hydrate.blocks(Content("0" * 40, 10, None, None), 0, 0)


async def test_a_large_file_streams_through(drive: Any, other: Any) -> None:
    data = os.urandom(20 * BLOCK + 5)
    await other.file("large", data)
    found = drive.fs.getattr(await drive.ino("large"))
    opened = await drive.fs.open(found.ino, os.O_RDONLY)
    parts = [await drive.fs.read(opened.fh, start, 128 * 1024) for start in range(0, len(data), 128 * 1024)]
    await drive.fs.release(opened.fh)
    assert b"".join(parts) == data
